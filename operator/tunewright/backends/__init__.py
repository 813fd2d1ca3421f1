"""Launchers: a configuration becomes launch arguments, and back. Pure text in, text out.

One module per launcher; `RENDERERS` lists the exports that a finished run writes.
"""

from collections.abc import Callable, Mapping

from tunewright.backends import megatron, primus
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig

Renderer = Callable[[TuningProblem, TrainingConfig], str]

RENDERERS: Mapping[str, Renderer] = {"best-primus.yaml": primus.render, "best-megatron.args": megatron.render}
"""File name to renderer. Adding a launcher is adding a module and a line here."""
