"""A whole run as a report wants it: experts, a deep pipeline, an LLM with hypotheses, failures, measurements."""

from pathlib import Path
from typing import Any

from tests.support.builders import an_llm
from tests.support.planning import Run, World, hidden_effect
from tests.support.records import RUN_UID, a_header, an_advice
from tunewright.adapters.kube.acceptance import accept
from tunewright.cli.loading import read_document
from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.planner.decisions import AskAdvisor, StartTrial
from tunewright.planner.records import Advice, Hypothesis, ProposedConfig, Record
from tunewright.planner.settings import ExploreSettings
from tunewright.trial_protocol.report import FailureClass

EXAMPLE = Path(__file__).parents[2] / "examples" / "mixtral-8x22b-mi355x.yaml"


def reported_run(words: str = "", **header: Any) -> list[Record]:
    """Return the records of a finished run; `words` are in every text that people, trials and the LLM write."""
    accepted = accept(read_document(EXAMPLE), shipped_catalog())
    explore = ExploreSettings(strategy="LLM", proposals_per_round=3, patience=2)
    settings = accepted.settings.model_copy(update={"llm": an_llm(), "explore": explore})
    if settings.reference is not None and words:
        named = settings.reference.model_copy(update={"source": words})
        settings = settings.model_copy(update={"reference": named})
    world = World(
        accepted.problem,
        settings,
        profile_factor=hidden_effect(1, 0.06, "tensor_parallel_size", "moe_dispatcher"),
        measure_factor=hidden_effect(2, 0.08, "pipeline_schedule", "micro_batch_size"),
        fails=_one_fails,
        advises=lambda ask: _advice(ask, words),
    )
    run = Run.of(world, accepted.space).to_end()
    first = a_header(problem=accepted.problem, settings=settings, run=words or "default/mixtral", **header)
    assert first.run_uid == RUN_UID
    return [first, *(_with_words(record, words) for record in run.records[1:])]


def _one_fails(start: StartTrial) -> FailureClass | None:
    return "DeviceOutOfMemory" if start.trial == "t0004" else None


def _advice(ask: AskAdvisor, words: str) -> Advice:
    deeper = f"Deeper pipelines hide the all-to-all. {words}"
    larger = "Larger micro batches fill the matrix units."
    stated = (
        Hypothesis(axes=("pipelineParallelSize", words or "x"), mechanism=deeper, expected_gain_percent=8.0),
        Hypothesis(axes=("microBatchSize",), mechanism=larger, expected_gain_percent=3.5),
    )
    proposals = (
        ProposedConfig(changes={"pp": 8, "ep": 8, "schedule": "zero-bubble-h1"}, reason=words, hypothesis=1),
        ProposedConfig(changes={"tp": 2, "mbs": 2}, reason="", hypothesis=2),
        ProposedConfig(changes={"wheels": 4}, reason="", hypothesis=2),
    )
    return an_advice(ask.round, hypotheses=stated, proposals=proposals)


def _with_words(record: Record, words: str) -> Record:
    if words and record.type == "trial" and record.failure:
        return record.model_copy(update={"message": words, "node": words})
    return record
