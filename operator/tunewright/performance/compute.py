"""Analytic layer times: the roofline of every part of a layer, put together with recomputation. Called by `step`.

Rows with the same profile key have the same times, so each distinct key is computed once.
"""

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, FloatArray
from tunewright.domain.operation_checkpointing import recomputes_operations
from tunewright.domain.problem import TuningProblem
from tunewright.performance.constants import Efficiency
from tunewright.performance.gemm import Device
from tunewright.performance.layer_times import LayerTimes
from tunewright.performance.modules import LayerParts, ModuleTimes
from tunewright.performance.operation_recompute import recomputed_operations
from tunewright.performance.profile_key import profile_groups
from tunewright.performance.software import Software


def analytic_layer_times(
    problem: TuningProblem,
    batch: ConfigBatch,
    efficiency: Efficiency | None = None,
    software: Software | None = None,
) -> LayerTimes:
    """Return the modelled layer times of every row."""
    first, index = profile_groups(problem, batch)
    distinct = batch.take(first)
    eager = problem.implementation == "torch"
    accelerator = problem.cluster.accelerator
    chosen = efficiency or Efficiency.of(accelerator)
    device = Device(accelerator, chosen, distinct, eager, software or Software())
    return _layer_times(problem, device).take(index)


def _layer_times(problem: TuningProblem, device: Device) -> LayerTimes:
    parts = LayerParts(problem, device)
    attention = _Attention(parts)
    dense, dense_again = _dense(problem, device, parts, attention)
    moe, moe_again = _moe(problem, device, parts, attention)
    head, embedding = parts.head(), parts.embedding()
    host, host_experts = parts.host()
    dense, dense_again, dense_waits = _waiting(dense, dense_again, host, device.efficiency)
    moe, moe_again, moe_waits = _waiting(moe, moe_again, host + host_experts, device.efficiency)
    return LayerTimes(
        dense_forward=dense.forward,
        dense_backward_input=dense.backward_input + dense_again,
        dense_backward_weight=dense.backward_weight,
        dense_recompute=dense_again,
        dense_core_forward=attention.core.forward,
        moe_forward=moe.forward,
        moe_backward_input=moe.backward_input + moe_again,
        moe_backward_weight=moe.backward_weight,
        moe_recompute=moe_again,
        embedding_forward=embedding.forward,
        embedding_backward_input=embedding.backward_input,
        embedding_backward_weight=embedding.backward_weight,
        head_forward=head.forward,
        head_backward_input=head.backward_input,
        head_backward_weight=head.backward_weight,
        dense_wait_forward=dense_waits[0],
        dense_wait_backward=dense_waits[1],
        moe_wait_forward=moe_waits[0],
        moe_wait_backward=moe_waits[1],
        optimizer_seconds_per_parameter=_optimizer(device),
    )


class _Attention:
    """The attention half of a layer, with norms and launch floor."""

    def __init__(self, parts: LayerParts) -> None:
        self.core = parts.core()
        self.norms = parts.norms()
        self.up = parts.up_projections()
        self.whole = parts.projections() + self.up + self.core + self.norms + parts.small_kernels()

    def again(self, batch: ConfigBatch) -> FloatArray:
        """Return what selective recomputation of attention modules runs again."""
        again: FloatArray = (
            batch.recomputes("core_attn") * self.core.forward
            + batch.recomputes("layernorm") * self.norms.forward / 2
            + batch.recomputes("mla_up_proj") * self.up.forward
        )
        return again


def _dense(
    problem: TuningProblem, device: Device, parts: LayerParts, attention: _Attention
) -> tuple[ModuleTimes, FloatArray]:
    batch = device.batch
    if not problem.model.num_dense_layers:
        return parts.nothing(), parts.nothing().forward
    mlp = parts.dense_mlp(problem.model.ffn_hidden_size)
    layer = attention.whole + mlp
    modules = attention.again(batch) + batch.recomputes("mlp") * mlp.forward
    return layer, _recomputed(problem, batch, layer, modules, recomputed_operations(problem, device, parts, "dense"))


def _moe(
    problem: TuningProblem, device: Device, parts: LayerParts, attention: _Attention
) -> tuple[ModuleTimes, FloatArray]:
    batch = device.batch
    if not problem.model.num_moe_layers:
        return parts.nothing(), parts.nothing().forward
    activation, shared = parts.expert_activation(), parts.shared_experts()
    routed = parts.router() + parts.experts() + activation
    layer = attention.whole + routed + shared
    whole = batch.recomputes("moe")
    modules = attention.again(batch) + whole * (routed + shared).forward
    modules += (~whole & batch.recomputes("moe_act")) * activation.forward
    modules += (~whole & batch.recomputes("shared_experts")) * shared.forward
    return layer, _recomputed(problem, batch, layer, modules, recomputed_operations(problem, device, parts, "moe"))


def _recomputed(
    problem: TuningProblem, batch: ConfigBatch, layer: ModuleTimes, modules: FloatArray, operations: FloatArray
) -> FloatArray:
    """Return what runs again: the layer under `full`, what `selective` means for the launcher, or nothing."""
    selective = np.where(recomputes_operations(problem, batch), operations, modules)
    return np.where(batch.is_("recompute_granularity", "full"), layer.forward, selective)


def _waiting(
    layer: ModuleTimes, again: FloatArray, host: FloatArray, efficiency: Efficiency
) -> tuple[ModuleTimes, FloatArray, tuple[FloatArray, FloatArray]]:
    """Stretch passes that the device finishes before the host, in `host` seconds forward, has launched them.

    Returns the stretched times, what running a part again adds to them, and the seconds waited forward and backward.
    """
    exists = layer.forward > 0
    share = np.minimum(again / np.maximum(layer.forward, 1e-30), 1.0)
    ahead = np.where(exists, np.maximum(host - layer.forward, 0.0), 0.0)
    backward = layer.backward_input + layer.backward_weight
    behind = np.where(exists, np.maximum(host * (efficiency.host_backward + share) - backward - again, 0.0), 0.0)
    without = np.where(exists, np.maximum(host * efficiency.host_backward - backward, 0.0), 0.0)
    # Input and weight gradients are as many kernels each; what one half is behind, the other may still catch up.
    half = efficiency.host_backward / 2
    inputs = np.maximum(host * half - layer.backward_input, 0.0)
    weights = np.maximum(host * half - layer.backward_weight, 0.0)
    of_inputs = without * inputs / np.maximum(inputs + weights, 1e-30)
    return layer + ModuleTimes(ahead, of_inputs, without - of_inputs), again + behind - without, (ahead, behind)


def _optimizer(device: Device) -> FloatArray:
    efficiency = device.efficiency
    share = efficiency.optimizer_hbm if not device.eager else device.accelerator.hbm_efficiency
    rate = device.accelerator.hbm_bytes_per_second * share
    moved = efficiency.optimizer_bytes_per_parameter + device.software.gradient_bytes
    return np.full(len(device.batch), moved / rate)
