"""One kind of layer at the candidate's shapes: times per pass and the bytes that autograd keeps. Called by `profile`.

Two depths are timed and their difference counts, so that what a stack costs once (launch, loss, first touch) stays out.
"""

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import nn

from tunewright.trial_protocol.report import LayerTiming, Timing
from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.parameters import count_parameters, initialise
from tunewright_trial.layers.transformer_layer import LayerKind, TransformerLayer
from tunewright_trial.parallel.optimizer import collect_gradients
from tunewright_trial.profile_timing import Case, time_cases
from tunewright_trial.timing import median_timing, timing

SMALLEST_SLOPE = 0.5
"""A slope below this share of the plain quotient is noise: then the share counts."""


@dataclass(frozen=True)
class LayerProfile:
    """Figures of one layer: times, kept bytes of one micro batch, parameters of this rank by kind."""

    timing: LayerTiming
    saved_bytes: int
    layer: TransformerLayer
    stretch: float
    """How much longer the work took than it would have with a core of its own."""

    @property
    def parameters(self) -> int:
        """Elements of this rank's weights in one layer."""
        return count_parameters(self.layer)


def profile_layer(context: LayerContext, kind: LayerKind, depths: tuple[int, int], steps: int) -> LayerProfile:
    """Build the deeper stack once and profile both depths of it."""
    shallow, deep = min(depths), max(depths)
    first = 0 if kind == "dense" else context.model.num_dense_layers
    stack = nn.ModuleList(TransformerLayer(context, kind, first + index) for index in range(deep))
    initialise([stack], 0)
    sum_gradients(stack)
    layers = list(stack)
    kept = {depth: _saved_bytes(context, layers[:depth]) for depth in (shallow, deep)}
    saved = (kept[deep] - kept[shallow]) // (deep - shallow) if deep > shallow else kept[deep] // deep
    timing, stretch = _times(context, kind, layers, sorted({shallow, deep}), steps)
    return LayerProfile(timing, saved, layers[0], stretch)


def _times(
    context: LayerContext, kind: LayerKind, layers: list[nn.Module], depths: list[int], steps: int
) -> tuple[LayerTiming, float]:
    """Time stacks of `depths` layers without recomputation, and the deepest with it where the candidate has it.

    Returns the stretch of the samples as well.
    """
    stacks = [_case(context, layers[:depth], f"{depth} {kind} layers", keep=True) for depth in depths]
    recomputed = []
    if context.recompute.active:
        recomputed = [_case(context, layers, f"{len(layers)} {kind} layers, recomputed", keep=False)]
    stretch = time_cases(context.device, [*stacks, *recomputed], steps)
    forward = slope(depths, [median_timing(stack.forward) for stack in stacks])
    inputs = slope(depths, [median_timing(stack.inputs_only) for stack in stacks])
    whole = slope(depths, [median_timing(stack.whole_backward) for stack in stacks])
    plain = median_timing(stacks[-1].whole_backward).seconds
    extra = sum(max(median_timing(case.whole_backward).seconds - plain, 0.0) for case in recomputed) / len(layers)
    return LayerTiming(
        forward=forward,
        backward_input=timing(inputs.seconds + extra, inputs.spread),
        backward_weight=timing(whole.seconds - inputs.seconds, whole.spread),
    ), stretch


def _case(context: LayerContext, layers: list[nn.Module], name: str, *, keep: bool) -> Case:
    hidden = random_hidden(context)

    def run() -> torch.Tensor:
        with context.recompute.suspended() if keep else nullcontext():
            return context.recompute.run_layers(layers, hidden)

    return Case(run, (hidden,), [value for layer in layers for value in layer.parameters()], name)


def slope(depths: list[int], stacks: list[Timing]) -> Timing:
    """Return the time of one more layer between the two depths, with the deeper stack's spread.

    What a stack costs once is not negative, so that the slope is at most the quotient of time and depth.
    """
    quotient = stacks[-1].seconds / depths[-1]
    if len(depths) == 1:
        return timing(quotient, stacks[-1].spread)
    slope = (stacks[-1].seconds - stacks[0].seconds) / (depths[-1] - depths[0])
    return timing(min(max(slope, SMALLEST_SLOPE * quotient), quotient), stacks[-1].spread)


def sum_gradients(module: nn.Module) -> None:
    """Let gradients be added up in fp32, as the optimizer's buffers have them in a step."""
    parameters = list(module.parameters())
    size = sum(value.numel() for value in parameters)
    collect_gradients(parameters, torch.zeros(size, device=parameters[0].device))


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
