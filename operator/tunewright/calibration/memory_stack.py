"""What a row's columns say about the memory of its software stack. Called by `published`.

Like `stack`, each rule is a property of a release, a recipe or a number format, never of one row's figure.
"""

from dataclasses import replace

from tunewright.calibration.columns import Row, text
from tunewright.calibration.stack import HALF_PRECISIONS
from tunewright.domain.problem import TuningProblem
from tunewright.memory.software import OPTIMIZER_PRECISIONS, Software

_NARROW_RECIPES = ("megatron-bridge", "nemo-25", "nemo-26")
"""Stacks whose recipes of DeepSeek's family step with bf16 gradients and moments (Megatron-Bridge, `recipes`)."""
_HALF_GRADIENTS = ("nemo-", "mlperf")
"""NVIDIA's performance runs reduce gradients in bf16, and keep weights in fp8 alone where they compute in fp8
(Megatron-Bridge, `scripts/performance`: `grad_reduce_in_fp32` off; its fp8 recipes: `fp8_param_gather` on)."""


def memory_software_of(row: Row, problem: TuningProblem) -> tuple[Software, tuple[str, ...]]:
    """Return the mechanisms that fill memory, with notes on those that no column states."""
    name = text(row, "software")
    old = not name and text(row, "gpu").startswith("A100")
    software, notes = _optimizer(row, problem)
    if old and text(row, "precision") in HALF_PRECISIONS:
        software = replace(software, gradient_bytes=2.0)
        notes = (*notes, "gradients not stated: fp16, Megatron-LM's default under fp16")
    if name.startswith(_HALF_GRADIENTS) and problem.cluster.accelerator.vendor == "nvidia":
        software = replace(software, gradient_bytes=2.0, fp8_weights=True)
        notes = (*notes, "NVIDIA's performance runs: bf16 gradients, weights in fp8 alone where the run is fp8")
    return replace(
        software,
        flash_attention=not old,
        compiled_layers=name == "torchtitan-compile",
        float32_weights=name.startswith(("torchtitan", "llm-foundry")),
        offloads_activations="activation offload" in text(row, "source_note"),
        in_place_loss=not old,
    ), notes


def _optimizer(row: Row, problem: TuningProblem) -> tuple[Software, tuple[str, ...]]:
    stated = text(row, "optimizer_precision")
    if stated in OPTIMIZER_PRECISIONS and stated:
        return OPTIMIZER_PRECISIONS[stated], ()
    latent_experts = problem.model.is_moe and problem.model.latent_attention is not None
    if latent_experts and text(row, "software").startswith(_NARROW_RECIPES):
        return OPTIMIZER_PRECISIONS["bf16-grads+moments"], ("optimizer not stated: bf16 gradients and moments",)
    return Software(), ()
