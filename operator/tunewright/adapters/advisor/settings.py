"""How to reach an LLM: the model, its address, the key, time and price. Read by `LLMAdvisor`; made by the wiring.

The key is never part of a JSON form, a printed form or an error message.
"""

from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, SecretStr, field_validator

from tunewright.domain.value import Value
from tunewright.errors import InvalidInput, Problem

KEY_VARIABLE = "TUNEWRIGHT_LLM_API_KEY"
"""Environment variable with the key. Where it is unset, LiteLLM reads the provider's own, such as OPENAI_API_KEY."""


class LLMConnection(Value):
    """One endpoint. Prices are needed only for models that LiteLLM's catalog does not know."""

    model_config = ConfigDict(hide_input_in_errors=True)

    model: str = Field(min_length=1, max_length=256, description="LiteLLM string, such as openai/gpt-5.")
    api_base: str | None = Field(None, max_length=1024, description="Address of the endpoint; None: the provider's.")
    api_key: SecretStr | None = Field(None, exclude=True, repr=False)
    timeout_seconds: float = Field(60.0, gt=0, le=3600, description="For a whole round, retries and repair included.")
    max_output_tokens: int = Field(4096, ge=16, le=131_072)
    temperature: float | None = Field(None, ge=0, le=2, description="None: the provider's default.")
    input_usd_per_million_tokens: float | None = Field(None, ge=0)
    output_usd_per_million_tokens: float | None = Field(None, ge=0)
    num_retries: int = Field(2, ge=0, le=10, description="Retries after 429, 5xx and refused connections only.")

    @field_validator("model")
    @classmethod
    def _one_word(cls, model: str) -> str:
        if not model.isprintable() or " " in model or model.endswith("/"):
            raise ValueError("must be a LiteLLM model string, PROVIDER/NAME, such as openai/gpt-5")
        return model

    @field_validator("api_base")
    @classmethod
    def _plain_address(cls, address: str | None) -> str | None:
        return None if address is None else _checked_address(address)

    @field_validator("api_key", mode="before")
    @classmethod
    def _one_line(cls, key: object) -> object:
        text = key.get_secret_value() if isinstance(key, SecretStr) else key
        if not isinstance(text, str):
            return key
        text = text.strip()  # a Secret written with echo ends in a newline
        if not text:
            raise ValueError("is empty: put the key in, or leave the field out")
        if not (text.isascii() and text.isprintable()):
            raise ValueError("must be one line of printable ASCII: it travels in an HTTP header")
        return SecretStr(text)

    @classmethod
    def parse(cls, document: object, field: str = "", *, leave_out_unknown: bool = False) -> Self:
        """Validate `document`; raise `InvalidInput` naming every wrong field, with the key hidden."""
        try:
            return super().parse(document, field, leave_out_unknown=leave_out_unknown)
        except InvalidInput as error:
            raise InvalidInput([_without_secret(problem) for problem in error.problems]) from None

    @classmethod
    def from_environment(cls, document: Mapping[str, Any], environment: Mapping[str, str], field: str = "") -> Self:
        """Validate `document` with the key taken from `environment`, if it is there and not blank."""
        key = environment.get(KEY_VARIABLE, "").strip()
        return cls.parse({**document, "api_key": key} if key else document, field)

    @property
    def secret(self) -> str | None:
        """Return the key itself, to be handed to the endpoint and to the redaction, and to nothing else."""
        return None if self.api_key is None else self.api_key.get_secret_value()


def _checked_address(address: str) -> str:
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        raise ValueError("must be an address such as https://llm.example.com/v1") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not address.isprintable() or " " in address:
        raise ValueError("must be an address such as https://llm.example.com/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must hold no user, password, query or fragment: put the key in its own field")
    return address


def _without_secret(problem: Problem) -> Problem:
    path = problem.field.lower().replace("_", "")
    # An address with a password in it is as secret as a key; an unknown field may be a misspelt key.
    if "key" in path or path.endswith("apibase") or "is not a known field" in problem.remedy:
        return Problem(problem.field, "(hidden)", problem.remedy)
    return problem
