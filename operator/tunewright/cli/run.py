"""`tunewright run FILE`: a whole search with trials on this machine or on a stand-in."""

import asyncio
import contextlib
import os
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import typer

import tunewright
from tunewright.adapters.advisor import LLMAdvisor, LLMConnection
from tunewright.adapters.clock import SystemClock
from tunewright.adapters.kube.acceptance import Accepted
from tunewright.adapters.ledger.file import FileLedger
from tunewright.adapters.trials.local import LocalTrials
from tunewright.adapters.trials.simulated import HiddenTruth, SimulatedTrials
from tunewright.cli.console import output, print_json
from tunewright.cli.loading import load
from tunewright.cli.narration import NarratedLedger
from tunewright.cli.outputs import check_folder, discard_outputs, write_outputs
from tunewright.cli.result_view import print_result
from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.engine.run_handle import RunHandle
from tunewright.engine.step import step
from tunewright.errors import InvalidInput, LedgerError
from tunewright.planner.records import Header
from tunewright.planner.summary import Summary, summarise
from tunewright.ports import Advisor

LEDGER_NAME = "run.jsonl"
POLL_SECONDS = 0.1
PLACES = ("local", "simulated")
FAILED = 1


def run_search(path: Path, out: Path, place: str, *, fresh: bool, json_output: bool) -> None:
    """Search, show progress on standard error, print the result and leave it in `out`."""
    if place not in PLACES:
        raise InvalidInput.of("--trials", place, f"must be one of {', '.join(PLACES)}")
    accepted = load(path)
    check_folder(out, LEDGER_NAME)
    summary = asyncio.run(_search(accepted, out, place, fresh=fresh))
    written = write_outputs(out, accepted.problem, summary)
    if json_output:
        print_json(summary.to_json())
    else:
        print_result(accepted.problem, summary)
        output.print(f"\nLeft in {out}: {', '.join([LEDGER_NAME, *written])}", soft_wrap=True)
    if summary.state == "Failed":
        sys.stderr.write(f"error: {summary.finish_message}\n")
        raise typer.Exit(FAILED)


async def _search(accepted: Accepted, out: Path, place: str, *, fresh: bool) -> Summary:
    async with _opened(accepted, out, place, fresh=fresh) as handle:
        while handle.state.finish is None:
            if not await step(handle, accepted.settings):
                await asyncio.sleep(POLL_SECONDS)
        snapshot = await handle.snapshot()
        return summarise(snapshot.problem, snapshot.settings, snapshot.space, snapshot.state)


@contextlib.asynccontextmanager
async def _opened(accepted: Accepted, out: Path, place: str, *, fresh: bool) -> AsyncIterator[RunHandle]:
    """Open the run in `out`; whatever happens, end its processes and release its ledger."""
    ledger = FileLedger(out / LEDGER_NAME)
    simulated = place == "simulated"
    trials = SimulatedTrials(HiddenTruth(accepted.settings.random_seed)) if simulated else LocalTrials(out / "trials")
    handle = RunHandle(NarratedLedger(ledger), trials, SystemClock(), _advisor(accepted), built_space=accepted.space)
    try:
        if fresh:
            ledger.clear()
            discard_outputs(out)
        recorded = await handle.read()
        header = _header(accepted, recorded.run_uid if recorded else str(uuid.uuid4()), simulated=simulated)
        if recorded is not None:
            check_same_request(recorded, header)
        await handle.open(header)
        yield handle
    finally:
        await handle.close()
        await trials.close()
        ledger.close()


def _advisor(accepted: Accepted) -> Advisor | None:
    """Return the LLM of the spec. On a laptop its key comes from the environment."""
    if accepted.llm is None:
        return None
    return LLMAdvisor(LLMConnection.from_environment(accepted.llm.connection(), os.environ, "spec.llm"))


def _header(accepted: Accepted, run_uid: str, *, simulated: bool) -> Header:
    return Header(
        run=accepted.document.metadata.name,
        run_uid=run_uid,
        problem=accepted.problem,
        settings=accepted.settings,
        device=accepted.device,
        simulated=simulated,
        operator_version=tunewright.__version__,
        catalog_version=shipped_catalog().version,
        at=SystemClock().now(),
    )


def check_same_request(recorded: Header, wanted: Header) -> None:
    """Raise `LedgerError` when a folder holds the run of another file, or of this one before it was edited."""
    pairs = [(name, getattr(recorded, name), getattr(wanted, name)) for name in ("problem", "simulated", "device")]
    kept = recorded.settings.with_mutable_of(wanted.settings)
    pairs.append(("search settings", kept, wanted.settings))
    for name, before, now in pairs:
        if before != now:
            remedy = "choose another --out, or --fresh to discard it"
            raise LedgerError(f"the folder holds a run with another {name}: {remedy}")
