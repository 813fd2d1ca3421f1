"""Measures enumerating, judging, fitting, estimating and ranking a space, beside a public peer where it is installed.

`make bench-plan`. The space is Mixtral 8x22B on 64 MI355X with the default axes and every context size. The peer,
llm-analysis from PyPI, answers one configuration a call: its time for a sample is scaled to the space and printed as a
ratio.
"""

import argparse
import importlib.util
import resource
import time

import numpy as np

from tunewright import legality
from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.hardware import Cluster
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.memory.estimate import estimate as estimate_memory
from tunewright.memory.fit import fit
from tunewright.performance.step import estimate as estimate_step
from tunewright.planner.settings import PlannerSettings, ValidationSettings
from tunewright.search.space import Space, build_space

CONTEXT_SIZES = (1, 2, 4, 8, 16, 32, 64)
PEER_CALLS = 20


def make_space(problem: TuningProblem) -> Space:
    """Build and rank the space from nothing."""
    baseline = TrainingConfig(pipeline_parallel_size=4, expert_parallel_size=8)
    settings = PlannerSettings(
        baseline=baseline,
        search_space={"context_parallel_size": CONTEXT_SIZES},
        validation=ValidationSettings(nodes=problem.cluster.nodes),
    )
    space = build_space(problem, settings)
    _ = space.ranking
    return space


def make_problem() -> TuningProblem:
    """Return Mixtral 8x22B on 8 nodes of 8 MI355X."""
    catalog = shipped_catalog()
    return TuningProblem(
        model=catalog.model("mixtral-8x22b"),
        sequence_length=8192,
        global_batch_size=512,
        cluster=Cluster(
            nodes=8,
            gpus_per_node=8,
            accelerator=catalog.accelerator("mi355x"),
            network=catalog.default_network_for("mi355x"),
        ),
    )


def best_of(repeats: int, action: object) -> float:
    """Return the least seconds of some repeats."""
    assert callable(action)
    found = []
    for _ in range(repeats):
        started = time.perf_counter()
        action()
        found.append(time.perf_counter() - started)
    return min(found)


def peer_seconds(calls: int) -> float | None:
    """Return the peer's seconds for one configuration, or None where it is not installed."""
    if importlib.util.find_spec("llm_analysis") is None:
        return None
    from llm_analysis.analysis import train  # type: ignore[import-not-found,unused-ignore]

    started = time.perf_counter()
    for _ in range(calls):
        train(
            model_name="meta-llama_Llama-2-70b-hf",
            gpu_name="a100-sxm-80gb",
            seq_len=4096,
            global_batch_size=512,
            total_num_gpus=64,
            tp_size=8,
            pp_size=1,
            activation_recomputation=0,
            log_level="ERROR",
        )
    return (time.perf_counter() - started) / calls


def main() -> None:
    """Print what each part of a plan takes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--million", action="store_true", help="also a million points, by repeating the space")
    arguments = parser.parse_args()
    problem = make_problem()
    space = make_space(problem)  # imports and caches are warm from here on
    batch, rows = space.batch, len(space)
    whole = best_of(3, lambda: make_space(problem))
    print(f"{rows:,} legal configurations: enumerate, judge, fit, estimate and rank {whole * 1e3:,.0f} ms")
    parts = {
        "launch rules": lambda: legality.judge(problem, batch),
        "memory filter": lambda: fit(problem, estimate_memory(problem, batch)),
        "step time": lambda: estimate_step(problem, batch),
    }
    for name, action in parts.items():
        print(f"  {name}: {best_of(3, action) * 1e3:,.0f} ms")
    if arguments.million:
        many = batch.take(np.resize(np.arange(rows), 1_000_000))
        started = time.perf_counter()
        for first in range(0, len(many), 100_000):
            chunk = many.take(np.arange(first, min(first + 100_000, len(many))))
            fit(problem, estimate_memory(problem, chunk))
            estimate_step(problem, chunk)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"1,000,000 configurations: {time.perf_counter() - started:.1f} s, peak {peak:.2f} GiB")
    peer = peer_seconds(PEER_CALLS)
    if peer is None:
        print("peer llm-analysis: not installed; pip install llm-analysis, then run again")
    else:
        print(f"peer llm-analysis: {peer * 1e3:.1f} ms a configuration, {peer * rows / whole:,.0f} times ours")


if __name__ == "__main__":
    main()
