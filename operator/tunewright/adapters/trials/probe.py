"""Measures this machine as a `cpu` preset at first use and remembers the result. Called by the CLI."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from tunewright.errors import TuningError

TIMEOUT_SECONDS = 120
FIELDS = frozenset(
    {
        "compute_units",
        "peak_flops_per_second",
        "matmul_efficiency",
        "hbm_capacity_bytes",
        "hbm_bytes_per_second",
        "hbm_efficiency",
        "launch_overhead_seconds",
        "scale_up_bytes_per_second",
        "scale_up_latency_seconds",
        "scale_up_efficiency",
    }
)
"""Fields of `domain.hardware.Accelerator` that the trial program's --probe measures."""


def probe_cpu(cache_file: Path, python: str = sys.executable) -> dict[str, Any]:
    """Return the measured fields of `Accelerator`, from `cache_file` if it was measured on this machine before.

    Raises `TuningError` with the remedy when the trial program cannot run here.
    """
    machine = f"{platform.node()}, {platform.machine()}, {os.cpu_count()} cores"
    cached = _cached(cache_file, machine)
    if cached is not None:
        return cached
    measured = _measured(python)
    try:
        cache_file.parent.mkdir(parents=True, exist_ok=True)
        cache_file.write_text(json.dumps({"machine": machine, "accelerator": measured}, indent=2), encoding="utf-8")
    except OSError as error:
        raise TuningError(f"the measured cpu preset cannot be kept in {cache_file}: {error}") from error
    return measured


def _cached(cache_file: Path, machine: str) -> dict[str, Any] | None:
    """Return what an earlier probe of this machine left, or None; an unreadable cache is measured anew."""
    try:
        document = json.loads(cache_file.read_text(encoding="utf-8"))
        found = document["accelerator"] if document["machine"] == machine else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, dict) and found.keys() == FIELDS else None


def _measured(python: str) -> dict[str, Any]:
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": ""}
    command = [python, "-m", "tunewright_trial", "--probe"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, env=environment)
        measured = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise TuningError(f"this machine cannot be measured ({error}): {_REMEDY}") from error
    if not isinstance(measured, dict) or measured.keys() != FIELDS:
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise TuningError(f"this machine cannot be measured ({reason}): {_REMEDY}")
    return measured


_REMEDY = "install torch for this Python, or choose another trial backend"
