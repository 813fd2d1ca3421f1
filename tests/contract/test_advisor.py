"""What every advisor must do, whoever answers."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest

from tests.support.openai_server import completion, proposals, serving
from tunewright.adapters.advisor import LLMAdvisor, LLMConnection, ScriptedAdvisor
from tunewright.planner.records import parse_record, record_line
from tunewright.ports import AdviceRequest, Advisor

OFFERED: list[dict[str, Any]] = [
    {"tensor_parallel_size": 2},
    {"micro_batch_size": 4, "pipeline_schedule": "1f1b"},
    {"tensor_parallel_size": 8},
]


def request(number: int = 1, proposals: int = 2) -> AdviceRequest:
    return AdviceRequest(round=number, proposals=proposals, max_output_tokens=500, context={"incumbent": {}})


class AdvisorContract:
    """Subclasses say how to get an advisor that offers `OFFERED` in each round, and one that never answers well."""

    def answering(self) -> AbstractContextManager[Advisor]:
        raise NotImplementedError

    def failing(self) -> AbstractContextManager[Advisor]:
        raise NotImplementedError

    async def test_proposals_come_in_order_as_plain_changes(self) -> None:
        with self.answering() as advisor:
            advice = await advisor.ask(request(7))
        assert (advice.outcome, advice.round, advice.condition_reason) == ("answered", 7, "")
        assert [proposal.changes for proposal in advice.proposals] == OFFERED[:2]
        assert advice.usage.calls == 1

    @pytest.mark.parametrize("wanted", [1, 3, 32])
    async def test_there_are_never_more_proposals_than_wanted(self, wanted: int) -> None:
        with self.answering() as advisor:
            advice = await advisor.ask(request(proposals=wanted))
        assert len(advice.proposals) == min(wanted, len(OFFERED))

    async def test_each_round_is_answered_on_its_own(self) -> None:
        with self.answering() as advisor:
            advices = [await advisor.ask(request(number)) for number in (1, 2)]
        assert [advice.round for advice in advices] == [1, 2]
        assert advices[0].proposals == advices[1].proposals

    async def test_a_failure_is_an_advice_with_its_reason(self) -> None:
        with self.failing() as advisor:
            advice = await advisor.ask(request(4))
        assert (advice.outcome, advice.round, advice.proposals) == ("failed", 4, ())
        assert advice.condition_reason.isalpha()
        assert advice.message

    async def test_advice_survives_the_ledger(self) -> None:
        with self.answering() as good, self.failing() as bad:
            for advice in (await good.ask(request()), await bad.ask(request())):
                assert parse_record(json.loads(record_line(advice))) == advice


class TestLLMAdvisor(AdvisorContract):
    @contextmanager
    def answering(self) -> Iterator[Advisor]:
        with serving(proposals(*OFFERED)) as server:
            yield LLMAdvisor(LLMConnection(model="openai/scripted", api_base=server.api_base))

    @contextmanager
    def failing(self) -> Iterator[Advisor]:
        with serving(completion("no")) as server:
            yield LLMAdvisor(LLMConnection(model="openai/scripted", api_base=server.api_base))


class TestScriptedAdvisor(AdvisorContract):
    def answering(self) -> AbstractContextManager[Advisor]:
        return nullcontext(ScriptedAdvisor([OFFERED, OFFERED]))

    def failing(self) -> AbstractContextManager[Advisor]:
        return nullcontext(ScriptedAdvisor(["RateLimited"]))
