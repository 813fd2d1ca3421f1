"""The layers against plain formulas, at one rank."""

from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.unit.trial.requests import DENSE, LATENT, MOE
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.core_attention import attend, window_mask, with_ring_share
from tunewright_trial.layers.eight_bit import linear
from tunewright_trial.layers.moe import MoeMlp
from tunewright_trial.layers.parameters import count_parameters, initialise
from tunewright_trial.layers.recompute import RecomputePolicy
from tunewright_trial.layers.split import Split
from tunewright_trial.layers.transformer_layer import LayerKind, TransformerLayer
from tunewright_trial.profile_layers import SavedStorages, random_hidden

TOKENS, BATCH = 16, 2


def context_of(model: ModelArchitecture = DENSE, **changes: object) -> LayerContext:
    fields: dict[str, Any] = {
        "model": model,
        "sequence_length": TOKENS,
        "sequence_slice": TOKENS,
        "micro_batch_size": BATCH,
        "dtype": torch.float32,
        "device": torch.device("cpu"),
    }
    return LayerContext(**(fields | changes))


def heads(count: int, width: int) -> torch.Tensor:
    return torch.randn((TOKENS, BATCH, count, width), generator=torch.Generator().manual_seed(count * width))


def plain_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, window: int) -> torch.Tensor:
    """Attend with explicit scores, every query head with its group's key."""
    group = query.shape[2] // key.shape[2]
    key, value = key.repeat_interleave(group, 2), value.repeat_interleave(group, 2)
    scores = torch.einsum("qbhd,kbhd->bhqk", query, key) / query.shape[-1] ** 0.5
    distance = torch.arange(TOKENS)[:, None] - torch.arange(TOKENS)[None, :]
    hidden = (distance < 0) | (distance >= (window or TOKENS))
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    return torch.einsum("bhqk,kbhd->qbhd", weights, value).flatten(2)


@pytest.mark.parametrize("window", [0, 4, 100])
@pytest.mark.parametrize(("groups", "value_width"), [(4, 8), (2, 8), (1, 8), (4, 5)])
def test_attention_equals_explicit_scores(window: int, groups: int, value_width: int) -> None:
    query, key, value = heads(4, 8), heads(groups, 8), heads(groups, value_width)
    expected = plain_attention(query, key, value, window)
    torch.testing.assert_close(attend(context_of(), window, query, key, value), expected)


def test_a_window_as_long_as_the_sequence_is_no_window() -> None:
    assert window_mask(16, 16, torch.device("cpu")) is None
    assert window_mask(16, 0, torch.device("cpu")) is None


@pytest.mark.parametrize("context_size", [2, 4, 8])
def test_a_context_rank_works_through_its_share_of_the_causal_pairs(context_size: int) -> None:
    own = TOKENS // context_size
    keys = with_ring_share(torch.zeros((1, 1, own, 4)), TOKENS).shape[2]
    causal_pairs = TOKENS * (TOKENS + own) // 2  # with whole blocks on the diagonal
    assert own * keys * context_size == causal_pairs


def test_experts_equal_every_token_through_its_own() -> None:
    shape = MOE.experts
    assert shape is not None
    layer = MoeMlp(context_of(MOE), shape.model_copy(update={"shared_expert_ffn_hidden_size": 0}))
    initialise([layer], 0)
    hidden = random_hidden(context_of(MOE))
    gate, up, down = layer.experts.gate, layer.experts.up, layer.experts.down
    assert gate is not None
    expected = torch.zeros_like(hidden)
    for token in range(TOKENS):
        chosen = [(2 * token + step) % 4 for step in range(2)]
        for row in range(BATCH):
            value = hidden[token, row]
            probabilities = (layer.router.weight @ value).softmax(0)[chosen]
            for expert, weight in zip(chosen, probabilities / probabilities.sum(), strict=True):
                inner = functional.silu(gate[expert] @ value) * (up[expert] @ value)
                expected[token, row] += weight * (down[expert] @ inner)
    torch.testing.assert_close(layer(hidden), expected)


@pytest.mark.parametrize("kind", ["dense", "moe"])
def test_tensor_ranks_hold_their_share_and_the_replicated_weights(kind: LayerKind) -> None:
    whole = count_parameters(TransformerLayer(context_of(MOE), kind, 1))
    half = count_parameters(TransformerLayer(context_of(MOE, tensor=Split(2)), kind, 1))
    norms = 2 * 32
    attention = 32 * 8 * (4 + 2 + 2 + 4)
    dense, shared = 3 * 32 * 64, 3 * 32 * 16
    if kind == "dense":
        assert (whole, half) == (norms + attention + dense, norms + (attention + dense) // 2)
        return
    experts, router = 4 * 3 * 32 * 32, 4 * 32 + 32  # with the shared experts' gate
    assert whole == norms + attention + experts + router + shared
    assert half == norms + (attention + shared) // 2 + experts + router


def test_expert_ranks_hold_their_share_of_the_experts() -> None:
    counts = [count_parameters(TransformerLayer(context_of(MOE, expert=Split(size)), "moe", 1)) for size in (1, 2, 4)]
    assert counts[0] - counts[1] == 2 * 3 * 32 * 32
    assert counts[1] - counts[2] == 1 * 3 * 32 * 32


@pytest.mark.parametrize("model", [DENSE, MOE, LATENT], ids=["dense", "moe", "latent"])
def test_a_split_layer_keeps_its_shape_without_sending(model: ModelArchitecture) -> None:
    context = context_of(model, tensor=Split(2), expert=Split(2))
    layer = TransformerLayer(context, "moe" if model is MOE else "dense", 1)
    initialise([layer], 0)
    hidden = random_hidden(context)
    assert hidden.shape == (TOKENS // 2, BATCH, 32)
    result = layer(hidden)
    assert result.shape == hidden.shape
    result.sum().backward()
    assert hidden.grad is not None
    assert all(value.grad is not None for value in layer.parameters())


def test_imbalance_lengthens_the_rows_of_the_experts() -> None:
    shape = MOE.experts
    assert shape is not None
    context = context_of(MOE, routing_imbalance=1.5)
    layer = MoeMlp(context, shape)
    seen: list[int] = []
    layer.experts.register_forward_pre_hook(lambda _, inputs: seen.extend(inputs[1]))
    layer(random_hidden(context))
    assert seen == [TOKENS * BATCH * 2 * 3 // 2 // 4] * 4


def test_equal_names_get_equal_values_and_others_do_not() -> None:
    first, second = (TransformerLayer(context_of(), "dense", 0) for _ in range(2))
    initialise([first], 7)
    initialise([second], 7)
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    initialise([second], 8)
    assert not torch.equal(first.attention.query.weight, second.attention.query.weight)
    assert not torch.equal(first.attention.key.weight, first.attention.value.weight)


def test_saved_storages_are_counted_once_and_without_weights() -> None:
    value = torch.ones((4, 8), requires_grad=True)
    weight = torch.ones((8, 8), requires_grad=True)
    with SavedStorages({weight.untyped_storage().data_ptr()}) as saved:
        functional.linear(value, weight) + functional.linear(value.view(2, 2, 8), weight).view(4, 8)
    assert saved.total_bytes == 4 * 8 * 4


@pytest.mark.parametrize("kind", ["dense", "moe"])
def test_a_layer_in_eight_bits_computes_nearly_what_it_does_in_sixteen(kind: LayerKind) -> None:
    results = []
    for eight_bit in (False, True):
        context = context_of(MOE, dtype=torch.bfloat16, eight_bit=eight_bit)
        layer = TransformerLayer(context, kind, 1)
        initialise([layer], 0)
        hidden = random_hidden(context)
        result = layer(hidden)
        result.float().square().sum().backward()
        assert hidden.grad is not None
        results.append([result, hidden.grad, *(value.grad for value in layer.parameters() if value.ndim > 1)])
    for wide, narrow in zip(*results, strict=True):
        assert wide is not None and narrow is not None
        difference = (wide.float() - narrow.float()).norm() / wide.float().norm()
        assert difference < 0.15  # gradients have two bits of mantissa, and pass through several products
    assert not torch.equal(results[0][0], results[1][0])


def test_a_product_in_eight_bits_has_the_precision_of_its_format() -> None:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn((4, 16, 32), generator=generator).bfloat16()
    weight = torch.randn((48, 32), generator=generator).bfloat16()
    exact = functional.linear(hidden.float(), weight.float())
    found = linear(hidden, weight, None, eight_bit=True)
    assert found.shape == exact.shape
    error = (found.float() - exact).norm() / exact.norm()
    assert 0.005 < error < 0.05  # three bits of mantissa: 2⁻⁴ at most per factor, averaged over 32 terms
    assert linear(hidden[:0], weight, None, eight_bit=True).shape == (0, 16, 48)


@pytest.mark.parametrize(
    ("policy", "units"),
    [
        (RecomputePolicy(), [(4, False)]),
        (RecomputePolicy("full"), [(1, True)] * 4),
        (RecomputePolicy("full", num_layers=3), [(3, True), (1, True)]),
        (RecomputePolicy("full", method="block", num_layers=1), [(1, True), (3, False)]),
        (RecomputePolicy("full", method="block", num_layers=9), [(1, True)] * 4 + [(0, False)]),
    ],
)
def test_full_recomputation_groups_layers(policy: RecomputePolicy, units: list[tuple[int, bool]]) -> None:
    assert policy._units(4) == units
