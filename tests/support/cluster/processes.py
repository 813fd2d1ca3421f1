"""The long-lived processes of one cluster: started, watched, stopped and restarted by name.

Called by the control plane and the node. Only processes started here are ever signalled, and none outlives pytest.
"""

import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.cluster.commands import SHOWN_OF_OUTPUT, die_with_parent
from tests.support.cluster.errors import HarnessError

GRACE_SECONDS = 15


@dataclass
class Processes:
    """A group of processes whose output goes to `<logs>/<name>.log`."""

    logs: Path
    environment: Mapping[str, str]
    _commands: dict[str, list[str]] = field(default_factory=dict)
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, *argv: str | Path) -> None:
        """Start a program under a name; its log is appended to when it is started again.

        Raises `HarnessError` in a thread: the program would end with it (see `commands`).
        """
        if threading.current_thread() is not threading.main_thread():
            raise HarnessError(f"{name}: start it in the main thread")
        self._commands[name] = [str(word) for word in argv]
        with self.log_file(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                self._commands[name],
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # an interrupt typed at pytest must not reach them before teardown
                preexec_fn=die_with_parent(),
            )

    def stop(self, *names: str) -> None:
        """End these processes, all at once: TERM first, KILL for those that do not listen."""
        stopping = [self._running.pop(name) for name in names if name in self._running]
        for process in stopping:
            process.terminate()
        for process in stopping:
            try:
                process.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def kill(self, name: str) -> None:
        """End a process without warning, as a crash would."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def restart(self, name: str) -> None:
        """Start a process again with the command it had, after a crash: a gentle end waits for open watches."""
        if name in self._running:
            self.kill(name)
        self.start(name, *self._commands[name])

    def kill_all(self) -> None:
        """End all without warning."""
        for name in list(self._running):
            self.kill(name)

    def pid(self, name: str) -> int:
        """Return the process number, for tests that look at memory or open files."""
        return self._running[name].pid

    def log_file(self, name: str) -> Path:
        """Return the file that a process writes to."""
        return self.logs / f"{name}.log"

    def check_alive(self) -> None:
        """Fail with the end of its log if any process has ended by itself."""
        for name, process in self._running.items():
            if process.poll() is not None:
                said = self.log_file(name).read_text(errors="replace")[-SHOWN_OF_OUTPUT:]
                raise HarnessError(f"{name} exited with {process.returncode}:\n{said}")
