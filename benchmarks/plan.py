"""Times a plan: enumerate, judge, fit, estimate and rank; then the public peer llm-analysis on the same points.

`make bench-plan`. The space is the one of examples/mixtral-8x22b-mi355x.yaml (Mixtral 8x22B on 64 MI355X, the default
axes) with every context size. `--million` plans a million distinct legal points: the same space with more ways of
recomputing, once for each precision and loss fusion. `--peer PYTHON` names an interpreter that has llm-analysis.
"""

import argparse
import gc
import json
import resource
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from tunewright import legality
from tunewright.cli.loading import load_candidate
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.degrees import Degrees
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.memory.screening import screen
from tunewright.performance.step import estimate
from tunewright.search.axis_values import Values
from tunewright.search.enumeration import enumerate_space
from tunewright.search.space import Space, build_space

HERE = Path(__file__).parent
EXAMPLE = HERE.parent / "examples" / "mixtral-8x22b-mi355x.yaml"
CONTEXT_SIZES = (1, 2, 4, 8, 16, 32, 64)
MILLION = 1_000_000
REPEATS = 5
RECOMPUTATIONS: dict[str, Values] = {
    "recompute_method": ("uniform", "block"),
    "recompute_num_layers": (1, 2, 4, 7),
    "recompute_modules": ("core_attn", "layernorm", "moe_act", "moe", "core_attn+layernorm", "layernorm+moe_act"),
}


@dataclass(frozen=True)
class Asked:
    """What a space is made from, beside the problem."""

    baseline: TrainingConfig
    search_space: dict[str, Values]


def planned(problem: TuningProblem, baseline: TrainingConfig, **axes: Values) -> Space:
    """Build and rank a space from nothing."""
    space = build_space(problem, Asked(baseline, {"context_parallel_size": CONTEXT_SIZES} | axes))
    _ = space.ranking
    return space


def best_of(action: Callable[[], object]) -> float:
    """Return the least seconds of some repeats."""
    return min(seconds_of(action) for _ in range(REPEATS))


def seconds_of(action: Callable[[], object]) -> float:
    """Return the seconds that an action takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def print_parts(problem: TuningProblem, batch: ConfigBatch) -> None:
    """Print the seconds of each part; memory and step time run side by side in a plan."""
    parts: dict[str, Callable[[], object]] = {
        "enumerate, launch rules included": lambda: enumerate_space(problem, {"context_parallel_size": CONTEXT_SIZES}),
        "launch rules": lambda: legality.judge(problem, batch).legal,
        "memory filter": lambda: screen(problem, batch),
        "step time": lambda: estimate(problem, batch),
    }
    for name, action in parts.items():
        print(f"  {name}: {best_of(action) * 1e3:,.0f} ms")


def print_million(problem: TuningProblem, baseline: TrainingConfig) -> None:
    """Plan spaces that have no point in common until a million points are ranked, and print seconds and memory."""
    points, started = 0, time.perf_counter()
    for precision, fused, overlap in product(("bf16", "fp8", "mxfp8"), (True, False), (True, False)):
        axes: dict[str, Values] = {
            "precision": (precision,),
            "cross_entropy_fusion": (fused,),
            "overlap_grad_reduce": (overlap,),
        }
        points += len(planned(problem, baseline, **RECOMPUTATIONS, **axes))
        if points >= MILLION:
            break
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{points:,} distinct legal configurations: {seconds:.1f} s, peak {peak:.2f} GiB")
    print(f"  a million: {seconds * MILLION / points:.1f} s")


def print_peer(python: Path, problem: TuningProblem, space: Space, whole_seconds: float) -> None:
    """Ask the peer and ourselves about the same points, and print both and their ratio."""
    batch = space.batch.take(space.batch.context_parallel_size == 1)
    ours = best_of(lambda: (legality.judge(problem, batch).legal, screen(problem, batch), estimate(problem, batch)))
    question = _peer_settings(problem) | {"points": _peer_points(problem, batch)}
    answer = subprocess.run(
        [python, HERE / "peer_llm_analysis.py"], input=json.dumps(question), capture_output=True, text=True, check=True
    )
    found = json.loads(answer.stdout)
    peer = found["seconds"]
    each, our_each, in_plan = (
        1e6 * seconds for seconds in (peer / len(batch), ours / len(batch), whole_seconds / len(space))
    )
    answered = f"{found['answered']:,} of {len(batch):,}"
    print(f"points of context 1, since the peer knows no other; it answers {answered}")
    print(f"  llm-analysis, memory and latency: {peer:.2f} s, {each:,.0f} us a point")
    print(
        f"  tunewright, the same points judged, fitted and estimated: {ours * 1e3:,.0f} ms, {our_each:,.1f} us a point"
    )
    print(f"  ratio {each / our_each:,.0f}; to a point of the whole plan ({in_plan:,.1f} us): {each / in_plan:,.0f}")


def _peer_settings(problem: TuningProblem) -> dict[str, Any]:
    """Return the problem in the peer's words: gigabytes, and figures that can be reached."""
    model, accelerator, network = problem.model, problem.cluster.accelerator, problem.cluster.network
    experts = model.experts
    width = experts.expert_ffn_hidden_size if experts else model.ffn_hidden_size
    return {
        "model": {
            "name": model.name,
            "num_layers": model.num_layers,
            "n_head": model.num_attention_heads,
            "hidden_dim": model.hidden_size,
            "vocab_size": model.vocabulary_size,
            "max_seq_len": problem.sequence_length,
            "num_key_value_heads": model.num_key_value_heads,
            "ffn_embed_dim": width,
            "expansion_ratio": width / model.hidden_size,
            "moe_num_experts": experts.num_experts if experts else 1,
            "moe_top_k": experts.experts_per_token if experts else 1,
        },
        "gpu": {
            "name": accelerator.name,
            "mem_per_GPU_in_GB": accelerator.hbm_capacity_bytes / 1024**3,
            "hbm_bandwidth_in_GB_per_sec": accelerator.hbm_bytes_per_second / 1e9,
            "intra_node_bandwidth_in_GB_per_sec": accelerator.scale_up_bytes_per_second / 1e9,
            "intra_node_min_message_latency": accelerator.scale_up_latency_seconds,
            "peak_fp16_TFLOPS": accelerator.peak_flops_per_second["bf16"] / 1e12,
            "inter_node_bandwidth_in_GB_per_sec": network.bytes_per_second_per_gpu / 1e9,
        },
    }


def _peer_points(problem: TuningProblem, batch: ConfigBatch) -> list[dict[str, Any]]:
    """Return configurations in the peer's words; it knows no schedules, layouts and dispatchers."""
    data = Degrees.of(problem, batch).data_parallel_size
    return [
        {
            "degrees": {
                "tp_size": int(batch.tensor_parallel_size[row]),
                "pp_size": int(batch.pipeline_parallel_size[row]),
                "dp_size": int(data[row]),
                "ep_size": int(batch.expert_parallel_size[row]),
            },
            "batch": {
                "batch_size_per_gpu": int(batch.micro_batch_size[row]),
                "global_batch_size": problem.global_batch_size,
                "seq_len": problem.sequence_length,
            },
            "recomputation": int(batch.recompute_granularity[row]),
        }
        for row in range(len(batch))
    ]


def main() -> None:
    """Print what a plan takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--million", action="store_true", help="also a million points")
    parser.add_argument("--peer", type=Path, metavar="PYTHON", help="also llm-analysis, with this interpreter")
    arguments = parser.parse_args()
    problem, baseline = load_candidate(EXAMPLE)
    gc.disable()  # as `tunewright plan` does
    first = seconds_of(lambda: planned(problem, baseline))
    whole = best_of(lambda: planned(problem, baseline))
    space = planned(problem, baseline)
    print(f"{len(space):,} legal configurations: enumerate, judge, fit, estimate and rank")
    print(f"  first plan of a process: {first * 1e3:,.0f} ms, later ones: {whole * 1e3:,.0f} ms")
    print_parts(problem, space.batch)
    if arguments.million:
        print_million(problem, baseline)
    if arguments.peer:
        print_peer(arguments.peer, problem, space, whole)


if __name__ == "__main__":
    main()
