"""What a decision costs before it is made, and what is left. Called by every phase and by the forecast.

Costs are reserved from estimates, not from deadlines: four validations of 64 GPUs with a deadline of 20 minutes would
reserve 85 GPU hours. What a trial really used replaces its reservation when it has ended.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tunewright.domain.problem import TuningProblem
from tunewright.planner.settings import LLMSettings, PlannerSettings
from tunewright.planner.snapshot import Snapshot

START_SECONDS = 60.0
"""From the start of a trial's processes to its first useful work: imports, process groups, first kernels."""
PROFILE_SECONDS = 60.0
"""Useful work of a profile: two depths, warm-up and repetitions of single layers, collectives."""
VALIDATION_SHARE = 0.5
"""Part of the GPU hours and of the duration that profiles leave to validation, at most."""
PROMPT_BYTES = 8 * 1024
"""Instructions around a briefing, and the schema without the values of the axes."""
AXES_COPIES = 3
"""How often the allowed values stand in a request beside the briefing: in its text and twice in the schema."""
BYTES_PER_TOKEN = 2
"""On the low side for JSON with figures, so that a reservation is on the high side."""
CALLS_PER_ROUND = 2
"""One question and one repair of its answer."""


@dataclass(frozen=True)
class LLMReservation:
    """What one round may cost."""

    calls: int
    tokens: int
    cost_usd: float


def profile_gpu_seconds(settings: PlannerSettings) -> float:
    """Return what one profile trial is expected to take, in accelerator seconds."""
    return (START_SECONDS + PROFILE_SECONDS) * settings.profile_gpus


def measure_seconds(settings: PlannerSettings, step_seconds: float) -> float:
    """Return the expected duration of one validation."""
    return START_SECONDS + step_seconds * (settings.validation.steps + settings.validation.warmup_steps)


def measure_gpu_seconds(problem: TuningProblem, settings: PlannerSettings, step_seconds: float) -> float:
    """Return what one validation is expected to take, in accelerator seconds."""
    gpus = settings.validation.nodes * problem.cluster.gpus_per_node
    return measure_seconds(settings, step_seconds) * gpus


def planned_measurements(settings: PlannerSettings) -> int:
    """Return how many validations a run wants: the best and the baseline, and the fastest of them as often as asked."""
    validation = settings.validation
    once = validation.top_k + int(validation.include_baseline)
    return once + validation.repeats - 1 if once else 0


def gpu_seconds_left(snapshot: Snapshot) -> float:
    """Return what is not used or reserved; infinite without a limit."""
    limit = snapshot.settings.budget.max_gpu_hours
    return math.inf if limit is None else limit * 3600 - snapshot.state.gpu_seconds


def profiles_left(snapshot: Snapshot) -> int:
    """Return how many profile trials may still be started."""
    return snapshot.settings.budget.max_trials - len(snapshot.state.profiles)


def validation_gpu_seconds(snapshot: Snapshot, step_seconds: float) -> float:
    """Return what profiles leave for validation: of its share, what a reopened run has not used for it yet."""
    limit = snapshot.settings.budget.max_gpu_hours
    wanted = planned_measurements(snapshot.settings) * measure_gpu_seconds(
        snapshot.problem, snapshot.settings, step_seconds
    )
    if limit is None:
        return wanted
    used = sum(trial.gpu_seconds for trial in snapshot.state.measurements)
    return min(wanted, max(0.0, VALIDATION_SHARE * limit * 3600 - used))


def is_out_of_time(snapshot: Snapshot) -> bool:
    """Tell whether the duration is used up."""
    limit = snapshot.settings.budget.max_duration_seconds
    return limit is not None and snapshot.elapsed_seconds >= limit


def must_validate_now(snapshot: Snapshot, step_seconds: float) -> bool:
    """Tell whether the time left is what validation needs."""
    limit = snapshot.settings.budget.max_duration_seconds
    if limit is None:
        return False
    wanted = planned_measurements(snapshot.settings) * measure_seconds(snapshot.settings, step_seconds)
    return snapshot.elapsed_seconds + min(wanted, VALIDATION_SHARE * limit) >= limit


def llm_reservation(llm: LLMSettings, context: Mapping[str, Any], calls: int) -> LLMReservation:
    """Return the most that a round of `calls` requests with this briefing may cost.

    Each request sends the prompt again; answers share one allowance of output tokens. Without prices the cost is
    reserved as nothing, and counted when the answer says what it cost.
    """
    size = PROMPT_BYTES + _bytes(context) + AXES_COPIES * _bytes(context.get("axes", {}))
    prompt = math.ceil(size / BYTES_PER_TOKEN)
    input_tokens = prompt * calls
    cost = input_tokens * (llm.input_usd_per_million_tokens or 0.0)
    cost += llm.max_output_tokens * (llm.output_usd_per_million_tokens or 0.0)
    return LLMReservation(calls, input_tokens + llm.max_output_tokens, cost / 1e6)


def _bytes(document: object) -> int:
    return len(json.dumps(document).encode())


def affords_llm(snapshot: Snapshot, reservation: LLMReservation) -> bool:
    """Tell whether a round fits into what is left of calls, tokens and cost."""
    budget, spent = snapshot.settings.budget, snapshot.state.spent
    if spent.llm_calls + reservation.calls > budget.max_llm_calls:
        return False
    if spent.llm_tokens + reservation.tokens > budget.max_llm_tokens:
        return False
    limit = budget.max_llm_cost_usd
    return limit is None or spent.llm_cost_usd + reservation.cost_usd <= limit


def llm_calls_left(snapshot: Snapshot) -> int:
    """Return the requests that may still be sent."""
    return snapshot.settings.budget.max_llm_calls - snapshot.state.spent.llm_calls
