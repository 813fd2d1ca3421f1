"""What was said in a round, for diagnostics: prompts and answers, with every secret removed.

Made by `llm`, handed to the callback that the wiring gives. Never part of a custom resource.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

KEPT_CHARACTERS = 32_768
_SECRET_WORDS = ("API_KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
_SHORTEST_SECRET = 8


@dataclass(frozen=True)
class Exchange:
    """One request and what came back; `answer` is empty when nothing did."""

    prompt: str
    answer: str


@dataclass(frozen=True)
class Transcript:
    """All exchanges of one round. `outcome` and `reason` are those of the `Advice`."""

    round: int
    model: str
    outcome: str
    reason: str
    exchanges: tuple[Exchange, ...]


class Redactor:
    """Removes known secrets from text."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted({secret for secret in secrets if secret}, key=len, reverse=True)

    @classmethod
    def of(cls, key: str | None, environment: Mapping[str, str] | None = None) -> "Redactor":
        """Build one that knows `key` and whatever in the environment is named like a secret."""
        variables = os.environ if environment is None else environment
        ambient = [value for name, value in variables.items() if _names_a_secret(name)]
        return cls([key or "", *(value for value in ambient if len(value) >= _SHORTEST_SECRET)])

    def __call__(self, text: str) -> str:
        """Return `text` with every secret replaced."""
        for secret in self._secrets:
            text = text.replace(secret, "(hidden)")
        return text


def _names_a_secret(name: str) -> bool:
    return any(word in name.upper() for word in _SECRET_WORDS)


def cut(text: str, limit: int = KEPT_CHARACTERS) -> str:
    """Shorten `text` to about `limit` characters and name the length and digest of what was there.

    >>> cut("short")
    'short'
    """
    if len(text) <= limit:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    return f"{text[:limit]}… ({len(text)} characters, sha256 {digest})"


def printable(text: str, limit: int) -> str:
    """Make foreign text fit for a terminal, a status and a ledger: one line, no control characters, at most `limit`.

    >>> printable("a\\x1b[31m\\nb", 10)
    'a [31m b'
    """
    clean = text[: limit * 4].encode("utf-8", "replace").decode()
    line = " ".join("".join(c if c.isprintable() else " " for c in clean).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
