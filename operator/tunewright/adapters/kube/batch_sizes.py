"""Which global batch a cluster could run, when it cannot run the one that was asked for. Called by `baseline`."""

import numpy as np

from tunewright.domain.config_batch import BoolArray, ConfigBatch
from tunewright.domain.degrees import Degrees
from tunewright.domain.problem import TuningProblem
from tunewright.errors import Problem
from tunewright.legality.verdicts import judge

BATCH_RULE = "batch-is-divisible"
_LARGEST_BATCH = 2**24


def batch_problem(problem: TuningProblem, batch: ConfigBatch, only_batch: BoolArray) -> Problem:
    """Return what is wrong with the global batch. `only_batch` are the rows of `batch` that break no other rule."""
    asked, world = problem.global_batch_size, problem.world_size
    candidates = batch.take(only_batch)
    data = Degrees.of(problem, candidates).data_parallel_size
    fault = f"no split of {world} GPUs divides it"
    if asked < data.min():
        fault = f"is less than the {data.min()} data parallel ranks that every usual split of {world} GPUs leaves"
    # Some launchers also want a micro batch for each pipeline rank.
    steps = np.unique(np.concatenate([data, data * candidates.pipeline_parallel_size]))
    remedy = _nearest(problem, candidates, [int(step) for step in steps]) or "use fewer nodes, or give a baseline"
    return Problem("spec.workload.globalBatchSize", asked, f"{fault}: {remedy}")


def _nearest(problem: TuningProblem, candidates: ConfigBatch, steps: list[int]) -> str:
    """Return the smallest larger batch that one of the candidates runs, as advice; empty where there is none."""
    asked = problem.global_batch_size
    larger = sorted((-(-asked // step) * step, step) for step in steps)
    for size, step in larger:
        changed = problem.model_copy(update={"global_batch_size": size})
        if size <= _LARGEST_BATCH and judge(changed, candidates).legal.any():
            return f"use a multiple of {step}, such as {size}"
    return ""
