"""Profiles that another run's ledger answers, so that they are not taken again. Used by the operator.

Measurements are made anew: the whole job of this run is another experiment. Answers cost no accelerator time.
"""

from collections.abc import Sequence
from dataclasses import replace

from tunewright.adapters.trials.recorded import ClosableTrials, RecordedTrials
from tunewright.planner.records import Record, TrialFinished
from tunewright.planner.state import fold
from tunewright.planner.trial import Trial
from tunewright.ports import TrialObservation


class WarmStartTrials(RecordedTrials):
    """Implements `ports.Trials`: profiles from `recorded` where it has them, everything else on `inner`."""

    def __init__(self, recorded: Sequence[Record], inner: ClosableTrials) -> None:
        super().__init__(_profiles_alone(recorded), (), inner)

    async def observe(self) -> Sequence[TrialObservation]:
        """Return every attempt that was answered, as having cost nothing, or started."""
        return [replace(seen, gpu_seconds=0.0) if seen.recorded_from else seen for seen in await super().observe()]


def _profiles_alone(records: Sequence[Record]) -> list[Record]:
    """Leave out how measurements ended: a trial that has not ended answers nothing."""
    trials = fold(records).trials
    return [record for record in records if not isinstance(record, TrialFinished) or _is_profile(record, trials)]


def _is_profile(record: TrialFinished, trials: dict[str, Trial]) -> bool:
    return trials[record.trial].kind == "profile"
