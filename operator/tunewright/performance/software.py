"""What the software stack of a run does that no axis of a configuration says. Read by compute, stages and the pipeline.

A search assumes the defaults: what Primus and Megatron-LM do today. The accuracy check states, row by row, where a
measurement was made with something else.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Software:
    """Switches of a stack; each is a mechanism with its own formula."""

    flash_attention: bool = True
    """False: scores and probabilities go through device memory, as before FlashAttention (Korthikanti et al. 2022)."""
    sequence_parallel: bool = True
    """Norms and dropouts are split over the tensor group; False: every tensor rank repeats them, and an all-reduce
    takes the place of the all-gather and the reduce-scatter, with nothing gathered again (Shoeybi et al. 2019)."""
    captured_graphs: bool = False
    """Kernels of a layer are launched as CUDA or HIP graphs, so the host no longer limits small layers."""
    fused_expert_casts: bool = True
    """Grouped products in 8 bits cast all experts in one kernel; False: expert by expert, at small sizes each."""
    post_validation: bool = False
    """Optimizer steps of pipeline ranks need not wait for each other (Qi et al. 2024, arXiv 2401.10241)."""
    automatic_orders: bool = False
    """Zero-bubble orders are made for measured times by the runner's scheduler instead of being fixed."""
    overlaps_tensor: bool = True
    """Tensor collectives run beside GEMMs in chunks (user buffers, asynchronous tensor parallel)."""
    overlaps_pipeline: bool = True
    """False: every pass of a chunk ends with a transfer that both ranks wait for, with a device synchronisation
    (`batch_isend_irecv` in older Megatron-LM)."""
    gradient_bytes: float = 4.0
    """Main gradient of a parameter: reduced, read by the optimizer and cleared at this width. 2 in half precision,
    Megatron's and DeepSpeed's default under fp16."""
    overlaps_expert: bool = False
    """Dispatch and combine of one micro batch run beside another one's compute."""
