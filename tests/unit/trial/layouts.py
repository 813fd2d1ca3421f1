"""The layouts that must train exactly as one process does. As a script: runs all of them and prints what ranks say."""

import sys
import time

from tests.unit.trial.requests import DENSE, LATENT, MOE, UNUSUAL, make_request
from tunewright.trial_protocol.request import TrialRequest
from tunewright_trial.entry import run
from tunewright_trial.supervisor import preloads

PIPELINE = {"world": 2, "pipeline_parallel_size": 2}
CHUNKED = {**PIPELINE, "virtual_pipeline_parallel_size": 2}


def measured(**options: object) -> TrialRequest:
    return make_request("measure", **options)  # type: ignore[arg-type]


REFERENCES = {
    "dense": measured(model=DENSE),
    "moe": measured(model=MOE),
    "latent": measured(model=LATENT),
    "unusual": measured(model=UNUSUAL),
}
LAYOUTS = {
    "dense: micro batch 2": measured(micro_batch_size=2),
    "dense: data 2, sharded optimizer": measured(world=2),
    "dense: data 2, replicated optimizer": measured(world=2, optimizer="replicated"),
    "dense: tensor 2": measured(world=2, tensor_parallel_size=2),
    "dense: pipeline 2": measured(**PIPELINE),
    "dense: pipeline 2, uneven": measured(**PIPELINE, pipeline_layout="3,1"),
    "dense: pipeline 2, interleaved": measured(**CHUNKED, pipeline_schedule="interleaved-1f1b"),
    "dense: pipeline 2, zero-bubble-v": measured(**CHUNKED, pipeline_schedule="zero-bubble-v"),
    "dense: tensor 2, pipeline 2": measured(world=4, tensor_parallel_size=2, pipeline_parallel_size=2),
    "dense: data 2, tensor 2": measured(world=4, tensor_parallel_size=2),
    "dense: full recomputation": measured(recompute_granularity="full"),
    "dense: full recomputation of the first layer": measured(recompute_granularity="full", recompute_method="block"),
    "dense: pipeline 2, full recomputation": measured(**PIPELINE, recompute_granularity="full"),
    "dense: selective recomputation": measured(
        recompute_granularity="selective", recompute_modules=("core_attn", "layernorm", "mlp")
    ),
    "moe: data 2": measured(model=MOE, world=2),
    "moe: expert 2": measured(model=MOE, world=2, expert_parallel_size=2),
    "moe: tensor 2": measured(model=MOE, world=2, tensor_parallel_size=2),
    "moe: tensor 2, expert 2": measured(model=MOE, world=4, tensor_parallel_size=2, expert_parallel_size=2),
    "moe: selective recomputation": measured(
        model=MOE,
        recompute_granularity="selective",
        recompute_modules=("layernorm", "moe", "moe_act", "shared_experts"),
    ),
    "latent: tensor 2": measured(model=LATENT, world=2, tensor_parallel_size=2),
    "latent: selective recomputation": measured(
        model=LATENT, recompute_granularity="selective", recompute_modules=("mla_up_proj",)
    ),
    "unusual: tensor 2": measured(model=UNUSUAL, world=2, tensor_parallel_size=2),
    "unusual: data 2": measured(model=UNUSUAL, world=2),
    "unusual: pipeline 2, zero-bubble-v": measured(model=UNUSUAL, **CHUNKED, pipeline_schedule="zero-bubble-v"),
}


def main() -> None:
    """Run every layout in this process. The first one makes the fork server import most, which serves the others."""
    everything = REFERENCES | LAYOUTS
    for name, request in sorted(everything.items(), key=lambda item: -len(preloads(item[1]))):
        print(f"layout {name}", file=sys.stderr, flush=True)
        report = run(request, time.monotonic())
        print(f"outcome {report.failure or 'measured'} {report.message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
