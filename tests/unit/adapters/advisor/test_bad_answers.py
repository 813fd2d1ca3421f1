"""Whatever an endpoint answers or an address does: one clear reason, no secret kept, every request counted."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.openai_server import HALF, SILENCE, Step, completion, proposals, serving
from tests.unit.adapters.advisor.test_llm import AXES, GOOD, KEY, asked, connection, request
from tunewright.adapters.advisor import LLMAdvisor, LLMConnection
from tunewright.planner.records import Advice, record_line

SOUND = {"changes": {"tensor_parallel_size": 2}, "reason": "less memory", "hypothesis": 1}


def saying(**answer: Any) -> Step:
    return completion(json.dumps({"hypotheses": [], "proposals": [SOUND], **answer}))


async def test_hypotheses_come_with_the_proposals_that_test_them() -> None:
    stated = {"axes": ["tensor_parallel_size"], "mechanism": "halves the states", "expected_gain_percent": 4.5}
    advice, _ = await asked(saying(hypotheses=[stated]))
    (hypothesis,) = advice.hypotheses
    assert (hypothesis.axes, hypothesis.mechanism) == (("tensor_parallel_size",), "halves the states")
    assert hypothesis.expected_gain_percent == 4.5
    assert advice.proposals[0].hypothesis == 1


@pytest.mark.parametrize(
    "step",
    [
        completion(json.dumps({"proposals": [SOUND]}) + " " * 1_000_000),
        completion("\x00\x1b[2J\u202e" * 1000),
        completion("```python\nimport os\nos.system('rm -rf /')\n```"),
        completion("Bitte nennen Sie mir zuerst Ihren API-Schlüssel. 请提供您的密钥。"),
    ],
    ids=["1 MB", "control characters", "code", "asks for secrets"],
)
async def test_an_answer_without_proposals_is_malformed_and_one_call(step: Step) -> None:
    advice, server = await asked(step)
    assert (advice.outcome, advice.condition_reason) == ("failed", "Malformed")
    assert advice.message.isprintable()
    assert len(server.requests) == advice.usage.calls == 1
    assert len(record_line(advice)) < 128 * 1024


@pytest.mark.parametrize(
    "reason", ["减少流水线气泡", "réduit la bulle", "\x1b[31mred\x1b[0m\x00", "'; DROP TABLE runs; --", "A" * 20_000]
)
async def test_foreign_words_stay_one_printable_line(reason: str) -> None:
    stated = {"axes": [reason], "mechanism": reason, "expected_gain_percent": 1}
    advice, _ = await asked(saying(hypotheses=[stated], proposals=[{**SOUND, "reason": reason}]))
    assert advice.outcome == "answered"
    for text in (advice.proposals[0].reason, advice.hypotheses[0].mechanism, advice.hypotheses[0].axes[0]):
        assert text.isprintable()
        assert 0 < len(text) <= 1000


async def test_contradictory_values_reach_the_planner_as_what_they_are() -> None:
    text = '{"proposals": [{"changes": {"tensor_parallel_size": 2, "tensor_parallel_size": 4}, "reason": ""}]}'
    advice, _ = await asked(completion(text))
    assert advice.proposals[0].changes == {"tensor_parallel_size": '{"contradiction": [2, 4]}'}


@pytest.mark.parametrize(
    "answer",
    [
        {"proposals": [{"changes": {KEY: KEY, "x": [KEY], "y": {"z": KEY}}, "reason": f"your key is {KEY}"}]},
        {"hypotheses": [{"axes": [KEY], "mechanism": KEY, "expected_gain_percent": 1}], "proposals": [SOUND]},
        {"proposals": KEY},
        {"proposals": [f"{'x' * 190}{KEY}", SOUND]},
    ],
    ids=["proposal", "hypothesis", "malformed", "where text is cut"],
)
@pytest.mark.parametrize("escaped", [False, True], ids=["plain", "escaped"])
async def test_a_key_that_the_endpoint_echoes_is_not_kept(answer: dict[str, Any], escaped: bool) -> None:
    text = json.dumps(answer)
    if escaped:
        text = text.replace(KEY, "".join(f"\\u{ord(letter):04x}" for letter in KEY))
    advice, _ = await asked(completion(text))
    for form in (record_line(advice), str(advice), repr(advice)):
        assert KEY not in form


async def test_a_key_in_an_error_of_the_endpoint_is_not_kept() -> None:
    advice, _ = await asked(Step(status=401, body=json.dumps({"error": {"message": f"bad key {KEY}"}})))
    assert (advice.condition_reason, KEY in record_line(advice)) == ("Unauthorized", False)


@pytest.mark.parametrize("model", ["openai/scripted", "anthropic/claude-sonnet-4-5", "gemini/scripted", "azure/x"])
@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(status: int, model: str) -> None:
    with serving(GOOD) as elsewhere:
        step = Step(status=status, headers={"Location": f"{elsewhere.api_base}/chat/completions"})
        advice, server = await asked(step, calls=3, model=model)
    assert (advice.condition_reason, elsewhere.requests) == ("Rejected", [])
    assert "redirected to http://127.0.0.1" in advice.message
    assert "set apiBase to the address itself" in advice.message
    assert len(server.requests) == 1


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate that nobody has signed but itself, with its key."""
    openssl = shutil.which("openssl")
    assert openssl, "these tests make a certificate: install openssl"
    folder = tmp_path_factory.mktemp("tls")
    made = folder / "certificate.pem"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=elsewhere"]
    subprocess.run([*command, "-keyout", folder / "key.pem", "-out", made], check=True, capture_output=True)
    made.write_text(made.read_text() + (folder / "key.pem").read_text())
    return made


@pytest.mark.parametrize("model", ["openai/scripted", "anthropic/claude-sonnet-4-5"])
async def test_a_certificate_that_nobody_vouches_for_is_refused(certificate: Path, model: str) -> None:
    with serving(GOOD, certificate=certificate) as server:
        advice = await LLMAdvisor(connection(server, model=model, numRetries=0)).ask(request())
    assert (advice.condition_reason, advice.usage.calls, server.requests) == ("Unreachable", 0, [])
    assert "certificate" in advice.message.lower()


@pytest.mark.parametrize(
    ("step", "reason"), [(HALF, "Unreachable"), (SILENCE, "Timeout")], ids=["half an answer", "hangs"]
)
@pytest.mark.parametrize("model", ["openai/scripted", "anthropic/claude-sonnet-4-5", "ollama_chat/scripted"])
async def test_other_protocols_have_the_same_reasons(step: Step, reason: str, model: str) -> None:
    advice, server = await asked(step, model=model, timeoutSeconds=1)
    assert (advice.condition_reason, len(server.requests)) == (reason, 1)


@pytest.mark.parametrize(
    ("model", "reason", "words"),
    [
        ("nonsense/model", "NotConfigured", "names no provider"),
        ("openai/model", "NotConfigured", "OPENAI_API_KEY"),
        ("vllm/model", "NotConfigured", "package"),
    ],
)
async def test_what_is_missing_is_named(model: str, reason: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    advice: Advice = await LLMAdvisor(LLMConnection(model=model)).ask(request())
    assert (advice.condition_reason, advice.usage.calls) == (reason, 0)
    assert words in advice.message
    assert "Traceback" not in advice.message


async def test_a_prompt_beyond_its_reservation_is_not_sent() -> None:
    with serving(proposals({"tensor_parallel_size": 2})) as server:
        context = {"axes": AXES, "history": ["x" * 100] * 1000}
        advice = await LLMAdvisor(connection(server)).ask(request(context=context, reserved_tokens=20_000))
    assert (advice.condition_reason, server.requests, advice.usage.calls) == ("OverBudget", [], 0)
    assert "nothing was sent" in advice.message
