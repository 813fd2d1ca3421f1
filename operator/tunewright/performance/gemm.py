"""Seconds of matrix products and of memory-bound kernels on one device: a roofline with a shape-dependent efficiency.

Called by `modules`. All sizes are arrays with one entry a row and may be fractional (balanced shares).
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, FloatArray
from tunewright.domain.hardware import Accelerator
from tunewright.domain.training_config import PRECISIONS, Precision
from tunewright.performance.constants import TILES, Efficiency
from tunewright.performance.software import Software

_FALLBACKS: dict[Precision, tuple[Precision, ...]] = {
    "bf16": ("bf16",),
    "fp8": ("fp8", "bf16"),
    "mxfp8": ("mxfp8", "fp8", "bf16"),
    "fp32": ("fp32",),
}
_EIGHT_BIT = ("fp8", "mxfp8")


def peak_flops_per_second(accelerator: Accelerator, precision: Precision) -> float:
    """Return the dense peak of a precision, or of the nearest wider one that the catalog has."""
    peaks = accelerator.peak_flops_per_second
    for name in _FALLBACKS[precision]:
        if name in peaks:
            return peaks[name]
    return peaks["bf16"] / 2 if "bf16" in peaks else max(peaks.values())


@dataclass(frozen=True, eq=False)
class Device:
    """One accelerator at work on a batch of configurations."""

    accelerator: Accelerator
    efficiency: Efficiency
    batch: ConfigBatch
    eager: bool
    """Unfused torch kernels instead of Transformer Engine's."""
    software: Software = field(default_factory=Software)

    @cached_property
    def matmul_rate(self) -> FloatArray:
        """Best sustained FLOP/s of a large linear layer, per row, in the row's precision."""
        rates = np.array([self._rate(precision) for precision in PRECISIONS])
        by_row: FloatArray = rates[self.batch.precision]
        return by_row

    @cached_property
    def wide_matmul_rate(self) -> FloatArray:
        """The same for what stays out of 8 bits: attention core, router, head."""
        wide = np.array([self._rate("fp32" if name == "fp32" else "bf16") for name in PRECISIONS])
        by_row: FloatArray = wide[self.batch.precision]
        return by_row

    @cached_property
    def element_bytes(self) -> FloatArray:
        """Bytes of an activation element, per row."""
        return np.where(self.batch.is_("precision", "fp32"), 4.0, 2.0)

    @cached_property
    def eight_bit(self) -> FloatArray:
        """1 where linear layers run in 8 bits, else 0."""
        return self.batch.is_("precision", *_EIGHT_BIT).astype(np.float64)

    def _rate(self, precision: Precision) -> float:
        share = self.accelerator.matmul_efficiency * self.efficiency.sustained_matmul
        if precision in _EIGHT_BIT:
            share *= self.efficiency.fp8_matmul
        return peak_flops_per_second(self.accelerator, precision) * share

    def traffic_seconds(self, size_bytes: FloatArray) -> FloatArray:
        """Return the time to move bytes to and from device memory."""
        rate = self.accelerator.hbm_bytes_per_second * self.accelerator.hbm_efficiency * self.efficiency.hbm_bandwidth
        return size_bytes / rate

    def product_seconds(
        self,
        rows: FloatArray,
        columns: FloatArray,
        depth: FloatArray,
        groups: float | FloatArray = 1.0,
        *,
        wide: bool = False,
        cast: float = 1.0,
    ) -> FloatArray:
        """Return the time of `groups` products rows×depth by depth×columns, one launch.

        `cast` multiplies the cost of casting operands to 8 bits. `wide` keeps bf16 (or fp32) operands where the row's
        precision has 8 bits.
        """
        rate = self.wide_matmul_rate if wide else self.matmul_rate
        speed = self._shape_speed(rows, columns, depth, groups)
        seconds = 2.0 * rows * columns * depth * groups / np.maximum(rate * speed, 1.0)
        operands = self.element_bytes - (0.0 if wide else 1.0) * self.eight_bit
        moved = groups * (operands * depth * (rows + columns) + self.element_bytes * rows * columns)
        # Operands are cast to 8 bits once, mostly inside the norm or activation before: written with a transposed copy.
        moved_to_cast = cast * (0.0 if wide else 2.0) * self.eight_bit * groups * rows * depth
        busy = np.maximum(seconds, self.traffic_seconds(moved)) + self.traffic_seconds(moved_to_cast)
        launched: FloatArray = np.where(
            rows * columns * depth > 0, busy + self.accelerator.launch_overhead_seconds, 0.0
        )
        return launched

    def _shape_speed(
        self, rows: FloatArray, columns: FloatArray, depth: FloatArray, groups: float | FloatArray
    ) -> float | FloatArray:
        if self.accelerator.vendor == "cpu":
            return 1.0  # no waves of tiles: small products run at full speed there
        return self._tile_speed(rows, columns, groups) * depth / (depth + self.efficiency.depth_half)

    def _tile_speed(self, rows: FloatArray, columns: FloatArray, groups: float | FloatArray) -> FloatArray:
        """Share of the device that the best tile keeps busy: waves over the compute units, edges of tiles."""
        units = self.accelerator.compute_units
        best = np.full(np.shape(rows * columns), 1e-9)
        for tile_rows, tile_columns, speed in TILES:
            tiles = np.ceil(rows / tile_rows) * np.ceil(columns / tile_columns) * groups
            capacity = np.ceil(np.maximum(tiles, 1.0) / units) * units * tile_rows * tile_columns
            best = np.maximum(best, speed * rows * columns * groups / capacity)
        return best
