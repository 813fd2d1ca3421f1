"""Drives a whole run in memory: decide, record, answer. What the engine does, without ports and without time.

The world's answers come from the cost model times hidden effects, so that a test knows what should be found.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.support.builders import a_problem, settings_of, small_space
from tests.support.records import AT, RUN_UID, a_header
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.performance.compute import analytic_layer_times
from tunewright.performance.step import estimate
from tunewright.planner.decide import decide
from tunewright.planner.decisions import AskAdvisor, Decision, EnterPhase, Finish, StartTrial
from tunewright.planner.evaluation import on_fewer_nodes
from tunewright.planner.projected import decided_round
from tunewright.planner.records import Advice, Header, Record, Round, TrialFinished
from tunewright.planner.settings import PlannerSettings
from tunewright.planner.snapshot import Snapshot
from tunewright.planner.state import RunState, fold
from tunewright.search.space import Space, build_space
from tunewright.trial_protocol.early_stop import is_losing
from tunewright.trial_protocol.identity import TrialIdentity
from tunewright.trial_protocol.report import FailureClass, LayerTiming, Measured, Profile, Timing, TrialReport

MOST_CALLS = 2000
"""Calls of `decide` after which a run counts as endless."""

Factor = Callable[[TrainingConfig], float]


def no_effect(config: TrainingConfig) -> float:
    """Leave times as the model says."""
    del config
    return 1.0


def a_profile(problem: TuningProblem, config: TrainingConfig, slower: float = 1.0) -> Profile:
    """Return what a profile would find if every layer were `slower` times the model's."""
    times = analytic_layer_times(problem, ConfigBatch.of([config]))

    def layer(kind: str) -> LayerTiming:
        parts = ("forward", "backward_input", "backward_weight")
        seconds = {name: float(getattr(times, f"{kind}_{name}")[0]) * slower for name in parts}
        return LayerTiming(**{name: Timing(seconds=value, spread=0.01) for name, value in seconds.items()})

    model = problem.model
    return Profile(
        dense_layer=layer("dense") if model.num_dense_layers else None,
        moe_layer=layer("moe") if model.num_moe_layers else None,
        embedding=layer("embedding"),
        head=layer("head"),
        optimizer_seconds_per_parameter=float(times.optimizer_seconds_per_parameter[0]),
    )


def a_measurement(
    problem: TuningProblem, config: TrainingConfig, slower: float = 1.0, cutoff_step_seconds: float | None = None
) -> Measured:
    """Return what a whole job would find, or what is known of it where its first steps clearly lose."""
    step = float(estimate(problem, ConfigBatch.of([config])).step_seconds[0]) * slower
    seconds = (step, step * 1.01, step * 0.99)
    first = (*seconds, step)
    loses = is_losing(first, cutoff_step_seconds)
    return Measured(
        step_seconds=first if loses else seconds,
        stopped_early=len(first) if loses else None,
        tokens_per_step=problem.tokens_per_step,
        world_size=problem.world_size,
        nodes=problem.cluster.nodes,
        peak_memory_bytes=2**30,
        first_loss=10.0,
        last_loss=9.0,
    )


def identity_of(start: StartTrial) -> TrialIdentity:
    """Return the identity that a report of this attempt carries."""
    return TrialIdentity.of(RUN_UID, start.trial, start.attempt, start.kind, start.config)


@dataclass
class World:
    """Answers of trials and of the advisor. Functions get the decision and may look at nothing else."""

    problem: TuningProblem
    settings: PlannerSettings
    profile_factor: Factor = no_effect
    measure_factor: Factor = no_effect
    fails: Callable[[StartTrial], FailureClass | None] = lambda start: None
    advises: Callable[[AskAdvisor], Advice] = lambda ask: Advice(round=ask.round, outcome="failed", at=AT)
    used_share: float = 0.5
    """GPU seconds that a trial used, as a share of its reservation."""

    def ends(self, start: StartTrial) -> TrialFinished:
        """Return the record of an attempt that ended."""
        failure = self.fails(start)
        return TrialFinished(
            trial=start.trial,
            attempt=start.attempt,
            report=None if failure else self._report(start),
            failure=failure,
            message=f"scripted {failure}" if failure else "",
            gpu_seconds=self.used_share * start.reserved_gpu_seconds,
            at=AT,
        )

    def _report(self, start: StartTrial) -> TrialReport:
        if start.kind == "profile":
            profile = a_profile(self.problem, start.config, self.profile_factor(start.config))
            return TrialReport(identity=identity_of(start), profile=profile)
        problem = on_fewer_nodes(self.problem, self.settings.validation.nodes)
        slower = self.measure_factor(start.config)
        measured = a_measurement(problem, start.config, slower, start.cutoff_step_seconds)
        return TrialReport(identity=identity_of(start), measured=measured)


@dataclass
class Run:
    """A run under way: its records, and the state that they fold into."""

    world: World
    space: Space
    records: list[Record] = field(default_factory=list)
    state: RunState = field(default_factory=RunState)
    running: list[StartTrial] = field(default_factory=list)
    asked: AskAdvisor | None = None
    elapsed_seconds: float = 0.0

    @classmethod
    def of(cls, world: World, space: Space | None = None) -> "Run":
        """Begin with the header."""
        header: Header = a_header(problem=world.problem, settings=world.settings)
        run = cls(world, space or build_space(world.problem, world.settings))
        run.add(header)
        return run

    @property
    def finish(self) -> Finish | None:
        """How the run ended."""
        return self.state.finish

    def snapshot(self) -> Snapshot:
        """Return what `decide` sees now."""
        settings = self.state.settings or self.world.settings
        return Snapshot(self.world.problem, settings, self.space, self.state, self.elapsed_seconds)

    def add(self, record: Record) -> None:
        """Write one record."""
        self.records.append(record)
        fold([record], self.state)

    def step(self) -> bool:
        """Decide once, or let the world answer once; False when the run is over."""
        decisions = decide(self.snapshot())
        if decisions:
            self.add(decided_round(self.snapshot(), decisions, AT))
            self.running += [decision for decision in decisions if isinstance(decision, StartTrial)]
            self.asked = next((item for item in decisions if isinstance(item, AskAdvisor)), self.asked)
            return True
        if self.finish is not None:
            return False
        return self._world_answers()

    def to_end(self) -> "Run":
        """Go on until the run is over."""
        for _ in range(MOST_CALLS):
            if not self.step():
                return self
        raise AssertionError(f"no end after {MOST_CALLS} calls of decide")

    def _world_answers(self) -> bool:
        self.elapsed_seconds += 30.0
        if self.asked is not None:
            ask, self.asked = self.asked, None
            self.add(self.world.advises(ask))
        elif self.running:
            first = min(self.running, key=lambda start: start.trial)
            self.running.remove(first)
            self.add(self.world.ends(first))
        else:
            raise AssertionError("nothing is awaited and nothing was decided: the run hangs")
        return True


def hidden_effect(seed: int, width: float, *fields: str) -> Factor:
    """Return slowdowns that depend on some fields alone: reproducible noise of `width` in log units."""

    def factor(config: TrainingConfig) -> float:
        text = "|".join(str(getattr(config, name)) for name in fields)
        generator = np.random.default_rng([seed, *text.encode()])
        return math.exp(width * float(generator.standard_normal()))

    return factor


def finished(run: Run) -> dict[str, Any]:
    """Return a few facts about a finished run, for assertion messages."""
    return {"finish": run.finish, "trials": list(run.state.trials), "judged": len(run.state.judged)}


def a_run(**changes: object) -> Run:
    """Return a run of the small problem; settings by name, what belongs to the world under its own names."""
    problem = a_problem()
    worldly = {name: changes.pop(name) for name in ("profile_factor", "measure_factor", "fails") if name in changes}
    world = World(problem, settings_of(problem, **changes), **worldly)  # type: ignore[arg-type]
    reusable = not ({"search_space", "baseline"} & set(changes))
    return Run.of(world, small_space() if reusable else None)


def failing(failure: FailureClass, *trials: str, attempts: int = 99) -> Callable[[StartTrial], FailureClass | None]:
    """Let some trials, or all, end with a failure in their first attempts."""

    def fails(start: StartTrial) -> FailureClass | None:
        hit = not trials or start.trial in trials
        return failure if hit and start.attempt <= attempts else None

    return fails


def decisions_of(run: Run) -> list[Decision]:
    """Return every decision of a run."""
    return [decision for record in run.records if isinstance(record, Round) for decision in record.decisions]


def phases_of(run: Run) -> list[str]:
    """Return the phases that a run entered."""
    return [decision.phase for decision in decisions_of(run) if isinstance(decision, EnterPhase)]
