"""Launchers: a configuration becomes launch arguments, and back. Pure text in, text out.

One module per launcher; `RENDERERS` lists the exports that a finished run writes. `training_log` reads what a launched
run printed.
"""

from collections.abc import Callable, Mapping

from tunewright.backends import megatron, primus, primus_launch, torchtitan
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig

Renderer = Callable[[TuningProblem, TrainingConfig], str]

RENDERERS: Mapping[str, Renderer] = {
    primus_launch.EXPERIMENT: primus.render,
    "best-primus.sh": primus_launch.render,
    "best-megatron.args": megatron.render,
    "best-torchtitan.toml": torchtitan.render,
    "best.env": primus_launch.render_environment,
}
"""File name to renderer. Adding a launcher is adding a module and a line here."""
