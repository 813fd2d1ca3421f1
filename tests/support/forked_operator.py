"""The operator forked from a process that has imported it: a real process to kill, there in a third of the time.

Everything is imported and nothing has run when it is forked, so it is what `kopf run` would be at the same point. Tests
that kill an operator many times use it; `OperatorProcess` starts the command itself.
"""

import ctypes
import importlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess
from typing import Any

from tests.support.cluster.commands import PR_SET_PDEATHSIG
from tests.support.operator_process import OperatorProcess

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    ["pytest", "kopf.cli", "tunewright.controller", "matplotlib.figure", "matplotlib.backends.backend_svg", "jinja2"]
)
_GRACE_SECONDS = 60


class ForkedOperator(OperatorProcess):
    """An `OperatorProcess` in everything but how it starts, and in `constants` of its modules that a test sets."""

    def __init__(self, *process: Any, constants: Mapping[str, object] | None = None, **options: Any) -> None:
        super().__init__(*process, **options)
        self.constants = dict(constants or {})
        self.starts = 0
        self._forked: ForkServerProcess | None = None

    def start(self) -> "ForkedOperator":
        self.starts += 1
        what = (self._environment, str(self.log), self._arguments, self.constants)
        self._forked = _CONTEXT.Process(target=_serve, args=what, daemon=True)
        self._forked.start()
        return self

    @property
    def is_running(self) -> bool:
        return self._forked is not None and self._forked.is_alive()

    @property
    def has_started(self) -> bool:
        """Whether `start` was called and neither `kill` nor `stop` was."""
        return self._forked is not None

    def die(self) -> None:
        """Kill it from any thread; nobody waits, and whoever looks whether it runs starts it again."""
        if self._forked is not None and self._forked.pid is not None and self._forked.is_alive():
            os.kill(self._forked.pid, signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        if self._forked is None:
            return 0
        process, self._forked = self._forked, None
        if process.is_alive() and process.pid is not None:
            os.kill(process.pid, number)
        process.join(_GRACE_SECONDS)
        assert process.exitcode is not None, f"it goes on after {number.name}"
        return process.exitcode

    def __exit__(self, *details: object) -> None:
        self._end(signal.SIGKILL)


def _serve(environment: Mapping[str, str], log: str, arguments: list[str], constants: Mapping[str, object]) -> None:
    """Become the operator: what `python -m kopf` does, with another environment and output."""
    import kopf.cli
    from kubernetes.config import kube_config

    if sys.platform == "linux":  # it ends with the process that forked it, and that one with pytest
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.clear()
    os.environ.update(environment)
    kube_config.KUBE_CONFIG_DEFAULT_LOCATION = environment["KUBECONFIG"]  # read when it was imported
    for name, value in constants.items():
        module, _, constant = name.rpartition(".")
        setattr(importlib.import_module(module), constant, value)
    kopf.cli.main(arguments)
