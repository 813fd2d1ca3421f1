"""The numbers of the performance model that are fitted or assumed rather than derived. Read by this whole package.

None of them is a property of a model or of a configuration; what a device can do is in the catalog.
"""

from dataclasses import dataclass

TILES: tuple[tuple[int, int, float], ...] = ((256, 256, 1.0), (256, 128, 0.93), (128, 128, 0.82), (64, 64, 0.45))
"""Rows, columns and relative speed of the GEMM tiles that a library chooses from; the fastest is taken."""


@dataclass(frozen=True)
class Efficiency:
    """Shares of what a device can do at best. Starting values, to be replaced by a calibration per accelerator."""

    sustained_matmul: float = 0.92
    """Speed of a GEMM inside a training step over the best measured one: clocks drop under sustained load (AMD's
    max-achievable-FLOPs posts average 74 % of the best over DeepSeek-V3 shapes; tiles and depth explain the rest)."""
    depth_half: float = 320.0
    """Depth k at which a GEMM runs at half speed: prologue and epilogue of a tile."""
    fp8_matmul: float = 0.88
    """fp8 over bf16 efficiency: 1403/1979 against 794/989 on H100 (stas00/ml-engineering)."""
    grouped_matmul: float = 0.85
    """Grouped over plain GEMM at equal tiles."""
    attention_forward: float = 0.62
    """Flash attention over the best GEMM: 450 to 500 of 794 TFLOP/s on H100 (FlashAttention-2 and Transformer Engine
    backends)."""
    attention_backward: float = 0.50
    attention_backward_products: float = 2.5
    """Five matrix products against two: flash attention computes the scores again."""
    optimizer_hbm: float = 0.21
    """Share of HBM peak that the optimizer step reaches: Primus's trace of the MoE best-practices post."""
    optimizer_bytes_per_parameter: float = 32.0
    """Reads and writes of a sharded parameter: gradient 4, master and moments 12 twice, bf16 weight 2 and cast."""
    clear_bytes_per_parameter: float = 4.0
    """Clearing the fp32 main gradient of a parameter, sharded or not."""
    eager_traffic: float = 2.0
    """HBM traffic of unfused torch over fused kernels for norms and activations."""
    fused_small_kernels: int = 12
    """Launches of a layer's forward pass that are not GEMMs, Transformer Engine."""
    eager_small_kernels: int = 30
    """The same in eager torch."""
    host_sync_seconds: float = 4e-4
    """Stall of one MoE layer's forward pass that waits for the device to learn its token counts: Primus gains 8 % on
    DeepSeek-V2 from sync-free stage 1."""
    step_overhead_seconds: float = 0.03
    """Data loading, logging and gradient-norm synchronisation of one step on GPUs."""
    cpu_step_overhead_seconds: float = 0.002
    """The same on a CPU with the builtin runner."""


@dataclass(frozen=True)
class OverlapShares:
    """How much of the concurrent compute each kind of communication can hide behind, 0 to 1.

    Megatron-LM overlaps the tensor collectives of backward with weight gradients, rings of context parallel with
    attention blocks, and data-parallel collectives with the first stage's first chunk only.
    """

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
        return cls(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
