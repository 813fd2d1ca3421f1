"""The numbers of the performance model that are fitted or assumed rather than derived. Read by this whole package.

None of them is a property of a model or of a configuration; what a device can do is in the catalog.
"""

from dataclasses import dataclass

from tunewright.domain.hardware import Accelerator

TILES: tuple[tuple[int, int, float], ...] = ((256, 256, 1.0), (256, 128, 0.93), (128, 128, 0.82), (64, 64, 0.45))
"""Rows, columns and relative speed of the GEMM tiles that a library chooses from; the fastest is taken."""


_OPTIMIZER_HBM = {"amd": 0.21, "nvidia": 0.60}
"""Share of HBM peak that the optimizer step reaches: Primus's trace of the MoE best-practices post; on NVIDIA devices
multi-tensor kernels do better (steps of few micro batches in vTrain's A100 rows)."""

_BACKWARD_ATTENTION = 0.8
"""Backward over forward FLOP/s of flash attention."""


@dataclass(frozen=True)
class Efficiency:
    """Shares of what a device can do at best: an accelerator's calibration, and what is the same on all of them."""

    sustained_matmul: float = 0.85
    """Speed of a GEMM inside a training step over the best measured one: clocks drop under sustained load (AMD's
    max-achievable-FLOPs posts average 74 % of the best over DeepSeek-V3 shapes; tiles and depth explain the rest)."""
    depth_half: float = 160.0
    """Depth k at which a GEMM runs at half speed: prologue and epilogue of a tile."""
    fp8_matmul: float = 1.0
    """fp8 over bf16 efficiency: 1403/1979 against 794/989 on H100 (stas00/ml-engineering)."""
    grouped_matmul: float = 0.9
    """Grouped over plain GEMM at equal tiles."""
    attention_forward: float = 0.65
    """Flash attention over the best GEMM: 450 to 500 of 794 TFLOP/s on H100 (FlashAttention-2 and Transformer Engine
    backends)."""
    attention_backward: float = 0.52
    attention_backward_products: float = 2.5
    """Five matrix products against two: flash attention computes the scores again."""
    optimizer_hbm: float = 0.21
    """Share of HBM peak that the optimizer step reaches: Primus's trace of the MoE best-practices post."""
    optimizer_bytes_per_parameter: float = 28.0
    """Reads and writes of a sharded parameter beside its gradient: master and moments 12 twice, bf16 weight 2 and
    cast."""
    eager_traffic: float = 2.0
    """HBM traffic of unfused torch over fused kernels for norms and activations."""
    fused_small_kernels: int = 12
    """Launches of a layer's forward pass that are not GEMMs, Transformer Engine."""
    eager_small_kernels: int = 30
    """The same in eager torch."""
    host_sync_seconds: float = 4e-4
    """Stall of one MoE layer's forward pass after it has asked the device for token counts: the queue has run dry."""
    all_to_all_syncs: float = 5.0
    """Such stalls under all-to-all, which exchanges counts, copies both lists of splits and sorts; DeepEP has one."""
    unfused_expert_cast: float = 10.0
    """Traffic-equivalent of casting grouped operands expert by expert over one fused kernel."""
    pipeline_stall_seconds: float = 4e-4
    """Cost of a device synchronisation after a transfer between pipeline ranks: the launch queue starts empty. The gap
    between interleaved and plain 1F1B in the zero-bubble paper's A100 rows."""
    unfused_permute: float = 3.0
    """Traffic of unfused permutations over fused ones."""
    host_seconds_per_layer: float = 7e-4
    """Host time to launch a layer's forward pass: a smaller layer cannot run faster."""
    host_seconds_per_expert_layer: float = 2e-3
    """What routed experts add, with the wait for the device to learn its token counts."""
    host_seconds_per_block_scaled_expert: float = 1.1e-4
    """What each expert of a rank adds when operands are scaled in blocks: its quantisation kernels are launched one
    by one (Qwen3-30B on B200 with micro batch 1: 9.2 ms a layer in mxfp8, 4.7 with one scale a tensor)."""
    host_backward: float = 1.5
    """Host time of a backward pass over that of a forward pass: twice the products, but no Python in between."""
    host_across_sockets: float = 1.4
    """Host time of a tensor group that spans both processors of a node over that of one on one processor: every
    collective waits for the slowest launcher (vTrain's A100 rows: 5.1 against 3.6 ms a layer, for any hidden size)."""
    score_bytes_forward: float = 8.0
    """Without flash attention, device-memory traffic of one score: written, scaled and normalised by one fused kernel
    (read, written), read by the product with V; 2 bytes each."""
    score_bytes_backward: float = 14.0
    """The same backward: the gradient of probabilities written, softmax reads both and writes, the scores' gradient
    read twice, the probabilities once."""
    expert_bandwidth: float = 0.9
    """All-to-all over the rate of other collectives."""
    hbm_bandwidth: float = 1.0
    """Streaming kernels over the catalog's share of the peak."""
    scale_up_bandwidth: float = 1.0
    """Collectives inside a domain over the catalog's share of its links."""
    scale_out_bandwidth: float = 1.0
    """Collectives between domains over the catalog's share of the network."""
    step_overhead_seconds: float = 0.02
    """Data loading, logging and gradient-norm synchronisation of one step on GPUs."""
    cpu_step_overhead_seconds: float = 0.002
    """The same on a CPU with the builtin runner."""

    @classmethod
    def of(cls, accelerator: Accelerator) -> "Efficiency":
        """Take the calibrated numbers of an accelerator."""
        fitted = accelerator.calibration
        return cls(
            sustained_matmul=fitted.sustained_matmul,
            fp8_matmul=fitted.fp8_matmul,
            grouped_matmul=fitted.grouped_matmul,
            attention_forward=fitted.attention,
            attention_backward=fitted.attention * _BACKWARD_ATTENTION,
            host_seconds_per_layer=fitted.host_seconds_per_layer,
            host_seconds_per_expert_layer=fitted.host_seconds_per_expert_layer,
            expert_bandwidth=fitted.expert_bandwidth,
            hbm_bandwidth=fitted.hbm_bandwidth,
            scale_up_bandwidth=fitted.scale_up_bandwidth,
            scale_out_bandwidth=fitted.scale_out_bandwidth,
            step_overhead_seconds=fitted.step_overhead_seconds,
            optimizer_hbm=_OPTIMIZER_HBM.get(accelerator.vendor, _OPTIMIZER_HBM["amd"]),
        )


@dataclass(frozen=True)
class OverlapShares:
    """How much of the concurrent compute each kind of communication can hide behind, 0 to 1.

    Megatron-LM overlaps the tensor collectives of backward with weight gradients, rings of context parallel with
    attention blocks, and data-parallel collectives with the first stage's first chunk only.
    """

    tensor_forward: float = 0.0
    """Of the layer's forward time: nothing unless GEMMs and collectives run in chunks beside each other."""
    tensor_backward: float = 0.5
    """Of the weight-gradient time."""
    context: float = 0.9
    """Of the attention core's time."""
    expert: float = 0.0
    """Of a MoE layer's compute: nothing without EP overlap, which is not an axis."""
    gradient_reduction: float = 0.85
    """Of the backward time of the last micro batch in the first stage's first chunk."""
    parameter_gather: float = 0.85
    """Of the forward time of the first micro batch in the first stage's first chunk."""
    sharded_data: float = 0.8
    """Of each micro batch's compute, under FSDP2."""

    @classmethod
    def nothing(cls) -> "OverlapShares":
        """Return shares of a runner that waits for every collective."""
        return cls(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
