"""How long the surrogate thinks, beside a matrix product of the same machine. Called by the main program."""

import time
from collections.abc import Callable

import numpy as np

from benchmarks.search.problems import CASES, settings_of, space_of
from tunewright.domain.config_batch import FloatArray, IntArray
from tunewright.search.space import Space, build_space
from tunewright.search.surrogate import Observation, Surrogate

REPEATS = 5
REFERENCE_SIZE = 1000
MORE_VALUES = {
    "virtual_pipeline_parallel_size": tuple(range(1, 11)),
    "micro_batch_size": tuple(range(1, 17)),
    "context_parallel_size": (1, 2, 4, 8),
    "cross_entropy_fusion": (True, False),
    "recompute_num_layers": (1, 2),
}
"""What makes a space of about 1e5 rows of the largest problem."""


def decision_times() -> list[dict[str, float]]:
    """Time a proposal over 1e4 and 1e5 candidates, with hyper-parameters fitted and with them kept."""
    reference = _least_seconds(_reference)
    case = CASES[-1]
    large = build_space(space_of(case).problem, settings_of(case, search_space=MORE_VALUES))
    found = []
    for space in (space_of(case), large):
        for observed in (100, 5000):
            seconds = _least_seconds(lambda: _proposal(space, observed))  # noqa: B023 - called at once
            candidates = int(space.fits.sum())
            ratio = seconds / reference
            print(
                f"  {candidates:,} candidates, {observed} observations: {seconds * 1e3:.0f} ms, {ratio:.1f} x reference"
            )
            found.append({"candidates": candidates, "observations": observed, "seconds": seconds, "ratio": ratio})
    print(f"  reference, the product of two {REFERENCE_SIZE} x {REFERENCE_SIZE} matrices: {reference * 1e3:.0f} ms")
    return found


def _proposal(space: Space, observed: int) -> None:
    rows = space.ranking[np.linspace(0, len(space.ranking) - 1, observed).astype(np.int64)]
    speeds = space.tokens_per_second_per_gpu[rows] * _noise(rows)
    observations = [Observation(int(row), float(speed)) for row, speed in zip(rows, speeds, strict=True)]
    Surrogate(space, observations).propose(space.fits, [], 1)


def _noise(rows: IntArray) -> FloatArray:
    return np.exp(0.05 * np.random.default_rng(0).standard_normal(len(rows)))


def _reference() -> None:
    matrix = np.random.default_rng(0).standard_normal((REFERENCE_SIZE, REFERENCE_SIZE))
    matrix @ matrix


def _least_seconds(action: Callable[[], None]) -> float:
    action()
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return min(times)
