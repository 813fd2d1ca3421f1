"""Runs with the same search hold its arrays once, and nothing of each other."""

import gc
import weakref

from tests.support.builders import a_problem, settings_of
from tunewright.controller.shared_spaces import SharedSpaces

AXES = {"tensor_parallel_size": (1, 2), "pipeline_parallel_size": (1, 2), "micro_batch_size": (1,)}


def test_two_runs_of_one_search_share_its_arrays_and_remember_apart() -> None:
    spaces, problem = SharedSpaces(), a_problem()
    one = spaces.build(problem, settings_of(problem, search_space=AXES))
    other = spaces.build(problem, settings_of(problem, search_space=AXES, parallel_trials=4))
    assert one.batch is other.batch
    assert one.codes is other.codes
    one.memo["seen"] = True
    assert "seen" not in other.memo


def test_another_search_has_another_space() -> None:
    spaces, problem = SharedSpaces(), a_problem()
    one = spaces.build(problem, settings_of(problem, search_space=AXES))
    other = spaces.build(problem, settings_of(problem, search_space=AXES | {"micro_batch_size": (1, 2)}))
    assert len(other) > len(one)


def test_a_space_goes_with_its_last_run() -> None:
    spaces, problem = SharedSpaces(), a_problem()
    used = spaces.build(problem, settings_of(problem, search_space=AXES))
    arrays = weakref.ref(used.batch)
    del used
    gc.collect()
    assert arrays() is None
