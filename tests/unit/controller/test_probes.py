import urllib.error
import urllib.request

import pytest

from tunewright.controller.probes import Heartbeat, ProbeServer
from tunewright.controller.settings import OperatorSettings
from tunewright.errors import InvalidInput


def status(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_health_follows_the_heartbeat() -> None:
    now = [0.0]
    heartbeat = Heartbeat(lambda: now[0])
    probes = ProbeServer(heartbeat, 0)
    probes.start()
    try:
        assert status(probes.port, "/healthz") == 200
        now[0] = 31.0
        assert status(probes.port, "/healthz") == 503
        heartbeat.beat()
        assert status(probes.port, "/healthz") == 200
        assert status(probes.port, "/secrets") == 404
    finally:
        probes.stop()


def test_settings_come_from_the_environment() -> None:
    environment = {"TUNEWRIGHT_TRIAL_IMAGE": "trial:1", "TUNEWRIGHT_PROBE_PORT": "0", "TUNEWRIGHT_NAMESPACED": "true"}
    assert OperatorSettings.from_environment(environment) == OperatorSettings("trial:1", 0, namespaced=True)


def test_a_setting_that_is_no_number_is_named() -> None:
    with pytest.raises(InvalidInput, match="TUNEWRIGHT_WORKERS: 'many': must be a whole number"):
        OperatorSettings.from_environment({"TUNEWRIGHT_WORKERS": "many"})
