"""The collectives of the candidate's groups that fit in the node, at their real message sizes. Called by `profile`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
import torch.distributed as dist

from tunewright.trial_protocol.report import MOST_COLLECTIVES, CollectiveTiming
from tunewright.trial_protocol.request import TrialRequest
from tunewright_trial.diagnostics import of_this_rank
from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.parameters import placement_of
from tunewright_trial.place import Place
from tunewright_trial.profile_layers import LayerProfile
from tunewright_trial.timing import median_timing, repetitions, synchronize, time_call

Operation = Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send-receive"]
GRADIENT_BYTES = 4
COUNT_BYTES = 8
"""Before its tokens a rank tells every other how many it sends to each expert."""
AVERAGED = 4
WORK_SIZE = 256
"""A product of this size takes a core about a millisecond: as much as lies between two collectives of a small layer."""
MOST_BYTES = 2**28
"""Larger buffers are bound by bandwidth alone: their time is proportional."""


@dataclass(frozen=True)
class ParameterCounts:
    """This rank's weights: of one layer of each kind (experts apart) and of embedding and head."""

    shared: Mapping[str, int]
    experts: Mapping[str, int]
    edges: int

    @classmethod
    def of(cls, layers: Mapping[Any, LayerProfile], edges: int) -> "ParameterCounts":
        """Count the weights of profiled layers."""
        experts = {
            kind: sum(value.numel() for value in found.layer.parameters() if placement_of(value).kind == "expert")
            for kind, found in layers.items()
        }
        return cls({kind: found.parameters - experts[kind] for kind, found in layers.items()}, experts, edges)

    def shared_in_stage(self, model_layers: Mapping[str, int], stages: int) -> int:
        """Return the weights of an average stage that the data group shares."""
        return (sum(self.shared[kind] * model_layers[kind] for kind in self.shared) + self.edges) // stages

    def experts_in_stage(self, model_layers: Mapping[str, int], stages: int) -> int:
        """Return the expert weights of an average stage."""
        return sum(self.experts[kind] * model_layers[kind] for kind in self.experts) // stages


@dataclass(frozen=True)
class _Message:
    """One collective to time: `bytes` is one rank's whole buffer: gathered, or not yet reduced."""

    group: str
    operation: Operation
    ranks: int
    stride: int
    bytes: int


def modelled_groups(request: TrialRequest, place: Place) -> tuple[str, ...]:
    """Return the candidate's groups that reach beyond this node, so that their times must be modelled."""
    sizes = _group_shapes(request)
    return tuple(name for name, (size, stride) in sizes.items() if size > 1 and size * stride > place.world)


def time_collectives(
    request: TrialRequest, place: Place, context: LayerContext, counts: ParameterCounts
) -> tuple[CollectiveTiming, ...]:
    """Time every collective that fits in the node, as many as a report holds. All ranks take part, each in its own."""
    outside = modelled_groups(request, place)
    messages = [message for message in _messages(request, context, counts) if message.group not in outside]
    groups: dict[tuple[int, int], dist.ProcessGroup] = {}
    timed = messages[:MOST_COLLECTIVES]
    return tuple(_time(message, place, context.device, groups, request.steps) for message in timed)


def _group_shapes(request: TrialRequest) -> dict[str, tuple[int, int]]:
    """Return size and stride of every group, in Megatron's rank order: tensor, context, expert, data, pipeline."""
    config, world = request.config, request.problem.world_size
    tensor, context = config.tensor_parallel_size, config.context_parallel_size
    expert = config.expert_parallel_size * config.expert_tensor_parallel_size
    stage = max(world // config.pipeline_parallel_size, 1)
    return {
        "tensor": (tensor, 1),
        "context": (context, tensor),
        "expert": (config.expert_parallel_size, config.expert_tensor_parallel_size),
        "expert tensor": (config.expert_tensor_parallel_size, 1),
        "data": (max(stage // tensor, 1), tensor),
        "expert data": (max(stage // expert, 1) if request.problem.model.is_moe else 1, expert),
        "pipeline": (config.pipeline_parallel_size, stage),
    }


def _messages(request: TrialRequest, context: LayerContext, counts: ParameterCounts) -> list[_Message]:
    model, itemsize = context.model, context.dtype.itemsize
    hidden = context.sequence_slice * context.micro_batch_size * model.hidden_size * itemsize
    own = hidden // context.tensor.size
    visits = model.experts.experts_per_token if model.experts else 0
    wanted: list[tuple[str, Operation, int]] = [
        ("tensor", "all-gather", hidden),
        ("tensor", "reduce-scatter", hidden),
        ("context", "send-receive", _ring_bytes(context)),
        ("expert", "all-to-all", own * visits),
        ("expert", "all-to-all", COUNT_BYTES * (model.experts.num_experts if model.experts else 0)),
        ("expert tensor", "all-gather", own * visits * context.expert_tensor.size),
        ("expert tensor", "reduce-scatter", own * visits * context.expert_tensor.size),
        ("pipeline", "send-receive", own),
        *_gradient_messages(request, context, counts),
    ]
    shapes = _group_shapes(request)
    return [
        _Message(group, operation, *shapes[group], min(size, MOST_BYTES))
        for group, operation, size in wanted
        if shapes[group][0] > 1 and size > 0
    ]


def _ring_bytes(context: LayerContext) -> int:
    """Return the bytes of keys and values that one context rank sends to the next."""
    model, latent = context.model, context.model.latent_attention
    width = 2 * model.num_key_value_heads * model.head_dim
    if latent is not None:
        width = model.num_attention_heads * (
            latent.unrotated_head_dim + latent.rotated_head_dim + latent.value_head_dim
        )
    tokens = context.sequence_slice * context.micro_batch_size
    return tokens * width * context.dtype.itemsize // context.tensor.size


def _gradient_messages(
    request: TrialRequest, context: LayerContext, counts: ParameterCounts
) -> list[tuple[str, Operation, int]]:
    """Return what one step sends for gradients and weights, for an average pipeline stage.

    FSDP2 sends layer by layer, and the ends of the model as one more message.
    """
    weights = _weights_of_stage(request, counts)
    if request.config.optimizer == "fsdp2":
        units = -(-context.model.num_layers // request.config.pipeline_parallel_size) + 1
        weights = {group: size // units for group, size in weights.items()}
    if request.config.optimizer == "replicated":
        return [(group, "all-reduce", GRADIENT_BYTES * size) for group, size in weights.items()]
    return [
        *((group, "reduce-scatter", GRADIENT_BYTES * size) for group, size in weights.items()),
        *((group, "all-gather", context.dtype.itemsize * size) for group, size in weights.items()),
    ]


def _weights_of_stage(request: TrialRequest, counts: ParameterCounts) -> dict[str, int]:
    """Return the weights of an average pipeline stage by the group that shares them."""
    model, stages = request.problem.model, request.config.pipeline_parallel_size
    layers = {"dense": model.num_dense_layers, "moe": model.num_moe_layers}
    return {"data": counts.shared_in_stage(layers, stages), "expert data": counts.experts_in_stage(layers, stages)}


def updated_parameters(request: TrialRequest, counts: ParameterCounts) -> int:
    """Return the weights that this rank's optimizer updates."""
    shapes, sharded = _group_shapes(request), request.config.optimizer != "replicated"
    weights = _weights_of_stage(request, counts)
    return sum(size // (shapes[group][0] if sharded else 1) for group, size in weights.items())


def _time(
    message: _Message, place: Place, device: torch.device, groups: dict[tuple[int, int], dist.ProcessGroup], steps: int
) -> CollectiveTiming:
    key = (message.ranks, message.stride)
    if key not in groups:
        groups[key] = _group(place, *key)
    ranks = message.ranks
    elements = -(-message.bytes // (4 * ranks)) * ranks
    run = _operation(message.operation, elements, ranks, device, groups[key])
    run()
    dist.barrier()
    synchronize(device)
    once, _ = time_call(device, run)
    count = _agreed(repetitions(steps, once, 0.1, 10), device)
    samples = [_sample(device, run) for _ in range(count)]
    of_this_rank.add("collective", group=message.group, operation=message.operation, ranks=ranks, seconds=samples)
    pair = message.operation == "send-receive"
    return CollectiveTiming(
        operation=message.operation, ranks=2 if pair else ranks, bytes=elements * 4, timing=median_timing(samples)
    )


def _sample(device: torch.device, run: Callable[[], Any]) -> float:
    """Return the seconds of one collective, as the candidate will find it.

    On GPUs the device's queue decides when a collective begins. Ranks on CPUs share cores and reach it when they had
    their turn: there it is timed after some work, and averaged, since a job pays for long waits as well.
    """
    if device.type == "cuda":
        return time_call(device, run)[0]
    work = torch.ones((WORK_SIZE, WORK_SIZE))
    seconds = 0.0
    for _ in range(AVERAGED):
        work @ work
        seconds += time_call(device, run)[0]
    return seconds / AVERAGED


def _agreed(count: int, device: torch.device) -> int:
    """Return the same count on all ranks: the smallest."""
    value = torch.tensor([count], device=device)
    dist.all_reduce(value, dist.ReduceOp.MIN)
    return int(value)


def _group(place: Place, ranks: int, stride: int) -> dist.ProcessGroup:
    """Create the groups of one shape over the node's ranks and return this rank's; leftovers work for themselves."""
    blocks = range(0, place.world - ranks * stride + 1, ranks * stride)
    lists = [list(range(block + first, block + ranks * stride, stride)) for block in blocks for first in range(stride)]
    grouped = {rank for members in lists for rank in members}
    lists.extend([rank] for rank in range(place.world) if rank not in grouped)
    mine, _ = dist.new_subgroups_by_enumeration(lists)
    return mine


def _operation(
    operation: Operation, elements: int, ranks: int, device: torch.device, group: dist.ProcessGroup
) -> Callable[[], Any]:
    """Return the call that runs one collective on fp32 buffers of `elements`."""
    size = dist.get_world_size(group)
    if size < ranks:
        return lambda: None  # a rank that no group of this shape has room for
    whole = torch.zeros(elements, device=device)
    part, other = torch.zeros(elements // ranks, device=device), torch.zeros(elements, device=device)
    calls: dict[Operation, Callable[[], Any]] = {
        "all-reduce": partial(dist.all_reduce, whole, group=group),
        "all-gather": partial(dist.all_gather_into_tensor, whole, part, group=group),
        "reduce-scatter": partial(dist.reduce_scatter_tensor, part, whole, group=group),
        "all-to-all": partial(dist.all_to_all_single, other, whole, group=group),
        "send-receive": partial(_send_receive, whole, other, group),
    }
    return calls[operation]


def _send_receive(outgoing: torch.Tensor, incoming: torch.Tensor, group: dist.ProcessGroup) -> None:
    """Pass a buffer on to the next rank of the group, around a ring."""
    ranks = dist.get_process_group_ranks(group)
    position = ranks.index(dist.get_rank())
    following, preceding = ranks[(position + 1) % len(ranks)], ranks[position - 1]
    requests = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, outgoing, following, group), dist.P2POp(dist.irecv, incoming, preceding, group)]
    )
    for request in requests:
        request.wait()
