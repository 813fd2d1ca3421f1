"""Providers by their LiteLLM string, each in its own protocol, against an endpoint that speaks it."""

import json

import pytest

from tests.support.openai_server import completion_of
from tests.unit.adapters.advisor.test_llm import KEY, asked
from tunewright.adapters.advisor import LLMConnection
from tunewright.adapters.advisor.runtime import load

ANSWER = {
    "hypotheses": [{"axes": ["tensor_parallel_size"], "mechanism": "less memory", "expected_gain_percent": 2}],
    "proposals": [{"changes": {"tensor_parallel_size": 2}, "reason": "less memory", "hypothesis": 1}],
}
PROVIDERS = {
    "openai/gpt-4o": ("openai", "Authorization"),
    "azure/deployment": ("openai", "api-key"),
    "hosted_vllm/model": ("openai", "Authorization"),
    "anthropic/claude-sonnet-4-5": ("anthropic", "x-api-key"),
    "gemini/gemini-2.0-flash": ("gemini", "x-goog-api-key"),
    "bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0": ("bedrock", "Authorization"),
    "ollama_chat/model": ("ollama", "Authorization"),
}
KEYS = {
    "openai/gpt-5": {"OPENAI_API_KEY": "k"},
    "azure/deployment": {"AZURE_API_KEY": "k", "AZURE_API_BASE": "https://x", "AZURE_API_VERSION": "2025-01-01"},
    "anthropic/claude-sonnet-4-5": {"ANTHROPIC_API_KEY": "k"},
    "gemini/gemini-2.0-flash": {"GEMINI_API_KEY": "k"},
    "bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0": {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"},
    "ollama_chat/model": {"OLLAMA_API_BASE": "http://127.0.0.1:11434"},
}


MODEL_FACTS = "/api/show"
"""What LiteLLM asks Ollama about a model, sometimes, in the background: no completion, and free."""


@pytest.mark.parametrize("model", PROVIDERS)
async def test_each_provider_is_asked_once_in_its_protocol_with_its_schema_and_key(model: str) -> None:
    protocol, header = PROVIDERS[model]
    advice, server = await asked(completion_of(protocol, ANSWER), calls=2, model=model)
    assert (advice.outcome, advice.message) == ("answered", "")
    assert advice.proposals[0].changes == {"tensor_parallel_size": 2}
    assert advice.hypotheses[0].mechanism == "less memory"
    assert (advice.usage.calls, advice.usage.input_tokens, advice.usage.output_tokens) == (1, 100, 20)
    (seen,) = [one for one in server.requests if not one.path.endswith(MODEL_FACTS)]
    assert KEY in {name.lower(): value for name, value in seen.headers.items()}[header.lower()]
    assert "tensor_parallel_size" in seen.text
    assert '"enum"' in seen.text.replace(json.dumps('"enum"')[1:-1], ""), "no schema was sent beside the prompt"


@pytest.mark.parametrize("model", KEYS)
def test_the_provider_key_of_the_environment_is_enough(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tools, connection = load(), LLMConnection(model=model)
    for name in [name for keys in KEYS.values() for name in keys]:
        monkeypatch.delenv(name, raising=False)
    assert "no key: set" in tools.obstacle(connection)
    for name, value in KEYS[model].items():
        monkeypatch.setenv(name, value)
    assert tools.obstacle(connection) == ""
