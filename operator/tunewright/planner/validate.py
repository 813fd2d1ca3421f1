"""The third phase: the baseline and the best projections run as whole jobs, one after the other. Called by `decide`.

A measurement has the cluster to itself whatever `parallel_trials` says, so that all are taken under the same
conditions. Each is the one that promises most after those before it: what a job lost on the way from projection to
measurement, its relatives are expected to lose too. The fastest is measured again, for its spread. A job that is
clearly slower than the fastest before it stops after a few steps: that is a measurement, and no failure.
"""

import numpy as np

from tunewright import legality
from tunewright.domain.config_batch import BoolArray, ConfigBatch, FloatArray, IntArray
from tunewright.domain.training_config import TrainingConfig
from tunewright.planner import budget
from tunewright.planner.decisions import Origin, StartTrial
from tunewright.planner.evaluation import LEAST_SPREAD, are_alike, on_fewer_nodes
from tunewright.planner.expectation import UNKNOWN, expected_jobs, projections_by_row
from tunewright.planner.trial import Trial
from tunewright.planner.turn import Turn
from tunewright.search.surrogate import Scored
from tunewright.units import format_speed, six_digits

ATTEMPTED_SHARE = 2
"""Configurations that are tried at most, as a multiple of `top_k`: failures and surprises have to end somewhere."""
LOSING_MARGIN = 0.1
"""A job whose steps take so much longer than the fastest's has lost, whatever two runs of one job differ by."""


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
    if not turn.is_seen(config):
        turn.consider(config, origin)  # its profile was taken for another one: that it is projected goes on record
    turn.start(
        StartTrial(
            trial=turn.next_trial(),
            kind="measure",
            config=config,
            profile_key=turn.profile_key(config),
            origin=origin,
            repeat=repeat,
            reserved_gpu_seconds=reserved,
            cutoff_step_seconds=_cutoff_step_seconds(turn, config, repeat),
        )
    )
    return False


def next_measurement(turn: Turn) -> tuple[TrainingConfig, int, str] | None:
    """Return the configuration to be measured next, which repeat it is, and why; None when all is measured."""
    settings, baseline = turn.snapshot.settings, turn.snapshot.settings.baseline
    if settings.validation.include_baseline and _runs_there(turn, baseline) and not _trials_of(turn, baseline):
        return baseline, 1, "the baseline, measured like the others"
    if promising := _next_best(turn):
        config, reason = promising
        return config, 1, reason
    fastest = turn.evaluation.best_measured
    taken = _trials_of(turn, fastest.config) if fastest else []
    if fastest is None or len(taken) >= settings.validation.repeats or _has_failed(taken):
        return None
    return fastest.config, len(taken) + 1, "the fastest, measured again for its spread"


def reserved_gpu_seconds(turn: Turn, config: TrainingConfig) -> float:
    """Return what measuring a configuration is reserved with: by its projection, or the estimate without one."""
    candidate = turn.evaluation.by_config.get(config)
    projection = candidate.projection if candidate else None
    step = projection.step_seconds if projection else turn.expected_step_seconds
    return budget.measure_gpu_seconds(turn.snapshot.problem, turn.snapshot.settings, step)


def _cutoff_step_seconds(turn: Turn, config: TrainingConfig, repeat: int) -> float | None:
    """Return beyond which time of a step a job has lost: the fastest's so far and a margin.

    None while there is none, and for what needs all its steps: the baseline, and repeats, which tell the spread.
    """
    settings, best = turn.snapshot.settings, turn.evaluation.best_measured
    is_needed = repeat > 1 or config == settings.baseline
    if not settings.validation.early_stop or is_needed or best is None or best.measurement is None:
        return None
    problem = on_fewer_nodes(turn.snapshot.problem, settings.validation.nodes)
    fastest = problem.tokens_per_step / (best.measurement.tokens_per_second_per_gpu * problem.world_size)
    return six_digits(fastest * (1 + LOSING_MARGIN))


def _next_best(turn: Turn) -> tuple[TrainingConfig, str] | None:
    """Return the most promising job until enough ran, and while the order is turned around; else None."""
    most = turn.snapshot.settings.validation.top_k
    tried = _tried(turn)
    ran = [config for config in tried if not _has_failed(_trials_of(turn, config))]
    if len(tried) >= ATTEMPTED_SHARE * most or (len(ran) >= most and not _is_turned_around(turn, ran)):
        return None
    projected = projections_by_row(turn)
    for item in expected_jobs(turn, _open_rows(turn, projected), projected):
        if len(ran) >= most and item.expected_improvement < LEAST_SPREAD:
            return None
        if _is_worth_it(turn, item.row, projected, tried):
            return turn.snapshot.space.config(item.row), _reason(item, len(tried) + 1, float(projected[item.row]))
    return None


def _open_rows(turn: Turn, projected: FloatArray) -> IntArray:
    """Return the rows that are projected, were not measured, and run on the nodes of the validation."""
    space, state, settings = turn.snapshot.space, turn.snapshot.state, turn.snapshot.settings
    known = [space.row_of(trial.config) for trial in state.measurements]
    known += [space.row_of(settings.baseline)] if settings.validation.include_baseline else []
    is_open = projected > UNKNOWN
    is_open[[row for row in known if row is not None]] = False
    rows = np.flatnonzero(is_open)
    return rows[_run_there(turn, space.batch.take(rows))] if len(rows) else rows


def _tried(turn: Turn) -> list[TrainingConfig]:
    """Return what was measured, once each, without a baseline that everything is compared with."""
    settings = turn.snapshot.settings
    tried = dict.fromkeys(trial.config for trial in turn.snapshot.state.measurements)
    return [config for config in tried if not (settings.validation.include_baseline and config == settings.baseline)]


def _reason(item: Scored, number: int, projected: float) -> str:
    """Say what is expected of a job, and what its profile alone would say."""
    expected = f"{format_speed(item.mean_tokens_per_second_per_gpu)} tokens/s/GPU ± {item.sigma:.1%}"
    return (
        f"number {number}, of those left the most promising: expected {expected}, projected {format_speed(projected)}"
    )


def _is_turned_around(turn: Turn, ran: list[TrainingConfig]) -> bool:
    """Tell whether another one than the best by projection is the fastest."""
    best = turn.evaluation.best_measured
    by_projection = [item.config for item in turn.evaluation.by_projection if item.config in ran]
    return best is not None and by_projection[:1] != [best.config]


def _is_worth_it(turn: Turn, row: int, projected: FloatArray, tried: list[TrainingConfig]) -> bool:
    """Tell whether no failure speaks against a row, and measuring it tells more than what was measured."""
    space = turn.snapshot.space
    rows = [found for found in map(space.row_of, tried) if found is not None]
    this, *others = [(space.config(other), float(projected[other])) for other in (row, *rows)]
    return not turn.ruled_out(row) and not any(are_alike(this, other) for other in others)


def _runs_there(turn: Turn, config: TrainingConfig) -> bool:
    return bool(_run_there(turn, ConfigBatch.of([config]))[0])


def _run_there(turn: Turn, batch: ConfigBatch) -> BoolArray:
    """Tell which are legal on the nodes of the validation, and of those that the trials' runner has."""
    problem = on_fewer_nodes(turn.snapshot.problem, turn.snapshot.settings.validation.nodes)
    legal, runner = legality.judge(problem, batch).legal, turn.snapshot.state.runner
    return legal if runner is None else legal & legality.judge_runner(problem, batch, runner).legal


def _trials_of(turn: Turn, config: TrainingConfig) -> list[Trial]:
    return [trial for trial in turn.snapshot.state.measurements if trial.config == config]


def _has_failed(trials: list[Trial]) -> bool:
    return any(trial.failure for trial in trials)
