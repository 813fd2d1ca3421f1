"""One kind of layer at the candidate's shapes: times per pass and the bytes that autograd keeps. Called by `profile`.

Two depths are timed and their difference counts, so that what a stack costs once (launch, loss, first touch) stays out.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from tunewright.trial_protocol.report import LayerTiming, Timing
from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.parameters import count_parameters, initialise
from tunewright_trial.layers.transformer_layer import LayerKind, TransformerLayer
from tunewright_trial.profile_timing import Passes, time_passes
from tunewright_trial.timing import median_timing, timing

SMALLEST_SLOPE = 0.5
"""A slope below this share of the plain quotient is noise: then the share counts."""


@dataclass(frozen=True)
class LayerProfile:
    """Figures of one layer: times, kept bytes of one micro batch, parameters of this rank by kind."""

    timing: LayerTiming
    saved_bytes: int
    layer: TransformerLayer

    @property
    def parameters(self) -> int:
        """Elements of this rank's weights in one layer."""
        return count_parameters(self.layer)


def profile_layer(context: LayerContext, kind: LayerKind, depths: tuple[int, int], steps: int) -> LayerProfile:
    """Build the deeper stack once and profile both depths of it."""
    shallow, deep = min(depths), max(depths)
    first = 0 if kind == "dense" else context.model.num_dense_layers
    stack = nn.ModuleList(TransformerLayer(context, kind, first + index) for index in range(deep))
    initialise(stack, 0)
    layers = list(stack)
    times = _timing(
        [(depth, _time_stack(context, layers[:depth], steps)) for depth in sorted({shallow, deep})],
        _recompute_extra(context, layers, steps),
    )
    kept = [_saved_bytes(context, layers[:depth]) for depth in (shallow, deep)]
    saved = (kept[1] - kept[0]) // (deep - shallow) if deep > shallow else kept[1] // deep
    return LayerProfile(times, saved, layers[0])


def _time_stack(context: LayerContext, layers: list[nn.Module], steps: int) -> Passes:
    """Time a stack of layers without recomputation."""
    hidden = random_hidden(context)
    weights = [value for layer in layers for value in layer.parameters()]
    with context.recompute.suspended():
        return time_passes(
            context.device, lambda: context.recompute.run_layers(layers, hidden), (hidden,), weights, steps
        )


def _recompute_extra(context: LayerContext, layers: list[nn.Module], steps: int) -> float:
    """Return the seconds that recomputation adds to the backward pass of one layer."""
    if not context.recompute.active:
        return 0.0
    hidden = random_hidden(context)
    weights = [value for layer in layers for value in layer.parameters()]

    def backward_seconds() -> float:
        passes = time_passes(
            context.device, lambda: context.recompute.run_layers(layers, hidden), (hidden,), weights, steps
        )
        return median_timing(passes.whole_backward).seconds / len(layers)

    recomputed = backward_seconds()
    with context.recompute.suspended():
        return max(recomputed - backward_seconds(), 0.0)


def _timing(stacks: list[tuple[int, Passes]], recompute_extra: float) -> LayerTiming:
    forward = _slope([(depth, median_timing(passes.forward)) for depth, passes in stacks])
    inputs = _slope([(depth, median_timing(passes.inputs_only)) for depth, passes in stacks])
    whole = _slope([(depth, median_timing(passes.whole_backward)) for depth, passes in stacks])
    weight = timing(whole.seconds - inputs.seconds, whole.spread)
    return LayerTiming(
        forward=forward,
        backward_input=timing(inputs.seconds + recompute_extra, inputs.spread),
        backward_weight=weight,
    )


def _slope(points: list[tuple[int, Timing]]) -> Timing:
    """Return the time of one more layer between the two depths, with the deeper stack's spread."""
    depth, deep = points[-1]
    quotient = deep.seconds / depth
    if len(points) == 1:
        return timing(quotient, deep.spread)
    less, shallow = points[0]
    slope = (deep.seconds - shallow.seconds) / (depth - less)
    return timing(max(slope, SMALLEST_SLOPE * quotient), deep.spread)


def random_hidden(context: LayerContext) -> torch.Tensor:
    """Return deterministic hidden states of one micro batch that ask for a gradient."""
    generator = torch.Generator(device=context.device).manual_seed(1)
    hidden = torch.empty(context.hidden_shape, dtype=context.dtype, device=context.device)
    return hidden.normal_(generator=generator).requires_grad_()


def _saved_bytes(context: LayerContext, layers: list[nn.Module]) -> int:
    """Return the bytes of distinct storages that autograd keeps, without parameters and buffers."""
    tensors = (tensor for layer in layers for tensor in (*layer.parameters(), *layer.buffers()))
    known = {tensor.untyped_storage().data_ptr() for tensor in tensors}
    hidden = random_hidden(context)
    with SavedStorages(known) as saved:
        context.recompute.run_layers(layers, hidden)
    return saved.total_bytes


class SavedStorages:
    """Counts what autograd saves inside the block, each storage once."""

    def __init__(self, known: Iterable[int] = ()) -> None:
        self._known = set(known)
        self._held: dict[int, torch.UntypedStorage] = {}
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor)

    @property
    def total_bytes(self) -> int:
        """Bytes of all storages seen."""
        return sum(storage.nbytes() for storage in self._held.values())

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._known:
            self._held[storage.data_ptr()] = storage  # held, so that its address is not given to another
        return tensor

    def __enter__(self) -> "SavedStorages":
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._hooks.__exit__(*error)
