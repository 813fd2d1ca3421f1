"""What a run's records add up to. Folded from the ledger alone, so it can be rebuilt at any time.

Called by the engine before each decision, by the summary and by replay. `fold` may continue an earlier state: then
only new records are read.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tunewright.errors import LedgerError
from tunewright.planner.decisions import (
    AskAdvisor,
    Decision,
    EnterPhase,
    Finish,
    Judge,
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
from tunewright.planner.tally import Tally
from tunewright.planner.trial import Attempt, Trial
from tunewright.trial_protocol.identity import TrialIdentity
from tunewright.trial_protocol.report import Runner

Proposal = StartTrial | Judge


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
    profiles: list[Trial] = field(default_factory=list)
    """Profile trials, in order."""
    measurements: list[Trial] = field(default_factory=list)
    """Measure trials, in order."""
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
    tally: Tally = field(default_factory=Tally)

    @property
    def running(self) -> list[Trial]:
        """Trials with an attempt under way, in order."""
        return sorted(self.tally.running.values(), key=_place)

    @property
    def failed(self) -> list[Trial]:
        """Trials whose last attempt ended with a failure, in order."""
        return sorted(self.tally.failed.values(), key=_place)

    @property
    def runner(self) -> Runner | None:
        """Who computes this run's trials, by the latest report that says so; None before. Recorded answers do not."""
        return self.tally.runner

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
    def gpu_seconds(self) -> float:
        """What all attempts used; those that still run count with their reservation."""
        return self.tally.ended_gpu_seconds + sum(
            attempt.reserved_gpu_seconds
            for trial in self.running
            for attempt in trial.attempts
            if attempt.finished is None
        )

    @property
    def spent(self) -> Spent:
        """What the run has used so far."""
        spent = Spent(gpu_seconds=self.gpu_seconds, queued_seconds=self.tally.queued_seconds)
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
            if any(_is_beyond_following_up(decision) for decision in record.decisions):
                state.tally.followed_up = len(state.tally.profiled)
        case Advice():
            _asked_round(state, record).advice = record
        case TrialStarted():
            _open_attempt(state, record).is_started = True
        case TrialFinished():
            _check_report(state, record)
            _open_attempt(state, record).finished = record
            state.finished_attempts.append(record)
            state.tally.ended(state.trials[record.trial], record)
            if record.report is not None and record.report.profile is not None and record.failure is None:
                state.unprojected.append(state.trials[record.trial])


def _apply_decision(state: RunState, decision: Decision) -> None:
    match decision:
        case EnterPhase():
            state.phase, state.phase_reason = decision.phase, decision.reason
        case StartTrial():
            _begin_attempt(state, decision)
        case Judge():
            _add_proposal(state, decision)
        case AskAdvisor():
            state.asked[decision.round] = AskedRound(decision)
        case StopTrial():
            _open_attempt(state, decision).is_stopping = True
        case Finish():
            state.finish = decision


def _begin_attempt(state: RunState, start: StartTrial) -> None:
    if start.attempt == 1:
        trial = state.trials[start.trial] = Trial(start, place=len(state.proposals))
        (state.profiles if start.kind == "profile" else state.measurements).append(trial)
        _add_proposal(state, start)
    elif start.trial not in state.trials:
        raise LedgerError(f"attempt {start.attempt} of {start.trial} comes before its first")
    trial = state.trials[start.trial]
    trial.attempts.append(Attempt(start.attempt, start.reserved_gpu_seconds))
    state.tally.attempted(trial)


def _is_beyond_following_up(decision: Decision) -> bool:
    """Tell whether something is only decided once every profile has told what it says about its neighbours."""
    match decision:
        case StartTrial():
            return decision.attempt == 1 and decision.origin.phase == "explore"
        case Judge():
            return decision.origin.proposed_by == "llm"
        case EnterPhase():
            return decision.phase == "validate"
        case _:
            return isinstance(decision, AskAdvisor)


def _reopen_if_raised(state: RunState, wanted: PlannerSettings) -> None:
    """Let a finished run go on when its budget grows: its phases skip what is done. A stopped one never reopens."""
    may_reopen = state.finish is not None and state.finish.reason != "Stopped"
    if may_reopen and not wanted.stop and state.settings and wanted.budget.exceeds(state.settings.budget):
        state.finish = None
        state.phase = "seed" if state.trials else None


def _add_proposal(state: RunState, proposal: Proposal) -> None:
    name = proposal.trial if isinstance(proposal, StartTrial) else proposal.reused_trial
    if name and name not in state.trials:
        raise LedgerError(f"a proposal reuses the profile of {name}, which was not started before")
    state.tally.proposed(proposal, state.trials[name] if name else None, len(state.proposals))
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
    expected = TrialIdentity.of(state.header.run_uid, record.trial, record.attempt, trial.kind, trial.config)
    if record.report.identity != expected:
        raise LedgerError(f"the report of {record.trial}, attempt {record.attempt}, belongs to another trial")


def _asked_round(state: RunState, record: Advice) -> AskedRound:
    asked = state.asked.get(record.round)
    if asked is None or asked.advice is not None:
        raise LedgerError(f"an answer to round {record.round}, which does not wait for one")
    return asked


def _place(trial: Trial) -> int:
    return trial.place
