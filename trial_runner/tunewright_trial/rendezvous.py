"""How the ranks of a trial find each other. Called by `rank`.

On one node by a file, which needs no port; on several nodes by torchrun's variables MASTER_ADDR and MASTER_PORT.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from tunewright_trial.place import Place


@contextmanager
def joined(place: Place, device: torch.device) -> Iterator[None]:
    """Join the job of `place` for the duration of the block: NCCL or RCCL on GPUs, gloo on the CPU."""
    if place.nodes == 1:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # one machine: no name resolution needed
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        init_method=f"file://{place.meeting_file}" if place.nodes == 1 else "env://",
        rank=place.rank,
        world_size=place.world,
        timeout=timedelta(seconds=place.timeout_seconds),
        device_id=device if device.type == "cuda" else None,
    )
    try:
        yield
    finally:
        dist.destroy_process_group()
