"""What the software of a run does to memory that no axis of a configuration says. Read by states and activations.

A search assumes the defaults: what Primus and Megatron-LM do today. The accuracy check and the golden tables state,
row by row, where a measurement was made with something else.
"""

from collections.abc import Mapping
from dataclasses import dataclass

FLOAT32_BYTES = 4.0


@dataclass(frozen=True)
class Software:
    """Switches of a stack; each is a mechanism with its own formula."""

    flash_attention: bool = True
    """False: probabilities and their dropout are kept, and the hidden dropout masks that GPT training had at the time
    (Korthikanti et al. 2022, arXiv 2205.05198, section 4)."""
    compiled_layers: bool = False
    """torch.compile of each layer (torchtitan): results that no backward reads are not kept."""
    offloads_activations: bool = False
    """Saved activations wait in host memory; the chunk at work is on the device."""
    float32_weights: bool = False
    """Weights are stored in fp32 and cast where they are used (PyTorch's FSDP with mixed precision), so that Adam
    keeps no copy. torchtitan always does."""
    in_place_loss: bool | None = None
    """Whether a fused loss writes the gradient over the logits, as Transformer Engine's does; Megatron's `native` one
    does not. None: what this project's launch arguments ask for, Transformer Engine's under Primus alone."""
    fp8_weights: bool = False
    """The fp8 casts of linear weights are kept instead of, not beside, their bf16 values (`fp8_param_gather`)."""
    gradient_bytes: float = 4.0
    """Main gradient of a parameter, accumulated in fp32; 2 in half precision, Megatron's default under fp16."""
    master_bytes: float = 4.0
    """Adam's fp32 copy of a bf16 parameter; 2 where only the half that the parameter lacks is kept
    (`store_param_remainders` of Transformer Engine's Adam). An fp32 parameter is its own."""
    moment_bytes: float = 4.0
    """Each of Adam's two moments; 2 in bf16."""

    @property
    def is_precision_aware(self) -> bool:
        """Whether the optimizer itself reads and writes narrow states (`use_precision_aware_optimizer`)."""
        return min(self.master_bytes, self.moment_bytes) < FLOAT32_BYTES

    @property
    def step_bytes(self) -> float:
        """Bytes a parameter that exist only while the optimizer steps.

        Transformer Engine's Adam widens narrow moments to fp32, both for a whole parameter group at once
        (`fused_adam.py`, `get_unscaled_state`). Without it, half-precision gradients are copied to fp32.
        """
        widened = 2 * FLOAT32_BYTES if self.moment_bytes < FLOAT32_BYTES else 0.0
        copied = FLOAT32_BYTES if self.gradient_bytes < FLOAT32_BYTES and not self.is_precision_aware else 0.0
        return widened + copied


DEFAULT = Software()

OPTIMIZER_PRECISIONS: Mapping[str, Software] = {
    "": DEFAULT,
    "bf16-moments": Software(master_bytes=2.0, moment_bytes=2.0),
    "bf16-grads+moments": Software(gradient_bytes=2.0, master_bytes=2.0, moment_bytes=2.0),
}
"""By the words of the column `optimizer_precision` of published results."""
