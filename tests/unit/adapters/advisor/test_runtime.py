"""Importing: late, quiet, and without network or files."""

import os
import subprocess
import sys
from pathlib import Path

PROBE = """
import socket, sys

def refuse(*arguments):
    print("network", arguments[1:])
    raise OSError("no network in this test")

socket.socket.connect = refuse
socket.getaddrinfo = refuse
import tunewright.adapters.advisor
assert not {"dspy", "litellm"} & set(sys.modules), "imported before they are needed"
from tunewright.adapters.advisor import runtime
runtime.load()
import litellm
assert {"dspy", "litellm"} <= set(sys.modules)
assert (litellm.telemetry, litellm.suppress_debug_info) == (False, True)
"""


def test_the_libraries_come_late_quietly_and_offline(tmp_path: Path) -> None:
    unset = {name: value for name, value in os.environ.items() if not name.startswith(("LITELLM_", "DSPY_"))}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROBE],
        env={**unset, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []
