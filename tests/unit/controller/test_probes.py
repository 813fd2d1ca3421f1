import pytest

from tests.support.answering import answered
from tunewright.adapters.kube.spec.search import LLMSpec
from tunewright.controller.probes import Heartbeat, ProbeServer
from tunewright.controller.settings import OperatorSettings
from tunewright.errors import InvalidInput


def test_health_follows_the_heartbeat() -> None:
    now = [0.0]
    heartbeat = Heartbeat(lambda: now[0])
    probes = ProbeServer(heartbeat, 0)
    probes.start()
    try:
        assert answered(probes.port, "/healthz") == 200
        now[0] = 31.0
        assert answered(probes.port, "/healthz") == 503
        heartbeat.beat()
        assert answered(probes.port, "/healthz") == 200
        assert answered(probes.port, "/secrets") == 404
    finally:
        probes.stop()


def test_readiness_waits_for_the_runs_and_ends_with_the_heartbeat() -> None:
    now = [0.0]
    heartbeat = Heartbeat(lambda: now[0])
    probes = ProbeServer(heartbeat, 0)
    probes.start()
    try:
        assert (answered(probes.port, "/healthz"), answered(probes.port, "/readyz")) == (200, 503)
        heartbeat.is_ready = True
        assert answered(probes.port, "/readyz") == 200
        now[0] = 31.0
        assert answered(probes.port, "/readyz") == 503
        heartbeat.beat()
        heartbeat.stop()
        assert (answered(probes.port, "/healthz"), answered(probes.port, "/readyz")) == (503, 503)
    finally:
        probes.stop()


def test_settings_come_from_the_environment() -> None:
    environment = {"TUNEWRIGHT_TRIAL_IMAGE": "trial:1", "TUNEWRIGHT_PROBE_PORT": "0", "TUNEWRIGHT_NAMESPACES": "a,b"}
    assert OperatorSettings.from_environment(environment) == OperatorSettings("trial:1", 0, namespaces=("a", "b"))


def test_the_operators_own_llm_is_read_in_the_words_of_a_spec() -> None:
    text = '{"model": "openai/own", "apiBase": "https://llm.example.com/v1", "timeoutSeconds": 30}'
    expected = LLMSpec(model="openai/own", api_base="https://llm.example.com/v1", timeout_seconds=30)
    assert OperatorSettings.from_environment({"TUNEWRIGHT_LLM": text}).llm == expected
    assert OperatorSettings.from_environment({"TUNEWRIGHT_LLM": " "}).llm is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "TUNEWRIGHT_LLM.*must be JSON"),
        ('{"apiBase": "https://llm.example.com"}', "TUNEWRIGHT_LLM.model: .*is required"),
        ('{"model": "openai/own", "apiKeySecretRef": {"name": "a", "key": "b"}}', "the key has a variable of its own"),
    ],
)
def test_an_llm_of_the_operators_that_is_wrong_is_named(text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        OperatorSettings.from_environment({"TUNEWRIGHT_LLM": text})


def test_a_setting_that_is_no_number_is_named() -> None:
    with pytest.raises(InvalidInput, match="TUNEWRIGHT_WORKERS: 'many': must be a whole number"):
        OperatorSettings.from_environment({"TUNEWRIGHT_WORKERS": "many"})


def test_a_log_format_that_does_not_exist_is_named() -> None:
    with pytest.raises(InvalidInput, match="TUNEWRIGHT_LOG_FORMAT: 'xml': must be one of text, json"):
        OperatorSettings.from_environment({"TUNEWRIGHT_LOG_FORMAT": "xml"})
