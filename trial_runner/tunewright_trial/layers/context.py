"""Everything that shapes one rank's layers: the model, the splits, the tokens, the number format, recomputation."""

from dataclasses import dataclass, field

import torch

from tunewright.domain.model_architecture import ModelArchitecture
from tunewright_trial.layers.recompute import RecomputePolicy
from tunewright_trial.layers.split import WHOLE, Split

VOCABULARY_MULTIPLE = 128
"""Megatron pads the vocabulary to a multiple of this times the tensor split."""


@dataclass(frozen=True)
class LayerContext:
    """Shared by all layers of a rank. `sequence_slice` is S/C: the tokens of one sequence on this rank.

    `eight_bit`: the matrix products of linear layers and experts run in fp8.
    """

    model: ModelArchitecture
    sequence_length: int
    sequence_slice: int
    micro_batch_size: int
    dtype: torch.dtype
    device: torch.device
    tensor: Split = WHOLE
    context: Split = WHOLE
    expert: Split = WHOLE
    expert_tensor: Split = WHOLE
    routing_imbalance: float = 1.0
    eight_bit: bool = False
    recompute: RecomputePolicy = field(default_factory=RecomputePolicy)

    @property
    def local_tokens(self) -> int:
        """Tokens of one sequence between the blocks: S/(C·T)."""
        return self.tensor.share(self.sequence_slice, "the sequence slice")

    @property
    def positions(self) -> torch.Tensor:
        """Place in the sequence of each of this rank's S/C tokens, in the order in which the rank holds them.

        With context ranks, chunks i and 2C−1−i of 2C go to rank i, so that causal work is the same on all of them.
        """
        if not self.context.communicates:
            return torch.arange(self.sequence_slice, device=self.device)
        chunks = torch.arange(self.sequence_length, device=self.device).chunk(2 * self.context.size)
        return torch.cat((chunks[self.context.rank], chunks[-1 - self.context.rank]))

    @property
    def local_positions(self) -> torch.Tensor:
        """Place in the sequence of each of the S/(C·T) tokens between the blocks."""
        first = self.tensor.rank * self.local_tokens
        return self.positions[first : first + self.local_tokens]

    @property
    def hidden_shape(self) -> tuple[int, int, int]:
        """Shape of the activations between layers: (S/(C·T), b, H)."""
        return (self.local_tokens, self.micro_batch_size, self.model.hidden_size)

    @property
    def padded_vocabulary_size(self) -> int:
        """Rows of embedding and head over all ranks: the vocabulary, rounded up to a multiple of 128·T."""
        multiple = VOCABULARY_MULTIPLE * self.tensor.size
        return -(-self.model.vocabulary_size // multiple) * multiple
