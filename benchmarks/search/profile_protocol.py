"""The profile protocol: trials show only what a profile can see, measurements show all. Called by the main program.

Effects whose axes are all in the profile key act on layer times: profiles show them, and projections carry them. The
other effects act on the whole step: only measurements show them. Ours here is the planner itself, `decide` through
the engine on the simulated cluster; the others see the projected speed of each row that they try, and have their best
rows measured.
"""

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.search.methods import Method, Start
from benchmarks.search.problems import Case, settings_of, space_of
from benchmarks.search.trials import Trials, run
from benchmarks.search.truth import Truth, centred, effect_groups, scale_for
from tunewright.adapters.ledger.memory import MemoryLedger
from tunewright.adapters.trials.simulated import HiddenTruth, SimulatedTrials
from tunewright.domain.config_batch import FloatArray
from tunewright.domain.training_config import TrainingConfig
from tunewright.engine.run_handle import RunHandle
from tunewright.engine.step import step
from tunewright.performance.compute import analytic_layer_times
from tunewright.performance.profile_key import KEY_FIELDS
from tunewright.performance.step import estimate
from tunewright.planner.records import Header
from tunewright.planner.settings import PlannerSettings
from tunewright.planner.state import RunState
from tunewright.planner.summary import summarise
from tunewright.search.space import Space
from tunewright.trial_protocol.request import ExpectedDevice

MEASUREMENTS = 3
MOST_STEPS = 5000
ROUNDS_OF_SCALING = 3
AT = "2026-01-01T00:00:00Z"


@dataclass(frozen=True, eq=False)
class ProfileTruth:
    """A truth whose parts are known: layer times over the model's, and what a profile of each row would project."""

    truth: Truth
    layer_factors: FloatArray
    projected: FloatArray


@dataclass(frozen=True)
class Found:
    """How a method ended: the share of the optimum, and the trials that it was spared."""

    share: float
    reused: int


@dataclass(frozen=True, eq=False)
class KnownTruth(HiddenTruth):
    """The simulated cluster's effects by row. Rows are found by configuration."""

    space: Space | None = None
    layer_factors: FloatArray | None = None
    speeds: FloatArray | None = None

    def profile_factor(self, config: TrainingConfig) -> float:
        """Return true over modelled layer times."""
        assert self.layer_factors is not None
        return float(self.layer_factors[self._row(config)])

    def job_factor(self, config: TrainingConfig) -> float:
        """Return true over modelled step time."""
        assert self.space is not None and self.speeds is not None
        row = self._row(config)
        return float(self.space.tokens_per_second_per_gpu[row] / self.speeds[row])

    def _row(self, config: TrainingConfig) -> int:
        row = self.space.row_of(config) if self.space is not None else None
        assert row is not None, "trials are of the space"
        return row


def profile_truth_of(case: Case, seed: int, error: float) -> ProfileTruth:
    """Return the truth of a seed in which the model errs by `error` on average."""
    space = space_of(case)
    groups = effect_groups(space, seed)
    seen = [names for names in groups if set(names) <= set(KEY_FIELDS)]
    profile = centred(space, sum((groups[names] for names in seen), np.zeros(len(space))))
    job = centred(space, sum((groups[names] for names in groups if names not in seen), np.zeros(len(space))))
    scale = scale_for((profile + job)[space.fits], error)
    for _ in range(ROUNDS_OF_SCALING):  # communication does not scale with layer times: what is asked for is aimed at
        projected = projected_speeds(space, np.exp(-scale * profile))
        speeds = projected * np.exp(scale * job)
        found = np.abs(speeds[space.fits] / space.tokens_per_second_per_gpu[space.fits] - 1).mean()
        scale *= error / found if found else 1.0
    return ProfileTruth(Truth(space, seed, speeds), np.exp(-scale * profile), projected)


def planner_finds(case: Case, hidden: ProfileTruth, profiles: int, baseline: TrainingConfig | None = None) -> Found:
    """Run the planner with some profiles and measurements, and judge what it recommends."""
    settings = settings_of(case, profiles, MEASUREMENTS, baseline=baseline or case.baseline)
    return asyncio.run(_searched(hidden, settings))


def method_finds(
    method: Method, case: Case, hidden: ProfileTruth, profiles: tuple[int, ...], baseline: TrainingConfig | None = None
) -> list[Found]:
    """Run a method once; judge what it has after each number of profiles and the measurement of its best rows."""
    truth = hidden.truth
    start = Start(truth.space, settings_of(case, baseline=baseline or case.baseline), truth.seed)
    given = run(partial(method, start), _trials(hidden, max(profiles)))
    return [_measured(truth, given.after(count), given.reused) for count in profiles]


def _trials(hidden: ProfileTruth, most: int) -> Trials:
    return Trials(hidden.projected, hidden.truth.space.key_index, hidden.truth.noise, most)


def _measured(truth: Truth, rows: list[int], reused: int) -> Found:
    best = max(rows, key=lambda row: truth.speeds[row] * truth.noise(row, -1 % 2**32))
    return Found(truth.share(best), reused)


def projected_speeds(space: Space, factors: FloatArray) -> FloatArray:
    """Return every row's speed if its layers took `factors` times as long; zero where a row does not fit."""
    rows = np.flatnonzero(space.fits)
    batch = space.batch.take(rows)
    times = analytic_layer_times(space.problem, batch)
    scaled: dict[str, Any] = {
        name: value * factors[rows] for name, value in vars(times).items() if isinstance(value, np.ndarray)
    }
    speeds = np.zeros(len(space))
    speeds[rows] = estimate(space.problem, batch, replace(times, **scaled)).tokens_per_second_per_gpu
    return speeds


class _NoTime:
    """A clock that stands still: nothing in the benchmark is limited by time."""

    def now(self) -> str:
        return AT

    def seconds(self) -> float:
        return 0.0


async def _searched(hidden: ProfileTruth, settings: PlannerSettings) -> Found:
    truth = hidden.truth
    world = KnownTruth(truth.seed, space=truth.space, layer_factors=hidden.layer_factors, speeds=truth.speeds)
    handle = RunHandle(MemoryLedger(), SimulatedTrials(world), _NoTime(), built_space=truth.space)
    await handle.open(_header(truth.space, settings))
    for _ in range(MOST_STEPS):
        if handle.state.finish is not None or _measured_enough(handle.state):
            break
        await step(handle)
    summary = summarise(truth.space.problem, settings, truth.space, (await handle.snapshot()).state)
    row = truth.space.row_of(summary.winner) if summary.winner else None
    reused = sum(item.verdict == "reused" for item in handle.state.judged)
    return Found(truth.share(row) if row is not None else 0.0, reused)


def _measured_enough(state: RunState) -> bool:
    """Tell whether as many measurements were taken as the others get: what turns the order around may ask for more."""
    return sum(trial.report is not None for trial in state.measurements) >= MEASUREMENTS


def _header(space: Space, settings: PlannerSettings) -> Header:
    accelerator = space.problem.cluster.accelerator.name
    return Header(
        run="benchmark",
        run_uid="benchmark",
        problem=space.problem,
        settings=settings,
        device=ExpectedDevice(preset=accelerator, vendor="amd", count=space.problem.cluster.gpus_per_node),
        simulated=True,
        operator_version="benchmark",
        catalog_version="benchmark",
        at=AT,
    )
