"""The shape of a transformer: everything that its parameters, activations and FLOPs depend on.

Read by legality, memory, performance, the trial program and the launch backends. Presets and Hugging Face
`config.json` files are turned into this value by `catalog` and `huggingface`.
"""

from typing import Literal

from pydantic import Field, model_validator

from tunewright.domain.value import Value

MOST_LAYERS = 4096
_MOST_HEADS = 4096
_WIDEST_HEAD = 4096
_WIDEST = 2**18
_WIDEST_INNER = 2**20
_MOST_EXPERTS = 2**14
_LONGEST = 2**24
_MOST_EXPERT_WEIGHTS = 2**48
"""Ten times beyond any published model or more, and low enough that no product of sizes leaves 64 bits."""

MODEL_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"

Normalization = Literal["rmsnorm", "layernorm"]
QueryKeyNorm = Literal["none", "per-head", "per-layer"]


class MultiLatentAttention(Value):
    """Low-rank attention of DeepSeek-V2: query and key/value are compressed, keys carry a rotated part."""

    query_rank: int = Field(
        ge=0, le=_WIDEST, description="Rank of the compressed query; 0 means that the query is not compressed."
    )
    key_value_rank: int = Field(ge=1, le=_WIDEST, description="Rank of the compressed key and value.")
    unrotated_head_dim: int = Field(
        ge=1, le=_WIDEST_HEAD, description="Width of the part of a query or key head without position."
    )
    rotated_head_dim: int = Field(
        ge=1, le=_WIDEST_HEAD, description="Width of the part that carries the rotary position."
    )
    value_head_dim: int = Field(ge=1, le=_WIDEST_HEAD, description="Width of a value head.")


class MixtureOfExperts(Value):
    """The expert part of an MoE layer."""

    num_experts: int = Field(ge=2, le=_MOST_EXPERTS, description="Routed experts per layer.")
    experts_per_token: int = Field(ge=1, le=1024, description="Routed experts that each token visits.")
    expert_ffn_hidden_size: int = Field(ge=1, le=_WIDEST_INNER, description="Intermediate width of one routed expert.")
    shared_expert_ffn_hidden_size: int = Field(
        0, ge=0, le=_WIDEST_INNER, description="Sum of the widths of all shared experts."
    )
    shared_expert_gate: bool = Field(False, description="A learned gate multiplies the shared experts' output.")
    router_bias: bool = Field(False, description="The router has a trained or balancing bias stored per expert.")
    num_leading_dense_layers: int = Field(
        0, ge=0, le=MOST_LAYERS, description="First layers that have a dense MLP instead."
    )


class ModelArchitecture(Value):
    """One decoder-only transformer. Sizes are in elements unless a suffix says otherwise."""

    name: str = Field(min_length=1, max_length=63, pattern=MODEL_NAME_PATTERN)
    num_layers: int = Field(ge=1, le=MOST_LAYERS)
    hidden_size: int = Field(ge=1, le=_WIDEST)
    num_attention_heads: int = Field(ge=1, le=_MOST_HEADS)
    num_key_value_heads: int = Field(
        ge=1, le=_MOST_HEADS, description="Equal to the attention heads: no grouping. Unused under MLA."
    )
    head_dim: int = Field(ge=1, le=_WIDEST_HEAD, description="Width of one head. Unused under MLA.")
    ffn_hidden_size: int = Field(
        ge=0, le=_WIDEST_INNER, description="Intermediate width of the dense MLP; 0 if no layer has one."
    )
    vocabulary_size: int = Field(ge=1, le=_LONGEST, description="Rows of the embedding in the checkpoint, unpadded.")
    gated_mlp: bool = Field(True, description="SwiGLU-like: two input matrices instead of one.")
    tied_embeddings: bool = False
    attention_input_bias: bool = Field(False, description="Bias on the QKV projection.")
    attention_output_bias: bool = False
    mlp_bias: bool = Field(False, description="Bias on the dense MLP or on the experts.")
    query_key_norm: QueryKeyNorm = "none"
    normalization: Normalization = "rmsnorm"
    norms_per_layer: int = Field(2, ge=1, le=4, description="Full-width norms in a layer; 4 with sandwich norms.")
    learned_position_embeddings: int = Field(
        0, ge=0, le=_LONGEST, description="Rows of a learned position table; 0: rotary."
    )
    sliding_window: int = Field(
        0, ge=0, le=_LONGEST, description="Attention window in tokens; 0: full attention everywhere."
    )
    sliding_window_every: int = Field(
        1, ge=1, le=MOST_LAYERS, description="One layer in this many has the window (2: alternating)."
    )
    attention_sinks: bool = Field(False, description="One learned logit per head joins the softmax.")
    num_multi_token_prediction_layers: int = Field(0, ge=0, le=64)
    latent_attention: MultiLatentAttention | None = None
    experts: MixtureOfExperts | None = None

    @model_validator(mode="after")
    def _is_consistent(self) -> "ModelArchitecture":
        if self.latent_attention is None and self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(
                f"numKeyValueHeads {self.num_key_value_heads} must divide numAttentionHeads {self.num_attention_heads}"
            )
        if self.experts is None and self.ffn_hidden_size == 0:
            raise ValueError("ffnHiddenSize must be positive in a model without experts")
        if self.experts is not None:
            self._experts_are_consistent(self.experts)
        return self

    def _experts_are_consistent(self, experts: MixtureOfExperts) -> None:
        if experts.experts_per_token > experts.num_experts:
            raise ValueError(f"expertsPerToken {experts.experts_per_token} exceeds numExperts {experts.num_experts}")
        if experts.num_leading_dense_layers > self.num_layers:
            raise ValueError("numLeadingDenseLayers exceeds numLayers")
        if experts.num_leading_dense_layers and self.ffn_hidden_size == 0:
            raise ValueError("ffnHiddenSize must be positive when there are leading dense layers")
        weights = self.num_layers * experts.num_experts * experts.expert_ffn_hidden_size * self.hidden_size
        if weights > _MOST_EXPERT_WEIGHTS:
            factors = "numLayers x numExperts x expertFfnHiddenSize x hiddenSize"
            raise ValueError(f"{factors} = {weights} exceeds {_MOST_EXPERT_WEIGHTS}: lower one of them")

    @property
    def num_dense_layers(self) -> int:
        """Layers with a dense MLP: all of them without experts, else the leading ones."""
        return self.num_layers if self.experts is None else self.experts.num_leading_dense_layers

    @property
    def num_moe_layers(self) -> int:
        """Layers with routed experts."""
        return self.num_layers - self.num_dense_layers

    @property
    def is_moe(self) -> bool:
        """Whether any layer routes tokens to experts."""
        return self.experts is not None
