"""The layouts that must train exactly as one process does. As a script: runs all of them and prints what ranks say."""

import sys
import time

from tests.unit.trial.requests import DENSE, LATENT, MOE, NORMED, UNUSUAL, WIDE, make_request
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
    "normed": measured(model=NORMED),
    "wide": measured(model=WIDE),
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
    "dense: pipeline 2, zero-bubble-h1": measured(**PIPELINE, pipeline_schedule="zero-bubble-h1"),
    "dense: pipeline 2, zero-bubble-h2": measured(**PIPELINE, pipeline_schedule="zero-bubble-h2"),
    "dense: pipeline 2, v-half": measured(**CHUNKED, pipeline_schedule="v-half"),
    "dense: pipeline 2, v-min": measured(**CHUNKED, pipeline_schedule="v-min"),
    "dense: pipeline 4, zero-bubble-h1": measured(
        world=4, pipeline_parallel_size=4, pipeline_schedule="zero-bubble-h1"
    ),
    "dense: tensor 2, pipeline 2, zero-bubble-v": measured(
        world=4,
        tensor_parallel_size=2,
        pipeline_parallel_size=2,
        virtual_pipeline_parallel_size=2,
        pipeline_schedule="zero-bubble-v",
    ),
    "dense: context 2": measured(world=2, context_parallel_size=2),
    "dense: context 4": measured(world=4, context_parallel_size=4),
    "dense: context 2, tensor 2": measured(world=4, context_parallel_size=2, tensor_parallel_size=2),
    "dense: context 2, data 2": measured(world=4, context_parallel_size=2),
    "dense: context 2, pipeline 2": measured(world=4, context_parallel_size=2, pipeline_parallel_size=2),
    "wide: tensor 4, two key/value heads": measured(model=WIDE, world=4, tensor_parallel_size=4),
    "dense: fsdp2 2": measured(world=2, optimizer="fsdp2"),
    "dense: fsdp2 2, full recomputation": measured(world=2, optimizer="fsdp2", recompute_granularity="full"),
    "dense: fsdp2 2, tensor 2": measured(world=4, optimizer="fsdp2", tensor_parallel_size=2),
    "moe: fsdp2 2": measured(model=MOE, world=2, optimizer="fsdp2"),
    "moe: expert tensor 2": measured(model=MOE, world=2, expert_tensor_parallel_size=2),
    "moe: expert 2, expert tensor 2": measured(
        model=MOE, world=4, expert_parallel_size=2, expert_tensor_parallel_size=2
    ),
    "moe: tensor 2, expert tensor 2": measured(
        model=MOE, world=2, tensor_parallel_size=2, expert_tensor_parallel_size=2
    ),
    "moe: expert 4": measured(model=MOE, world=4, expert_parallel_size=4),
    "moe: context 2, expert 2": measured(model=MOE, world=2, context_parallel_size=2, expert_parallel_size=2),
    "moe: pipeline 2, expert 2": measured(model=MOE, world=4, pipeline_parallel_size=2, expert_parallel_size=2),
    "latent: context 2": measured(model=LATENT, world=2, context_parallel_size=2),
    "unusual: pipeline 2": measured(model=UNUSUAL, **PIPELINE),
    "unusual: pipeline 4, tensor 2": measured(model=UNUSUAL, world=8, pipeline_parallel_size=4, tensor_parallel_size=2),
    "normed: tensor 2": measured(model=NORMED, world=2, tensor_parallel_size=2),
    "normed: tensor 4, two key/value heads": measured(model=NORMED, world=4, tensor_parallel_size=4),
    "unusual: pipeline 2, zero-bubble-v": measured(model=UNUSUAL, **CHUNKED, pipeline_schedule="zero-bubble-v"),
    "moe: fsdp2 2, tensor 2": measured(model=MOE, world=4, optimizer="fsdp2", tensor_parallel_size=2),
    "dense: data 2, tensor 2, pipeline 2": measured(world=8, tensor_parallel_size=2, pipeline_parallel_size=2),
    "moe: tensor 2, pipeline 2, expert 2": measured(
        model=MOE, world=8, tensor_parallel_size=2, pipeline_parallel_size=2, expert_parallel_size=2
    ),
}
BEFORE_A_RELEASE = {
    "dense: data 2, context 2, tensor 2": measured(world=8, context_parallel_size=2, tensor_parallel_size=2),
    "dense: context 2, tensor 2, pipeline 2, v-half": measured(
        world=8,
        context_parallel_size=2,
        tensor_parallel_size=2,
        pipeline_parallel_size=2,
        virtual_pipeline_parallel_size=2,
        pipeline_schedule="v-half",
    ),
    "dense: data 2, pipeline 2": measured(world=4, pipeline_parallel_size=2),
    "dense: pipeline 4": measured(world=4, pipeline_parallel_size=4),
    "dense: pipeline 4, zero-bubble-h2": measured(
        world=4, pipeline_parallel_size=4, pipeline_schedule="zero-bubble-h2"
    ),
    "dense: pipeline 2, zero-bubble-h1, full recomputation": measured(
        **PIPELINE, pipeline_schedule="zero-bubble-h1", recompute_granularity="full"
    ),
    "dense: tensor 2, selective recomputation": measured(
        world=2,
        tensor_parallel_size=2,
        recompute_granularity="selective",
        recompute_modules=("core_attn", "layernorm", "mlp"),
    ),
    "dense: context 2, full recomputation": measured(world=2, context_parallel_size=2, recompute_granularity="full"),
    "dense: fsdp2 4, tensor 2": measured(world=8, optimizer="fsdp2", tensor_parallel_size=2),
    "dense: fsdp2 2, context 2": measured(world=4, optimizer="fsdp2", context_parallel_size=2),
    "unusual: fsdp2 2": measured(model=UNUSUAL, world=2, optimizer="fsdp2"),
    "latent: fsdp2 2, tensor 2": measured(model=LATENT, world=4, optimizer="fsdp2", tensor_parallel_size=2),
    "moe: data 4, pipeline 2, expert 2, interleaved": measured(
        model=MOE,
        world=8,
        pipeline_parallel_size=2,
        virtual_pipeline_parallel_size=2,
        expert_parallel_size=2,
        pipeline_schedule="interleaved-1f1b",
    ),
    "moe: expert 2, full recomputation": measured(
        model=MOE, world=2, expert_parallel_size=2, recompute_granularity="full"
    ),
}
"""More combinations, which share their parts with those above."""
LAYOUTS |= BEFORE_A_RELEASE


QUICK = {
    "dense: data 2, sharded optimizer",
    "dense: tensor 2",
    "dense: pipeline 2",
    "dense: context 2",
    "moe: expert 2",
    "dense: selective recomputation",
}
"""Run by every test run; the others are marked slow."""


def chosen(name: str) -> bool:
    """Whether the command line names this layout, or none."""
    return len(sys.argv) == 1 or name in sys.argv[1:]


def main() -> None:
    """Run every layout in this process. The first one makes the fork server import most, which serves the others."""
    everything = {name: made for name, made in (REFERENCES | LAYOUTS).items() if chosen(name)}
    for name, request in sorted(everything.items(), key=lambda item: -len(preloads(item[1]))):
        print(f"layout {name}", file=sys.stderr, flush=True)
        report = run(request, time.monotonic())
        assert report is not None, "only another node leaves no report"
        print(f"outcome {report.failure or 'measured'} {report.message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
