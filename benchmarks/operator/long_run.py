"""One run with 5,000 trials: its status, its ledger, and how long a pass over it takes.

Its trials are written into the ledger as the operator would have written them: none has the profile of another, and
the last ones were preempted. The operator reads them and attempts the last ones again. Meanwhile the run is touched
five times a second, as it is by the events of its Pods.
"""

import asyncio
import itertools
import json
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.operator.figures import Figure, bucket_quantile
from benchmarks.operator.rig import NAMESPACE, Rig, rig
from benchmarks.operator.runs import large_run, ledger_of, recorded_ends
from benchmarks.operator.scrape import Scrape
from tests.support.stand_in_kubelet import fixed_report
from tunewright.adapters.kube.acceptance import Accepted, accept
from tunewright.adapters.kube.client import TUNING_RUNS, Document
from tunewright.adapters.kube.ledger import ConfigMapLedger
from tunewright.adapters.kube.names import RunReference
from tunewright.adapters.ledger.lines import decode_lines
from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.training_config import TrainingConfig
from tunewright.engine.requests import trial_request
from tunewright.performance.profile_key import profile_key
from tunewright.planner.decisions import EnterPhase, Origin, StartTrial
from tunewright.planner.records import Header, Record, Round, TrialFinished, TrialStarted
from tunewright.trial_protocol.report import FailureClass

TRIALS = 5000
LAST = 40
"""Trials that the operator attempts again."""
PARALLEL = 4
TRIAL_SECONDS = 2.0
TRIALS_IN_A_ROUND = 125
"""Of those written beforehand: with more rounds without improvement the run would be over."""
KIBIBYTE = 1024
NAME = "long-run"
PREEMPTED: FailureClass = "Preempted"
_AT = "2026-11-30T05:00:00.000Z"
_IMAGE = "registry.example.com/trial:test"
_TRIALS_AT_ONCE = 10


async def long_run(scale: float) -> list[Figure]:
    """Write the ledger of a run that has come far, then let an operator finish it."""
    count = max(LAST + 10, round(TRIALS * scale))
    async with rig() as here:
        with here.kubelets(1, TRIAL_SECONDS):
            document = large_run("long", count, PARALLEL)
            (run,) = await here.create([document])
            written = await write_ledger(here, run, document, count, preempted=LAST)
            opening = await here.ready()
            began = time.perf_counter()
            await _opened(here)
            opening += time.perf_counter() - began
            before = here.scrape()
            touching = asyncio.create_task(_touch(here))
            (finished,) = await here.finished(1)
            touching.cancel()
            done = here.scrape().since(before)
            records = await ledger_of(here.client, run)
    return _figures(finished, records, done, opening, written, here.peak_bytes)


async def _opened(here: Rig) -> None:
    """Wait until the operator has read the ledger and said so in the status."""
    while not (await here.client.list(TUNING_RUNS, NAMESPACE))[0].get("status"):
        await asyncio.sleep(0.2)


async def _touch(here: Rig) -> None:
    for number in itertools.count():
        patch = {"metadata": {"annotations": {"example.com/touched": str(number)}}}
        await here.client.patch(TUNING_RUNS, NAMESPACE, "long", patch)
        await asyncio.sleep(0.2)


async def write_ledger(here: Rig, run: RunReference, document: Document, count: int, *, preempted: int) -> int:
    """Write what a run of `count` trials would have written, the last ones preempted; return how many there are."""
    accepted = accept(document, shipped_catalog(), default_image=_IMAGE)
    ledger = ConfigMapLedger(here.client, run, decode_lines)
    header = _header(run, accepted)
    await ledger.append([header])
    configs = [accepted.settings.baseline, *_others(accepted)][:count]
    for first in range(0, len(configs), _TRIALS_AT_ONCE):
        chosen = enumerate(configs[first : first + _TRIALS_AT_ONCE], start=first + 1)
        await ledger.append(
            [
                record
                for number, config in chosen
                for record in _trial(header, number, config, is_preempted=number > len(configs) - preempted)
            ]
        )
    return len(configs)


def _others(accepted: Accepted) -> Iterator[TrainingConfig]:
    """Yield a fitting configuration of every profile but the baseline's: the planner takes none twice."""
    space, baseline = accepted.space, accepted.settings.baseline
    own = space.row_of(baseline)
    rows = np.flatnonzero(space.fits)
    keys, first = np.unique(space.key_index[rows], return_index=True)
    for key, row in zip(keys, rows[first], strict=True):
        if own is None or key != space.key_index[own]:
            yield space.config(int(row))


def _header(run: RunReference, accepted: Accepted) -> Header:
    return Header(
        run=run.key,
        run_uid=run.uid,
        problem=accepted.problem,
        settings=accepted.settings,
        device=accepted.device,
        operator_version="bench",
        catalog_version="bench",
        spec_digest=accepted.document.spec.digest(),
        image=_IMAGE,
        at=_AT,
    )


def _trial(header: Header, number: int, config: TrainingConfig, *, is_preempted: bool) -> Iterator[Record]:
    """Yield what a run writes of one trial: the decision, its start and its end."""
    is_first, key = number == 1, profile_key(header.problem, config)
    origin = Origin(
        phase="seed" if is_first else "explore",
        proposed_by="baseline" if is_first else "surrogate",
        round=0 if is_first else 1 + (number - 2) // TRIALS_IN_A_ROUND,
        reason="the configuration to beat" if is_first else "expected to improve on the incumbent",
    )
    start = StartTrial(
        trial=f"t{number:04d}",
        kind="profile",
        config=config,
        profile_key=key,
        origin=origin,
        reserved_gpu_seconds=80.0,
    )
    decisions = (EnterPhase(phase="seed", reason="begin"), start) if is_first else (start,)
    if number == 2:  # the baseline is known, and the search begins
        decisions = (EnterPhase(phase="explore", reason="swept"), start)
    yield Round(elapsed_seconds=float(number), decisions=decisions, at=_AT)
    request = trial_request(header, header.settings, start, 600.0)
    yield TrialStarted(trial=start.trial, attempt=1, request_digest=request.digest(), at=_AT)
    report, failure = (None, PREEMPTED) if is_preempted else (fixed_report(request), None)
    yield TrialFinished(trial=start.trial, attempt=1, report=report, failure=failure, gpu_seconds=80.0, at=_AT)


def _figures(
    finished: Document, records: list[Record], done: Scrape, opening: float, written: int, peak: float
) -> list[Figure]:
    buckets, decisions = (done.buckets(f"tunewright_{name}_seconds") for name in ("reconcile", "decision"))
    status = len(json.dumps(finished["status"]).encode()) / KIBIBYTE
    ends, passes = len(recorded_ends(records)), int(buckets[-1][1]) if buckets else 0
    said = f"{written} trials; {ends} attempts in the ledger, {ends - written} of them the operator's"
    return [
        Figure(NAME, "status", status, "KiB", 64, said),
        Figure(NAME, "ledger lines that cannot be read", 0, "", 0, f"{len(records)} lines read, chain checked"),
        Figure(
            NAME, "reconcile, p99", 1000 * bucket_quantile(buckets, 0.99), "ms", 100, f"{passes} passes after the first"
        ),
        Figure(NAME, "decision, p99", 1000 * bucket_quantile(decisions, 0.99), "ms", None, "no pass waits for one"),
        Figure(NAME, "start to first status", opening, "s", None, "the whole ledger is read and folded"),
        Figure(NAME, "operator RSS, largest seen", peak / 2**20, "MiB"),
    ]
