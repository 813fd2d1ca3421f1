"""Final norm, output layer and loss, with the vocabulary split over the tensor group."""

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.embedding import vocabulary_weight
from tunewright_trial.layers.norms import Norm
from tunewright_trial.layers.split import Split
from tunewright_trial.parallel.sequence import gather_sequence


class Head(nn.Module):
    """Hidden states (S/(C·T), b, H) and targets (b, S/C) to the mean loss, shape (1,)."""

    def __init__(
        self, context: LayerContext, tied_weight: nn.Parameter | None = None, tied_apart: bool = False
    ) -> None:
        super().__init__()
        self._tensor = context.tensor
        self.norm = Norm(context, context.model.hidden_size)
        self.weight = vocabulary_weight(context, tied_apart) if tied_weight is None else tied_weight

    def forward(self, hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the cross entropy, averaged over this rank's sequences."""
        tokens = gather_sequence(self.norm(hidden), self._tensor)
        logits = functional.linear(tokens, self.weight).flatten(0, 1).float()
        wanted = targets.t().flatten()
        if self._tensor.size == 1:
            return torch.stack((functional.cross_entropy(logits, wanted),))
        return torch.stack((SplitCrossEntropy.apply(logits, wanted, self._tensor).mean(),))


class SplitCrossEntropy(torch.autograd.Function):
    """Cross entropy of logits whose vocabulary is split, as in Megatron-LM (arXiv 1909.08053, section 3)."""

    @staticmethod
    def forward(ctx: FunctionCtx, logits: torch.Tensor, targets: torch.Tensor, split: Split) -> torch.Tensor:
        """Return the loss of every token."""
        largest = _reduced(logits.max(dim=-1).values, split, dist.ReduceOp.MAX)
        shifted = logits - largest.unsqueeze(-1)
        local = targets - split.rank * logits.shape[-1]
        elsewhere = (local < 0) | (local >= logits.shape[-1])
        column = local.masked_fill(elsewhere, 0).unsqueeze(-1)
        wanted = shifted.gather(-1, column).squeeze(-1).masked_fill(elsewhere, 0.0)
        wanted = _reduced(wanted, split, dist.ReduceOp.SUM)
        exponentials = shifted.exp_()
        total = _reduced(exponentials.sum(dim=-1), split, dist.ReduceOp.SUM)
        ctx.save_for_backward(exponentials.div_(total.unsqueeze(-1)), column, elsewhere)
        return total.log() - wanted

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """Return softmax minus the one-hot target, scaled."""
        softmax, column, elsewhere = ctx.saved_tensors
        hit = torch.where(elsewhere, 0.0, -1.0).to(softmax.dtype).unsqueeze(-1)
        return softmax.scatter_add(-1, column, hit) * gradient.unsqueeze(-1), None, None


def _reduced(value: torch.Tensor, split: Split, operation: dist.ReduceOp) -> torch.Tensor:
    if split.communicates:
        value = value.contiguous()
        dist.all_reduce(value, operation, group=split.group)
    return value
