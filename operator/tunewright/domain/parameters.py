"""Parameter counts of a model as exact integers, by kind and by how Megatron places them over ranks.

Read by memory (which divides each kind by its own group), by performance (optimizer traffic) and by tables for
people. Counts are those of the checkpoint: unpadded vocabulary, no multi-token-prediction layers in the totals.
"""

from dataclasses import dataclass
from functools import lru_cache

from tunewright.domain.model_architecture import MixtureOfExperts, ModelArchitecture, MultiLatentAttention


@dataclass(frozen=True)
class LayerParameters:
    """Parameters of one layer. `*_split` is divided by T, the rest is replicated over the tensor group.

    The split follows Megatron-LM: a row-parallel bias, the MLA down projections, the router, the shared experts' gate
    and every norm exist on each tensor rank (`megatron/core/transformer`).
    """

    attention_split: int = 0
    attention_replicated: int = 0
    """MLA down projections, query/key norms and the output bias."""
    mlp_split: int = 0
    mlp_replicated: int = 0
    """Bias of the dense MLP's second matrix."""
    router: int = 0
    expert_parameters_total: int = 0
    """All N routed experts of the layer; a rank holds 1/(E·ET) of them."""
    shared_split: int = 0
    shared_replicated: int = 0
    norms: int = 0

    @property
    def tensor_split(self) -> int:
        """Parameters that are divided by T."""
        return self.attention_split + self.mlp_split + self.shared_split

    @property
    def replicated(self) -> int:
        """Parameters that every tensor rank holds whole."""
        return self.attention_replicated + self.mlp_replicated + self.router + self.shared_replicated + self.norms

    @property
    def total(self) -> int:
        """All parameters of the layer over all ranks, each counted once."""
        return self.tensor_split + self.replicated + self.expert_parameters_total


@dataclass(frozen=True)
class ParameterCounts:
    """Parameters of the whole model. Sums over layers carry no prefix; `dense_layer` and `moe_layer` are one layer.

    A kind of layer that the model lacks has all its counts at zero.
    """

    dense_layer: LayerParameters
    moe_layer: LayerParameters
    attention: int
    dense_mlp: int
    router: int
    experts: int
    shared_experts: int
    norms: int
    """Full-width norms of the layers and the final one; query/key and MLA norms count as attention."""
    embedding: int
    position_embedding: int
    head: int
    """0 when the head is the embedding."""
    final_norm: int
    """Part of `norms`; sits on the stage of the head."""
    inactive_experts: int
    """Routed-expert parameters that one token does not visit."""
    multi_token_prediction_split: int
    """The 2H -> H projection of one prediction depth; not in any sum here."""
    multi_token_prediction_replicated: int
    """The three extra norms of one prediction depth; not in any sum here."""

    @property
    def total(self) -> int:
        """Every parameter of the checkpoint."""
        return (
            self.attention
            + self.dense_mlp
            + self.router
            + self.experts
            + self.shared_experts
            + self.norms
            + self.embedding
            + self.position_embedding
            + self.head
        )

    @property
    def active(self) -> int:
        """Parameters that one token visits, embedding and head included."""
        return self.total - self.inactive_experts

    @classmethod
    def of(cls, model: ModelArchitecture) -> "ParameterCounts":
        """Count the parameters of `model`."""
        return _counts(model)


@lru_cache(maxsize=256)
def _counts(model: ModelArchitecture) -> ParameterCounts:
    dense = _dense_layer(model) if model.num_dense_layers else LayerParameters()
    moe = _moe_layer(model, model.experts) if model.experts and model.num_moe_layers else LayerParameters()
    layers = ((model.num_dense_layers, dense), (model.num_moe_layers, moe))
    norm = _norm(model, model.hidden_size)
    inactive = 0
    if model.experts is not None:
        idle = model.experts.num_experts - model.experts.experts_per_token
        inactive = model.num_moe_layers * moe.expert_parameters_total // model.experts.num_experts * idle
    return ParameterCounts(
        dense_layer=dense,
        moe_layer=moe,
        attention=sum(count * (layer.attention_split + layer.attention_replicated) for count, layer in layers),
        dense_mlp=sum(count * (layer.mlp_split + layer.mlp_replicated) for count, layer in layers),
        router=sum(count * layer.router for count, layer in layers),
        experts=sum(count * layer.expert_parameters_total for count, layer in layers),
        shared_experts=sum(count * (layer.shared_split + layer.shared_replicated) for count, layer in layers),
        norms=sum(count * layer.norms for count, layer in layers) + norm,
        embedding=model.vocabulary_size * model.hidden_size,
        position_embedding=model.learned_position_embeddings * model.hidden_size,
        head=0 if model.tied_embeddings else model.vocabulary_size * model.hidden_size,
        final_norm=norm,
        inactive_experts=inactive,
        multi_token_prediction_split=2 * model.hidden_size**2,
        multi_token_prediction_replicated=3 * norm,
    )


def _dense_layer(model: ModelArchitecture) -> LayerParameters:
    split, replicated = _mlp(model, model.ffn_hidden_size, model.mlp_bias)
    return LayerParameters(
        attention_split=_attention_split(model),
        attention_replicated=_attention_replicated(model),
        mlp_split=split,
        mlp_replicated=replicated,
        norms=model.norms_per_layer * _norm(model, model.hidden_size),
    )


def _moe_layer(model: ModelArchitecture, experts: MixtureOfExperts) -> LayerParameters:
    shared_split, _ = _mlp(model, experts.shared_expert_ffn_hidden_size, bias=False)
    return LayerParameters(
        attention_split=_attention_split(model),
        attention_replicated=_attention_replicated(model),
        router=experts.num_experts * (model.hidden_size + int(experts.router_bias)),
        expert_parameters_total=experts.num_experts * sum(_mlp(model, experts.expert_ffn_hidden_size, model.mlp_bias)),
        shared_split=shared_split,
        shared_replicated=model.hidden_size if experts.shared_expert_gate else 0,
        norms=model.norms_per_layer * _norm(model, model.hidden_size),
    )


def _mlp(model: ModelArchitecture, width: int, bias: bool) -> tuple[int, int]:
    """Split and replicated parameters of one MLP of `width`: the second matrix's bias is replicated."""
    inputs = 2 if model.gated_mlp else 1
    split = (inputs + 1) * model.hidden_size * width + (inputs * width if bias else 0)
    return split, model.hidden_size if bias else 0


def _attention_split(model: ModelArchitecture) -> int:
    if model.latent_attention is not None:
        return _latent_split(model, model.latent_attention)
    query = model.num_attention_heads * model.head_dim
    key_value = 2 * model.num_key_value_heads * model.head_dim
    weights = model.hidden_size * (2 * query + key_value)
    bias = query + key_value if model.attention_input_bias else 0
    return weights + bias + (model.num_attention_heads if model.attention_sinks else 0)


def _latent_split(model: ModelArchitecture, latent: MultiLatentAttention) -> int:
    heads = model.num_attention_heads
    query_input = latent.query_rank or model.hidden_size
    query = query_input * heads * (latent.unrotated_head_dim + latent.rotated_head_dim)
    key_value = latent.key_value_rank * heads * (latent.unrotated_head_dim + latent.value_head_dim)
    return query + key_value + heads * latent.value_head_dim * model.hidden_size


def _attention_replicated(model: ModelArchitecture) -> int:
    bias = model.hidden_size if model.attention_output_bias else 0
    if model.latent_attention is not None:
        return bias + _latent_replicated(model, model.latent_attention)
    return bias + _query_key_norms(model)


def _latent_replicated(model: ModelArchitecture, latent: MultiLatentAttention) -> int:
    down = model.hidden_size * (latent.query_rank + latent.key_value_rank + latent.rotated_head_dim)
    return down + _norm(model, latent.query_rank) + _norm(model, latent.key_value_rank)


def _query_key_norms(model: ModelArchitecture) -> int:
    if model.query_key_norm == "none":
        return 0
    if model.query_key_norm == "per-head":
        return 2 * _norm(model, model.head_dim)
    heads = model.num_attention_heads + model.num_key_value_heads
    return _norm(model, heads * model.head_dim)


def _norm(model: ModelArchitecture, width: int) -> int:
    return 2 * width if model.normalization == "layernorm" else width
