"""Whole searches that ask a language model through DSPy and LiteLLM: a real small one, and what it once answered.

What it says is noise; this proves the way there and back, the schema, the accounting, and that noise does no harm.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.advisors import Searched, search
from tests.support.openai_server import Step, completion, serving
from tests.support.records import a_tiny_problem
from tests.support.small_llm import MISSING, serving_small_llm, weights
from tunewright.adapters.advisor import LLMAdvisor, LLMConnection
from tunewright.domain.training_config import TrainingConfig
from tunewright.planner.records import Advice, without_timings
from tunewright.planner.replay import replay
from tunewright.planner.settings import Budget, ExploreSettings, LLMSettings, PlannerSettings, ValidationSettings
from tunewright.search.space import Space, build_space

RECORDED = Path(__file__).parents[3] / "cassettes" / "smollm2.json"
MOST_OUTPUT_TOKENS = 400
VALUES = {"tensor_parallel_size": (1, 2), "pipeline_parallel_size": (1, 2), "micro_batch_size": (1, 2, 4)}


def settings() -> PlannerSettings:
    return PlannerSettings(
        baseline=TrainingConfig(precision="fp32"),
        search_space={**VALUES, "pipeline_schedule": ("1f1b",), "recompute_granularity": ("none",)},
        sweep_axes=("micro_batch_size",),
        explore=ExploreSettings(proposals_per_round=1, patience=2, llm_share_percent=100),
        llm=LLMSettings(model="openai/smollm2", max_output_tokens=MOST_OUTPUT_TOKENS),
        validation=ValidationSettings(nodes=1, top_k=1),
        budget=Budget(max_trials=8, max_llm_calls=3),
    )


def space() -> Space:
    return build_space(a_tiny_problem(), settings())


async def searched(api_base: str, timeout_seconds: float) -> Searched:
    connection = LLMConnection(
        model="openai/smollm2",
        api_base=api_base,
        timeout_seconds=timeout_seconds,
        max_output_tokens=MOST_OUTPUT_TOKENS,
        temperature=0,
    )
    return await search(space(), settings(), 0, LLMAdvisor(connection), pause_seconds=0.05)


def advices(found: Searched) -> list[Advice]:
    return [record for record in found.records if isinstance(record, Advice)]


def recorded() -> Sequence[Step]:
    """Return what the model answered when it was asked for real, in order."""
    answers: list[dict[str, Any]] = json.loads(RECORDED.read_text())
    return [completion(**answer) for answer in answers]


@pytest.mark.slow
async def test_a_real_small_model_takes_part_in_a_whole_search() -> None:
    model = weights()
    if model is None:
        pytest.skip(MISSING)
    with serving_small_llm(model) as api_base:
        found = await searched(api_base, timeout_seconds=600)
    assert found.summary.state == "Succeeded"
    assert replay(found.records, space()) is None
    asked = advices(found)
    assert any(advice.outcome == "answered" for advice in asked), [advice.message for advice in asked]
    for advice in asked:
        assert advice.outcome == "answered" or advice.condition_reason == "Malformed"
        assert advice.usage.input_tokens > 500
        assert 0 < advice.usage.output_tokens <= 2 * MOST_OUTPUT_TOKENS
    assert found.summary.spent.llm_calls <= 3


async def test_recorded_answers_give_the_same_ledger_each_time() -> None:
    ledgers = []
    for _ in range(2):
        with serving(*recorded()) as server:
            found = await searched(server.api_base, timeout_seconds=60)
        assert found.summary.state == "Succeeded"
        assert found.summary.spent.llm_calls == len(server.requests)
        ledgers.append([without_timings(record.to_json()) for record in found.records])
    assert ledgers[0] == ledgers[1]


async def test_a_recorded_answer_is_read_as_it_was() -> None:
    with serving(*recorded()) as server:
        first = advices(await searched(server.api_base, timeout_seconds=60))[0]
    said = json.loads(json.loads(RECORDED.read_text())[0]["content"])
    assert first.outcome == "answered"
    assert [item.mechanism for item in first.hypotheses] == [item["mechanism"] for item in said["hypotheses"]]
    assert [item.reason for item in first.proposals] == [item["reason"] for item in said["proposals"]]
