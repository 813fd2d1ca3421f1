"""The few numbers of the memory model that are measured rather than derived. Read by every module of this package.

What a device holds beyond the tensors that the formulas count depends on allocator, collectives library and driver.
Each field says where its value comes from; none of them is a property of a model or of a configuration.
"""

from dataclasses import dataclass

from tunewright.domain.hardware import Accelerator
from tunewright.units import GIB, MIB


@dataclass(frozen=True)
class MemoryConstants:
    """Overheads and shares. Calibrated values: Primus' MoE best-practices post, DeepSeek-V2-Lite on MI355X."""

    weight_gradient_share: float = 0.97
    """What W of a split backward still needs of a micro batch, over the whole: linear inputs and output gradients;
    0.94 to 1 when counted for Llama and DeepSeek layers."""
    unfused_logit_bytes: float = 6.0
    """Peak per logit, Megatron's cross entropy: fp32 softmax beside bf16 logits, then beside the bf16 gradient."""
    fused_logit_bytes: float = 2.0
    """Peak per logit of Transformer Engine's cross entropy, which writes the gradient over the logits."""
    unfused_fp32_logit_bytes: float = 8.0
    """As `unfused_logit_bytes` with fp32 logits: two tensors of 4 bytes."""
    eager_logit_bytes: float = 12.0
    """Peak per logit of `cross_entropy(logits.float(), ...)` in eager torch: log-softmax and the gradients of its two
    steps, all fp32; counted with a dispatch mode, torch 2.15."""
    eager_split_logit_bytes: float = 16.0
    """The same with the vocabulary split over tensor ranks: torch's `loss_parallel` adds the exponential of the
    log-softmax to the labels' gradient out of place (`torch/distributed/tensor/parallel/loss.py`)."""
    all_to_all_copies: float = 3.0
    """Copies of the routed rows alive during an all-to-all: before and after the exchange, and sorted by expert."""
    deepep_compute_units: int = 20
    """Compute units of DeepEP's kernels, two per channel: its default."""
    deepep_chunk_tokens: int = 256
    """Tokens that a channel receives per peer and chunk inside the node: DeepEP's default."""
    deepep_network_chunk_tokens: int = 128
    """The same between nodes, held twice (send and receive): DeepEP's default."""
    deepep_metadata_bytes: int = 2048
    """Bound on what DeepEP sends with a token: expert indices, weights and scales."""
    fsdp_gathered_layers: int = 2
    """Layers whose whole weights are alive under FSDP2: the one at work and the one prefetched."""
    workspace_bytes: float = 64 * MIB
    """GEMM workspaces inside the allocator: hipBLASLt's default of 32 MiB, for two streams."""
    slack_share: float = 0.13
    """Reserved but not allocated, over what is allocated and freed within a step. Calibrated."""
    context_bytes: float = 2 * GIB
    """Device memory outside the allocator: driver context, code objects, ring channels. Assumed."""
    all_to_all_bytes: float = 0.0
    """Device memory outside the allocator of an all-to-all over the expert ranks; see `AMD_CONSTANTS`."""


AMD_CONSTANTS = MemoryConstants(all_to_all_bytes=20 * GIB, deepep_compute_units=32)
"""Slack and all-to-all are fitted, context held fixed, to the device usage that AMD prints for DeepSeek-V2-Lite on one
MI355X node (EP 8, sequence 4096, 1 to 14 sequences a micro batch). DeepEP's runs lack the all-to-all's 20 GiB, which
do not grow with the micro batch: peer-to-peer connections of RCCL and whatever else that post's baseline holds.
DeepEP's units are what this project's Primus launches ask for (`turbo_deepep_num_cu`)."""

CPU_CONSTANTS = MemoryConstants(workspace_bytes=0.0, slack_share=0.0, context_bytes=0.0)
"""Main memory has neither a caching allocator nor a device context."""


def constants_for(accelerator: Accelerator) -> MemoryConstants:
    """Return the constants of an accelerator's vendor; those without measurements share the defaults."""
    return {"amd": AMD_CONSTANTS, "cpu": CPU_CONSTANTS}.get(accelerator.vendor, MemoryConstants())
