"""Builders of ledger records with fixed clock readings."""

from collections.abc import Iterable
from typing import Any

from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.hardware import Cluster
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.planner.records import Advice, Header, TrialFinished
from tunewright.planner.settings import PlannerSettings, ValidationSettings
from tunewright.trial_protocol.request import ExpectedDevice

RUN_UID = "00000000-0000-4000-8000-000000000001"
AT = "2026-11-30T05:00:00.000Z"


def a_tiny_problem(**changes: Any) -> TuningProblem:
    """Return the quickstart's kind of problem: a tiny dense model on four CPU processes of one node."""
    catalog = shipped_catalog()
    cluster = Cluster(
        nodes=1, gpus_per_node=4, accelerator=catalog.accelerator("cpu"), network=catalog.network("loopback")
    )
    problem = TuningProblem(
        model=catalog.model("tiny-quickstart"),
        sequence_length=64,
        global_batch_size=16,
        precision="fp32",
        backend="builtin",
        implementation="torch",
        cluster=cluster,
    )
    return problem.model_copy(update=changes)


def a_header(**changes: Any) -> Header:
    """Return a valid first line."""
    fields: dict[str, Any] = {
        "run": "quickstart",
        "run_uid": RUN_UID,
        "problem": a_tiny_problem(),
        "settings": PlannerSettings(
            baseline=TrainingConfig(precision="fp32"), validation=ValidationSettings(nodes=1, top_k=1)
        ),
        "device": ExpectedDevice(preset="cpu", vendor="cpu", count=4),
        "operator_version": "0.1.0",
        "catalog_version": "test",
        "at": AT,
    }
    return Header(**(fields | changes))


def an_advice(number: int, **changes: Any) -> Advice:
    """Return the answer to round `number`."""
    return Advice(**({"round": number, "outcome": "answered", "at": AT} | changes))


def measured_digests(records: Iterable[object]) -> set[str]:
    """Return the digests of the configurations that a ledger has a measurement of."""
    reports = (record.report for record in records if isinstance(record, TrialFinished))
    return {report.identity.config_digest for report in reports if report is not None and report.measured is not None}
