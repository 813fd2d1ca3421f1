"""One step of a run: record what happened, decide, write the plan, then act. Called until nothing changes.

The order is the guarantee: a decision is in the ledger before it is carried out, and what should be running is derived
from the ledger and compared with what is. Killing the process between any two lines loses nothing and starts nothing
twice.
"""

import asyncio
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tunewright.engine.requests import trial_request
from tunewright.engine.run_handle import Decided, RunHandle
from tunewright.planner.briefing import briefing
from tunewright.planner.decide import decide
from tunewright.planner.decisions import AskAdvisor
from tunewright.planner.projected import decided_round
from tunewright.planner.records import Advice, SettingsChanged, TrialFinished, TrialStarted, fitting
from tunewright.planner.settings import PlannerSettings
from tunewright.planner.snapshot import Snapshot
from tunewright.planner.trial import Trial
from tunewright.ports import AdviceRequest, TrialObservation
from tunewright.trial_protocol.request import TrialRequest

Observations = Mapping[tuple[str, int], TrialObservation]
_MOST_ENDS = 8
"""Recorded in one write: a report has 4 KiB at most, so these fit into one shard of a ledger."""


async def step(run: RunHandle, settings: PlannerSettings | None = None, *, suspended: bool = False) -> bool:
    """Advance a run by at most one write of what happened and one round of decisions; return whether anything changed.

    `settings` are those that the person wants now; what may not change is taken from the ledger. A suspended run
    records what ends and decides nothing, unless it is to stop.
    """
    if run.is_deciding:
        return False
    if run.deciding is not None:
        made, run.deciding = run.deciding, None
        if not suspended and _wanted(run, settings) == run.settings:
            return await _write_down(run, made.result())
        made.exception()  # it was decided for what is no longer wanted: forget it, and how it ended
    await record_settings(run, settings)
    observed = await _observe(run)
    run.count_time(active=not suspended and not _only_queues(run, observed))
    if suspended and not run.settings.stop:
        return await _record(run, observed)
    return await _bring_about(run, observed) or await _record(run, observed) or await _decide(run)


async def _record(run: RunHandle, observed: Observations) -> bool:
    return await _record_finished(run, observed) or await _record_advice(run)


async def record_settings(run: RunHandle, wanted: PlannerSettings | None) -> None:
    """Record what the person wants now, where it differs: a higher budget reopens a finished run."""
    settings = _wanted(run, wanted)
    if settings != run.settings:
        await run.append(SettingsChanged(settings=settings, at=run.clock.now()))


def _wanted(run: RunHandle, wanted: PlannerSettings | None) -> PlannerSettings:
    return run.header.settings.with_mutable_of(wanted) if wanted is not None else run.settings


def _only_queues(run: RunHandle, observed: Observations) -> bool:
    """Whether all that the run does is wait for nodes: queueing is not run time."""
    seen = [observed.get(_key(trial)) for trial in run.state.running]
    return bool(seen) and all(one is not None and one.state == "queued" for one in seen)


async def _observe(run: RunHandle) -> Observations:
    return {(seen.trial, seen.attempt): seen for seen in await run.trials.observe()}


async def _record_finished(run: RunHandle, observed: Observations) -> bool:
    """Record the ends of the oldest running trials. Younger ones wait for them, so the ledger's order is the plan's."""
    ends = [_finished(seen, run.clock.now()) for seen in itertools.islice(_ends(run, observed), _MOST_ENDS)]
    if ends:
        await run.append(*ends)
    return bool(ends)


def _ends(run: RunHandle, observed: Observations) -> Iterator[TrialObservation]:
    for trial in run.state.running:
        seen = _end_of(trial, observed)
        if seen is None:
            return
        yield seen


def _end_of(trial: Trial, observed: Observations) -> TrialObservation | None:
    """Return how an attempt ended, or None while it runs. One that is stopped before it exists is cancelled."""
    seen, attempt = observed.get(_key(trial)), trial.attempts[-1]
    if seen is None and attempt.is_stopping and not attempt.is_started:
        return TrialObservation(trial.name, attempt.number, "finished", failure="Cancelled", message="never started")
    return seen if seen is not None and seen.state == "finished" else None


def _finished(seen: TrialObservation, at: str) -> TrialFinished:
    return TrialFinished(
        trial=seen.trial,
        attempt=seen.attempt,
        report=seen.report,
        failure=seen.failure,
        message=seen.message[:1000],
        node=seen.node,
        recorded_from=seen.recorded_from,
        gpu_seconds=seen.gpu_seconds,
        queued_seconds=seen.queued_seconds,
        at=at,
    )


async def _record_advice(run: RunHandle) -> bool:
    """Record one answer. A question that no task of this process holds was asked by one that died: it is lost.

    What comes after the end of the run is of no use to it: its reservation stays spent.
    """
    if run.state.finish is not None:
        return False
    for number, asked in run.state.asked.items():
        if asked.advice is not None:
            continue
        task = run.asked.get(number)
        if task is not None and not task.done():
            continue
        advice = fitting(_answer(number, task))
        await run.append(advice.model_copy(update={"round": number, "at": run.clock.now()}))
        run.asked.pop(number, None)
        return True
    return False


def _answer(number: int, task: asyncio.Task[Advice] | None) -> Advice:
    """Return the answer. An advisor that breaks its word and raises costs this round and no more."""
    if task is None or task.cancelled():
        return _lost(number)
    error = task.exception()
    if error is None:
        return task.result()
    message = f"{type(error).__name__}: {error}"[:2000]
    return Advice(round=number, outcome="failed", condition_reason="Unexpected", message=message, at="")


def _lost(number: int) -> Advice:
    message = "the process that asked ended before the answer; the reservation stays spent"
    return Advice(round=number, outcome="lost", message=message, at="")


async def _decide(run: RunHandle) -> bool:
    if run.rests:
        return False
    thinking = asyncio.to_thread(_decided, await run.snapshot())
    if run.on_decision is None:
        return await _write_down(run, await thinking)
    tell, run.deciding = run.on_decision, asyncio.create_task(thinking)
    run.deciding.add_done_callback(lambda _: tell())
    return False


async def _write_down(run: RunHandle, what: Decided) -> bool:
    """Record what was decided, and ask the advisor where that was it; return whether anything was."""
    decided, context = what
    if decided is None:
        run.rest()
        return False
    await run.append(decided.model_copy(update={"at": run.clock.now()}))
    for decision in decided.decisions:
        if isinstance(decision, AskAdvisor):
            run.asked[decision.round] = asyncio.create_task(_timed_ask(run, decision, context))
    return True


def _decided(snapshot: Snapshot) -> Decided:
    """Decide, and tell the advisor what the decision saw: later the state moves on."""
    decisions = decide(snapshot)
    if not decisions:
        return None, {}
    asks = any(isinstance(decision, AskAdvisor) for decision in decisions)
    return decided_round(snapshot, decisions, at=""), briefing(snapshot) if asks else {}


async def _timed_ask(run: RunHandle, ask: AskAdvisor, context: Mapping[str, Any]) -> Advice:
    began = run.clock.seconds()
    advice = await _ask(run, ask, context)
    return advice.model_copy(update={"latency_seconds": round(max(0.0, run.clock.seconds() - began), 3)})


async def _ask(run: RunHandle, ask: AskAdvisor, context: Mapping[str, Any]) -> Advice:
    if run.advisor is None:
        message = "no LLM is configured where this run is driven"
        return Advice(round=ask.round, outcome="failed", condition_reason="NotConfigured", message=message, at="")
    llm = run.settings.llm
    return await run.advisor.ask(
        AdviceRequest(
            round=ask.round,
            proposals=ask.proposals,
            max_output_tokens=llm.max_output_tokens if llm else 0,
            context=context,
            max_calls=ask.max_calls,
            reserved_tokens=ask.reserved_tokens,
        )
    )


async def _bring_about(run: RunHandle, observed: Observations) -> bool:
    """Make every attempt exist that the ledger wants, and end those that it wants ended.

    What is recorded as started is never started again: one that is not to be seen is adopted.
    """
    changed = False
    unrecorded: list[Trial] = []
    for trial in run.state.running:
        seen, attempt = observed.get(_key(trial)), trial.attempts[-1]
        if attempt.is_stopping and seen is not None and seen.state != "finished":
            await run.trials.stop(*_key(trial))
        elif not attempt.is_stopping and not attempt.is_started:
            unrecorded.append(trial)
        elif attempt.is_started and seen is None:
            await run.trials.adopt(_request(run, trial))
            changed = True
    return await _start(run, unrecorded, observed) or changed


async def _start(run: RunHandle, trials: Sequence[Trial], observed: Observations) -> bool:
    """Start attempts side by side, but those that a process that died had started; record in one write that they exist.

    Where one cannot be started, the others are recorded before its error is raised.
    """
    tried = await asyncio.gather(
        *[_started(run, trial, is_seen=_key(trial) in observed) for trial in trials], return_exceptions=True
    )
    if started := [record for record in tried if isinstance(record, TrialStarted)]:
        await run.append(*started)
    for error in tried:
        if isinstance(error, BaseException):
            raise error
    return bool(started)


async def _started(run: RunHandle, trial: Trial, *, is_seen: bool) -> TrialStarted:
    request = _request(run, trial)
    if not is_seen:
        await run.trials.start(request)
    name, attempt = _key(trial)
    return TrialStarted(trial=name, attempt=attempt, request_digest=request.digest(), at=run.clock.now())


def _request(run: RunHandle, trial: Trial) -> TrialRequest:
    start = trial.start.model_copy(update={"attempt": trial.attempts[-1].number})
    return trial_request(run.header, run.settings, start, run.trial_deadline_seconds)


def _key(trial: Trial) -> tuple[str, int]:
    return trial.name, trial.attempts[-1].number
