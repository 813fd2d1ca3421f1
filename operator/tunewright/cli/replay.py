"""`tunewright replay LEDGER`: every decision derived again, without a GPU and without an LLM."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

import tunewright
from tunewright.adapters.catalog import catalog_of
from tunewright.adapters.ledger.file import read_ledger_with_head
from tunewright.cli.console import output
from tunewright.domain.catalog_loader import Catalog
from tunewright.domain.problem import TuningProblem
from tunewright.planner.records import Header, Record, Round
from tunewright.planner.replay import Difference, header_of, replay, replay_projections, space_of
from tunewright.planner.state import fold

DIFFERENT = 1


def run_replay(path: Path, *, strict: bool, check: bool) -> None:
    """Print "identical", or the first difference with exit code 1. `check`: chain, schema and counters alone."""
    records, head = read_ledger_with_head(path)
    header = header_of(records)
    if check:
        output.print(_counted(records, head), soft_wrap=True)
        return
    space = space_of(header)
    difference = replay(records, space)
    if difference is None and strict:
        difference = replay_projections(records, space)
    if difference is not None:
        sys.stdout.write(f"different: {path}:{str(difference).removeprefix('line ')}\n{_cause(header)}\n")
        raise typer.Exit(DIFFERENT)
    rounds = [record for record in records if isinstance(record, Round)]
    output.print(f"identical: {len(rounds)} rounds of decisions from {len(records)} records", soft_wrap=True)
    if strict:
        projections = sum(len(record.projections) for record in rounds)
        output.print(f"identical: {projections} projections from their reports", soft_wrap=True)
        for line in _other_catalog(records, header):
            sys.stdout.write(f"{line}\n")
    output.print(f"chain: sha256:{head}", soft_wrap=True)


def _counted(records: Sequence[Record], head: str) -> str:
    state = fold(records)
    failed = sum(trial.failure is not None for trial in state.trials.values())
    spent = state.spent
    ended = f"ended as {state.finish.reason}" if state.finish else "not ended"
    return (
        f"whole: {len(records)} records, {state.decided_rounds} rounds, {len(state.profiles)} profiles, "
        f"{len(state.measurements)} measurements, {failed} trials failed, {len(state.judged)} proposals judged, "
        f"{len(state.asked)} questions to an LLM, {spent.gpu_seconds / 3600:.2f} GPU hours; {ended}\n"
        f"chain: sha256:{head}"
    )


def _cause(header: Header) -> str:
    """Say what changed the result: another version calculates by other formulas."""
    if header.operator_version != tunewright.__version__:
        return f"the ledger was written by tunewright {header.operator_version}, this is {tunewright.__version__}"
    return (
        f"both are tunewright {tunewright.__version__}: either its code was changed without a new version, "
        "or the ledger was written anew after an edit"
    )


def _other_catalog(records: Sequence[Record], header: Header) -> list[str]:
    """Say where the catalog of this build differs from the ledger's, and which number that would change."""
    catalog = catalog_of(os.environ)
    version = catalog.version
    if header.catalog_version == version:
        return []
    problem = _resolved_again(header.problem, catalog)
    if problem == header.problem:
        return [f"catalog {header.catalog_version} then, {version} now: nothing that this run uses is different"]
    names = _changed_presets(header.problem, problem)
    lines = [f"catalog {header.catalog_version} then, {version} now: {names} changed; the ledger's values were used"]
    changed = replay_projections(records, problem=problem)
    return [*lines, _told_with_catalog(changed)]


def _told_with_catalog(changed: Difference | None) -> str:
    if changed is None:
        return "with the catalog of this build every projection is the same"
    return f"with the catalog of this build, {changed}"


def _resolved_again(problem: TuningProblem, catalog: Catalog) -> TuningProblem:
    """Return the problem with the presets of this build. The preset `cpu` is measured, not looked up."""
    cluster = problem.cluster
    changes = {}
    if cluster.accelerator.name in catalog.accelerators and cluster.accelerator.vendor != "cpu":
        changes["accelerator"] = catalog.accelerator(cluster.accelerator.name)
    if cluster.network.name in catalog.networks:
        changes["network"] = catalog.network(cluster.network.name)  # type: ignore[assignment]
    model = catalog.model(problem.model.name) if problem.model.name in catalog.models else problem.model
    return problem.model_copy(update={"model": model, "cluster": cluster.model_copy(update=changes)})


def _changed_presets(before: TuningProblem, now: TuningProblem) -> str:
    pairs = (
        (f"model {before.model.name}", before.model, now.model),
        (f"accelerator {before.cluster.accelerator.name}", before.cluster.accelerator, now.cluster.accelerator),
        (f"network {before.cluster.network.name}", before.cluster.network, now.cluster.network),
    )
    return ", ".join(name for name, was, is_now in pairs if was != is_now)
