"""Trials that an earlier ledger answers. Used by `tunewright rerun`; implements `ports.Trials`.

A profile answers for every configuration with its profile key, a measurement for its own configuration, once. What
was a fault of the place, or was cancelled or interrupted, says nothing and answers nothing. What is not answered runs
on `inner`; without one it ends as cancelled, which speaks neither for nor against the configuration.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

from tunewright.domain.training_config import TrainingConfig
from tunewright.performance.profile_key import profile_key
from tunewright.planner.records import Record, TrialFinished
from tunewright.planner.state import RunState, fold
from tunewright.planner.trial import Trial
from tunewright.ports import TrialObservation, Trials
from tunewright.trial_protocol.report import CONFIGURATION_FAILURES
from tunewright.trial_protocol.request import TrialRequest

UNANSWERED = "unanswered: the repeated ledger has no report for it"


class ClosableTrials(Trials, Protocol):
    """Trials of this machine, which end when they are closed."""

    async def close(self) -> None:
        """End what still runs."""


class RecordedTrials:
    """Answers from `recorded`; `earlier` are the records of the rerun itself, where an earlier process began it."""

    def __init__(self, recorded: Sequence[Record], earlier: Sequence[Record], inner: ClosableTrials | None) -> None:
        self._inner = inner
        self._profiles: dict[str, Trial] = {}
        self._measurements: dict[tuple[TrainingConfig, int], list[Trial]] = defaultdict(list)
        self._finished: dict[tuple[str, int], TrialObservation] = {}
        self._used = {record.recorded_from for record in earlier if isinstance(record, TrialFinished)}
        state = fold(recorded)
        for trial in state.trials.values():
            if _says_something(trial):
                self._keep(state, trial)

    async def start(self, request: TrialRequest) -> None:
        """Answer one attempt, or start it where trials run."""
        if not self._answered(request):
            await (self._inner.start(request) if self._inner else self._unanswered(request))

    async def adopt(self, request: TrialRequest) -> None:
        """Answer again, or take over what an earlier process started."""
        if not self._answered(request):
            await (self._inner.adopt(request) if self._inner else self._unanswered(request))

    async def observe(self) -> Sequence[TrialObservation]:
        """Return every attempt that was answered or started."""
        running = await self._inner.observe() if self._inner else ()
        return [*self._finished.values(), *running]

    async def stop(self, trial: str, attempt: int) -> None:
        """End one attempt that runs; answered ones have ended."""
        if self._inner is not None:
            await self._inner.stop(trial, attempt)

    async def close(self) -> None:
        """End what still runs."""
        if self._inner is not None:
            await self._inner.close()

    def _keep(self, state: RunState, trial: Trial) -> None:
        header, report = state.header, trial.report
        if header is None:
            return
        if trial.kind == "profile":
            self._profiles.setdefault(profile_key(header.problem, trial.config), trial)
        else:
            nodes = report.measured.nodes if report is not None and report.measured is not None else 0
            self._measurements[trial.config, nodes or header.settings.validation.nodes].append(trial)

    def _answered(self, request: TrialRequest) -> bool:
        trial = self._recorded(request)
        if trial is None or trial.finished is None:
            return False
        self._used.add(trial.name)
        end, identity = trial.finished, request.identity
        self._finished[identity.trial, identity.attempt] = TrialObservation(
            trial=identity.trial,
            attempt=identity.attempt,
            state="finished",
            report=end.report.model_copy(update={"identity": identity}) if end.report else None,
            failure=end.failure,
            message=end.message,
            node=end.node,
            recorded_from=trial.name,
            gpu_seconds=end.gpu_seconds,
        )
        return True

    def _recorded(self, request: TrialRequest) -> Trial | None:
        if request.identity.kind == "profile":
            return self._profiles.get(profile_key(request.problem, request.config))
        trials = self._measurements.get((request.config, request.nodes), [])
        return next((trial for trial in trials if trial.name not in self._used), None)

    async def _unanswered(self, request: TrialRequest) -> None:
        key = (request.identity.trial, request.identity.attempt)
        message = f"{UNANSWERED}; --trials says where to run it"
        self._finished[key] = TrialObservation(*key, "finished", failure="Cancelled", message=message)


def _says_something(trial: Trial) -> bool:
    """A fault of the place says nothing about the configuration, nor does a trial that was stopped or still runs."""
    if trial.running:
        return False
    return trial.failure is None or trial.failure in CONFIGURATION_FAILURES
