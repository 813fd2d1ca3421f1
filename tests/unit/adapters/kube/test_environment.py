"""What a client takes from its environment: a person's commands heed it, an operator does not."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.cluster.kubeconfig import write_kubeconfig
from tunewright.adapters.kube.client import TUNING_RUNS, connected

HEARD: list[str | None] = []


class _Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        HEARD.append(self.headers.get("Authorization"))
        body = b'{"items": []}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[str]:
    """A cluster that asks for nothing and says what it was offered."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield str(write_kubeconfig(tmp_path / "kubeconfig", f"http://127.0.0.1:{server.server_port}", b"", ""))
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(("heeds", "offered"), [(True, "Basic bWU6c2VjcmV0"), (False, None)])
async def test_only_a_persons_commands_read_netrc(
    heeds: bool, offered: str | None, kubeconfig: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    HEARD.clear()
    async with connected(kubeconfig, heeds_environment=heeds) as client:
        assert await client.list(TUNING_RUNS, "default") == []
    assert HEARD == [offered]
