"""Attention of one rank's heads: causal, grouped, windowed, or one rank's share of a context ring."""

import torch
from torch.nn import functional

from tunewright_trial.layers.context import LayerContext
from tunewright_trial.parallel.ring import ring_attention


def attend(
    context: LayerContext, window: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> torch.Tensor:
    """Attend (s, b, heads, width) and return (s, b, heads·value width).

    Values narrower than keys (MLA) are padded to their width, which is what fused kernels need.
    """
    value_width = value.shape[-1]
    padded = functional.pad(value, (0, key.shape[-1] - value_width)) if value_width < key.shape[-1] else value
    query, key, padded = (heads.permute(1, 2, 0, 3) for heads in (query, key, padded))
    if context.context.communicates:
        result = ring_attention(query, key, padded, context.context)
        return result[..., :value_width].permute(2, 0, 1, 3).flatten(2)
    if context.sequence_slice < context.sequence_length:
        key, padded = (with_ring_share(heads, context.sequence_length) for heads in (key, padded))
        mask, causal = None, False
    else:
        mask = window_mask(context.sequence_slice, window, query.device)
        causal = mask is None
    grouped = query.shape[1] != key.shape[1]
    result = functional.scaled_dot_product_attention(
        query, key, padded, attn_mask=mask, is_causal=causal, enable_gqa=grouped
    )
    return result[..., :value_width].permute(2, 0, 1, 3).flatten(2)


def with_ring_share(heads: torch.Tensor, sequence_length: int) -> torch.Tensor:
    """Lengthen (b, heads, S/C, width) to the keys that one context rank works through: (S + S/C)/2 of them.

    With the balanced assignment (chunks i and 2C−1−i on rank i) every rank computes S/C · (S + S/C)/2 of the causal
    query-key pairs; attending that many keys without a mask is the same work in one call.
    """
    tokens = heads.shape[2]
    extra = (sequence_length - tokens) // 2
    repeats = -(-extra // tokens)
    return torch.cat((heads, heads.detach().repeat(1, 1, repeats, 1)[:, :, :extra]), dim=2)


def window_mask(tokens: int, window: int, device: torch.device) -> torch.Tensor | None:
    """Return which keys each query sees under a sliding window, or None where the window covers everything."""
    if window == 0 or window >= tokens:
        return None
    positions = torch.arange(tokens, device=device)
    distance = positions[:, None] - positions[None, :]
    return (distance >= 0) & (distance < window)
