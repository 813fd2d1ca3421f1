"""Activation recomputation: which functions drop what they saved and run again in the backward pass."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

import torch
from torch.utils.checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    checkpoint,
    create_selective_checkpoint_contexts,
)

Result = TypeVar("Result")
Layer = Callable[[torch.Tensor], torch.Tensor]


class RecomputePolicy:
    """What is recomputed: nothing, named modules (`selective`), or units of whole layers (`full`).

    `full` groups the layers of a chunk; a unit of 0 layers keeps everything. With `by_operations`, `selective` is
    torchtitan's: every layer keeps the results of attention and of every second matrix product.
    """

    def __init__(
        self,
        granularity: str = "none",
        modules: Sequence[str] = (),
        method: str = "uniform",
        num_layers: int = 1,
        *,
        by_operations: bool = False,
    ) -> None:
        self._by_operations = by_operations and granularity == "selective"
        self._granularity = granularity
        self._modules = frozenset(modules)
        self._method = method
        self._num_layers = num_layers
        self._enabled = True

    @property
    def active(self) -> bool:
        """Whether anything is recomputed at all."""
        return self._enabled and self._granularity != "none"

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Keep everything inside the block: the profile times backward with and without recomputation."""
        self._enabled = False
        try:
            yield
        finally:
            self._enabled = True

    def run(self, module: str, function: Callable[..., Result], *inputs: torch.Tensor | None) -> Result:
        """Call `function`, recomputed in the backward pass when `selective` names `module`."""
        if self.active and self._granularity == "selective" and module in self._modules:
            return _recomputed(function, *inputs)
        return function(*inputs)

    def run_layers(self, layers: Sequence[Layer], hidden: torch.Tensor) -> torch.Tensor:
        """Run consecutive layers of one chunk, in recomputed units under `full`."""
        if self.active and self._by_operations:
            for layer in layers:
                hidden = _recomputed_by_operations(layer, hidden)
            return hidden
        first = 0
        for count, recomputed in self._units(len(layers)):
            unit = layers[first : first + count]
            run = _chain(unit)
            hidden = _recomputed(run, hidden) if recomputed else run(hidden)
            first += count
        return hidden

    def _units(self, count: int) -> list[tuple[int, bool]]:
        if not self.active or self._granularity != "full":
            return [(count, False)]
        if self._method == "block":
            recomputed = min(self._num_layers, count)
            return [*((1, True) for _ in range(recomputed)), (count - recomputed, False)]
        whole, rest = divmod(count, self._num_layers)
        return [(self._num_layers, True)] * whole + ([(rest, True)] if rest else [])


def _chain(layers: Sequence[Layer]) -> Layer:
    def run(hidden: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            hidden = layer(hidden)
        return hidden

    return run


def _recomputed(function: Callable[..., Result], *inputs: torch.Tensor | None) -> Result:
    """Checkpoint without saving random states: nothing in these layers draws random numbers."""
    result: Result = checkpoint(function, *inputs, use_reentrant=False, preserve_rng_state=False)
    return result


_COUNTED = {"respect_saved_tensors_hooks": True}
"""Lets the profile count what selective contexts keep."""
_HOOKS = _COUNTED if _COUNTED.keys() <= inspect.signature(checkpoint).parameters.keys() else {}
"""Older versions of torch give no choice."""


def _recomputed_by_operations(layer: Layer, hidden: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = checkpoint(
        layer, hidden, use_reentrant=False, preserve_rng_state=False, context_fn=_keeping_operations, **_HOOKS
    )
    return result


_ATEN = torch.ops.aten
_PRODUCTS = frozenset({_ATEN.mm.default, _ATEN.addmm.default})
_ATTENTION = frozenset(
    {
        _ATEN._scaled_dot_product_flash_attention_for_cpu.default,
        _ATEN._scaled_dot_product_flash_attention.default,
        _ATEN._scaled_dot_product_efficient_attention.default,
    }
)


def _keeping_operations() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Return the contexts of one layer's forward pass and of its recomputation, each counting its products."""
    seen = {False: 0, True: 0}

    def keep(context: SelectiveCheckpointContext, operation: object, *_: object, **__: object) -> CheckpointPolicy:
        if operation in _PRODUCTS:
            seen[context.is_recompute] += 1
            kept = seen[context.is_recompute] % 2 == 1
        else:
            kept = operation in _ATTENTION
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

    contexts: tuple[AbstractContextManager[None], AbstractContextManager[None]] = create_selective_checkpoint_contexts(
        keep
    )
    return contexts
