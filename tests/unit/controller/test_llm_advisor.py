"""What stands between a run and its LLM; the answers themselves are the advisor adapter's tests."""

import base64
from typing import Any

import pytest

from tests.support.openai_server import proposals, serving
from tunewright.adapters.clock import SystemClock
from tunewright.adapters.kube.client import KubeClient, Resource
from tunewright.adapters.kube.spec.search import LLMSpec
from tunewright.controller.llm_advisor import SecretKeyAdvisor
from tunewright.errors import Forbidden, Transient
from tunewright.planner.records import Advice
from tunewright.ports import AdviceRequest

OWN_KEY = "sk-of-the-operator"


class Secrets(KubeClient):
    """Holds what `find` returns or raises."""

    def __init__(self, found: dict[str, Any] | Exception | None) -> None:
        self._found = found

    async def find(self, resource: Resource, namespace: str, name: str) -> dict[str, Any] | None:
        assert (resource.plural, namespace, name) == ("secrets", "team-a", "llm")
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


async def asked(found: dict[str, Any] | Exception | None, own: LLMSpec | None = None, **spec: Any) -> Advice:
    document = {"model": "openai/x", "apiKeySecretRef": {"name": "llm", "key": "apiKey"}, **spec}
    given = {key: value for key, value in document.items() if value is not None}
    environment = {"TUNEWRIGHT_LLM_API_KEY": OWN_KEY}
    advisor = SecretKeyAdvisor(Secrets(found), "team-a", LLMSpec.parse(given), environment, SystemClock(), own)
    return await advisor.ask(AdviceRequest(round=2, proposals=1, max_output_tokens=100))


def secret(value: bytes) -> dict[str, Any]:
    return {"data": {"apiKey": base64.b64encode(value).decode()}}


@pytest.mark.parametrize(
    ("found", "reason", "said"),
    [
        (None, "SecretNotFound", "team-a/llm, key apiKey: does not exist"),
        ({"data": {"another": ""}}, "SecretNotFound", "does not exist"),
        (Forbidden("no"), "NotGranted", "grant the operator get on this Secret"),
        (Transient("timeout"), "Unreachable", "timeout"),
        (secret(b"\xff\xfe"), "NotConfigured", "is not text"),
        (secret(b""), "NotConfigured", "is empty"),
    ],
)
async def test_what_stands_in_the_way_is_the_reason(
    found: dict[str, Any] | Exception | None, reason: str, said: str
) -> None:
    advice = await asked(found)
    assert (advice.outcome, advice.round, advice.condition_reason) == ("failed", 2, reason)
    assert said in advice.message
    assert advice.usage.calls == 0


async def test_the_operators_own_key_never_goes_to_an_address_of_the_users() -> None:
    advice = await asked(None, apiBase="https://llm.example.com/v1", apiKeySecretRef=None)
    assert (advice.condition_reason, advice.usage.calls) == ("NotConfigured", 0)
    assert "apiKeySecretRef" in advice.message


@pytest.mark.parametrize("model", ["deepseek/x", "gpt-5", "huggingface/https://thief.example.com", "openai/x"])
async def test_without_an_endpoint_of_the_operators_no_model_gets_its_key(model: str) -> None:
    advice = await asked(None, model=model, apiKeySecretRef=None)
    assert (advice.condition_reason, advice.usage.calls) == ("NotConfigured", 0)
    assert "the operator has no own" in advice.message


async def test_the_operators_key_goes_to_its_own_endpoint_for_its_own_model_only() -> None:
    with serving(proposals({"mbs": 2})) as server:
        own = LLMSpec.parse({"model": "openai/own", "apiBase": server.api_base})
        answered = await asked(None, own, model="openai/own", apiKeySecretRef=None)
        others = [
            await asked(None, own, model="openai/another", apiKeySecretRef=None),
            await asked(None, own, model="openai/own", apiBase="https://thief.example.com/v1", apiKeySecretRef=None),
        ]
    assert (answered.outcome, answered.message) == ("answered", "")
    assert [request.headers["authorization"] for request in server.requests] == [f"Bearer {OWN_KEY}"]
    assert [advice.condition_reason for advice in others] == ["NotConfigured"] * 2


def test_prices_travel_as_numbers() -> None:
    price = {"inputUSDPerMillionTokens": "0.25", "outputUSDPerMillionTokens": 2}
    document = LLMSpec.parse({"model": "openai/x", "price": price}).connection()
    assert (document["input_usd_per_million_tokens"], document["output_usd_per_million_tokens"]) == (0.25, 2.0)
