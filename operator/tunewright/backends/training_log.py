"""What Megatron-LM and Primus print while they train, read back: iterations, and why a run failed. Pure.

One line an iteration, fields separated by `|`: `iteration  N/ M`, `elapsed time per iteration (ms): x` (Primus adds
`/average`), `lm loss: x`, and on Primus the memory of the fullest rank, `rank-R rocm max mem usage/usage_ratio: aGB/b%`
with GB meaning GiB. Used by the trial program's Primus runner.
"""

import re
from dataclasses import dataclass

from tunewright.trial_protocol.report import FailureClass
from tunewright.units import GIB

_ITERATION = re.compile(r"\biteration\s+(\d+)\s*/\s*(\d+)")
_ELAPSED = re.compile(r"elapsed time per iteration \(ms\):\s*([\d.]+)")
_LOSS = re.compile(r"\blm loss:\s*([-+.\deE]+|nan|inf)", re.IGNORECASE)
_MEMORY = re.compile(r"(?:rocm max|hip|rocm) mem usage[^:|]*:\s*([\d.]+)\s*GB", re.IGNORECASE)

_SIGNS: tuple[tuple[FailureClass, re.Pattern[str]], ...] = (
    (
        "DeviceOutOfMemory",
        re.compile(r"OutOfMemoryError|(HIP|CUDA) out of memory|hipErrorOutOfMemory|HSA_STATUS_ERROR_OUT_OF_RESOURCES"),
    ),
    ("NaNLoss", re.compile(r"found NaN in (local )?(forward )?loss|number of nan iterations:\s*[1-9]", re.IGNORECASE)),
    ("HostOOMKilled", re.compile(r"oom-kill|Signal 9 \(SIGKILL\)|exitcode\s*:\s*-9")),
    ("RcclFailure", re.compile(r"\b(NCCL|RCCL)\b.*(error|timeout|abort)|Watchdog caught collective", re.IGNORECASE)),
    ("Unsupported", re.compile(r"NotImplementedError|unrecognized arguments|AssertionError|Unknown override")),
    ("DeviceMismatch", re.compile(r"No HIP GPUs are available|invalid device ordinal|no kernel image is available")),
)
"""In the order in which they explain a failure: an out-of-memory error on one rank makes collectives fail on others."""


@dataclass(frozen=True)
class Iteration:
    """One training step as it was printed. Absent figures are None."""

    number: int
    seconds: float
    loss: float | None
    memory_bytes: int | None


def iterations(log: str) -> tuple[Iteration, ...]:
    """Return the iterations of a log in order, the last line of each number; lines without a time are skipped."""
    found = {iteration.number: iteration for line in log.splitlines() if (iteration := _iteration(line)) is not None}
    return tuple(found[number] for number in sorted(found))


def _iteration(line: str) -> Iteration | None:
    number, elapsed = _ITERATION.search(line), _ELAPSED.search(line)
    if number is None or elapsed is None:
        return None
    loss, memory = _LOSS.search(line), [float(value) for value in _MEMORY.findall(line)]
    return Iteration(
        number=int(number[1]),
        seconds=float(elapsed[1]) / 1e3,
        loss=float(loss[1]) if loss else None,
        memory_bytes=int(max(memory) * GIB) if memory else None,
    )


def failure_of(log: str, exit_code: int) -> tuple[FailureClass, str] | None:
    """Return why a run failed and the line that says so; None where it ended well. Exit code 0 alone is no success."""
    for failure, sign in _SIGNS:
        line = next((line for line in log.splitlines() if sign.search(line)), None)
        if line is not None and (exit_code != 0 or failure == "NaNLoss"):
            return failure, " ".join(line.split())[:300]
    if exit_code in (-9, 137):
        return "HostOOMKilled", "killed (SIGKILL): most likely the host or the container ran out of memory"
    if exit_code != 0:
        last = next((line for line in reversed(log.splitlines()) if line.strip()), "no output")
        return "CrashInTraining", f"exit code {exit_code}: {' '.join(last.split())[:260]}"
    return None
