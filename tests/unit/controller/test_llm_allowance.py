"""What the LLMs of a namespace's runs may cost together."""

from typing import Any

import pytest

from tests.support.advisors import StandingClock
from tunewright.adapters.advisor.scripted import ScriptedAdvisor
from tunewright.adapters.kube.client import KubeClient, Resource
from tunewright.controller.llm_allowance import NamespaceAllowance, spent_usd
from tunewright.errors import Transient
from tunewright.planner.records import Advice
from tunewright.ports import AdviceRequest


class Runs(KubeClient):
    """Holds the TuningRuns of team-a, or what listing them raises."""

    def __init__(self, found: list[dict[str, Any]] | Exception) -> None:
        self._found = found

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> list[dict[str, Any]]:
        assert (resource.plural, namespace) == ("tuningruns", "team-a")
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


def a_run(cost: str) -> dict[str, Any]:
    return {"status": {"spent": {"llmCostUSD": cost}}}


async def asked(found: list[dict[str, Any]] | Exception) -> Advice:
    clock = StandingClock()
    scripted = ScriptedAdvisor([[{"mbs": 2}]], clock.now)
    advisor = NamespaceAllowance(scripted, Runs(found), "team-a", 2.0, clock)
    return await advisor.ask(AdviceRequest(round=1, proposals=1, max_output_tokens=100))


async def test_while_something_is_left_the_llm_is_asked() -> None:
    advice = await asked([a_run("0.5"), a_run("1.4999"), {}, {"status": {}}])
    assert (advice.outcome, advice.proposals[0].changes) == ("answered", {"mbs": 2})


async def test_once_all_is_spent_it_is_not_and_the_reason_names_both_sums() -> None:
    advice = await asked([a_run("0.5"), a_run("1.5")])
    assert (advice.outcome, advice.condition_reason, advice.usage.calls) == ("failed", "OverBudget", 0)
    assert "the runs of team-a have spent 2 of 2 USD" in advice.message


async def test_nothing_is_asked_while_it_is_not_known_what_was_spent() -> None:
    advice = await asked(Transient("timeout"))
    assert (advice.outcome, advice.condition_reason, advice.usage.calls) == ("failed", "Unreachable", 0)


def test_a_run_without_a_status_has_spent_nothing() -> None:
    assert spent_usd([{}, {"status": None}, a_run("0.25")]) == pytest.approx(0.25)
