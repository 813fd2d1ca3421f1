"""Tells a person what happens while a run goes on: one line for each decision and each result, as it is recorded."""

from collections.abc import Iterator, Sequence

from tunewright.cli.console import messages
from tunewright.domain.axes import describe
from tunewright.planner.decisions import AskAdvisor, Decision, EnterPhase, Finish, Judge, StartTrial, StopTrial
from tunewright.planner.records import Advice, Record, Round, SettingsChanged, TrialFinished
from tunewright.ports import Ledger
from tunewright.units import format_seconds


class NarratedLedger:
    """A ledger that also prints what is appended, on standard error. Implements `ports.Ledger`."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def read(self) -> Sequence[Record]:
        """Return all records in order."""
        return await self._ledger.read()

    async def append(self, records: Sequence[Record]) -> None:
        """Add records, then tell them."""
        await self._ledger.append(records)
        for record in records:
            for line in lines_of(record):
                messages.print(line, soft_wrap=True, markup=False)


def lines_of(record: Record) -> Iterator[str]:
    """Yield what a person wants to know of a record."""
    match record:
        case Round():
            for decision in record.decisions:
                yield _decision_line(decision)
        case SettingsChanged():
            yield "the file's settings changed: from here on the new ones hold"
        case TrialFinished():
            yield f"  {record.trial}  {_outcome(record)}"
        case Advice():
            told = f"{len(record.proposals)} proposals" if record.outcome == "answered" else record.message
            yield f"  LLM    {record.outcome}: {told}"


def _decision_line(decision: Decision) -> str:
    match decision:
        case EnterPhase():
            return f"{decision.phase}: {decision.reason}"
        case StartTrial():
            again = f", attempt {decision.attempt}" if decision.attempt > 1 else ""
            subject = describe(decision.config)
            reason = decision.origin.reason.removeprefix(f"{subject}: ")  # a surrogate's names it again
            return f"  {decision.trial}  {decision.kind} {subject}{again}: {reason}"
        case Judge():
            subject = describe(decision.config) if decision.config else "a proposal"
            return f"  {decision.verdict:<9} {subject}: {decision.message}"
        case AskAdvisor():
            return f"  LLM    asked for {decision.proposals} proposals"
        case StopTrial():
            return f"  {decision.trial}  stopped: {decision.reason}"
        case Finish():
            return f"{decision.reason}: {decision.message}"


def _outcome(record: TrialFinished) -> str:
    report = record.report
    if report is None or report.failure:
        failure = record.failure or (report.failure if report else None) or "ResultMissing"
        return f"failed, {failure}: {record.message or (report.message if report else '')}"
    took = format_seconds(report.wall_seconds)
    label = "simulated, " if report.simulated else ""
    if report.measured is not None:
        steps = report.measured.stopped_early
        early = f", stopped early after {steps} steps: clearly slower than the fastest" if steps else ""
        return f"{label}measured {report.measured.tokens_per_second_per_gpu:,.0f} tokens/s/GPU in {took}{early}"
    return f"{label}profiled in {took}"
