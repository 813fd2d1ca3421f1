"""Whether an estimate fits the device: the verdict that filters candidates before a GPU is used.

Filtered: the predicted allocation of the worst rank exceeds the usable HBM less the safety margin; no allocator can
help. Tight: it fits, but either lies within another such margin of that limit, or the device-level prediction
(allocator slack, driver, collectives) exceeds the HBM, so that the run may stall in allocator retries or fail.
"""

from dataclasses import dataclass

from tunewright.domain.config_batch import BoolArray, FloatArray
from tunewright.domain.problem import TuningProblem
from tunewright.memory.estimate import ALLOCATED_KINDS, MemoryEstimate
from tunewright.units import format_gib

REMEDIES = {
    "weights": "raise tensor, pipeline or expert parallel size",
    "gradients": "raise tensor, pipeline or expert parallel size",
    "optimizer": "use the distributed optimizer, more nodes, or more tensor, pipeline or expert parallel ranks",
    "activations": "lower the micro batch, recompute (selective, then full), or raise tensor or context parallel size",
    "logits": "use the fused loss, lower the micro batch, or raise tensor or context parallel size",
    "communication": "lower the micro batch or the sync-free stage",
    "workspace": "lower the micro batch or raise tensor parallel size",
}
"""What to change, by the largest kind of memory."""


@dataclass(frozen=True)
class FitVerdict:
    """Per row: `fits` or `filtered`, and of those that fit, `tight`."""

    fits: BoolArray
    tight: BoolArray
    limit_bytes: float
    """Usable HBM less the safety margin: what an allocation may reach."""
    capacity_bytes: int
    estimate: MemoryEstimate

    @property
    def filtered(self) -> BoolArray:
        """Rows that cannot fit."""
        return ~self.fits

    def message(self, row: int) -> str:
        """Say in one sentence whether a row fits, what its worst rank holds, and what to change if it does not."""
        rank = int(self.estimate.worst_rank[row])
        kinds = self.estimate.kinds_of(row, rank)
        needs = f"rank {rank} of the pipeline allocates {format_gib(float(self.estimate.allocated_bytes[row]))}"
        shown = ", ".join(f"{kind} {format_gib(kinds[kind])}" for kind in ALLOCATED_KINDS if kinds[kind] > 0)
        limit = f"{format_gib(self.limit_bytes)} of {format_gib(self.capacity_bytes)}"
        if not self.fits[row]:
            return f"does not fit: {needs} ({shown}), more than {limit}; {self._remedy(kinds)}"
        device = format_gib(float(self.estimate.device_bytes[row]))
        verdict = "fits tightly" if self.tight[row] else "fits"
        return f"{verdict}: {needs} ({shown}), within {limit}; {device} used on the device"

    @staticmethod
    def _remedy(kinds: dict[str, float]) -> str:
        return REMEDIES[max(REMEDIES, key=lambda kind: kinds[kind])]


def fit(problem: TuningProblem, estimate: MemoryEstimate) -> FitVerdict:
    """Compare an estimate with the accelerator's usable memory and the problem's safety margin."""
    capacity = problem.cluster.accelerator.hbm_capacity_bytes
    fits, tight = fits_and_tight(problem, estimate.allocated_bytes, estimate.device_bytes)
    return FitVerdict(fits, tight, _limit(problem), capacity, estimate)


def fits_and_tight(
    problem: TuningProblem, allocated_bytes: FloatArray, device_bytes: FloatArray
) -> tuple[BoolArray, BoolArray]:
    """Return which rows fit, and which of those are tight, from the totals of their worst ranks."""
    limit, capacity = _limit(problem), problem.cluster.accelerator.hbm_capacity_bytes
    fits = allocated_bytes <= limit
    near = (allocated_bytes > 2 * limit - capacity) | (device_bytes > capacity)
    return fits, fits & near


def _limit(problem: TuningProblem) -> float:
    return problem.cluster.accelerator.hbm_capacity_bytes * (1 - problem.memory_safety_margin_percent / 100)
