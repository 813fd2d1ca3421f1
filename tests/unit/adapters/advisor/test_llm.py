"""The advisor against a real HTTP endpoint: what it sends, what it makes of each reaction, what it counts."""

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.openai_server import (
    CLOSE,
    HALF,
    SILENCE,
    TRICKLE,
    OpenAIServer,
    Step,
    completion,
    proposals,
    refusal,
    serving,
)
from tunewright.adapters.advisor import LLMAdvisor, LLMConnection, Transcript
from tunewright.planner.records import Advice, record_line
from tunewright.ports import AdviceRequest

KEY = "sk-the-key-that-nobody-may-see"
AXES = {"tensor_parallel_size": [1, 2, 4], "pipeline_schedule": ["1f1b", "zero-bubble-h1"]}
GOOD = proposals({"tensor_parallel_size": 2})
NONSENSE = completion("I am sorry, Dave.")


def connection(server: OpenAIServer, **changes: Any) -> LLMConnection:
    document = {"model": "openai/scripted", "apiBase": server.api_base, "apiKey": KEY, "timeoutSeconds": 5}
    return LLMConnection.parse(document | changes)


def request(**changes: Any) -> AdviceRequest:
    context = {"axes": AXES, "incumbent": {"tensor_parallel_size": 1}}
    fields: dict[str, Any] = {"round": 3, "proposals": 2, "max_output_tokens": 300, "context": context}
    return AdviceRequest(**(fields | changes))


async def asked(*script: Step, calls: int = 1, **changes: Any) -> tuple[Advice, OpenAIServer]:
    with serving(*script) as server:
        advice = await LLMAdvisor(connection(server, **changes)).ask(request(max_calls=calls))
        return advice, server


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with serving(GOOD) as endpoint:
        yield endpoint


async def test_good_proposals_are_handed_on_with_their_cost() -> None:
    advice, server = await asked(
        proposals({"tensor_parallel_size": 2}, {"pipeline_schedule": "zero-bubble-h1"}, reason="halves the bubble"),
        inputUSDPerMillionTokens=2,
        outputUSDPerMillionTokens=10,
    )
    assert (advice.outcome, advice.round, advice.model) == ("answered", 3, "openai/scripted")
    assert [item.changes for item in advice.proposals] == [
        {"tensor_parallel_size": 2},
        {"pipeline_schedule": "zero-bubble-h1"},
    ]
    assert advice.proposals[0].reason == "halves the bubble"
    assert (advice.usage.calls, advice.usage.input_tokens, advice.usage.output_tokens) == (1, 100, 20)
    assert advice.usage.cost_usd == pytest.approx(100 * 2e-6 + 20 * 10e-6)
    assert len(server.requests) == 1


async def test_the_request_holds_the_briefing_the_schema_and_the_limit() -> None:
    _, server = await asked(GOOD, temperature=0.2)
    body = server.requests[0].body
    assert (server.requests[0].path, body["model"]) == ("/v1/chat/completions", "scripted")
    assert (body["max_tokens"], body["temperature"]) == (300, 0.2)
    schema = body["response_format"]["json_schema"]
    changes = schema["schema"]["$defs"]["Proposal"]["properties"]["changes"]
    assert schema["strict"] is True
    assert changes["properties"]["tensor_parallel_size"]["anyOf"][0]["enum"] == [1, 2, 4]
    briefing = json.dumps(
        {"axes": AXES, "incumbent": {"tensor_parallel_size": 1}}, sort_keys=True, separators=(",", ":")
    )
    assert briefing in body["messages"][-1]["content"]


async def test_the_smaller_of_the_two_output_limits_holds() -> None:
    _, server = await asked(GOOD, maxOutputTokens=64)
    assert server.requests[0].body["max_tokens"] == 64


async def test_reasoning_models_get_their_own_parameters() -> None:
    advice, server = await asked(GOOD, model="openai/gpt-5", temperature=0.2)
    assert advice.outcome == "answered"
    assert server.requests[0].body["max_completion_tokens"] == 300
    assert "temperature" not in server.requests[0].body


async def test_a_model_in_the_catalog_has_its_price() -> None:
    advice, _ = await asked(GOOD, model="openai/gpt-4o-mini")
    assert advice.usage.cost_usd == pytest.approx(100 * 0.15e-6 + 20 * 0.6e-6)


async def test_the_key_travels_in_the_authorization_header_only(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    kept: list[Transcript] = []
    with serving(refusal(401, f"Incorrect API key provided: {KEY}"), completion(f"my key is {KEY}")) as server:
        advisor = LLMAdvisor(connection(server), kept.append)
        advices = [await advisor.ask(request()), await advisor.ask(request())]
    for seen in server.requests:
        where = [name.lower() for name, value in seen.headers.items() if KEY in value]
        assert (where, KEY in seen.text, KEY in seen.path) == (["authorization"], False, False)
    printed = capfd.readouterr()
    said = [record_line(advice) for advice in advices] + [repr(kept), repr(advisor._connection), caplog.text, *printed]
    assert not [text for text in said if KEY in text]
    assert [advice.condition_reason for advice in advices] == ["Unauthorized", "Malformed"]


async def test_the_provider_key_of_the_environment_never_goes_to_another_address(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    keyless = LLMConnection.parse({"model": "openai/scripted", "apiBase": server.api_base})
    assert (await LLMAdvisor(keyless).ask(request())).outcome == "answered"
    assert KEY not in repr(server.requests)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (NONSENSE, "Malformed"),
        (completion(""), "Malformed"),
        (completion('{"proposals": "as many as you like"}'), "Malformed"),
        (completion('{"proposals": []}'), "Malformed"),
        (completion('{"proposals": ["tp=2", 7, null]}'), "Malformed"),
        (completion("[" * 100_000), "Malformed"),
        (completion("huge " * 1_000_000), "Malformed"),
        (refusal(429), "RateLimited"),
        (refusal(429, code="insufficient_quota"), "OverBudget"),
        (refusal(400), "Rejected"),
        (refusal(404), "Rejected"),
        (refusal(401), "Unauthorized"),
        (refusal(403), "Unauthorized"),
        (refusal(402), "OverBudget"),
        (refusal(500), "Unreachable"),
        (refusal(503), "Unreachable"),
        (Step(body="<html>maintenance</html>"), "Unreachable"),
        (Step(status=502, body="<html>bad gateway</html>"), "Unreachable"),
        (CLOSE, "Unreachable"),
        (HALF, "Unreachable"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.kind}-{value.status}-{value.body[-60:-30]}",
)
async def test_every_bad_reaction_costs_one_call_and_has_its_reason(step: Step, reason: str) -> None:
    advice, server = await asked(step)
    assert (advice.outcome, advice.condition_reason, advice.proposals) == ("failed", reason, ())
    assert advice.message.isprintable()
    assert len(advice.message) > 10
    assert advice.usage.calls == len(server.requests) == 1
    assert len(record_line(advice)) < 128 * 1024


@pytest.mark.parametrize("step", [SILENCE, TRICKLE], ids=["silence", "trickle"])
async def test_an_endpoint_that_never_finishes_costs_one_round_billed_in_full(step: Step) -> None:
    started = time.monotonic()
    advice, server = await asked(step, calls=3, timeoutSeconds=1)
    assert time.monotonic() - started < 20
    assert (advice.outcome, advice.condition_reason) == ("failed", "Timeout")
    assert "raise timeoutSeconds" in advice.message
    assert advice.usage.calls == len(server.requests) == 1
    assert advice.usage.output_tokens == 300
    assert advice.usage.input_tokens > 500


async def test_a_dead_address_was_never_reached() -> None:
    with serving(GOOD) as server:
        gone = connection(server, numRetries=0)
    advice = await LLMAdvisor(gone).ask(request())
    assert (advice.condition_reason, advice.usage.calls) == ("Unreachable", 0)
    assert "refused" in advice.message


async def test_the_loop_runs_on_while_an_answer_is_awaited() -> None:
    with serving(SILENCE) as server:
        question = asyncio.create_task(LLMAdvisor(connection(server, timeoutSeconds=1)).ask(request()))
        turns = 0
        while not question.done():
            await asyncio.sleep(0.01)
            turns += 1
    assert turns > 20


async def test_an_impatient_caller_can_cancel() -> None:
    with serving(SILENCE) as server:
        advisor = LLMAdvisor(connection(server, timeoutSeconds=1))
        await advisor.warm_up()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(advisor.ask(request()), 0.05)


async def test_a_refusal_to_work_is_retried_and_each_request_counted() -> None:
    advice, server = await asked(refusal(429, Retry_After="0"), refusal(503, Retry_After="0"), GOOD, calls=3)
    assert advice.outcome == "answered"
    assert advice.usage.calls == len(server.requests) == 3
    assert advice.usage.input_tokens == 100


@pytest.mark.parametrize(("retries", "calls", "seen"), [(2, 2, 2), (1, 9, 2), (0, 9, 1)])
async def test_retries_end_at_their_number_and_at_the_calls_reserved(retries: int, calls: int, seen: int) -> None:
    advice, server = await asked(refusal(500, Retry_After="0"), calls=calls, numRetries=retries)
    assert (advice.condition_reason, len(server.requests)) == ("Unreachable", seen)


async def test_a_wait_longer_than_the_round_is_not_begun() -> None:
    advice, server = await asked(refusal(429, Retry_After="3600"), GOOD, calls=3)
    assert (advice.condition_reason, len(server.requests)) == ("RateLimited", 1)


async def test_a_lost_connection_is_not_retried_since_it_may_be_billed_twice() -> None:
    advice, server = await asked(HALF, GOOD, calls=3)
    assert (advice.condition_reason, len(server.requests)) == ("Unreachable", 1)
    assert advice.usage.output_tokens == 300


async def test_one_bad_answer_is_repaired_once_and_counted() -> None:
    advice, server = await asked(completion("Try a tensor_parallel_size of 2."), GOOD, calls=3)
    assert [item.changes for item in advice.proposals] == [{"tensor_parallel_size": 2}]
    assert advice.usage.calls == len(server.requests) == 2
    assert (advice.usage.input_tokens, advice.usage.output_tokens) == (200, 40)
    repair = server.requests[1].body["messages"][-1]["content"]
    assert "Try a tensor_parallel_size of 2." in repair
    assert "incumbent" not in repair


async def test_a_bad_repair_ends_the_round() -> None:
    advice, server = await asked(NONSENSE, calls=9)
    assert (advice.condition_reason, advice.usage.calls, len(server.requests)) == ("Malformed", 2, 2)


@pytest.mark.parametrize(("reserved", "seen"), [(300 + 4000, 1), (300 + 8000, 2)])
async def test_a_repair_must_fit_the_tokens_reserved(reserved: int, seen: int) -> None:
    with serving(completion("I am sorry, Dave.", prompt_tokens=3500), GOOD) as server:
        await LLMAdvisor(connection(server)).ask(request(max_calls=2, reserved_tokens=reserved))
    assert len(server.requests) == seen


async def test_a_repair_may_answer_with_what_is_left_of_the_output() -> None:
    with serving(completion("nonsense", completion_tokens=120), GOOD) as server:
        await LLMAdvisor(connection(server)).ask(request(max_calls=2, reserved_tokens=10_000))
    assert server.requests[1].body["max_tokens"] == 180


async def test_an_answer_that_hit_its_limit_says_so_and_is_not_repaired() -> None:
    advice, server = await asked(completion('{"proposals": [[[', completion_tokens=300), GOOD, calls=2)
    assert "raise maxOutputTokens" in advice.message
    assert len(server.requests) == 1


async def test_without_reported_usage_it_is_estimated_from_the_text() -> None:
    answer = json.dumps({"proposals": [{"reason": "r" * 300, "changes": {"tensor_parallel_size": 2}}]})
    advice, server = await asked(completion(answer, prompt_tokens=None))
    assert 100 <= advice.usage.output_tokens <= 300
    assert advice.usage.input_tokens > len(server.requests[0].text) / 5


async def test_a_schema_that_is_refused_is_left_out_from_then_on() -> None:
    with serving(refusal(400, "json_schema is not supported"), GOOD) as server:
        advisor = LLMAdvisor(connection(server))
        advices = [await advisor.ask(request(max_calls=2)) for _ in range(2)]
    assert [advice.outcome for advice in advices] == ["answered", "answered"]
    assert [seen.body["response_format"]["type"] for seen in server.requests] == [
        "json_schema",
        "json_object",
        "json_object",
    ]


async def test_with_one_call_a_round_the_next_round_goes_without_the_schema() -> None:
    with serving(refusal(400, "json_schema is not supported"), GOOD) as server:
        advisor = LLMAdvisor(connection(server))
        advices = [await advisor.ask(request()) for _ in range(2)]
    assert [advice.outcome for advice in advices] == ["failed", "answered"]


async def test_a_refusal_that_was_not_about_the_schema_brings_it_back() -> None:
    with serving(refusal(400, "no"), refusal(400, "no"), GOOD) as server:
        advisor = LLMAdvisor(connection(server))
        advices = [await advisor.ask(request(max_calls=2)) for _ in range(2)]
    assert [advice.condition_reason for advice in advices] == ["Rejected", ""]
    assert server.requests[2].body["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"model": "scripted"}, "names no provider"),
        ({"model": "openai/scripted"}, "no key: set OPENAI_API_KEY"),
        ({"model": "anthropic/claude-x"}, "no key: set ANTHROPIC_API_KEY"),
    ],
)
async def test_what_cannot_be_sent_is_not_configured(
    document: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    advice = await LLMAdvisor(LLMConnection.parse(document)).ask(request())
    assert (advice.condition_reason, advice.usage.calls, advice.prompt_digest) == ("NotConfigured", 0, "")
    assert message in advice.message


async def test_a_round_without_calls_is_over_budget_and_sends_nothing() -> None:
    advice, server = await asked(GOOD, calls=0)
    assert (advice.condition_reason, advice.usage.calls, server.requests) == ("OverBudget", 0, [])


async def test_equal_questions_have_equal_digests_and_are_asked_anew(server: OpenAIServer) -> None:
    advisor = LLMAdvisor(connection(server))
    first, second = await advisor.ask(request()), await advisor.ask(request())
    other = await advisor.ask(request(context={"axes": AXES}))
    assert first.prompt_digest == second.prompt_digest != other.prompt_digest
    assert len(first.prompt_digest) == 64
    assert len(server.requests) == 3


async def test_questions_asked_at_once_stay_apart() -> None:
    with serving(proposals({"tensor_parallel_size": 2})) as one, serving(proposals({"tensor_parallel_size": 4})) as two:
        advisors = [LLMAdvisor(connection(endpoint)) for endpoint in (one, two) * 4]
        advices = await asyncio.gather(*(advisor.ask(request()) for advisor in advisors))
    assert [advice.proposals[0].changes["tensor_parallel_size"] for advice in advices] == [2, 4] * 4
    assert (len(one.requests), len(two.requests)) == (4, 4)


async def test_the_transcript_holds_what_was_said() -> None:
    kept: list[Transcript] = []
    with serving(NONSENSE, GOOD) as server:
        await LLMAdvisor(connection(server), kept.append).ask(request(max_calls=2))
    (transcript,) = kept
    assert (transcript.round, transcript.outcome, transcript.reason) == (3, "answered", "")
    assert transcript.exchanges[0].answer == "I am sorry, Dave."
    assert "incumbent" in transcript.exchanges[0].prompt


async def test_a_long_answer_is_cut_in_the_transcript() -> None:
    kept: list[Transcript] = []
    with serving(completion("z" * 1_000_000)) as server:
        await LLMAdvisor(connection(server), kept.append).ask(request())
    assert len(kept[0].exchanges[0].answer) < 40_000
    assert "1000000 characters" in kept[0].exchanges[0].answer


async def test_a_transcript_that_cannot_be_kept_does_not_cost_the_advice(server: OpenAIServer) -> None:
    def full(transcript: Transcript) -> None:
        raise OSError("no space left")

    assert (await LLMAdvisor(connection(server), full).ask(request())).outcome == "answered"


async def test_a_context_that_is_no_json_is_a_failed_round_not_an_exception(server: OpenAIServer) -> None:
    advice = await LLMAdvisor(connection(server)).ask(request(context={"bad": object()}))
    assert (advice.outcome, advice.condition_reason, advice.usage.calls) == ("failed", "Unexpected", 0)
