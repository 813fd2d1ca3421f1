"""`tunewright run FILE`: a whole search with trials on this machine or on a stand-in."""

import asyncio
import contextlib
import os
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

import tunewright
from tunewright.adapters.advisor import LLMAdvisor, LLMConnection
from tunewright.adapters.catalog import catalog_of
from tunewright.adapters.clock import SystemClock
from tunewright.adapters.kube.acceptance import Accepted
from tunewright.adapters.ledger.file import FileLedger
from tunewright.adapters.ledger.lines import decode_lines
from tunewright.adapters.trials.local import LocalTrials
from tunewright.adapters.trials.recorded import ClosableTrials
from tunewright.adapters.trials.simulated import HiddenTruth, SimulatedTrials
from tunewright.cli.console import messages, output, print_json
from tunewright.cli.loading import CPU_PRESET, load
from tunewright.cli.narration import NarratedLedger
from tunewright.cli.outputs import check_folder, discard_outputs, write_outputs
from tunewright.cli.result_view import print_result
from tunewright.cli.same_request import check_same_request
from tunewright.domain.hardware import Accelerator
from tunewright.domain.problem import TuningProblem
from tunewright.engine.run_handle import RunHandle
from tunewright.engine.step import record_settings, step
from tunewright.errors import InvalidInput, LedgerError
from tunewright.planner.records import Header, Record
from tunewright.planner.summary import Summary, summarise
from tunewright.ports import Advisor
from tunewright.search.space import Space
from tunewright.trial_protocol.failure_guide import FAILURE_GUIDE

LEDGER_NAME = "run.jsonl"
POLL_SECONDS = 0.1
SIMULATED = "simulated"
PLACES = ("local", SIMULATED)
FAILED = 1


@dataclass(frozen=True)
class Parts:
    """What a run on this machine is made of. `header` is that of a new run."""

    header: Header
    trials: Callable[[Sequence[Record]], ClosableTrials]
    """Where trials run, for a run that has these records already."""
    advisor: Advisor | None = None
    space: Space | None = None


def run_search(
    path: Path, out: Path, place: str, model_config: Path | None = None, *, fresh: bool, json_output: bool
) -> None:
    """Search, show progress on standard error, print the result and leave it in `out`."""
    recorded = None if fresh else _recorded_header(out / LEDGER_NAME)
    accepted = load(path, model_config, measured_before=_measured_cpu(recorded))
    trials = trials_at(place, out, accepted.settings.random_seed)
    check_folder(out, LEDGER_NAME)
    header = _header(accepted, simulated=place == SIMULATED)
    parts = Parts(header, lambda _: trials, _advisor(accepted), accepted.space)
    summary = searched(out, parts, fresh=fresh)
    show(out, accepted.problem, summary, json_output=json_output)


def searched(out: Path, parts: Parts, *, fresh: bool) -> Summary:
    """Drive a run in `out` to its end, from its beginning or from where it was left; say so when interrupted."""
    try:
        return asyncio.run(_search(out, parts, fresh=fresh))
    except KeyboardInterrupt:
        remedy = "the same command without --fresh goes on from there" if fresh else "the same command goes on"
        messages.print(f"Interrupted. What is known is in {out}: {remedy}.", soft_wrap=True, markup=False)
        raise


async def _search(out: Path, parts: Parts, *, fresh: bool) -> Summary:
    async with _opened(out, parts, fresh=fresh) as handle:
        await record_settings(handle, parts.header.settings)
        if handle.state.finish is not None:
            _tell_finished(out, handle.state.finish.reason)
        while handle.state.finish is None:
            if not await step(handle, parts.header.settings):
                await asyncio.sleep(POLL_SECONDS)
        snapshot = await handle.snapshot()
        return summarise(snapshot.problem, snapshot.settings, snapshot.space, snapshot.state)


def show(out: Path, problem: TuningProblem, summary: Summary, *, json_output: bool) -> None:
    """Leave the results in `out`, print them, and end with an exit code of 1 where the run failed."""
    written = write_outputs(out, problem, summary)
    if json_output:
        print_json(summary.to_json())
    else:
        print_result(problem, summary)
        output.print(f"\nLeft in {out}: {', '.join([LEDGER_NAME, *written])}", soft_wrap=True)
    if summary.state == "Failed":
        sys.stderr.write(f"error: {summary.finish_message}\n")
        for failed in summary.counters.failed_by_class:
            messages.print(f"{failed.failure}: {FAILURE_GUIDE[failed.failure].remedy}", soft_wrap=True, markup=False)
        raise typer.Exit(FAILED)


def trials_at(place: str, out: Path, seed: int) -> ClosableTrials:
    """Return where trials run; raise `InvalidInput` for a place that there is not."""
    if place not in PLACES:
        raise InvalidInput.of("--trials", place, f"must be one of {', '.join(PLACES)}")
    return SimulatedTrials(HiddenTruth(seed)) if place == SIMULATED else LocalTrials(out / "trials")


@contextlib.asynccontextmanager
async def _opened(out: Path, parts: Parts, *, fresh: bool) -> AsyncIterator[RunHandle]:
    """Open the run in `out`; whatever happens, end its processes and release its ledger."""
    ledger = FileLedger(out / LEDGER_NAME)
    async with contextlib.AsyncExitStack() as opened:
        opened.callback(ledger.close)
        if fresh:
            ledger.clear()
            discard_outputs(out)
        trials = parts.trials(await ledger.read())
        opened.push_async_callback(trials.close)
        handle = RunHandle(NarratedLedger(ledger), trials, SystemClock(), parts.advisor, built_space=parts.space)
        opened.push_async_callback(handle.close)
        recorded, header = await handle.read(), parts.header
        if recorded is not None:
            header = header.model_copy(update={"run_uid": recorded.run_uid})
            check_same_request(recorded, header)
        await handle.open(header)
        yield handle


def _advisor(accepted: Accepted) -> Advisor | None:
    """Return the LLM of the spec. On a laptop its key comes from the environment."""
    if accepted.llm is None:
        return None
    return LLMAdvisor(LLMConnection.from_environment(accepted.llm.connection(), os.environ, "spec.llm"))


def _header(accepted: Accepted, *, simulated: bool) -> Header:
    return Header(
        run=accepted.document.metadata.name,
        run_uid=str(uuid.uuid4()),
        problem=accepted.problem,
        settings=accepted.settings,
        device=accepted.device,
        simulated=simulated,
        operator_version=tunewright.__version__,
        catalog_version=catalog_of(os.environ).version,
        spec_digest=accepted.document.spec.digest(),
        at=SystemClock().now(),
    )


def _recorded_header(path: Path) -> Header | None:
    """Return the header of a ledger that is there; None where it cannot be read, which its opening tells."""
    try:
        with path.open(encoding="utf-8") as file:
            records = decode_lines(file.readline(), str(path))
    except (OSError, ValueError, LedgerError):
        return None
    return records[0] if records and isinstance(records[0], Header) else None


def _measured_cpu(recorded: Header | None) -> Accelerator | None:
    """Return the `cpu` preset that a run was started with: measured anew it would be another, and the run too."""
    accelerator = recorded.problem.cluster.accelerator if recorded else None
    return accelerator if accelerator is not None and accelerator.name == CPU_PRESET else None


def _tell_finished(out: Path, reason: str) -> None:
    messages.print(
        f"The run in {out} is finished ({reason}), this is its result. --fresh begins anew; higher maxTrials, "
        "maxFailedTrials, maxGPUHours or maxDurationSeconds in the file let a run go on that was not stopped.",
        soft_wrap=True,
        markup=False,
    )
