"""The third phase: the baseline and the best projections run as whole jobs, one after the other. Called by `decide`.

A measurement has the cluster to itself whatever `parallel_trials` says, so that all are taken under the same
conditions. A configuration that fails makes room for the next best, and so does one that turns the order around. The
fastest is measured again, for its spread.
"""

from tunewright import legality
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.training_config import TrainingConfig
from tunewright.planner import budget
from tunewright.planner.decisions import Origin, StartTrial
from tunewright.planner.evaluation import Candidate, are_alike, on_fewer_nodes, spread_of
from tunewright.planner.state import Trial
from tunewright.planner.turn import Turn
from tunewright.units import format_speed

ATTEMPTED_SHARE = 2
"""Configurations that are tried at most, as a multiple of `top_k`: failures and surprises have to end somewhere."""


def validate(turn: Turn) -> bool:
    """Start the next measurement; return whether there is none left that is wanted and affordable."""
    if turn.snapshot.state.running:
        return False
    pending = next_measurement(turn)
    if pending is None:
        return True
    config, repeat, reason = pending
    reserved = reserved_gpu_seconds(turn, config)
    if reserved > turn.gpu_seconds_left:
        return True
    origin = Origin(phase="validate", proposed_by="validation", reason=reason)
    turn.start(
        StartTrial(
            trial=turn.next_trial(),
            kind="measure",
            config=config,
            profile_key=turn.profile_key(config),
            origin=origin,
            repeat=repeat,
            reserved_gpu_seconds=reserved,
        )
    )
    return False


def next_measurement(turn: Turn) -> tuple[TrainingConfig, int, str] | None:
    """Return the configuration to be measured next, which repeat it is, and why; None when all is measured."""
    for config, reason in _wanted(turn):
        if not _trials_of(turn, config):
            return config, 1, reason
    fastest = turn.evaluation.best_measured
    taken = _trials_of(turn, fastest.config) if fastest else []
    if fastest is None or len(taken) >= turn.snapshot.settings.validation.repeats or _has_failed(taken):
        return None
    return fastest.config, len(taken) + 1, "the fastest, measured again for its spread"


def reserved_gpu_seconds(turn: Turn, config: TrainingConfig) -> float:
    """Return what measuring a configuration is reserved with: by its projection, or the estimate without one."""
    candidate = turn.evaluation.by_config.get(config)
    projection = candidate.projection if candidate else None
    step = projection.step_seconds if projection else turn.expected_step_seconds
    return budget.measure_gpu_seconds(turn.snapshot.problem, turn.snapshot.settings, step)


def _wanted(turn: Turn) -> list[tuple[TrainingConfig, str]]:
    """Return what is to be measured once, in order: the baseline, then the best projections until enough ran."""
    settings = turn.snapshot.settings.validation
    wanted: list[tuple[TrainingConfig, str]] = []
    baseline = turn.snapshot.settings.baseline
    if settings.include_baseline and _runs_there(turn, baseline):
        wanted.append((baseline, "the baseline, measured like the others"))
    ran: list[Candidate] = []
    chosen: list[Candidate] = []
    for candidate in turn.evaluation.by_projection:
        enough = len(ran) >= settings.top_k and not _may_still_win(turn, ran, candidate)
        if enough or len(chosen) >= ATTEMPTED_SHARE * settings.top_k:
            break
        if settings.include_baseline and candidate.config == baseline:
            continue
        taken = _trials_of(turn, candidate.config)
        if not taken and not _is_worth_it(turn, candidate, chosen):
            continue
        chosen.append(candidate)
        ran += [] if _has_failed(taken) else [candidate]
        speed = format_speed(candidate.projected or 0.0)
        wanted.append((candidate.config, f"number {len(chosen)} by projection: {speed} tokens/s/GPU"))
    return wanted


def _may_still_win(turn: Turn, ran: list[Candidate], candidate: Candidate) -> bool:
    """Tell whether measuring changed the order, so that the next best, corrected, may be the fastest after all."""
    best = turn.evaluation.best_measured
    if not ran or best is None or best.measurement is None or best.config == ran[0].config:
        return False
    reach = (candidate.corrected or 0.0) * (1 + spread_of(turn.evaluation.bias))
    return reach > best.measurement.tokens_per_second_per_gpu


def _is_worth_it(turn: Turn, candidate: Candidate, chosen: list[Candidate]) -> bool:
    """Tell whether a candidate can run, and whether measuring it tells more than measuring one of the chosen."""
    if not _runs_there(turn, candidate.config) or _ruled_out(turn, candidate.row):
        return False
    return not any(are_alike(candidate, other) for other in chosen)


def _runs_there(turn: Turn, config: TrainingConfig) -> bool:
    """Tell whether a configuration is legal on the nodes of the validation."""
    problem = on_fewer_nodes(turn.snapshot.problem, turn.snapshot.settings.validation.nodes)
    return bool(legality.judge(problem, ConfigBatch.of([config])).legal[0])


def _ruled_out(turn: Turn, row: int | None) -> bool:
    return row is not None and bool(turn.ruled_out(row))


def _trials_of(turn: Turn, config: TrainingConfig) -> list[Trial]:
    return [trial for trial in turn.snapshot.state.measurements if trial.config == config]


def _has_failed(trials: list[Trial]) -> bool:
    return any(trial.failure for trial in trials)
