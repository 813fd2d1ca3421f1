"""--probe: measures this machine as a `cpu` preset. Called by `entry`; the CLI keeps the result.

One rank of a CPU trial computes on one thread, so one "device" is one core with its share of the memory.
"""

import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tunewright_trial.host_memory import memory_bytes
from tunewright_trial.place import Place
from tunewright_trial.profile_overheads import launch_overhead_seconds
from tunewright_trial.rendezvous import joined

MATMUL_SIZE = 512
COPY_BYTES = 2**26
MESSAGE_BYTES = 2**23
REPETITIONS = 5
_CPU = torch.device("cpu")


def probe() -> dict[str, Any]:
    """Return the measured fields of `Accelerator` for one core of this machine; efficiencies are 1 by definition."""
    torch.set_num_threads(1)
    bandwidth, latency = _loopback()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "compute_units": 1,
        "peak_flops_per_second": {"fp32": _matmul_rate(torch.float32), "bf16": _matmul_rate(torch.bfloat16)},
        "matmul_efficiency": 1.0,
        "hbm_capacity_bytes": memory_bytes() // cores,
        "hbm_bytes_per_second": _copy_rate(),
        "hbm_efficiency": 1.0,
        "launch_overhead_seconds": launch_overhead_seconds(_CPU),
        "scale_up_bytes_per_second": bandwidth,
        "scale_up_latency_seconds": latency,
        "scale_up_efficiency": 1.0,
    }


def _median_seconds(call: Callable[[], object]) -> float:
    call()
    samples = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        call()
        samples.append(time.perf_counter() - start)
    return statistics.median(samples)


def _matmul_rate(dtype: torch.dtype) -> float:
    """Return FLOP/s of a square product."""
    left = torch.ones((MATMUL_SIZE, MATMUL_SIZE), dtype=dtype)
    return round(2 * MATMUL_SIZE**3 / _median_seconds(lambda: left @ left))


def _copy_rate() -> float:
    """Return bytes per second of a copy larger than the caches, read and written bytes together."""
    source = torch.ones(COPY_BYTES // 4)
    target = torch.empty_like(source)
    return round(2 * COPY_BYTES / _median_seconds(lambda: target.copy_(source)))


def _loopback() -> tuple[float, float]:
    """Return bytes per second and seconds of latency between two gloo processes of this machine."""
    with tempfile.TemporaryDirectory(prefix="tunewright-") as folder:
        places = [Place(rank, 2, 0, 1, str(Path(folder) / "meeting"), 60.0) for rank in range(2)]
        partner = multiprocessing.get_context("fork").Process(target=_ping_pong, args=(places[1],), daemon=True)
        partner.start()
        try:
            large, small = _ping_pong(places[0])
        finally:
            partner.join(10)
            partner.kill()
    return round(MESSAGE_BYTES / large), float(f"{small:.4g}")


def _ping_pong(place: Place) -> tuple[float, float]:
    """Bounce a large and a small message between two ranks; return the seconds of one way for each."""
    with joined(place, _CPU):
        return _one_way(place.rank, MESSAGE_BYTES), _one_way(place.rank, 4)


def _one_way(rank: int, size: int) -> float:
    buffer = torch.zeros(size // 4)

    def bounce() -> None:
        steps = (dist.send, dist.recv) if rank == 0 else (dist.recv, dist.send)
        for step in steps:
            step(buffer, 1 - rank)

    return _median_seconds(bounce) / 2
