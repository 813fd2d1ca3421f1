"""The connection's validation, and that its key never shows."""

import json

import pytest
from pydantic import ValidationError

from tunewright.adapters.advisor.settings import LLMConnection
from tunewright.errors import InvalidInput

KEY = "sk-this-must-never-show"


def test_a_model_name_is_enough() -> None:
    connection = LLMConnection.parse({"model": "openai/gpt-5"})
    assert (connection.timeout_seconds, connection.num_retries, connection.secret) == (60.0, 2, None)


def test_the_custom_resource_spelling_is_understood() -> None:
    connection = LLMConnection.parse(
        {"model": "openai/q", "apiBase": "https://llm/v1", "maxOutputTokens": 64, "inputUSDPerMillionTokens": "0.25"}
    )
    assert connection.api_base == "https://llm/v1"
    assert (connection.max_output_tokens, connection.input_usd_per_million_tokens) == (64, 0.25)


@pytest.mark.parametrize(
    ("field", "value", "remedy"),
    [
        ("model", "", "at least 1 character"),
        ("model", "openai/gpt 5", "PROVIDER/NAME"),
        ("model", "openai/", "PROVIDER/NAME"),
        ("apiBase", "llm.example.com/v1", "must be an address such as"),
        ("apiBase", "ftp://llm.example.com", "must be an address such as"),
        ("apiBase", "http://llm:port/v1", "must be an address such as"),
        ("apiBase", "https://llm/v1?key=1", "must hold no user, password, query"),
        ("timeoutSeconds", 0, "greater than 0"),
        ("maxOutputTokens", 8, "greater than or equal to 16"),
        ("temperature", 3, "less than or equal to 2"),
        ("numRetries", -1, "greater than or equal to 0"),
        ("outputUSDPerMillionTokens", -1, "greater than or equal to 0"),
    ],
)
def test_a_wrong_field_is_named_with_its_remedy(field: str, value: object, remedy: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        LLMConnection.parse({"model": "openai/x", field: value}, "explore.llm")
    (problem,) = caught.value.problems
    assert problem.field == f"explore.llm.{field}"
    assert remedy in problem.remedy


@pytest.mark.parametrize("key", ["", " \n", f"{KEY}\nX-Evil: 1", f"{KEY}é"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        LLMConnection.parse({"model": "openai/x", "apiKey": key})
    assert caught.value.problems[0].field == "apiKey"
    assert KEY not in str(caught.value)
    with pytest.raises(ValidationError) as raw:
        LLMConnection(model="openai/x", api_key=key)
    assert KEY not in str(raw.value)


def test_a_password_in_the_address_is_refused_without_being_shown() -> None:
    with pytest.raises(InvalidInput) as caught:
        LLMConnection.parse({"model": "openai/x", "apiBase": f"https://me:{KEY}@llm/v1"})
    assert KEY not in str(caught.value)


def test_a_misspelt_key_field_is_refused_without_being_shown() -> None:
    with pytest.raises(InvalidInput) as caught:
        LLMConnection.parse({"model": "openai/x", "apiToken": KEY})
    assert KEY not in str(caught.value)
    assert caught.value.problems[0].field == "apiToken"


def test_the_key_is_in_no_printed_or_written_form() -> None:
    connection = LLMConnection.parse({"model": "openai/x", "apiKey": f"{KEY}\n"})
    assert connection.secret == KEY
    shown = [repr(connection), str(connection), json.dumps(connection.to_json()), repr(connection.model_dump())]
    assert not [text for text in shown if KEY in text]


def test_the_environment_gives_the_key() -> None:
    connection = LLMConnection.from_environment({"model": "openai/x"}, {"TUNEWRIGHT_LLM_API_KEY": KEY})
    assert connection.secret == KEY


@pytest.mark.parametrize("environment", [{}, {"TUNEWRIGHT_LLM_API_KEY": " "}])
def test_without_the_variable_the_key_is_left_to_the_provider(environment: dict[str, str]) -> None:
    assert LLMConnection.from_environment({"model": "openai/x"}, environment).secret is None
