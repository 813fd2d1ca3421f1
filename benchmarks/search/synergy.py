"""Truths in which DeepEP, one schedule and one recomputation setting win only together. Called by the proof and tests.

Each combination of one or two of them has a factor with which none of its good rows beats the same row without them.
The best with all three is 8 % faster than everything else. So a search that changes one axis at a time sees no gain on
its way.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.search.methods import Method, Start
from benchmarks.search.problems import CASES, Case, settings_of, space_of
from benchmarks.search.trials import Trials, run
from benchmarks.search.truth import Truth, truth_of
from tunewright.domain.config_batch import FIELDS, BoolArray, FloatArray, IntArray, code_of
from tunewright.domain.training_config import TrainingConfig
from tunewright.search.space import Space

GAIN = 0.08
GOOD = 0.95
"""Rows count as good from this share of the best with the same of the three."""
MOST_LOSS = 0.04
"""What one or two of the three lose at most, beside never winning."""
BACKGROUND_ERROR = 0.04
"""Mean absolute error of the model apart from the synergy."""
LEAST_ESTIMATE = 0.9
"""A synergy is drawn among those whose best configuration the model has at this share of its best, at least."""
_ALL = 7
_FIELDS_OF_PART = (
    ("moe_dispatcher", "sync_free_stage"),
    ("pipeline_schedule", "virtual_pipeline_parallel_size", "overlap_grad_reduce", "overlap_param_gather"),
    ("recompute_granularity", "recompute_modules", "recompute_method", "recompute_num_layers"),
)
"""What changes with each of the three, itself included."""
CASES_WITH_EXPERTS = tuple(case for case in CASES if case.baseline.expert_parallel_size > 1)


@dataclass(frozen=True, eq=False)
class Synergy:
    """One truth, its winners and a baseline that has none of the three."""

    case: Case
    truth: Truth
    wins: BoolArray
    baseline: TrainingConfig
    schedule: str
    recompute: str

    @property
    def space(self) -> Space:
        """The space of the problem."""
        return self.truth.space

    def found(self, row: int) -> bool:
        """Tell whether a row has all three and beats every row that does not."""
        speeds = self.truth.speeds
        return bool(self.wins[row] and speeds[row] > speeds[~self.wins].max())


def synergy_of(seed: int) -> Synergy:
    """Draw a synergy: the problem, the schedule and the recomputation setting."""
    generator = np.random.default_rng([seed, 3])
    case = CASES_WITH_EXPERTS[seed % len(CASES_WITH_EXPERTS)]
    space = space_of(case)
    choices = _choices(space, case.baseline)
    schedule, recompute = choices[int(generator.integers(len(choices)))]
    baseline = case.baseline.model_copy(update=_none_of(recompute, space))
    has = _having(space, schedule, recompute)
    number = has[0] + 2 * has[1] + 4 * has[2]
    wins = number == _ALL
    background = truth_of(space, seed, BACKGROUND_ERROR).speeds
    speeds = background * _losing(space, background, has, baseline)[number]
    speeds *= (1 - np.array([0.0, *generator.uniform(0.0, MOST_LOSS, _ALL)]))[number]
    speeds[wins] *= (1 + GAIN) * speeds[~wins].max() / speeds[wins].max()
    return Synergy(case, Truth(space, seed, speeds), wins, baseline, schedule, recompute)


def _losing(space: Space, speeds: FloatArray, has: list[IntArray], baseline: TrainingConfig) -> FloatArray:
    """Return one factor for each combination of the three: none of its good rows beats its twin without them."""
    twin = _twins(space, has, baseline)
    ratio = np.where(twin >= 0, speeds[twin], 0.0) / np.maximum(speeds, 1e-300)
    number = has[0] + 2 * has[1] + 4 * has[2]
    factors = np.ones(_ALL + 1)
    for part in range(1, _ALL + 1):
        rows = number == part
        good = rows & space.fits & (ratio > 0) & (speeds >= GOOD * speeds[rows].max(initial=0.0))
        level = speeds[number == 0].max() / max(speeds[rows].max(initial=0.0), 1e-300)
        factors[part] = min(level, ratio[good].min(initial=1.0))
    return factors


def _twins(space: Space, has: list[IntArray], baseline: TrainingConfig) -> IntArray:
    """Return the row with the baseline's values instead of what it has of the three, or of all three; -1 if illegal."""
    rows = {code.tobytes(): row for row, code in enumerate(space.codes)}
    near, far = space.codes.copy(), space.codes.copy()
    for present, fields in zip(has, _FIELDS_OF_PART, strict=True):
        for name in fields:
            near[present == 1, FIELDS.index(name)] = space.code(name, getattr(baseline, name))
            far[:, FIELDS.index(name)] = space.code(name, getattr(baseline, name))
    found = [rows.get(code.tobytes(), -1) for code in near]
    also = [rows.get(code.tobytes(), -1) for code in far]
    return np.where(np.array(found) >= 0, found, also).astype(np.int64)


def finds(method: Method, synergy: Synergy, trials: int = 30) -> bool:
    """Tell whether a method recommends the synergy after some trials of the observation protocol."""
    start = Start(synergy.space, settings_of(synergy.case, baseline=synergy.baseline), synergy.truth.seed)
    given = Trials(synergy.truth.speeds, np.arange(len(synergy.space)), synergy.truth.noise, trials)
    return synergy.found(run(partial(method, start), given).after(trials)[0])


def _choices(space: Space, baseline: TrainingConfig) -> list[tuple[str, str]]:
    """Return the schedules and settings that the model does not write off, other than the baseline's schedule."""
    found = []
    for schedule in space.values("pipeline_schedule"):
        for recompute in space.values("recompute_granularity"):
            rows = np.logical_and.reduce(_having(space, schedule, recompute)) & space.fits
            estimates = space.tokens_per_second_per_gpu[rows]
            known = estimates.max(initial=0.0) >= LEAST_ESTIMATE * space.tokens_per_second_per_gpu[space.ranking[0]]
            if schedule != baseline.pipeline_schedule and known:
                found.append((schedule, recompute))
    return found


def _having(space: Space, schedule: str, recompute: str) -> list[IntArray]:
    batch = space.batch
    return [
        (batch.moe_dispatcher == code_of("moe_dispatcher", "deepep")).astype(np.int64),
        (batch.pipeline_schedule == code_of("pipeline_schedule", schedule)).astype(np.int64),
        (batch.recompute_granularity == code_of("recompute_granularity", recompute)).astype(np.int64),
    ]


def _none_of(recompute: str, space: Space) -> dict[str, object]:
    """Return the changes that give the baseline another recomputation setting."""
    if recompute != "none":
        return {}
    modules = next(value for value in space.values("recompute_modules") if value)
    return {"recompute_granularity": "selective", "recompute_modules": modules}
