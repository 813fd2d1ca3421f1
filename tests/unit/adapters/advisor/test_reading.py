"""Finding proposals in text, well-formed or not."""

import time

import pytest

from tunewright.adapters.advisor.reading import LONGEST_ANSWER_CHARACTERS, find_proposals

ONE = [{"changes": {"tp": 2}}]
JSON = '{"proposals": [{"changes": {"tp": 2}}]}'


@pytest.mark.parametrize(
    "text",
    [
        JSON,
        f"```json\n{JSON}\n```",
        f"Sure! Here you go: {JSON} Hope that helps.",
        f"<think>maybe {{'tp': 4}}, or {JSON.replace('2', '4')}</think>{JSON}",
        f"I first thought of {JSON.replace('2', '4')} but prefer {JSON}",
        '[{"changes": {"tp": 2}}]',
        "{'proposals': [{'changes': {'tp': 2}},]}",
        JSON[:-2],
        f"<think>{JSON}</think>",
    ],
    ids=["plain", "fenced", "chatty", "thoughts", "last-wins", "bare-list", "python", "cut-short", "only-thoughts"],
)
def test_proposals_are_found(text: str) -> None:
    assert find_proposals(text) == ONE


@pytest.mark.parametrize(
    "text", ["", "I am sorry.", "{}", "[]", "[1, 2]", "null", '{"proposals": 3}', '{"proposal": []}']
)
def test_nothing_is_made_up(text: str) -> None:
    assert find_proposals(text) is None


def test_an_empty_list_is_an_answer() -> None:
    assert find_proposals('{"proposals": []}') == []


@pytest.mark.parametrize("pattern", ["{", "[", "[{", "{'", '{"a":', '{"a":[', '"', "{}", "<think>", "9"])
@pytest.mark.parametrize("length", [4096, LONGEST_ANSWER_CHARACTERS, 5_000_000])
def test_hostile_text_is_given_up_soon(pattern: str, length: int) -> None:
    text = (pattern * length)[:length]
    started = time.process_time()
    assert find_proposals(text) is None
    assert time.process_time() - started < 20  # without its bounds the reading takes minutes
