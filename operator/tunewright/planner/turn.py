"""One call of `decide` in the making: what earlier decisions of the same call already used up.

Called by the phases, which propose configurations; `consider` says what becomes of each: judged at once, tried, or
left for later because a slot, the budget or the answer of a running trial is missing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from tunewright import legality
from tunewright.domain.axes import describe
from tunewright.domain.config_batch import BoolArray, ConfigBatch
from tunewright.domain.training_config import TrainingConfig
from tunewright.performance.profile_key import profile_key
from tunewright.planner import budget
from tunewright.planner.candidates import Evaluation
from tunewright.planner.decisions import Decision, Judge, Origin, StartTrial, Verdict
from tunewright.planner.evaluation import evaluate
from tunewright.planner.snapshot import Snapshot
from tunewright.planner.trial import Trial
from tunewright.search.space import Space

Consideration = Literal["judged", "started", "no-slot", "no-budget", "waits"]
_LONGEST_MESSAGE = 2000


@dataclass
class Turn:
    """The snapshot, what follows from it, and the decisions so far."""

    snapshot: Snapshot
    decisions: list[Decision] = field(default_factory=list)
    is_ending: bool = False
    """The run is to end: nothing else is decided, also while what runs is still being stopped."""
    _seen_now: dict[TrainingConfig, str] = field(default_factory=dict)
    """What became of configurations in this call; those judged in other ways may be proposed again."""

    @cached_property
    def evaluation(self) -> Evaluation:
        """Everything that was tried, projected and compared."""
        parts = self.snapshot
        return evaluate(parts.problem, parts.settings, parts.space, parts.state)

    @property
    def started(self) -> list[StartTrial]:
        """Trials started in this call."""
        return [decision for decision in self.decisions if isinstance(decision, StartTrial)]

    @property
    def free_slots(self) -> int:
        """Trials that may start beside those that run."""
        state, settings = self.snapshot.state, self.snapshot.settings
        return settings.parallel_trials - len(state.running) - len(self.started)

    @property
    def gpu_seconds_left(self) -> float:
        """Accelerator seconds that are neither used nor reserved."""
        return budget.gpu_seconds_left(self.snapshot) - sum(item.reserved_gpu_seconds for item in self.started)

    @cached_property
    def expected_step_seconds(self) -> float:
        """Step time of the baseline by the analytic model: what a validation is reserved with before it is known."""
        row = self.snapshot.space.row_of(self.snapshot.settings.baseline)
        return float(self.snapshot.space.step_seconds[row]) if row is not None else 0.0

    def may_profile(self) -> bool:
        """Tell whether the budget allows another profile trial."""
        new = sum(item.kind == "profile" and item.attempt == 1 for item in self.started)
        reserve = budget.validation_gpu_seconds(self.snapshot, self.expected_step_seconds)
        enough = self.gpu_seconds_left - reserve >= budget.profile_gpu_seconds(self.snapshot.settings)
        return budget.profiles_left(self.snapshot) - new > 0 and enough

    def consider(
        self,
        config: TrainingConfig,
        origin: Origin,
        cannot_win: Callable[[int], str] | None = None,
        *,
        may_start: bool = True,
    ) -> Consideration:
        """Judge or start one proposed configuration. `cannot_win(row)` says why it is not worth a trial, or nothing.

        Without `may_start`, what would need a trial is left undecided, as if the budget did not allow it.
        """
        if earlier := self._seen_now.get(config) or self.snapshot.state.tally.seen.get(config):
            return self.judge(config, "duplicate", f"already {earlier}", origin)
        row = self.snapshot.space.row_of(config)
        if row is None:
            return self._judge_outside(config, origin)
        if not self.snapshot.space.fits[row]:
            return self.judge(config, "filtered", self.snapshot.space.memory_verdict(row).message(0), origin)
        known = self.trial_of(row)
        if known is not None and known.report is not None:
            return self.reuse(config, origin, known)
        if reason := self.ruled_out(row) or (cannot_win(row) if cannot_win else ""):
            return self.judge(config, "pruned", reason, origin)
        if not may_start:
            return "no-budget"
        return self._start_profile(row, config, origin, known)

    def reuse(self, config: TrainingConfig, origin: Origin, known: Trial) -> Consideration:
        """Record a proposal that needs no trial, because `known` has taken its profile."""
        message = f"its profile was taken by {known.name}: projected without a trial"
        return self.judge(config, "reused", message, origin, known.name)

    def judge(
        self, config: TrainingConfig | None, verdict: Verdict, message: str, origin: Origin, reused_trial: str = ""
    ) -> Consideration:
        """Record a proposal that needs no trial."""
        text = message[:_LONGEST_MESSAGE]
        self.decisions.append(
            Judge(config=config, verdict=verdict, message=text, origin=origin, reused_trial=reused_trial)
        )
        if config is not None and verdict == "reused":
            self._seen_now[config] = f"projected from {reused_trial}"
        return "judged"

    def trial_of(self, row: int) -> Trial | None:
        """Return the profile trial that has the profile key of a row, if there is one: one with a report first."""
        return self.snapshot.state.tally.by_key.get(self.snapshot.space.profile_key(row))

    def ruled_out(self, row: int) -> str:
        """Say why failed trials speak against a row; empty when they do not."""
        known = self.trial_of(row)
        if known is not None and known.failure is not None and not known.running:
            return f"{known.name} has the same profile and ended with {known.failure}"
        for trial, least in self._out_of_memory:
            if self.snapshot.space.allocated_bytes[row] >= least:
                return f"needs no less memory than {trial}, which ran out of device memory"
        return ""

    def open_rows(self) -> BoolArray:
        """Return the rows that a trial could say something new about: fitting, not ruled out, never profiled."""
        space = self.snapshot.space
        candidates = space.fits.copy()
        for _, least in self._out_of_memory:
            candidates &= space.allocated_bytes < least
        profiled = [*_profiled_groups(self.snapshot), *(_group(space, item.config) for item in self.started)]
        return candidates & ~np.isin(space.key_index, profiled)

    def is_seen(self, config: TrainingConfig) -> bool:
        """Tell whether a configuration has a trial or a projection already."""
        return config in self._seen_now or config in self.snapshot.state.tally.seen

    def next_trial(self) -> str:
        """Return the name of the next new trial."""
        new = sum(item.attempt == 1 for item in self.started)
        return f"t{len(self.snapshot.state.trials) + new + 1:04d}"

    def profile_key(self, config: TrainingConfig) -> str:
        """Return the profile key of a configuration that may lie outside the space."""
        row = self.snapshot.space.row_of(config)
        return profile_key(self.snapshot.problem, config) if row is None else self.snapshot.space.profile_key(row)

    def start(self, trial: StartTrial) -> None:
        """Record the start of a trial and take its slot, its key and its reservation."""
        self.decisions.append(trial)
        self._seen_now[trial.config] = f"tried by {trial.trial}"

    def _start_profile(self, row: int, config: TrainingConfig, origin: Origin, known: Trial | None) -> Consideration:
        key = self.snapshot.space.profile_key(row)
        if known is not None or any(item.profile_key == key for item in self.started):
            return "waits"
        if not self.may_profile():
            return "no-budget"
        if self.free_slots <= 0:
            return "no-slot"
        self.start(
            StartTrial(
                trial=self.next_trial(),
                kind="profile",
                config=config,
                profile_key=key,
                origin=origin,
                reserved_gpu_seconds=budget.profile_gpu_seconds(self.snapshot.settings),
            )
        )
        return "started"

    def _judge_outside(self, config: TrainingConfig, origin: Origin) -> Consideration:
        verdicts = legality.judge(self.snapshot.problem, ConfigBatch.of([config]))
        if violations := verdicts.violations(0):
            return self.judge(config, "illegal", "; ".join(violations.values()), origin)
        message = f"{describe(config)} is legal, and not among the values that this run searches"
        return self.judge(config, "outside", message, origin)

    @cached_property
    def _out_of_memory(self) -> list[tuple[str, float]]:
        """Trials that ran out of memory, with the allocation that the model predicts for their configuration."""
        space, found = self.snapshot.space, []
        for trial in self.snapshot.state.failed:
            row = space.row_of(trial.config) if trial.failure == "DeviceOutOfMemory" else None
            if row is not None:
                found.append((trial.name, float(space.allocated_bytes[row])))
        return found


def _group(space: Space, config: TrainingConfig) -> int:
    row = space.row_of(config)
    return -1 if row is None else int(space.key_index[row])


def _profiled_groups(snapshot: Snapshot) -> list[int]:
    """Return the profile groups of all profile trials; only those of new trials are looked up."""
    space, state = snapshot.space, snapshot.state
    kept: tuple[object, list[int]] = space.memo.get("profiled groups", (None, []))
    groups = kept[1] if kept[0] is state else []
    groups += [_group(space, trial.config) for trial in state.profiles[len(groups) :]]
    space.memo["profiled groups"] = state, groups
    return groups
