"""What is added up while records are folded: a question about a long run then costs what is new in it, not the run.

Part of `RunState`, which asks it; changed by `state.fold` alone.
"""

from collections import Counter
from dataclasses import dataclass, field

from tunewright.domain.training_config import TrainingConfig
from tunewright.planner.decisions import Judge, Origin, ProposedBy, StartTrial, Verdict
from tunewright.planner.records import TrialFinished
from tunewright.planner.trial import Trial
from tunewright.trial_protocol.report import ENDED_BY_DRIVER, Runner, TrialReport


@dataclass(frozen=True)
class Source:
    """The trial that a configuration is known from, who proposed it, and whether it reuses a profile."""

    place: int
    """Of the proposal among those of the run."""
    config: TrainingConfig
    trial: Trial
    origin: Origin
    reused: bool


@dataclass
class Tally:
    """Trials by what became of them, sums, and where each configuration is known from."""

    running: dict[str, Trial] = field(default_factory=dict)
    failed: dict[str, Trial] = field(default_factory=dict)
    """By name: those whose last attempt ended with a failure."""
    failed_ends: list[TrialFinished] = field(default_factory=list)
    """Attempts that failed, in the order of their ends; what whoever drives the run ended is no failure."""
    by_key: dict[str, Trial] = field(default_factory=dict)
    """By profile key: the profile that answers for it, else the latest try at it."""
    profiled: list[Trial] = field(default_factory=list)
    """Trials with a profile, in the order of their ends."""
    followed_up: int = 0
    """How many of `profiled` have told all that they say about their neighbours."""
    seen: dict[TrainingConfig, str] = field(default_factory=dict)
    """What became of each configuration that has a trial or a projection."""
    sources: dict[TrainingConfig, Source] = field(default_factory=dict)
    evidence: list[Source] = field(default_factory=list)
    """The same in the order in which they became known. Only grows."""
    revision: int = 0
    """Counts what changed in another way than by new `evidence`."""
    verdicts: Counter[tuple[Verdict, ProposedBy]] = field(default_factory=Counter)
    ended_gpu_seconds: float = 0.0
    ended_profile_gpu_seconds: float = 0.0
    queued_seconds: float = 0.0
    runner: Runner | None = None
    is_simulated: bool = False

    def attempted(self, trial: Trial) -> None:
        """Count an attempt that begins."""
        self.running[trial.name] = trial
        self.failed.pop(trial.name, None)

    def proposed(self, proposal: StartTrial | Judge, trial: Trial | None, place: int) -> None:
        """Count a proposal; `trial` is the one that is started, or whose profile is reused."""
        if isinstance(proposal, StartTrial):
            self.seen.setdefault(proposal.config, f"tried by {proposal.trial}")
            known = self.by_key.get(proposal.profile_key)
            if trial is not None and proposal.kind == "profile" and (known is None or known.report is None):
                self.by_key[proposal.profile_key] = trial
            return
        self.verdicts[proposal.verdict, proposal.origin.proposed_by] += 1
        if trial is not None and proposal.config is not None:
            self.seen.setdefault(proposal.config, f"projected from {proposal.reused_trial}")
            self._know(Source(place, proposal.config, trial, proposal.origin, reused=True))

    def ended(self, trial: Trial, finished: TrialFinished) -> None:
        """Count an attempt that ended."""
        self.running.pop(trial.name, None)
        self.ended_gpu_seconds += finished.gpu_seconds
        self.queued_seconds += finished.queued_seconds
        if trial.kind == "profile":
            self.ended_profile_gpu_seconds += finished.gpu_seconds
        if finished.report is not None and finished.report.runner and not finished.recorded_from:
            self.runner = finished.report.runner
        if trial.failure is not None:
            self.failed[trial.name] = trial
            if trial.failure not in ENDED_BY_DRIVER:
                self.failed_ends.append(finished)
        elif finished.report is not None:
            self._succeeded(trial, finished.report)

    def _succeeded(self, trial: Trial, report: TrialReport) -> None:
        self.is_simulated |= report.simulated
        self._know(Source(trial.place, trial.config, trial, trial.origin, reused=False))
        if trial.kind == "measure":
            self.revision += 1  # it says something about every projection
        elif report.profile is not None:
            self.profiled.append(trial)
            known = self.by_key.get(trial.start.profile_key)
            if known is None or known.report is None:
                self.by_key[trial.start.profile_key] = trial

    def _know(self, source: Source) -> None:
        """Remember where a configuration is known from: of several proposals the first."""
        earlier = self.sources.get(source.config)
        if earlier is None:
            self.evidence.append(source)
        elif source.place < earlier.place:
            self.revision += 1
        else:
            return
        self.sources[source.config] = source
