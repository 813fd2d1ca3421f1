"""The TuningRuns of the scenarios: small searches that need no LLM, and what their ledgers say. Used by scenarios."""

import json
from pathlib import Path

from tests.support.operator_runs import example
from tunewright.adapters.kube.client import Document, KubeClient
from tunewright.adapters.kube.ledger import read_shards, shards_text
from tunewright.adapters.kube.names import RunReference, trial_job_name
from tunewright.adapters.ledger.lines import decode_lines
from tunewright.planner.decisions import StartTrial
from tunewright.planner.records import Record, Round, TrialFinished
from tunewright.trial_protocol.identity import TrialIdentity

PROPOSALS_PER_ROUND = 4
WIDE: Document = {
    "recomputeGranularity": ["none", "selective", "full"],
    "crossEntropyFusion": [True, False],
    "precision": ["bf16", "fp8"],
    "microBatchSize": [1, 2, 4, 8, 16, 32],
    "expertTensorParallelSize": [1, 2, 4, 8],
    "pipelineSchedule": ["1f1b"],
}
"""Axes of Mixtral 8x22B beside their defaults: 28,488 legal configurations; those that fit have 5,698 profiles."""


def small_run(name: str, **spec: object) -> Document:
    """Return a run of twelve configurations of a tiny model."""
    return _named(example(**({"explore": {"strategy": "Surrogate"}} | spec)), name)


def large_run(name: str, max_trials: int, parallel: int) -> Document:
    """Return a run over Mixtral 8x22B that measures nothing and stops when `max_trials` profiles are taken."""
    cluster = {"nodes": 8, "gpusPerNode": 8, "accelerator": {"preset": "mi355x"}}
    spec = {
        "workload": {
            "model": {"preset": "mixtral-8x22b"},
            "sequenceLength": 8192,
            "globalBatchSize": 512,
            "precision": "fp8",
            "backend": "primus",
        },
        "cluster": cluster | {"network": {"preset": "mi355x-pollara"}},
        "baseline": {
            "tensorParallelSize": 1,
            "pipelineParallelSize": 4,
            "expertParallelSize": 8,
            "microBatchSize": 1,
        },
        "searchSpace": WIDE,
        "explore": {"strategy": "Surrogate", "proposalsPerRound": PROPOSALS_PER_ROUND, "patience": 100},
        "validation": {"topK": 0, "includeBaseline": False},
        "budget": {"maxTrials": max_trials},
        "parallelTrials": parallel,
    }
    return _named(example() | {"spec": spec}, name)


def _named(document: Document, name: str) -> Document:
    document["metadata"]["name"] = name
    return document


async def ledger_of(client: KubeClient, run: RunReference) -> list[Record]:
    """Return a run's records, their chain checked."""
    return decode_lines(shards_text(await read_shards(client, run)), run.key)


def ends_in(file: Path) -> dict[str, float]:
    """Return when the Pod of each Job ended, by the kubelets' clock."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return {line["job"]: float(line["at"]) for line in lines}


def jobs_of(records: list[Record], run: RunReference) -> dict[tuple[str, int], str]:
    """Return the Job of each attempt, in the order in which they were decided."""
    starts = [item for record in records if isinstance(record, Round) for item in record.decisions]
    return {
        (start.trial, start.attempt): trial_job_name(
            run, TrialIdentity.of(run.uid, start.trial, start.attempt, start.kind, start.config)
        )
        for start in starts
        if isinstance(start, StartTrial)
    }


def recorded_ends(records: list[Record]) -> list[TrialFinished]:
    """Return the ends of attempts, in the ledger's order."""
    return [record for record in records if isinstance(record, TrialFinished)]
