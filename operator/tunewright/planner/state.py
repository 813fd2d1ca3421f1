"""What a run's records add up to. Folded from the ledger alone, so it can be rebuilt at any time.

Called by the engine before each decision, by the summary and by replay. `fold` may continue an earlier state: then
only new records are read.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tunewright.domain.training_config import TrainingConfig
from tunewright.errors import LedgerError
from tunewright.planner.decisions import (
    AskAdvisor,
    Decision,
    EnterPhase,
    Finish,
    Judge,
    Origin,
    Phase,
    StartTrial,
    StopTrial,
)
from tunewright.planner.records import (
    Advice,
    Header,
    Record,
    Round,
    SettingsChanged,
    TrialFinished,
    TrialStarted,
)
from tunewright.planner.settings import PlannerSettings
from tunewright.planner.spent import Spent
from tunewright.trial_protocol.identity import TrialIdentity, TrialKind, config_digest
from tunewright.trial_protocol.report import FailureClass, Runner, TrialReport

Proposal = StartTrial | Judge


@dataclass
class Attempt:
    """One try at a trial. `finished` is None while it runs."""

    number: int
    reserved_gpu_seconds: float
    is_started: bool = False
    """Whether it was seen to exist: then it is never started again."""
    is_stopping: bool = False
    finished: TrialFinished | None = None


@dataclass
class Trial:
    """One trial with all its attempts."""

    start: StartTrial
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its identifier, such as t0007."""
        return self.start.trial

    @property
    def kind(self) -> TrialKind:
        """Profile or measure."""
        return self.start.kind

    @property
    def config(self) -> TrainingConfig:
        """What is tried."""
        return self.start.config

    @property
    def origin(self) -> Origin:
        """Who proposed it."""
        return self.start.origin

    @property
    def running(self) -> bool:
        """Whether an attempt is started and not finished."""
        return self.attempts[-1].finished is None

    @property
    def finished(self) -> TrialFinished | None:
        """The end of the last attempt."""
        return self.attempts[-1].finished

    @property
    def report(self) -> TrialReport | None:
        """The report of a trial that succeeded."""
        return self.finished.report if self.finished is not None and self.failure is None else None

    @property
    def failure(self) -> FailureClass | None:
        """Why the last attempt failed; None while it runs or when it succeeded."""
        return failure_of(self.finished) if self.finished is not None else None

    @property
    def own_attempts(self) -> int:
        """Attempts that were not interrupted from outside: these use up the attempts that a trial has."""
        ends = [attempt.finished.failure for attempt in self.attempts if attempt.finished is not None]
        return len(self.attempts) - ends.count("Interrupted")

    @property
    def gpu_seconds(self) -> float:
        """What all attempts used; those that still run count with their reservation."""
        return sum(
            attempt.reserved_gpu_seconds if attempt.finished is None else attempt.finished.gpu_seconds
            for attempt in self.attempts
        )


@dataclass
class AskedRound:
    """A question to the advisor and its answer, if it came."""

    ask: AskAdvisor
    advice: Advice | None = None

    @property
    def failed(self) -> bool:
        """Whether the answer is known to be of no use."""
        return self.advice is not None and self.advice.outcome != "answered"


@dataclass
class RunState:
    """Everything that happened. Read-only for everybody but `fold`."""

    header: Header | None = None
    settings: PlannerSettings | None = None
    phase: Phase | None = None
    phase_reason: str = ""
    trials: dict[str, Trial] = field(default_factory=dict)
    finished_attempts: list[TrialFinished] = field(default_factory=list)
    proposals: list[Proposal] = field(default_factory=list)
    """First starts of trials and judgements, in the order in which they were decided."""
    by_round: dict[int, list[Proposal]] = field(default_factory=dict)
    """The same, by explore round."""
    asked: dict[int, AskedRound] = field(default_factory=dict)
    finish: Finish | None = None
    unprojected: list[Trial] = field(default_factory=list)
    """Profiled since the latest round: no round has recorded their projections yet."""
    elapsed_seconds: float = 0.0
    decided_rounds: int = 0

    @property
    def running(self) -> list[Trial]:
        """Trials with an attempt under way."""
        return [trial for trial in self.trials.values() if trial.running]

    @property
    def profiles(self) -> list[Trial]:
        """Profile trials, in order."""
        return [trial for trial in self.trials.values() if trial.kind == "profile"]

    @property
    def measurements(self) -> list[Trial]:
        """Measure trials, in order."""
        return [trial for trial in self.trials.values() if trial.kind == "measure"]

    @property
    def runner(self) -> Runner | None:
        """Who computes this run's trials, by the latest report that says so; None before. Recorded answers do not."""
        own = (end.report for end in reversed(self.finished_attempts) if end.report and not end.recorded_from)
        return next((report.runner for report in own if report.runner), None)

    @property
    def judged(self) -> list[Judge]:
        """Proposals that needed no trial."""
        return [proposal for proposal in self.proposals if isinstance(proposal, Judge)]

    @property
    def explore_round(self) -> int:
        """The latest round of the explore phase; 0 before the first."""
        return max(max(self.by_round, default=0), max(self.asked, default=0))

    def proposals_of(self, round_number: int) -> list[Proposal]:
        """Return the decided proposals of one explore round."""
        return self.by_round.get(round_number, [])

    @property
    def spent(self) -> Spent:
        """What the run has used so far."""
        spent = Spent(
            gpu_seconds=sum(trial.gpu_seconds for trial in self.trials.values()),
            queued_seconds=sum(attempt.queued_seconds for attempt in self.finished_attempts),
        )
        for asked in self.asked.values():
            spent.add_question(asked.ask, asked.advice)
        return spent


def fold(records: Iterable[Record], state: RunState | None = None) -> RunState:
    """Add records to a state, in order; without one, start from nothing. The given state is changed and returned.

    Raises `LedgerError` for a trial that is attempted again before it was started.
    """
    state = state or RunState()
    for record in records:
        _apply(state, record)
    return state


def failure_of(finished: TrialFinished) -> FailureClass | None:
    """Return why an attempt failed; None when it succeeded."""
    return finished.failure or (finished.report.failure if finished.report else "ResultMissing")


def _apply(state: RunState, record: Record) -> None:
    match record:
        case Header():
            state.header, state.settings = record, record.settings
        case SettingsChanged():
            _reopen_if_raised(state, record.settings)
            state.settings = record.settings
        case Round():
            state.elapsed_seconds = record.elapsed_seconds
            state.decided_rounds += 1
            state.unprojected = []
            for decision in record.decisions:
                _apply_decision(state, decision)
        case Advice():
            _asked_round(state, record).advice = record
        case TrialStarted():
            _open_attempt(state, record).is_started = True
        case TrialFinished():
            _check_report(state, record)
            _open_attempt(state, record).finished = record
            state.finished_attempts.append(record)
            if record.report is not None and record.report.profile is not None and record.failure is None:
                state.unprojected.append(state.trials[record.trial])


def _apply_decision(state: RunState, decision: Decision) -> None:
    match decision:
        case EnterPhase():
            state.phase, state.phase_reason = decision.phase, decision.reason
        case StartTrial():
            if decision.attempt == 1:
                state.trials[decision.trial] = Trial(decision)
                _add_proposal(state, decision)
            elif decision.trial not in state.trials:
                raise LedgerError(f"attempt {decision.attempt} of {decision.trial} comes before its first")
            attempt = Attempt(decision.attempt, decision.reserved_gpu_seconds)
            state.trials[decision.trial].attempts.append(attempt)
        case Judge():
            _add_proposal(state, decision)
        case AskAdvisor():
            state.asked[decision.round] = AskedRound(decision)
        case StopTrial():
            _open_attempt(state, decision).is_stopping = True
        case Finish():
            state.finish = decision


def _reopen_if_raised(state: RunState, wanted: PlannerSettings) -> None:
    """Let a finished run go on when its budget grows: its phases skip what is done. A stopped one never reopens."""
    may_reopen = state.finish is not None and state.finish.reason != "Stopped"
    if may_reopen and not wanted.stop and state.settings and wanted.budget.exceeds(state.settings.budget):
        state.finish = None
        state.phase = "seed" if state.trials else None


def _add_proposal(state: RunState, proposal: Proposal) -> None:
    state.proposals.append(proposal)
    state.by_round.setdefault(proposal.origin.round, []).append(proposal)


def _open_attempt(state: RunState, record: TrialStarted | TrialFinished | StopTrial) -> Attempt:
    trial = state.trials.get(record.trial)
    for attempt in trial.attempts if trial else ():
        if attempt.number == record.attempt and attempt.finished is None:
            return attempt
    raise LedgerError(f"a record of {record.trial}, attempt {record.attempt}, which is not under way: was it moved?")


def _check_report(state: RunState, record: TrialFinished) -> None:
    """Raise `LedgerError` when a report is not of exactly this run, attempt and configuration."""
    trial = state.trials.get(record.trial)
    if record.report is None or trial is None or state.header is None:
        return
    expected = TrialIdentity(
        run_uid=state.header.run_uid,
        trial=record.trial,
        attempt=record.attempt,
        kind=trial.kind,
        config_digest=config_digest(trial.config),
    )
    if record.report.identity != expected:
        raise LedgerError(f"the report of {record.trial}, attempt {record.attempt}, belongs to another trial")


def _asked_round(state: RunState, record: Advice) -> AskedRound:
    asked = state.asked.get(record.round)
    if asked is None or asked.advice is not None:
        raise LedgerError(f"an answer to round {record.round}, which does not wait for one")
    return asked
