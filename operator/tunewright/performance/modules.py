"""Forward and backward seconds of the parts of a layer, at the per-rank shapes of every row. Called by `compute`."""

from dataclasses import dataclass

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, FloatArray
from tunewright.domain.degrees import Degrees
from tunewright.domain.model_architecture import MixtureOfExperts, ModelArchitecture
from tunewright.domain.problem import TuningProblem
from tunewright.performance import flops
from tunewright.performance.gemm import Device

_SOCKET_DEVICES = 4
"""Devices that hang on one of the two processors of an 8-device node."""

_PASSES_OF_NORM = 5.0
"""Tensors of width H that a norm and its residual sum read or write: x, y, and three of the sum."""


@dataclass(frozen=True, eq=False)
class ModuleTimes:
    """Seconds of one part of a layer per micro batch, per row."""

    forward: FloatArray
    backward_input: FloatArray
    backward_weight: FloatArray

    def __add__(self, other: "ModuleTimes") -> "ModuleTimes":
        return ModuleTimes(
            self.forward + other.forward,
            self.backward_input + other.backward_input,
            self.backward_weight + other.backward_weight,
        )

    def times(self, factor: float | FloatArray) -> "ModuleTimes":
        """Return the same work `factor` times."""
        return ModuleTimes(self.forward * factor, self.backward_input * factor, self.backward_weight * factor)


@dataclass(frozen=True, eq=False)
class Shapes:
    """What a rank works on, per row: whole tokens of a micro batch, and their share after the tensor split."""

    tensor: FloatArray
    tokens: FloatArray
    token_share: FloatArray

    @classmethod
    def of(cls, problem: TuningProblem, batch: ConfigBatch) -> "Shapes":
        """Derive the shapes of every row."""
        tokens = Degrees.of(problem, batch).tokens_per_micro_batch.astype(np.float64)
        tensor = batch.tensor_parallel_size.astype(np.float64)
        return cls(tensor, tokens, tokens / tensor)


class LayerParts:
    """Builds the parts of a layer; a method returns one part's times."""

    def __init__(self, problem: TuningProblem, device: Device) -> None:
        self._problem = problem
        self._model: ModelArchitecture = problem.model
        self._device = device
        self._shapes = Shapes.of(problem, device.batch)
        self._launch = device.accelerator.launch_overhead_seconds

    def projections(self) -> ModuleTimes:
        """Return the input and output projections of attention, without MLA's up projections."""
        model, shapes = self._model, self._shapes
        tokens, tensor, hidden = shapes.tokens, shapes.tensor, float(model.hidden_size)
        latent = model.latent_attention
        if latent is None:
            width = model.num_attention_heads * model.head_dim / tensor
            groups = np.maximum(model.num_key_value_heads / tensor, 1.0)
            both = self._linear(tokens, hidden, width + 2.0 * groups * model.head_dim)
            return both + self._linear(tokens, width, hidden)
        down = latent.key_value_rank + latent.rotated_head_dim
        # The down projections are replicated and work on each rank's own part of the sequence.
        parts = self._linear(shapes.token_share, hidden, down)
        if latent.query_rank:
            parts += self._linear(shapes.token_share, hidden, latent.query_rank)
        return parts + self._linear(tokens, model.num_attention_heads * latent.value_head_dim / tensor, hidden)

    def up_projections(self) -> ModuleTimes:
        """Return MLA's up projections of query and key/value; nothing for other attention."""
        latent = self._model.latent_attention
        if latent is None:
            return self.nothing()
        heads = self._model.num_attention_heads / self._shapes.tensor
        query_input = float(latent.query_rank or self._model.hidden_size)
        query = heads * (latent.unrotated_head_dim + latent.rotated_head_dim)
        key_value = heads * (latent.unrotated_head_dim + latent.value_head_dim)
        tokens = self._shapes.tokens
        return self._linear(tokens, query_input, query) + self._linear(tokens, float(latent.key_value_rank), key_value)

    def core(self) -> ModuleTimes:
        """Return flash attention, causal, with its backward of five products against two."""
        efficiency = self._device.efficiency
        if not self._device.software.flash_attention:
            return self._unfused_core()
        per_token = flops.attention_core(self._model, self._problem.sequence_length)
        work = per_token * self._shapes.tokens / self._shapes.tensor
        rate = self._device.wide_matmul_rate
        forward = work / (rate * efficiency.attention_forward) + self._launch
        backward = work * efficiency.attention_backward_products / (rate * efficiency.attention_backward)
        return ModuleTimes(forward, backward + 2 * self._launch, np.zeros_like(forward))

    def _unfused_core(self) -> ModuleTimes:
        """Attention by plain products over the full square, with the scores in device memory."""
        efficiency, shapes, model = self._device.efficiency, self._shapes, self._model
        length = self._problem.sequence_length / self._device.batch.context_parallel_size
        heads = model.num_attention_heads / shapes.tensor
        groups = heads * shapes.tokens / length
        both = self._device.product_seconds(length, length, np.full_like(length, model.head_dim), groups)
        both = both + self._device.product_seconds(length, np.full_like(length, model.head_dim), length, groups)
        scores = heads * shapes.tokens * self._problem.sequence_length
        forward = both + self._device.traffic_seconds(scores * efficiency.score_bytes_forward)
        backward = 2.0 * both + self._device.traffic_seconds(scores * efficiency.score_bytes_backward)
        return ModuleTimes(forward, backward, np.zeros_like(forward))

    def norms(self) -> ModuleTimes:
        """Return the full-width norms with their residual sums and the rotation of queries and keys."""
        model, shapes = self._model, self._shapes
        tokens = shapes.token_share if self._device.software.sequence_parallel else shapes.tokens
        widths = model.norms_per_layer * _PASSES_OF_NORM * model.hidden_size * tokens
        heads = model.num_attention_heads + model.num_key_value_heads
        rotated = 2.0 * heads * model.head_dim * shapes.tokens / shapes.tensor
        return self._elementwise(widths + rotated)

    def small_kernels(self) -> ModuleTimes:
        """Return the launch floor of what is not counted elsewhere in a layer."""
        efficiency = self._device.efficiency
        count = efficiency.eager_small_kernels if self._device.eager else efficiency.fused_small_kernels
        floor = np.full(len(self._device.batch), count * self._launch)
        return ModuleTimes(floor, 2.0 * floor, np.zeros_like(floor))

    def dense_mlp(self, width: int) -> ModuleTimes:
        """Return a tensor-parallel MLP of intermediate `width`."""
        return self._mlp(self._shapes.tokens, width / self._shapes.tensor, 1.0) + self.activation(
            self._shapes.tokens, width / self._shapes.tensor
        )

    def activation(self, rows: FloatArray, width: FloatArray) -> ModuleTimes:
        """Return the (gated) activation of `rows` of intermediate `width`."""
        return self._elementwise(rows * width * (3.0 if self._model.gated_mlp else 2.0))

    def routed_rows(self) -> FloatArray:
        """Return the rows that a rank's experts work on: k a token, times the imbalance; ET ranks share theirs."""
        experts = self._experts
        split = self._device.batch.expert_tensor_parallel_size
        return self._shapes.token_share * experts.experts_per_token * self._problem.routing_imbalance * split

    def router(self) -> ModuleTimes:
        """Return scores, selection and the permutation of tokens to experts and back, with the host's wait."""
        experts, tokens = self._experts, self._shapes.token_share
        scores = self._linear(tokens, float(self._model.hidden_size), float(experts.num_experts), wide=True)
        rows = tokens * experts.experts_per_token
        selection = self._elementwise(tokens * experts.num_experts * 5.0)
        sent = (rows + self.routed_rows()) / 2 * self._model.hidden_size * self._permutation_passes()
        moved = self._elementwise(sent).times(self._permute_traffic())
        return scores + selection + moved + self._token_count_wait()

    def _permutation_passes(self) -> FloatArray:
        """Times that a routed row is read or written: DeepEP permutes once behind its kernels; all-to-all also before,
        and sorts what arrives by expert; the same on the way back.
        """
        return np.where(self._device.batch.is_("moe_dispatcher", "deepep"), 4.0, 7.0)

    def _permute_traffic(self) -> FloatArray:
        """Unfused sorting, gathering and scattering move each row several times; Primus fuses them from stage 1 on."""
        fused = (self._device.batch.sync_free_stage >= 1) | (self._problem.backend != "primus")
        return np.where(fused, 1.0, self._device.efficiency.unfused_permute)

    def _token_count_wait(self) -> ModuleTimes:
        share = self._waits_for_counts() * (0.0 if self._device.eager else 1.0)
        deepep = self._device.batch.is_("moe_dispatcher", "deepep")
        stalls = np.where(deepep, 1.0, self._device.efficiency.all_to_all_syncs)
        stalls = np.where(self._device.batch.expert_parallel_size > 1, stalls, 1.0)
        wait = share * stalls * self._device.efficiency.host_sync_seconds
        return ModuleTimes(wait, np.zeros_like(wait), np.zeros_like(wait))

    def _waits_for_counts(self) -> FloatArray:
        """Share of the waits for token counts that a sync-free stage leaves: 1 spares most of them, 2 and 3 all."""
        stage = self._device.batch.sync_free_stage
        graphs = 0.0 if self._device.software.captured_graphs else 1.0
        share: FloatArray = graphs * np.select([stage == 0, stage == 1], [1.0, 0.3], 0.0)
        return share

    def host(self) -> tuple[FloatArray, FloatArray]:
        """Return the host's time to launch a layer's forward pass, and what routed experts add to it."""
        batch, efficiency = self._device.batch, self._device.efficiency
        runs = 0.0 if self._device.software.captured_graphs or self._device.accelerator.vendor == "cpu" else 1.0
        spans = batch.tensor_parallel_size > _SOCKET_DEVICES
        wider = np.where(spans, efficiency.host_across_sockets, 1.0)
        layer = runs * efficiency.host_seconds_per_layer * wider
        routed = self._waits_for_counts() * efficiency.host_seconds_per_expert_layer
        scaled = batch.is_("precision", "mxfp8") * efficiency.host_seconds_per_block_scaled_expert
        experts = self._model.experts.num_experts if self._model.experts else 0
        return layer, runs * (routed + scaled * experts / batch.expert_parallel_size)

    def experts(self) -> ModuleTimes:
        """Return the grouped products of a rank's routed experts, without their activation."""
        experts, batch = self._experts, self._device.batch
        groups = np.maximum(experts.num_experts / batch.expert_parallel_size, 1.0)
        width = experts.expert_ffn_hidden_size / batch.expert_tensor_parallel_size
        slower = 1.0 / self._device.efficiency.grouped_matmul
        return self._mlp(self.routed_rows() / groups, width, groups, cast=self._expert_cast()).times(slower)

    def _expert_cast(self) -> float:
        """Cost of casting grouped operands to 8 bits; Primus quantises for each grouped product anew."""
        fused = self._device.software.fused_expert_casts and self._problem.backend != "primus"
        return 1.0 if fused else self._device.efficiency.unfused_expert_cast

    def expert_activation(self) -> ModuleTimes:
        """Return the activation of the routed rows."""
        width = self._experts.expert_ffn_hidden_size / self._device.batch.expert_tensor_parallel_size
        return self.activation(self.routed_rows(), width)

    def shared_experts(self) -> ModuleTimes:
        """Return the shared experts: a dense MLP that every token visits."""
        width = self._experts.shared_expert_ffn_hidden_size
        return self.dense_mlp(width) if width else self.nothing()

    def head(self) -> ModuleTimes:
        """Return the final norm, the logits (always wide) and the loss."""
        shapes, vocabulary = self._shapes, self._model.vocabulary_size / self._shapes.tensor
        fused = self._device.batch.cross_entropy_fusion == 1
        passes = np.where(fused, 2.0, 7.0)
        logits = self._linear(shapes.tokens, float(self._model.hidden_size), vocabulary, wide=True)
        loss = self._elementwise(shapes.tokens * vocabulary * passes)
        return logits + loss + self._elementwise(2.0 * self._model.hidden_size * shapes.token_share)

    def embedding(self) -> ModuleTimes:
        """Return the look-up and the scatter of its gradient, which is a weight gradient."""
        seconds = self._elementwise(2.0 * self._model.hidden_size * self._shapes.tokens).forward
        return ModuleTimes(seconds, np.zeros_like(seconds), 2.0 * seconds)

    def nothing(self) -> ModuleTimes:
        """Return zero seconds."""
        zero = np.zeros(len(self._device.batch))
        return ModuleTimes(zero, zero, zero)

    @property
    def _experts(self) -> MixtureOfExperts:
        if self._model.experts is None:
            raise ValueError(f"{self._model.name} has no experts")
        return self._model.experts

    def _mlp(
        self, rows: FloatArray, width: FloatArray, groups: float | FloatArray, *, cast: float = 1.0
    ) -> ModuleTimes:
        hidden = float(self._model.hidden_size)
        inputs = 2.0 if self._model.gated_mlp else 1.0
        first = self._linear(rows, hidden, inputs * width, groups, cast=cast)
        return first + self._linear(rows, width, hidden, groups, cast=cast)

    def _linear(
        self,
        rows: FloatArray,
        inputs: float | FloatArray,
        outputs: float | FloatArray,
        groups: float | FloatArray = 1.0,
        *,
        wide: bool = False,
        cast: float = 1.0,
    ) -> ModuleTimes:
        """A linear layer: the product, its input gradient and its weight gradient (depth: the rows)."""
        rows, inputs, outputs = np.broadcast_arrays(rows, inputs, outputs)
        seconds = self._device.product_seconds
        return ModuleTimes(
            seconds(rows, outputs, inputs, groups, wide=wide, cast=cast),
            seconds(rows, inputs, outputs, groups, wide=wide, cast=cast),
            seconds(inputs, outputs, rows, groups, wide=wide, cast=cast),
        )

    def _elementwise(self, elements: FloatArray) -> ModuleTimes:
        """A memory-bound kernel that reads and writes `elements`; its backward pass moves about twice that."""
        size = (
            elements * self._device.element_bytes * (self._device.efficiency.eager_traffic if self._device.eager else 1)
        )
        seconds = self._device.traffic_seconds(size)
        return ModuleTimes(seconds, 2.0 * seconds, np.zeros_like(seconds))
