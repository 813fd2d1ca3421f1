"""torch's fused AdamW on fp32 masters. Used by the optimizers of `optimizer` and `fully_sharded`."""

from collections.abc import Sequence

import torch
from torch.optim.adamw import adamw


class AdamState:
    """fp32 master weights and moments of one rank's share.

    Calls torch's functional AdamW: constructing a `torch.optim` object imports torch's compiler, which takes longer
    than many a trial.
    """

    def __init__(self, masters: Sequence[torch.Tensor]) -> None:
        self.masters = list(masters)
        self._first = [torch.zeros_like(master) for master in self.masters]
        self._second = [torch.zeros_like(master) for master in self.masters]
        self._steps = [torch.zeros((), dtype=torch.float32, device=master.device) for master in self.masters]

    @torch.no_grad()
    def update(self, gradients: Sequence[torch.Tensor], learning_rate: float) -> None:
        """Take one fused step with one gradient for each master."""
        adamw(
            self.masters,
            list(gradients),
            self._first,
            self._second,
            [],
            self._steps,
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.95,
            lr=learning_rate,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )
