"""What the LLMs of a namespace's runs may cost together."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.advisors import StandingClock
from tunewright.adapters.advisor.scripted import ScriptedAdvisor
from tunewright.adapters.kube.client import CONFIG_MAPS, TUNING_RUNS, KubeClient, NotFound, Resource
from tunewright.adapters.kube.names import RunReference
from tunewright.controller.llm_allowance import BOOK, NamespaceAllowance, spent_usd
from tunewright.errors import Forbidden, Transient
from tunewright.planner.records import Advice, AdviceUsage
from tunewright.ports import AdviceRequest

Document = dict[str, Any]
RUN = RunReference("team-a", "tiny", "uid-of-tiny")


class Namespace(KubeClient):
    """Holds the TuningRuns of team-a and the book of what they spent, or what reading or writing them raises."""

    def __init__(self, runs: list[Document], reads: Exception | None = None, writes: Exception | None = None) -> None:
        self.runs, self.reads, self.writes = runs, reads, writes
        self.book: Document | None = None

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> list[Document]:
        assert (resource, namespace) == (TUNING_RUNS, "team-a")
        if self.reads is not None:
            raise self.reads
        return self.runs

    async def find(self, resource: Resource, namespace: str, name: str) -> Document | None:
        assert (resource, namespace, name) == (CONFIG_MAPS, "team-a", BOOK)
        return self.book

    async def create(self, resource: Resource, namespace: str, document: Mapping[str, Any]) -> Document:
        assert (resource, namespace, document["metadata"]["name"]) == (CONFIG_MAPS, "team-a", BOOK)
        if self.writes is not None:
            raise self.writes
        self.book = dict(document)
        return self.book

    async def patch(
        self, resource: Resource, namespace: str, name: str, patch: Mapping[str, Any], *, subresource: str = ""
    ) -> Document:
        if self.book is None:
            raise NotFound(name)
        if self.writes is not None:
            raise self.writes
        self.book["data"] |= patch["data"]
        return self.book


class Costly(ScriptedAdvisor):
    """Each answer costs 0.75 USD."""

    async def ask(self, request: AdviceRequest) -> Advice:
        return (await super().ask(request)).model_copy(update={"usage": AdviceUsage(cost_usd=0.75)})


def a_run(cost: str, uid: str) -> Document:
    return {"metadata": {"uid": uid}, "status": {"spent": {"llmCostUSD": cost}}}


async def asked(namespace: Namespace, run: RunReference = RUN) -> Advice:
    clock = StandingClock()
    advisor = NamespaceAllowance(Costly([[{"mbs": 2}]], clock.now), namespace, run, 2.0, clock)
    return await advisor.ask(AdviceRequest(round=1, proposals=1, max_output_tokens=100))


async def test_while_something_is_left_the_llm_is_asked() -> None:
    new = {"metadata": {"uid": "c"}}
    advice = await asked(Namespace([a_run("0.5", "a"), a_run("1.4999", "b"), new, new | {"status": {}}]))
    assert (advice.outcome, advice.proposals[0].changes) == ("answered", {"mbs": 2})


async def test_once_all_is_spent_it_is_not_and_the_reason_names_both_sums() -> None:
    namespace = Namespace([a_run("0.5", "a"), a_run("1.5", "b")])
    advice = await asked(namespace)
    assert (advice.outcome, advice.condition_reason, advice.usage.calls) == ("failed", "OverBudget", 0)
    assert "the runs of team-a have spent 2 of 2 USD" in advice.message
    assert namespace.book is None


async def test_what_deleted_runs_have_spent_stays_spent() -> None:
    namespace = Namespace([])
    outcomes = [(await asked(namespace, RunReference("team-a", "tiny", f"uid-{n}"))).outcome for n in range(4)]
    assert outcomes == ["answered"] * 3 + ["failed"]
    assert namespace.book is not None
    assert namespace.book["data"] == {f"uid-{n}": "0.750000" for n in range(3)}
    assert "ownerReferences" not in namespace.book["metadata"]


async def test_a_run_that_asks_again_adds_to_what_is_known_of_it() -> None:
    namespace = Namespace([])
    await asked(namespace)
    namespace.runs = [a_run("1", RUN.uid)]
    await asked(namespace)
    assert namespace.book is not None
    assert namespace.book["data"] == {RUN.uid: "1.750000"}


@pytest.mark.parametrize("begun", [True, False])
async def test_an_answer_is_not_lost_where_it_cannot_be_written_down(begun: bool) -> None:
    namespace = Namespace([], writes=Forbidden("no"))
    namespace.book = {"data": {}} if begun else None
    assert (await asked(namespace)).outcome == "answered"


async def test_nothing_is_asked_while_it_is_not_known_what_was_spent() -> None:
    advice = await asked(Namespace([], reads=Transient("timeout")))
    assert (advice.outcome, advice.condition_reason, advice.usage.calls) == ("failed", "Unreachable", 0)


def test_the_larger_figure_of_a_run_counts_and_what_is_no_amount_is_nothing() -> None:
    book = {"a": "0.25", "b": "3", "gone": "1", "edited": "lots", "also": "-5", "more": "nan"}
    runs = [a_run("0.5", "a"), a_run("2", "b"), {"metadata": {"uid": "new"}, "status": None}]
    found = spent_usd(book, runs)
    assert {uid: usd for uid, usd in found.items() if usd} == {"a": 0.5, "b": 3.0, "gone": 1.0}
