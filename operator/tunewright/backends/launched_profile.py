"""A profile by launching the training stack itself: short runs of one node at two depths. Pure.

`reduced` is what is launched for one depth, `profile_of` turns the times of both depths into a profile: their
difference is a layer, the rest is the model's ends. Called by the trial program's Primus runner.
"""

from collections.abc import Sequence

from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.errors import InvalidInput
from tunewright.trial_protocol.report import LayerTiming, Profile, Timing

MICRO_BATCHES = 8
"""Per step: enough that what happens once per step (optimizer, gradients) weighs little in a layer's time."""

_SHARES = {"none": (1, 1, 1), "selective": (1, 1, 1), "full": (1, 2, 1)}
"""Forward, input-gradient and weight-gradient work of a layer in units of its forward pass: a launcher times the sum
alone. Full recomputation runs the forward pass once more, which counts with the input gradient."""


def reduced(problem: TuningProblem, config: TrainingConfig, depth: int) -> tuple[TuningProblem, TrainingConfig]:
    """Return the job of one node with `depth` layers whose ranks have the candidate's shapes.

    With more expert ranks than a node has, experts are left out with their ranks: a rank keeps as many. Raises
    `InvalidInput` where tensor and context ranks alone do not fit into a node.
    """
    ranks = problem.cluster.gpus_per_node
    inner = config.tensor_parallel_size * config.context_parallel_size
    if ranks % inner:
        raise InvalidInput.of(
            "tensorParallelSize", config.tensor_parallel_size, f"with context does not divide a node's {ranks} devices"
        )
    expert = min(config.expert_parallel_size, max(ranks // config.expert_tensor_parallel_size, 1))
    model = _shortened(problem.model, depth, config.expert_parallel_size // expert)
    batch = config.micro_batch_size * (ranks // inner) * MICRO_BATCHES
    cluster = problem.cluster.model_copy(update={"nodes": 1})
    smaller = problem.model_copy(update={"model": model, "global_batch_size": batch, "cluster": cluster})
    return smaller, config.model_copy(
        update={
            "pipeline_parallel_size": 1,
            "virtual_pipeline_parallel_size": 1,
            "pipeline_schedule": "1f1b",
            "pipeline_layout": "even",
            "expert_parallel_size": expert,
            "recompute_num_layers": min(config.recompute_num_layers, depth),
        }
    )


def _shortened(model: ModelArchitecture, depth: int, fewer: int) -> ModelArchitecture:
    """Return `depth` layers of the kind that most of the model's are, with one in `fewer` of the experts."""
    experts = model.experts
    if experts is not None:
        count = max(experts.num_experts // fewer, experts.experts_per_token, 2)
        experts = experts.model_copy(update={"num_experts": count, "num_leading_dense_layers": 0})
    return model.model_copy(update={"num_layers": depth, "num_multi_token_prediction_layers": 0, "experts": experts})


def profile_of(
    problem: TuningProblem,
    config: TrainingConfig,
    depths: tuple[int, int],
    seconds: Sequence[Timing],
    peak_memory_bytes: int,
) -> Profile:
    """Return the profile of two runs; `seconds` are step times in the order of `depths`."""
    (shallow, first), (deep, second) = sorted(zip(depths, seconds, strict=True), key=lambda run: run[0])
    spread = max(first.spread, second.spread)
    layer = max(second.seconds - first.seconds, 0.0) / max(deep - shallow, 1) / MICRO_BATCHES
    ends = max(first.seconds / MICRO_BATCHES - shallow * layer, 0.0)
    timing = _split(layer, spread, _SHARES[config.recompute_granularity])
    kind = "moe_layer" if problem.model.is_moe else "dense_layer"
    return Profile(
        **{kind: timing},
        head=_split(ends, spread, _SHARES["none"]),
        peak_memory_bytes=peak_memory_bytes,
        modelled_groups=_beyond(problem, config),
        included_groups=_inside(config),
    )


def _split(seconds: float, spread: float, shares: tuple[int, int, int]) -> LayerTiming:
    parts = [
        Timing(seconds=float(f"{seconds * share / sum(shares):.5g}"), spread=float(f"{spread:.3g}")) for share in shares
    ]
    return LayerTiming(forward=parts[0], backward_input=parts[1], backward_weight=parts[2])


def _inside(config: TrainingConfig) -> tuple[str, ...]:
    """Name the groups whose collectives ran inside the timed layers."""
    sizes = {
        "tensor": config.tensor_parallel_size,
        "context": config.context_parallel_size,
        "expert": config.expert_parallel_size,
        "expert tensor": config.expert_tensor_parallel_size,
    }
    return tuple(name for name, size in sizes.items() if size > 1)


def _beyond(problem: TuningProblem, config: TrainingConfig) -> tuple[str, ...]:
    """Name the groups that the node has no room for."""
    experts = config.expert_parallel_size * config.expert_tensor_parallel_size
    return ("expert",) if experts > problem.cluster.gpus_per_node else ()
