"""The highest memory that a rank used since a moment. Used by `measure` and `profile`."""

from pathlib import Path

import torch

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


class PeakMemory:
    """Counts from its construction, or from the last `restart`.

    On GPUs it is the allocator's figure. A CPU has no allocator that counts: there it is what the process's resident
    memory grew by at most (Linux; elsewhere 0).
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._baseline = 0 if device.type == "cuda" else _resident("VmRSS")
        self.restart()

    def restart(self) -> None:
        """Forget the peak so far."""
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
            return
        try:
            _RESET.write_text(_RESET_PEAK)
        except OSError:
            pass  # not Linux, or not permitted: the peak is then that of the whole process

    @property
    def bytes(self) -> int:
        """The peak."""
        if self._device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self._device))
        return max(_resident("VmHWM") - self._baseline, 0)


def _resident(field: str) -> int:
    """Return a figure of /proc/self/status in bytes, 0 where there is none."""
    try:
        lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0
    found = next((line for line in lines if line.startswith(f"{field}:")), "")
    return 1024 * int(found.split()[1]) if found else 0
