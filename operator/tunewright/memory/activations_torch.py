"""Activations that the trial program's eager torch layers keep. Used by `activations`.

Counted as `torch.autograd.graph.saved_tensors_hooks` counts them (torch 2.15), each storage once, weights and tables
left out; a test compares with the program's own layers to the byte on a CPU. Eager keeps more than fused kernels do:
SiLU's output beside both halves and the product, each expert's output (for the gradient of its routing weight), and
on a CPU the fp32 input and normed value of every RMSNorm. Inputs of split linears are saved gathered, so that they
do not shrink with T. fp8 is cast at every use and saves bf16.
"""

from dataclasses import dataclass

import numpy as np

from tunewright.domain.config_batch import BoolArray, ConfigBatch, FloatArray
from tunewright.domain.degrees import Degrees
from tunewright.domain.model_architecture import MixtureOfExperts, ModelArchitecture, MultiLatentAttention
from tunewright.domain.problem import TuningProblem
from tunewright.memory.routing import routed_rows
from tunewright.memory.saved_bytes import LayerBytes, PartBytes, SavedBytes, selects

INDEX_BYTES = 8
FLOAT32_BYTES = 4


@dataclass(frozen=True)
class _Sizes:
    """Bytes of one element and whether norms run as separate fp32 steps, as they do on a CPU.

    All parts are bytes for one of the b·S/(C·T) tokens between the blocks; `gathered` is T of them.
    """

    batch: ConfigBatch
    model: ModelArchitecture
    element: FloatArray
    stepwise_norms: bool

    @property
    def hidden(self) -> FloatArray:
        """Bytes of one hidden vector."""
        return self.element * self.model.hidden_size

    @property
    def gathered(self) -> FloatArray:
        """Bytes of the hidden vectors of all tensor ranks."""
        return self.hidden * self.batch.tensor_parallel_size

    def norm(self, width: int, norms: int = 1) -> FloatArray:
        """Bytes that norms of `width` save; the output belongs to whatever reads it."""
        if self.model.normalization == "layernorm":
            statistics = 2 * self.element if self.stepwise_norms else np.full_like(self.element, 2 * FLOAT32_BYTES)
            return norms * (self.element * width + statistics)
        if self.stepwise_norms:
            return np.full_like(self.element, norms * FLOAT32_BYTES * (2.0 * width + 1))
        return norms * (self.element * width + FLOAT32_BYTES)

    @property
    def block_norm(self) -> PartBytes:
        """The norm before a block. `layernorm` recomputation keeps its input and frees the rest."""
        whole = self.norm(self.model.hidden_size)
        return _part(whole, np.where(selects(self.batch, "layernorm"), whole - self.hidden, 0.0))


def saved_bytes(problem: TuningProblem, batch: ConfigBatch, degrees: Degrees) -> SavedBytes:
    """Return what one layer of each kind keeps per micro batch on a rank."""
    element = np.where(batch.is_("precision", "fp32"), 4.0, 2.0)
    sizes = _Sizes(batch, problem.model, element, problem.cluster.accelerator.vendor == "cpu")
    tokens = degrees.tokens_per_micro_batch / batch.tensor_parallel_size
    attention = _scaled(_attention(sizes), tokens)
    moe: LayerBytes = {}
    if problem.model.experts is not None:
        moe = {"attention": attention, **_moe(problem, sizes, problem.model.experts, tokens)}
    return SavedBytes(
        dense={"attention": attention, "mlp": _scaled(_mlp(sizes), tokens)},
        moe=moe,
        head=(sizes.norm(problem.model.hidden_size) + sizes.gathered) * tokens,
        layer_input=sizes.hidden * tokens,
    )


def _scaled(part: PartBytes, tokens: FloatArray) -> PartBytes:
    return PartBytes(part.kept * tokens, part.dropped * tokens)


def _part(whole: FloatArray, dropped: FloatArray) -> PartBytes:
    return PartBytes(whole - dropped, dropped)


def _post_norm(sizes: _Sizes, position: int) -> FloatArray:
    """Sandwich norm behind attention (first) or the MLP (second), if the model has it."""
    present = sizes.model.norms_per_layer - 2 >= position
    return sizes.norm(sizes.model.hidden_size) * float(present)


def _attention(sizes: _Sizes) -> PartBytes:
    """Return bytes a token: norm, projections and core; `core_attn` keeps the core's inputs and output."""
    latent = sizes.model.latent_attention
    log_sum_exp = np.full_like(sizes.element, float(FLOAT32_BYTES * sizes.model.num_attention_heads))
    if latent is None:
        projected, core_only = _grouped_query(sizes), log_sum_exp
    else:
        projected, core_only = _latent(sizes, latent), log_sum_exp + _padding(sizes, latent)
    norm = sizes.block_norm
    whole = norm.whole + projected + core_only + _post_norm(sizes, 1)
    dropped = norm.dropped + np.where(selects(sizes.batch, "core_attn"), core_only, 0.0)
    if latent is not None:
        dropped = dropped - np.where(selects(sizes.batch, "mla_up_proj"), _rotated_input(sizes, latent), 0.0)
    return _part(whole, dropped)


def _grouped_query(sizes: _Sizes) -> FloatArray:
    """Gathered input, Q, K, V and output of every head, inputs of the query and key norms."""
    model = sizes.model
    groups = np.maximum(model.num_key_value_heads, sizes.batch.tensor_parallel_size)
    heads = sizes.element * 2 * (model.num_attention_heads + groups) * model.head_dim
    saved: FloatArray = sizes.gathered + heads
    if model.query_key_norm == "per-head":
        return saved + (model.num_attention_heads + groups) * sizes.norm(model.head_dim)
    if model.query_key_norm == "per-layer":
        return saved + sizes.norm(model.num_attention_heads * model.head_dim) + sizes.norm(_key_width(model))
    return saved


def _key_width(model: ModelArchitecture) -> int:
    return model.num_key_value_heads * model.head_dim


def _latent(sizes: _Sizes, latent: MultiLatentAttention) -> FloatArray:
    """Input, compressed tokens and their norms, joined Q and K, the up-projected K/V that V is cut from, output."""
    tensor = sizes.batch.tensor_parallel_size
    heads = 2 * _head_width(latent) + latent.unrotated_head_dim + 2 * latent.value_head_dim
    saved = sizes.hidden + sizes.norm(latent.key_value_rank) + sizes.element * latent.key_value_rank * tensor
    # the norm's input is cut from a wider tensor, which it pins
    saved = saved + np.where(_norm_copies_input(sizes), 0.0, sizes.element * latent.rotated_head_dim)
    if latent.query_rank:
        saved = saved + sizes.norm(latent.query_rank) + sizes.element * latent.query_rank * tensor
    else:
        saved = saved + sizes.gathered * (tensor > 1)
    return saved + sizes.element * sizes.model.num_attention_heads * heads


def _norm_copies_input(sizes: _Sizes) -> BoolArray:
    """Return where a norm saves an fp32 copy of its input instead of the input."""
    steps = sizes.stepwise_norms and sizes.model.normalization == "rmsnorm"
    copies: BoolArray = (sizes.element != FLOAT32_BYTES) & steps
    return copies


def _rotated_input(sizes: _Sizes, latent: MultiLatentAttention) -> FloatArray:
    """What recomputing the up projections adds: their third input, the position part. Their outputs stay.

    Gathered over the tensor group, or else a cut of the compressed tokens, pinned by the norm unless that copied them.
    """
    tensor = sizes.batch.tensor_parallel_size
    gathered = sizes.element * latent.rotated_head_dim * tensor
    pinned = sizes.element * (latent.key_value_rank + latent.rotated_head_dim) * _norm_copies_input(sizes)
    added: FloatArray = np.where(tensor > 1, gathered, pinned)
    return added


def _head_width(latent: MultiLatentAttention) -> int:
    return latent.unrotated_head_dim + latent.rotated_head_dim


def _padding(sizes: _Sizes, latent: MultiLatentAttention) -> FloatArray:
    """Padded V instead of the tensor it was cut from, and the padded output, where values are narrower than keys."""
    if latent.value_head_dim >= _head_width(latent):
        return np.zeros_like(sizes.element)
    extra = 2 * _head_width(latent) - (latent.unrotated_head_dim + latent.value_head_dim)
    padding: FloatArray = sizes.element * sizes.model.num_attention_heads * extra
    return padding


def _mlp(sizes: _Sizes) -> PartBytes:
    """Return bytes a token: norm, gathered input and intermediates; `mlp` keeps the norm and its output."""
    norm = sizes.block_norm
    inside = sizes.gathered + _intermediate(sizes, sizes.model.ffn_hidden_size)
    whole = norm.whole + inside + _post_norm(sizes, 2)
    return _part(whole, norm.dropped + np.where(selects(sizes.batch, "mlp"), inside - sizes.hidden, 0.0))


def _intermediate(sizes: _Sizes, width: int) -> FloatArray:
    """Both halves, SiLU's output and the product; without a gate, GELU's input and output."""
    return sizes.element * width * (4 if sizes.model.gated_mlp else 2)


def _moe(problem: TuningProblem, sizes: _Sizes, experts: MixtureOfExperts, tokens: FloatArray) -> LayerBytes:
    """Return the parts of an MoE block. `moe` keeps the norm and its output."""
    moe = selects(sizes.batch, "moe")
    norm = sizes.block_norm
    routing = _routing(sizes, experts)
    router = norm.whole + sizes.hidden + routing + _post_norm(sizes, 2)
    shared, gate = _shared(sizes, experts), _shared_gate(sizes, experts)
    rows = routed_rows(problem, sizes.batch, tokens)
    row = _expert_row(sizes, experts)
    return {
        "router": _scaled(_part(router, norm.dropped + np.where(moe, routing, 0.0)), tokens),
        "shared_experts": _scaled(
            _part(
                shared + gate,
                np.where(moe, shared + gate, np.where(selects(sizes.batch, "shared_experts"), shared, 0.0)),
            ),
            tokens,
        ),
        "experts": _scaled(row, rows),
    }


def _routing(sizes: _Sizes, experts: MixtureOfExperts) -> FloatArray:
    """Scores, the chosen ones and their sum in fp32; for each visit three orders, its weight and its result."""
    scores = FLOAT32_BYTES * (experts.num_experts + experts.experts_per_token + 1)
    visit = 3 * INDEX_BYTES + sizes.element + sizes.hidden
    routing: FloatArray = scores + experts.experts_per_token * visit
    return routing


def _shared(sizes: _Sizes, experts: MixtureOfExperts) -> FloatArray:
    width = experts.shared_expert_ffn_hidden_size
    if not width:
        return np.zeros_like(sizes.element)
    gathered = sizes.gathered * (sizes.batch.tensor_parallel_size > 1)
    return gathered + _intermediate(sizes, width)


def _shared_gate(sizes: _Sizes, experts: MixtureOfExperts) -> FloatArray:
    """The shared experts' output and the gate that multiplies it."""
    gated = experts.shared_expert_gate and experts.shared_expert_ffn_hidden_size > 0
    return (sizes.hidden + sizes.element) * float(gated)


def _expert_row(sizes: _Sizes, experts: MixtureOfExperts) -> PartBytes:
    """Return bytes a row that an expert works on: input and intermediates; `moe_act` frees SiLU's output."""
    width = experts.expert_ffn_hidden_size / sizes.batch.expert_tensor_parallel_size
    whole = sizes.hidden + sizes.element * width * (4 if sizes.model.gated_mlp else 2)
    activated = sizes.element * width * float(sizes.model.gated_mlp)
    dropped = np.where(selects(sizes.batch, "moe_act"), activated, 0.0)
    return _part(whole, np.where(selects(sizes.batch, "moe"), whole, dropped))
