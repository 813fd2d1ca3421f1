"""`tunewright apply-to FILE LEDGER`: the best configuration of a run in a person's own Primus experiment.

Only the keys that a configuration decides are changed; comments, order and everything else stay. What is shown is the
difference; the file changes when that is asked for.
"""

import difflib
import sys
from pathlib import Path
from typing import Any

from tunewright.adapters.ledger.file import read_ledger
from tunewright.backends import primus
from tunewright.cli.console import messages
from tunewright.cli.outputs import replace_text
from tunewright.cli.yaml_document import read_text
from tunewright.cli.yaml_edit import mapping_at, with_values
from tunewright.domain.axes import describe
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.errors import InvalidInput
from tunewright.report.story import story_of

PLACE = ("modules", "pre_trainer", "overrides")
_FIXED = ("seq_length", "global_batch_size", "num_layers", "hidden_size", "num_experts")
"""What the run was about: where a file says something else, its result may not hold there."""


def run_apply_to(path: Path, ledger: Path, *, write: bool) -> None:
    """Print the difference, and write it when asked."""
    story = story_of(read_ledger(ledger))
    if story.best is None:
        raise InvalidInput.of("LEDGER", str(ledger), "has no best configuration yet: nothing was projected")
    text = read_text(path, "FILE")
    merged, notes = merged_experiment(text, story.problem, story.best.config)
    for note in notes:
        messages.print(f"note: {note}", soft_wrap=True, markup=False)
    lines = (text.splitlines(keepends=True), merged.splitlines(keepends=True))
    difference = "".join(difflib.unified_diff(*lines, str(path), f"{path} (best: {describe(story.best.config)})"))
    if not difference:
        messages.print(f"{path} has the best configuration already", soft_wrap=True, markup=False)
        return
    sys.stdout.write(difference if difference.endswith("\n") else difference + "\n")
    if write:
        replace_text(path, merged)
    messages.print(f"wrote {path}" if write else "nothing was written: add --write", soft_wrap=True, markup=False)


def merged_experiment(text: str, problem: TuningProblem, config: TrainingConfig) -> tuple[str, list[str]]:
    """Return an experiment with a configuration's keys in place of its own, and what a person should know of it."""
    merged = with_values(text, PLACE, primus.tuned_keys(problem, config), primus.TUNED_KEYS)
    return merged, _notes(mapping_at(text, PLACE), primus.overrides(problem, config))


def _notes(overrides: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    return [
        f"{key} is {overrides[key]} in the file and {ours[key]} in the run: the result was found for the latter"
        for key in _FIXED
        if key in overrides and overrides[key] != ours.get(key)
    ]
