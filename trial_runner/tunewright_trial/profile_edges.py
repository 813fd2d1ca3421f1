"""The two ends of the model: embedding in front, norm, output layer and loss behind. Called by `profile`."""

from collections.abc import Callable, Sequence

import torch
from torch import nn

from tunewright.trial_protocol.report import LayerTiming
from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.embedding import Embedding
from tunewright_trial.layers.head import Head
from tunewright_trial.layers.parameters import count_parameters, initialise
from tunewright_trial.profile_layers import random_hidden, sum_gradients
from tunewright_trial.profile_timing import Case, time_cases
from tunewright_trial.timing import median_timing, timing


def profile_embedding(context: LayerContext, steps: int) -> tuple[LayerTiming, int]:
    """Return the embedding's times and this rank's parameters in it."""
    embedding = Embedding(context)
    tokens = _random_tokens(context)
    return _profile(context, embedding, lambda: embedding(tokens), (), steps)


def profile_head(context: LayerContext, steps: int) -> tuple[LayerTiming, int]:
    """Return the times of final norm, output layer and loss, and this rank's parameters in them."""
    head = Head(context)
    hidden, targets = random_hidden(context), _random_tokens(context)
    return _profile(context, head, lambda: head(hidden, targets), (hidden,), steps)


def _profile(
    context: LayerContext,
    module: nn.Module,
    run: Callable[[], torch.Tensor],
    inputs: Sequence[torch.Tensor],
    steps: int,
) -> tuple[LayerTiming, int]:
    initialise([module], 0)
    sum_gradients(module)
    case = Case(run, inputs, list(module.parameters()), type(module).__name__.lower())
    time_cases(context.device, [case], steps)
    inputs_only, whole = median_timing(case.inputs_only), median_timing(case.whole_backward)
    weight = timing(whole.seconds - inputs_only.seconds, whole.spread)
    forward = median_timing(case.forward)
    times = LayerTiming(forward=forward, backward_input=inputs_only, backward_weight=weight)
    return times, count_parameters(module)


def _random_tokens(context: LayerContext) -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    shape = (context.micro_batch_size, context.sequence_slice)
    return torch.randint(context.model.vocabulary_size, shape, generator=generator).to(context.device)
