"""Redaction, shortening and cleaning of foreign text."""

import hashlib

from tunewright.adapters.advisor.transcript import Redactor, cut, printable


def test_the_key_and_secrets_of_the_environment_are_hidden() -> None:
    environment = {"OPENAI_API_KEY": "sk-from-environment", "HOME": "/home/somebody", "HF_TOKEN": "hf_1234567"}
    redact = Redactor.of("sk-own", environment)
    text = redact("sk-own sk-from-environment /home/somebody hf_1234567")
    assert text == "(hidden) (hidden) /home/somebody (hidden)"


def test_a_secret_that_contains_another_is_hidden_whole() -> None:
    assert Redactor(["abc", "abcdef"])("abcdef abc") == "(hidden) (hidden)"


def test_values_too_short_to_be_secrets_are_left_alone() -> None:
    assert Redactor.of(None, {"MAX_TOKENS": "4096"})("4096 tokens") == "4096 tokens"


def test_a_long_text_is_cut_with_its_length_and_digest() -> None:
    text = "x" * 40_000
    shortened = cut(text, 100)
    assert shortened.startswith("x" * 100 + "…")
    assert "40000 characters" in shortened
    assert hashlib.sha256(text.encode()).hexdigest() in shortened


def test_control_characters_and_lone_surrogates_do_not_survive() -> None:
    assert printable("red \x1b[31m\r\n\u202etext \ud800!", 100) == "red [31m text ?!"


def test_a_long_line_ends_in_an_ellipsis() -> None:
    assert printable("abcdef", 4) == "abc…"
