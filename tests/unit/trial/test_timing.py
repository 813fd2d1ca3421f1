"""Medians and their spread, when samples suffice, when steps lose, and the peak of memory."""

from mmap import mmap

import pytest
import torch

from tunewright.trial_protocol.early_stop import is_losing
from tunewright_trial.peak_memory import PeakMemory
from tunewright_trial.timing import Stretch, is_stable, median_timing, repetitions


def test_a_median_comes_with_half_its_interquartile_range() -> None:
    timing = median_timing([1.0, 2.0, 3.0, 4.0, 5.0])
    assert timing.seconds == 3.0
    assert timing.spread == 0.333


def test_times_have_as_many_digits_as_they_deserve() -> None:
    assert median_timing([0.000123456789]).seconds == 0.00012346


@pytest.mark.parametrize(
    ("samples", "stable"),
    [
        ([1.0] * 5, False),  # too few for any interval
        ([1.0] * 8, True),
        ([1.0, 1.001] * 8, True),
        ([1.0, 1.1] * 8, False),
    ],
)
def test_samples_suffice_when_the_median_is_known_within_a_percent(samples: list[float], stable: bool) -> None:
    assert is_stable(samples) is stable


@pytest.mark.parametrize(
    ("steps", "loses"),
    [
        ([1.2] * 3, False),
        ([1.2] * 4, True),
        ([1.1] * 4, False),
        ([1.0, 1.0, 1.4, 1.4], False),
        ([1.2, 1.2, 1.2, 9.0], True),
        ([1.2, 0.1, 1.2, 1.2, 1.2, 1.2], True),
    ],
    ids=["too-few", "clear", "at-the-cutoff", "spread-reaches-it", "one-slow-step", "one-fast-step"],
)
def test_steps_lose_when_their_median_and_its_spread_are_beyond_the_cutoff(steps: list[float], loses: bool) -> None:
    assert is_losing(steps, 1.1) is loses
    assert not is_losing(steps, None)


def test_work_is_stretched_by_the_time_that_others_had(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, own = iter([10.0, 16.0]), iter([1.0, 4.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(wall))
    monkeypatch.setattr("time.thread_time", lambda: next(own))
    with Stretch(torch.device("cpu")) as stretch:
        pass
    assert stretch.factor == 2.0


@pytest.mark.parametrize(
    ("requested", "once", "expected"), [(3, 10.0, 3), (3, 0.01, 10), (3, 1e-9, 15), (20, 1e-9, 20)]
)
def test_cheap_things_are_repeated_more_often(requested: int, once: float, expected: int) -> None:
    assert repetitions(requested, once, 0.1, 15) == expected


def test_the_peak_of_memory_counts_from_its_restart() -> None:
    memory = PeakMemory(torch.device("cpu"))
    with mmap(-1, 2**26) as block:  # fresh pages; an allocator may hand out pages that are resident already
        block.write(bytes(2**26))
        assert memory.bytes >= 2**26
    memory.restart()
    assert memory.bytes < 2**26
