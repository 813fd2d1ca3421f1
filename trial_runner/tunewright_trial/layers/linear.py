"""Linear layers over the tensor split: column (outputs split) and row (inputs split, result scattered)."""

import torch
from torch import nn
from torch.nn import functional

from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.eight_bit import linear
from tunewright_trial.layers.parameters import Placement, parameter, placed_parameter
from tunewright_trial.layers.split import Split
from tunewright_trial.parallel.sequence import scatter_sequence


class ColumnLinear(nn.Module):
    """(s, b, inputs) to (s, b, outputs/T)."""

    def __init__(self, context: LayerContext, inputs: int, outputs: int, bias: bool = False) -> None:
        super().__init__()
        self._eight_bit = context.eight_bit
        self.weight = parameter(context, (outputs, inputs), "split", 0)
        self.bias = parameter(context, (outputs,), "split", 0, "zeros") if bias else None

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Apply this rank's output columns."""
        return linear(hidden, self.weight, self.bias, self._eight_bit)


class HeadLinear(nn.Module):
    """(s, b, inputs) to (s, b, outputs/G): columns of whole key/value heads, one head on each of several ranks."""

    def __init__(self, context: LayerContext, inputs: int, outputs: int, heads: Split, bias: bool = False) -> None:
        super().__init__()
        self._eight_bit = context.eight_bit
        kind = ((0, heads),)
        self.weight = placed_parameter(context, (outputs, inputs), Placement("key-value", kind, "normal"))
        self.bias = placed_parameter(context, (outputs,), Placement("key-value", kind, "zeros")) if bias else None

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Apply the columns of this rank's head."""
        return linear(hidden, self.weight, self.bias, self._eight_bit)


class RowLinear(nn.Module):
    """(s, b, inputs/T) to (s/T, b, outputs): partial products are summed while the sequence is scattered."""

    def __init__(self, context: LayerContext, inputs: int, outputs: int, bias: bool = False) -> None:
        super().__init__()
        self._eight_bit = context.eight_bit
        self._tensor = context.tensor
        self.weight = parameter(context, (outputs, inputs), "split", 1)
        self.bias = parameter(context, (outputs,), "replicated", 0, "zeros") if bias else None

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Apply this rank's input rows, sum over the group, keep this rank's tokens, then add the bias once."""
        result = scatter_sequence(linear(hidden, self.weight, None, self._eight_bit), self._tensor)
        return result if self.bias is None else result + self.bias


class ReplicatedLinear(nn.Module):
    """A linear that every tensor rank holds whole and applies to its own tokens."""

    def __init__(self, context: LayerContext, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = parameter(context, (outputs, inputs))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Apply the whole matrix."""
        return functional.linear(hidden, self.weight)
