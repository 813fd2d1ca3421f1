"""One step of a run: record what happened, decide, write the plan, then act. Called until nothing changes.

The order is the guarantee: a decision is in the ledger before it is carried out, and what should be running is derived
from the ledger and compared with what is. Killing the process between any two lines loses nothing and starts nothing
twice.
"""

import asyncio
from collections.abc import Mapping

from tunewright.engine.requests import trial_request
from tunewright.engine.run_handle import RunHandle
from tunewright.planner.briefing import briefing
from tunewright.planner.decide import decide
from tunewright.planner.decisions import AskAdvisor
from tunewright.planner.records import Advice, Round, SettingsChanged, TrialFinished
from tunewright.planner.settings import PlannerSettings
from tunewright.planner.state import Trial
from tunewright.ports import AdviceRequest, TrialObservation

Observations = Mapping[tuple[str, int], TrialObservation]


async def step(run: RunHandle, settings: PlannerSettings | None = None, *, suspended: bool = False) -> bool:
    """Advance a run by at most one record of the world and one round of decisions; return whether anything changed.

    `settings` are those that the person wants now. A suspended run records what ends and decides nothing.
    """
    if settings is not None and settings != run.state.settings:
        await run.append(SettingsChanged(settings=settings, at=run.clock.now()))
    observed = await _observe(run)
    recorded = await _record_finished(run, observed) or await _record_advice(run)
    if run.state.finish is not None:
        return recorded or await _end_running(run, observed)
    if suspended:
        return recorded
    decided = await _decide(run)
    await _start_missing(run, observed)
    return recorded or decided


async def _observe(run: RunHandle) -> Observations:
    return {(seen.trial, seen.attempt): seen for seen in await run.trials.observe()}


async def _record_finished(run: RunHandle, observed: Observations) -> bool:
    """Record the end of the oldest running trial. Younger ones wait for it, so the ledger's order is the plan's."""
    running = run.state.running
    if not running:
        return False
    seen = observed.get(_key(running[0]))
    if seen is None or seen.state != "finished":
        return False
    await run.append(_finished(seen, run.clock.now()))
    return True


def _finished(seen: TrialObservation, at: str) -> TrialFinished:
    return TrialFinished(
        trial=seen.trial,
        attempt=seen.attempt,
        report=seen.report,
        failure=seen.failure,
        message=seen.message[:1000],
        node=seen.node,
        gpu_seconds=seen.gpu_seconds,
        queued_seconds=seen.queued_seconds,
        at=at,
    )


async def _record_advice(run: RunHandle) -> bool:
    """Record one answer. A question that no task of this process holds was asked by one that died: it is lost."""
    for number, asked in run.state.asked.items():
        if asked.advice is not None:
            continue
        task = run.asked.get(number)
        if task is not None and not task.done():
            continue
        advice = task.result() if task is not None else _lost(number)
        await run.append(advice.model_copy(update={"round": number, "at": run.clock.now()}))
        run.asked.pop(number, None)
        return True
    return False


def _lost(number: int) -> Advice:
    message = "the process that asked ended before the answer; the reservation stays spent"
    return Advice(round=number, outcome="lost", message=message, at="")


async def _decide(run: RunHandle) -> bool:
    snapshot = await run.snapshot()
    decisions = await asyncio.to_thread(decide, snapshot)
    if not decisions:
        return False
    elapsed = snapshot.elapsed_seconds
    await run.append(Round(elapsed_seconds=elapsed, decisions=decisions, at=run.clock.now()))
    for decision in decisions:
        if isinstance(decision, AskAdvisor):
            run.asked[decision.round] = asyncio.create_task(_ask(run, decision))
    return True


async def _ask(run: RunHandle, ask: AskAdvisor) -> Advice:
    if run.advisor is None:
        message = "no LLM is configured where this run is driven"
        return Advice(round=ask.round, outcome="failed", condition_reason="NotConfigured", message=message, at="")
    snapshot = await run.snapshot()
    llm = snapshot.settings.llm
    context = await asyncio.to_thread(briefing, snapshot)
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


async def _start_missing(run: RunHandle, observed: Observations) -> None:
    settings = run.state.settings or run.header.settings
    for trial in run.state.running:
        if _key(trial) in observed:
            continue
        start = trial.start.model_copy(update={"attempt": trial.attempts[-1].number})
        await run.trials.start(trial_request(run.header, settings, start, run.trial_deadline_seconds))


async def _end_running(run: RunHandle, observed: Observations) -> bool:
    """End what still runs of a run that is over; the next step records it. What never started is recorded at once."""
    for trial in run.state.running:
        seen = observed.get(_key(trial))
        if seen is None:
            name, attempt = _key(trial)
            never = TrialObservation(name, attempt, "finished", failure="Cancelled", message="never started")
            await run.append(_finished(never, run.clock.now()))
            return True
        if seen.state != "finished":
            await run.trials.stop(*_key(trial))
    return False


def _key(trial: Trial) -> tuple[str, int]:
    return trial.name, trial.attempts[-1].number
