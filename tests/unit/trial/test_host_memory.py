"""A CPU rank that asks for more than there is must hear so, even where the kernel grants everything."""

import subprocess
import sys

from tunewright_trial.host_memory import memory_bytes

ASK_BEYOND_THE_BOUND = """
import torch
from tunewright_trial.failures import classify
from tunewright_trial.host_memory import bound_memory
torch.empty(2**30, dtype=torch.uint8)  # granted: nothing touches it
used = int(next(line for line in open("/proc/self/status") if line.startswith("VmData")).split()[1]) * 1024
bound_memory(used + 2**28)
try:
    torch.empty(2**30, dtype=torch.uint8)
except RuntimeError as error:
    print(classify(error)[0])
"""


def test_memory_beyond_the_bound_is_out_of_memory_and_not_a_killed_process() -> None:
    done = subprocess.run([sys.executable, "-c", ASK_BEYOND_THE_BOUND], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("DeviceOutOfMemory", "")


def test_a_machine_has_memory() -> None:
    assert 2**28 < memory_bytes() < 2**50
