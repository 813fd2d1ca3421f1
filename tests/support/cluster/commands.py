"""Running a program to its end, or starting one that dies with the tests: called by everything that runs programs.

`die_with_parent` is why a killed pytest leaves no API server behind: the kernel sends each child the signal, so it
works for SIGKILL too. It is bound to the *thread* that starts the program: start long-lived ones from the main thread.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.support.cluster.errors import HarnessError, MissingPart

PR_SET_PDEATHSIG = 1
SHOWN_OF_OUTPUT = 3000
# Looked up before any fork: a child of a threaded process must not import or load anything.
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent() -> Callable[[], None]:
    """Return a `preexec_fn` that ties the child's life to this process (on Linux; elsewhere it does nothing)."""
    parent = os.getpid()

    def tie() -> None:
        if _LIBC is None:
            return
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died between fork and prctl
            os._exit(1)

    return tie


def need_program(name: str, how: str) -> str:
    """Return the path of a program, or say how to get it."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/local/sbin")
    if found is None:
        raise MissingPart(f"{name} is not installed: {how}")
    return found


def run(
    *argv: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
    timeout: float = 600,
) -> str:
    """Run a program to its end and return its standard output; fail with the end of what it said."""
    done = subprocess.run(
        [str(word) for word in argv],
        env={**os.environ, **(env or {})},
        cwd=cwd,
        input=stdin,
        text=True,
        capture_output=True,
        timeout=timeout,
        check=False,
        preexec_fn=die_with_parent(),
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-SHOWN_OF_OUTPUT:]
        raise HarnessError(f"{' '.join(map(str, argv[:3]))} … exited with {done.returncode}:\n{said}")
    return done.stdout


def succeeds(*argv: str | Path, timeout: float = 60) -> bool:
    """Tell whether a program runs and exits with zero; for clean-up steps and probes, where no is an answer."""
    try:
        run(*argv, timeout=timeout)
    except (HarnessError, OSError, subprocess.TimeoutExpired):
        return False
    return True
