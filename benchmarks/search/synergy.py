"""Truths in which DeepEP, one schedule and one recomputation setting win only together. Called by the proof and tests.

A row with one or two of them is slower than the same row without them, where that one fits, by more than the noise of
a trial. The best with all three is 8 % faster than everything else. So a search that changes one axis at a time sees no
gain on its way.
"""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from benchmarks.search.methods import Method, Start
from benchmarks.search.problems import CASES, Case, settings_of, space_of
from benchmarks.search.profile_protocol import (
    MEASUREMENTS,
    Found,
    ProfileTruth,
    method_finds,
    planner_finds,
    profile_truth_of,
    projected_speeds,
)
from benchmarks.search.trials import Trials, run
from benchmarks.search.truth import Truth, truth_of
from tunewright.domain.config_batch import FIELDS, BoolArray, FloatArray, IntArray, code_of
from tunewright.domain.training_config import TrainingConfig
from tunewright.search.space import Space

GAIN = 0.08
LEAST_LOSS, MOST_LOSS = 0.02, 0.05
"""What one or two of the three lose against the same row without them."""
ROUNDS_OF_FITTING = 8
PROFILES = 27
"""Beside which there are three measurements."""
BACKGROUND_ERROR = 0.04
"""Mean absolute error of the model apart from the synergy."""
LEAST_ESTIMATE = 0.9
"""A synergy is drawn among those whose best configuration the model has at this share of its best, at least."""
DEEPEP, SCHEDULE, RECOMPUTATION = 1, 2, 4
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
    parts: IntArray
    """Which of the three a row has: 1 for DeepEP, 2 for the schedule, 4 for the recomputation setting, added up."""
    twins: IntArray
    """The row without what a row has of the three; -1 where that one is illegal."""
    baseline: TrainingConfig

    @property
    def space(self) -> Space:
        """The space of the problem."""
        return self.truth.space

    @property
    def wins(self) -> BoolArray:
        """Rows with all three."""
        wins: BoolArray = self.parts == _ALL
        return wins

    def found(self, row: int) -> bool:
        """Tell whether a row has all three and beats every row that does not."""
        speeds = self.truth.speeds
        return bool(self.wins[row] and speeds[row] > speeds[~self.wins].max())


def synergy_of(seed: int) -> Synergy:
    """Draw a synergy that every trial shows: the problem, the schedule and the recomputation setting."""
    drawn = _Drawn.of(seed)
    background = truth_of(drawn.space, seed, BACKGROUND_ERROR)
    return drawn.added_to(background)[0]


def profile_synergy_of(seed: int) -> tuple[Synergy, ProfileTruth]:
    """Draw a synergy whose schedule's part only measurements show.

    Profiles show that dispatcher and recomputation lose alone, and what they gain together with the right schedule;
    that they lose together with any other schedule is what only measurements show.
    """
    drawn = _Drawn.of(seed)
    hidden = profile_truth_of(drawn.case, seed, BACKGROUND_ERROR)
    synergy, gain = drawn.added_to(hidden.truth)
    both = DEEPEP | RECOMPUTATION
    shown = drawn.losing(hidden.projected, np.isin(drawn.parts & both, (DEEPEP, RECOMPUTATION)))
    shown[drawn.parts & both == both] *= gain
    layer_factors = _layer_factors(drawn.space, shown)
    return synergy, ProfileTruth(synergy.truth, layer_factors, projected_speeds(drawn.space, layer_factors))


def _layer_factors(space: Space, shown: FloatArray) -> FloatArray:
    """Return what layers of each profile group take, relative to the model, so that its fastest row is as `shown`."""
    order = np.argsort(shown, kind="stable")
    fastest = np.zeros(space.key_index.max() + 1, dtype=np.int64)
    fastest[space.key_index[order]] = order  # of equal indices the last one stays
    factors = np.ones(len(fastest))
    for _ in range(ROUNDS_OF_FITTING):
        speeds = projected_speeds(space, factors[space.key_index])[fastest]
        factors *= np.divide(speeds, shown[fastest], out=np.ones_like(speeds), where=speeds > 0)
    return factors[space.key_index]


@dataclass(frozen=True, eq=False)
class _Drawn:
    """What a seed chose, before any truth."""

    seed: int
    case: Case
    schedule: str
    recompute: str
    losses: FloatArray
    """Of each combination of the three."""

    @classmethod
    def of(cls, seed: int) -> "_Drawn":
        generator = np.random.default_rng([seed, 3])
        case = CASES_WITH_EXPERTS[seed % len(CASES_WITH_EXPERTS)]
        choices = _choices(space_of(case), case.baseline)
        schedule, recompute = choices[int(generator.integers(len(choices)))]
        return cls(seed, case, schedule, recompute, generator.uniform(LEAST_LOSS, MOST_LOSS, _ALL + 1))

    @property
    def space(self) -> Space:
        return space_of(self.case)

    @property
    def baseline(self) -> TrainingConfig:
        return self.case.baseline.model_copy(update=_none_of(self.recompute, self.space))

    @cached_property
    def parts(self) -> IntArray:
        deepep, schedule, recompute = _having(self.space, self.schedule, self.recompute)
        return DEEPEP * deepep + SCHEDULE * schedule + RECOMPUTATION * recompute

    @cached_property
    def twins(self) -> IntArray:
        return _twins(self.space, _having(self.space, self.schedule, self.recompute), self.baseline)

    def losing(self, speeds: FloatArray, rows: BoolArray) -> FloatArray:
        """Return speeds in which some rows lose against their twin, or against the best without any of the three."""
        twin = np.where(self.twins >= 0, speeds[self.twins], 0.0)
        most = np.where(twin > 0, twin, speeds[self.parts == 0].max())
        return np.where(rows, np.minimum(speeds, most) * (1 - self.losses[self.parts]), speeds)

    def added_to(self, background: Truth) -> tuple[Synergy, float]:
        """Return a truth with the synergy, and the factor by which those with all three are faster."""
        wins = self.parts == _ALL
        speeds = self.losing(background.speeds, (self.parts > 0) & ~wins)
        gain = (1 + GAIN) * speeds[~wins].max() / speeds[wins].max()
        speeds[wins] *= gain
        truth = Truth(self.space, self.seed, speeds)
        return Synergy(self.case, truth, self.parts, self.twins, self.baseline), gain


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


def planner_finds_it(synergy: Synergy, hidden: ProfileTruth) -> bool:
    """Tell whether the planner recommends the synergy after profiles and measurements."""
    return _is_share_of_all_three(planner_finds(synergy.case, hidden, PROFILES, synergy.baseline))


def method_finds_it(method: Method, synergy: Synergy, hidden: ProfileTruth) -> bool:
    """Tell whether a method has the synergy among the best rows that it has measured."""
    return _is_share_of_all_three(*method_finds(method, synergy.case, hidden, (PROFILES,), synergy.baseline))


def chance_knowing_all_but_schedule(seed: int) -> float:
    """Return how likely the measurements meet the winning schedule if the rest of the winner is known beforehand.

    Measurements of other schedules say nothing but that they lose, and each schedule is drawn equally often.
    """
    drawn = _Drawn.of(seed)
    choices = _choices(drawn.space, drawn.case.baseline)
    return min(1.0, MEASUREMENTS / sum(recompute == drawn.recompute for _, recompute in choices))


def _is_share_of_all_three(found: Found) -> bool:
    """Nothing without all three comes nearer to the optimum than the gain."""
    return found.share > 1 / (1 + GAIN)


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
