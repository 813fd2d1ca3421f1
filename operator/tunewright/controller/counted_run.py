"""A run's handle that counts and logs what is written into its ledger. Made by `wiring`.

What is in the ledger is there once, however often an operator was killed: the metrics count exactly that.
"""

import logging
import time
from dataclasses import dataclass, field

from tunewright.controller.metrics import OperatorMetrics, result_of
from tunewright.engine.run_handle import RunHandle
from tunewright.errors import printable
from tunewright.planner.records import Advice, Record, Round, TrialFinished, TrialStarted
from tunewright.planner.snapshot import Snapshot
from tunewright.planner.trial import failure_of

_LONGEST_MESSAGE = 500
_log = logging.getLogger(__name__)


@dataclass
class CountedRun(RunHandle):
    """A `RunHandle` that tells `metrics`."""

    metrics: OperatorMetrics = field(default_factory=OperatorMetrics)
    _looked_at: float = field(default_factory=time.perf_counter)

    async def snapshot(self) -> Snapshot:
        """Return the run as the planner sees it. A decision takes from here until it is to be written."""
        self._looked_at = time.perf_counter()
        return await super().snapshot()

    async def append(self, *records: Record) -> None:
        """Write records; count and log them once they are there."""
        decided_in = time.perf_counter() - self._looked_at
        await super().append(*records)
        for record in records:
            self._tell(record, decided_in)

    def _tell(self, record: Record, decided_in: float) -> None:
        match record:
            case Round():
                self.metrics.observe_decision(decided_in)
            case Advice():
                self.metrics.count_advice(record)
                if record.outcome != "answered":
                    what = printable(record.message, _LONGEST_MESSAGE)
                    _log.warning("%s: round %d of the LLM %s: %s", self.header.run, record.round, record.outcome, what)
            case TrialStarted():
                self._log_attempt(record, "is started")
            case TrialFinished():
                self.metrics.count_attempt(self.state.trials[record.trial].kind, record)
                failure = failure_of(record)
                self._log_attempt(record, f"{result_of(failure)}{f', {failure}' if failure else ''}")

    def _log_attempt(self, record: TrialStarted | TrialFinished, what: str) -> None:
        words = (self.header.run, record.trial, record.attempt, what)
        _log.info("%s: %s, attempt %d: %s", *words, extra={"trial": record.trial})
