"""Finding proposals in text, well-formed or not."""

import time

import pytest

from tunewright.adapters.advisor.reading import LONGEST_ANSWER_CHARACTERS, Found, find_answer

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
    assert find_answer(text) == Found(ONE)


@pytest.mark.parametrize(
    "text", ["", "I am sorry.", "{}", "[]", "[1, 2]", "null", '{"proposals": 3}', '{"proposal": []}']
)
def test_nothing_is_made_up(text: str) -> None:
    assert find_answer(text) is None


def test_an_empty_list_is_an_answer() -> None:
    assert find_answer('{"proposals": []}') == Found([])


def test_hypotheses_come_with_the_proposals_of_the_same_object() -> None:
    found = find_answer('{"hypotheses": [{"axes": ["tp"]}], "proposals": [{"changes": {"tp": 2}}]}')
    assert found == Found(ONE, [{"axes": ["tp"]}])


@pytest.mark.parametrize("hypotheses", ["3", '"many"', "null", "{}"])
def test_hypotheses_of_another_kind_do_not_cost_the_proposals(hypotheses: str) -> None:
    assert find_answer(f'{{"hypotheses": {hypotheses}, "proposals": [{{"changes": {{"tp": 2}}}}]}}') == Found(ONE)


def test_a_value_that_is_given_twice_is_kept_as_a_contradiction() -> None:
    found = find_answer('{"proposals": [{"changes": {"tp": 2, "pp": 1, "tp": 4, "pp": 1}}]}')
    assert found == Found([{"changes": {"tp": {"contradiction": [2, 4]}, "pp": 1}}])


@pytest.mark.parametrize("pattern", ["{", "[", "[{", "{'", '{"a":', '{"a":[', '"', "{}", "<think>", "9"])
@pytest.mark.parametrize("length", [4096, LONGEST_ANSWER_CHARACTERS, 5_000_000])
def test_hostile_text_is_given_up_soon(pattern: str, length: int) -> None:
    text = (pattern * length)[:length]
    started = time.process_time()
    assert find_answer(text) is None
    assert time.process_time() - started < 20  # without its bounds the reading takes minutes
