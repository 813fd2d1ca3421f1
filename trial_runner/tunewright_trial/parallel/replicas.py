"""Whether ranks that must hold the same weights do: a cheap proof that a job trained one model. Used by `optimizer`.

Replicas apply the same update to the same reduced gradients, so that their weights agree to the last bit: that a
reduction gives all ranks the same bits is what torch's DistributedDataParallel rests on, which never compares.
"""

from collections import Counter
from collections.abc import Sequence

import torch
import torch.distributed as dist

from tunewright_trial.layers.split import Split


def deviating_ranks(values: torch.Tensor, replicas: Split) -> set[int]:
    """Return the global ranks of `replicas` whose `values` differ from those of most.

    Every rank of the group must call this with a tensor of the same size.
    """
    sums = torch.empty(replicas.size, dtype=torch.int64, device=values.device)
    dist.all_gather_into_tensor(sums, _bit_sum(values), group=replicas.group)
    ranks = dist.get_process_group_ranks(replicas.group)
    return {ranks[place] for place in unlike_most(sums.tolist())}


def unlike_most(sums: Sequence[int]) -> set[int]:
    """Return the places of values that are not those of more than half; all places where no value is."""
    most, count = Counter(sums).most_common(1)[0]
    return {place for place, value in enumerate(sums) if value != most or count <= len(sums) / 2}


def _bit_sum(values: torch.Tensor) -> torch.Tensor:
    """Return the sum of the values' bits as one integer, modulo 2⁶⁴: it does not depend on the order of summing."""
    whole = torch.int32 if values.element_size() == 4 else torch.int16
    return values.detach().view(whole).sum(dtype=torch.int64).reshape(1)
