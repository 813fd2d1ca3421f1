"""`/healthz` and `/readyz` from a thread of their own. Started by `telemetry`.

Healthy is an operator whose event loop beat not long ago; ready is one that also knows every run that there is.
"""

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_HEARTBEAT_SECONDS = 30.0


class Heartbeat:
    """Beaten by the event loop, read by the probe's thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()
        self._has_stopped = False
        self.is_ready = False

    def beat(self) -> None:
        """Say that the loop turns."""
        self._last = self._clock()

    def stop(self) -> None:
        """Say for good that something which must run has ended: only a new process helps."""
        self._has_stopped = True

    @property
    def is_alive(self) -> bool:
        """Whether the last beat is recent enough."""
        return not self._has_stopped and self._clock() - self._last < MAX_HEARTBEAT_SECONDS


class ProbeServer:
    """Answers both with 200 or 503, and anything else with 404."""

    def __init__(self, heartbeat: Heartbeat, port: int) -> None:
        self._server = ThreadingHTTPServer(("", port), _handler(heartbeat))
        self._thread = threading.Thread(target=self._server.serve_forever, name="probes", daemon=True)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.server_address[1]

    def start(self) -> None:
        """Listen."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(heartbeat: Heartbeat) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers = {"/healthz": heartbeat.is_alive, "/readyz": heartbeat.is_alive and heartbeat.is_ready}
            self.send_response(404 if self.path not in answers else 200 if answers[self.path] else 503)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Probes are not worth a log line."""

    return Handler
