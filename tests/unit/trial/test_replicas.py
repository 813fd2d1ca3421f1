"""Replicas of the weights are compared after the last step: a job whose ranks train apart is no measurement."""

import subprocess
import sys
from pathlib import Path

import pytest

from tunewright_trial.parallel.replicas import unlike_most

ROOT = Path(__file__).parents[3]
TWO_RANKS = """
import os, sys, torch
from tests.unit.trial.requests import make_request
from tunewright_trial.failures import TrialFailure
from tunewright_trial.measure import measure
from tunewright_trial.place import Place

child = os.fork()
torch.set_num_threads(1)  # in both: a pool of threads from before the fork may abort the child
rank = int(child == 0)
request = make_request("measure", world=2, optimizer="replicated", request={"seed": rank})
try:
    measure(request, Place(rank, 2, 0, 1, sys.argv[1], 60.0), torch.device("cpu"))
except TrialFailure as error:
    sys.stdout.write(f"{rank} {error.failure} {error}\\n")
    sys.stdout.flush()
if child:
    os.waitpid(child, 0)
"""


@pytest.mark.parametrize(
    ("sums", "places"),
    [
        ([5, 5], set()),
        ([5, 7], {0, 1}),  # nobody knows which of two is right
        ([5, 7, 5], {1}),
        ([5, 7, 5, 7], {0, 1, 2, 3}),
        ([1, 2, 3], {0, 1, 2}),
    ],
)
def test_who_differs_from_most_is_named(sums: list[int], places: set[int]) -> None:
    assert unlike_most(sums) == places


def test_two_ranks_with_other_weights_are_a_failure_on_both(tmp_path: Path) -> None:
    """They start from other seeds, and no gather of a sharded optimizer makes them one."""
    command = [sys.executable, "-c", TWO_RANKS, str(tmp_path / "meeting")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    said = "RcclFailure ranks 0, 1 hold other weights than their replicas after the last step"
    assert sorted(line[: len(said) + 2] for line in done.stdout.splitlines()) == [f"0 {said}", f"1 {said}"], done.stderr
