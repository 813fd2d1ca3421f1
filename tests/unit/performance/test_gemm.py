"""The roofline of matrix products: waves over compute units, depth, memory and launch floors, 8-bit operands."""

import numpy as np
import pytest

from tests.unit.performance.builders import a_batch, an_accelerator
from tunewright.performance.constants import Efficiency
from tunewright.performance.gemm import Device, peak_flops_per_second


def a_device(precision: str = "bf16", **changes: object) -> Device:
    return Device(an_accelerator(**changes), Efficiency(), a_batch({"precision": precision}), eager=False)


def seconds(device: Device, rows: float, columns: float, depth: float, groups: float = 1.0) -> float:
    return float(device.product_seconds(np.array([rows]), np.array([columns]), np.array([depth]), groups)[0])


def speed(device: Device, rows: float, columns: float, depth: float, groups: float = 1.0) -> float:
    return 2 * rows * columns * depth * groups / seconds(device, rows, columns, depth, groups)


def test_a_large_product_nears_the_best_measured_speed_without_passing_it() -> None:
    best = 2.5e15 * 0.6
    assert 0.7 * best < speed(a_device(), 16384, 16384, 16384) < best


def test_one_tile_more_than_the_compute_units_costs_a_second_wave() -> None:
    full = speed(a_device(), 4096, 4096, 8192)
    over = speed(a_device(), 4096 + 256, 4096, 8192)
    assert over < 0.85 * full


def test_depth_and_rows_per_group_raise_the_speed() -> None:
    assert speed(a_device(), 4096, 4096, 512) < speed(a_device(), 4096, 4096, 8192)
    assert speed(a_device(), 32, 4096, 4096, groups=64) < 0.6 * speed(a_device(), 1024, 4096, 4096, groups=64)


def test_a_thin_product_is_bound_by_memory() -> None:
    assert seconds(a_device(), 1, 16384, 16384) >= 2 * 16384**2 / (8e12 * 0.8)


def test_nothing_to_multiply_takes_no_time() -> None:
    assert seconds(a_device(), 0, 4096, 4096) == 0.0


def test_eight_bits_speed_up_large_linear_layers_by_less_than_two() -> None:
    ratio = speed(a_device("fp8"), 16384, 16384, 16384) / speed(a_device(), 16384, 16384, 16384)
    assert 1.4 < ratio < 2.0


def test_wide_products_stay_out_of_eight_bits() -> None:
    sizes = (np.array([4096.0]),) * 3
    assert a_device("fp8").product_seconds(*sizes, wide=True) == a_device().product_seconds(*sizes)


@pytest.mark.parametrize(("precision", "peak"), [("bf16", 2.5e15), ("fp8", 5e15), ("mxfp8", 5e15), ("fp32", 1.25e15)])
def test_a_missing_precision_takes_the_nearest_one(precision: str, peak: float) -> None:
    assert peak_flops_per_second(an_accelerator(), precision) == peak  # type: ignore[arg-type]


def test_a_device_without_fp32_figure_has_half_of_bf16() -> None:
    assert peak_flops_per_second(an_accelerator(peak_flops_per_second={"bf16": 8.0}), "fp32") == 4.0


def test_a_cpu_has_no_waves_of_tiles() -> None:
    device = a_device(vendor="cpu", compute_units=1, launch_overhead_seconds=0.0, hbm_bytes_per_second=1e18)
    assert speed(device, 100, 100, 100) == pytest.approx(2.5e15 * 0.6 * Efficiency().sustained_matmul)
