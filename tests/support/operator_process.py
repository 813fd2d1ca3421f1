"""The operator as a process of its own, as a kubelet would run it: started, killed, started again."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.commands import die_with_parent
from tests.support.cluster.ports import free_ports


class OperatorProcess:
    """`kopf run -m tunewright.controller` for one namespace, logging to `log`; `kubeconfig` says with whose rights.

    `variables` are added to its environment.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        log: Path,
        kubeconfig: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log
        self.probe_port = free_ports(1)[0]
        self._arguments = ["run", "--standalone", f"--namespace={namespace}", "--module=tunewright.controller"]
        """Of kopf."""
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig or cluster.kubeconfig),
            "TUNEWRIGHT_NAMESPACES": namespace,
            "TUNEWRIGHT_PROBE_PORT": str(self.probe_port),
            "TUNEWRIGHT_TRIAL_IMAGE": "registry.example.com/trial:test",
            "PYTHONUNBUFFERED": "1",
            **(variables or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "OperatorProcess":
        """Start it; it need not be ready yet."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kopf", *self._arguments],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent(),
            )
        return self

    def kill(self) -> None:
        """End it as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End it as a kubelet would, and return its exit code."""
        return self._end(signal.SIGTERM)

    @property
    def pid(self) -> int:
        """Number of the process that was started last."""
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def _end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        self._process.send_signal(number)
        code = self._process.wait(60)
        self._process = None
        return code

    def __enter__(self) -> "OperatorProcess":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()
