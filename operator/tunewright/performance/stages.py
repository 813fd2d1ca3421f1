"""Seconds of every pipeline rank and chunk per micro batch: layers, their exposed collectives, embedding and head.

Called by `step`, which hands the result to the pipeline simulation and takes the busiest rank's parts from it.
"""

from collections.abc import Set
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, FloatArray, IntArray
from tunewright.domain.pipeline_layout import StageTable
from tunewright.domain.problem import TuningProblem
from tunewright.performance.constants import OverlapShares
from tunewright.performance.layer_communication import LayerCommunication
from tunewright.performance.layer_times import LayerTimes
from tunewright.performance.pipeline.simulate import StageTimes

_KINDS = ("tensor", "context", "expert")

_GROUPS = {"tensor": {"tensor", "expert tensor"}, "context": {"context"}, "expert": {"expert"}}
"""The groups whose collectives each kind of communication consists of."""

_CORE_BACKWARD = 2.5
"""Backward over forward of the attention core: what the backward ring hides behind."""


@dataclass(frozen=True, eq=False)
class LayerSeconds:
    """One layer kind with its collectives, seconds per micro batch, per row. Communication is what stays exposed."""

    forward: FloatArray
    backward_input: FloatArray
    """Without the recomputation."""
    backward_weight: FloatArray
    recompute: FloatArray
    tensor_forward: FloatArray
    tensor_backward: FloatArray
    tensor_again: FloatArray
    context_forward: FloatArray
    context_backward: FloatArray
    context_again: FloatArray
    expert_forward: FloatArray
    expert_backward: FloatArray
    expert_again: FloatArray

    @cached_property
    def whole_forward(self) -> FloatArray:
        """Forward with exposed collectives."""
        return self.forward + self.tensor_forward + self.context_forward + self.expert_forward

    @cached_property
    def whole_backward_input(self) -> FloatArray:
        """Input gradient with exposed collectives, without recomputation."""
        return self.backward_input + self.tensor_backward + self.context_backward + self.expert_backward

    @cached_property
    def whole_recompute(self) -> FloatArray:
        """What runs again, with the collectives that run again."""
        return self.recompute + self.tensor_again + self.context_again + self.expert_again

    @classmethod
    def of(
        cls,
        kind: str,
        times: LayerTimes,
        communication: LayerCommunication,
        shares: OverlapShares,
    ) -> "LayerSeconds":
        """Combine the `kind` ("dense" or "moe") columns of `times` with a layer's collectives."""
        forward: FloatArray = getattr(times, f"{kind}_forward")
        recompute: FloatArray = getattr(times, f"{kind}_recompute")
        backward: FloatArray = getattr(times, f"{kind}_backward_input") - recompute
        weight: FloatArray = getattr(times, f"{kind}_backward_weight")
        communication = _without_included(communication, times.included_groups.get(kind, frozenset()))
        core = times.dense_core_forward * shares.context
        made = cls(
            forward=forward,
            backward_input=backward,
            backward_weight=weight,
            recompute=recompute,
            tensor_forward=_exposed(communication.tensor_forward, shares.tensor_forward * forward),
            tensor_backward=_exposed(communication.tensor_backward, shares.tensor_backward * weight),
            tensor_again=communication.tensor_again,
            context_forward=_exposed(communication.context_forward, core),
            context_backward=_exposed(communication.context_backward, _CORE_BACKWARD * core),
            context_again=_exposed(communication.context_again, core),
            expert_forward=_exposed(communication.expert_forward, shares.expert * forward),
            expert_backward=_exposed(communication.expert_backward, shares.expert * (backward + weight)),
            expert_again=_exposed(communication.expert_again, shares.expert * recompute),
        )
        return made._hiding(getattr(times, f"{kind}_wait_forward"), getattr(times, f"{kind}_wait_backward"))

    def _hiding(self, ahead: FloatArray, behind: FloatArray) -> "LayerSeconds":
        """Hide collectives while the device would wait for the host anyway, `ahead` and `behind` seconds a pass."""
        forward = _left(self.whole_forward - self.forward, ahead)
        back = self.whole_backward_input - self.backward_input
        backward = _left(back + self.whole_recompute - self.recompute, behind)
        shrunk = {f"{name}_forward": getattr(self, f"{name}_forward") * forward for name in _KINDS}
        shrunk |= {f"{name}_backward": getattr(self, f"{name}_backward") * backward for name in _KINDS}
        shrunk |= {f"{name}_again": getattr(self, f"{name}_again") * backward for name in _KINDS}
        return replace(self, **shrunk)


def _without_included(communication: LayerCommunication, included: Set[str]) -> LayerCommunication:
    """Leave out the collectives that are part of the layer's times already."""
    kinds = [kind for kind, groups in _GROUPS.items() if groups & included]
    names = [f"{kind}_{when}" for kind in kinds for when in ("forward", "backward", "again")]
    return replace(communication, **{name: np.zeros_like(getattr(communication, name)) for name in names})


def _left(communication: FloatArray, hidden: FloatArray) -> FloatArray:
    """Share of the communication that is not hidden."""
    return np.maximum(1.0 - hidden / np.maximum(communication, 1e-30), 0.0)


def _exposed(communication: FloatArray, hideable: FloatArray) -> FloatArray:
    return np.maximum(communication - hideable, 0.0)


@dataclass(frozen=True, eq=False)
class LayerCounts:
    """Layers of every row, rank and chunk, shape (rows, ranks, chunks); prediction depths count as layers."""

    dense: IntArray
    moe: IntArray
    dense_kept: IntArray
    """Layers that full recomputation by blocks leaves alone."""
    moe_kept: IntArray
    embedding: IntArray
    """1 on the first chunk of the first rank."""
    head: IntArray
    """Logit passes: 1, and one more per prediction depth, on the chunk of the head."""

    @classmethod
    def of(cls, problem: TuningProblem, batch: ConfigBatch, table: StageTable) -> "LayerCounts":
        """Count the layers of every chunk of every row."""
        dense, moe = table.dense[table.index], table.moe[table.index]
        head = _head_place(table)
        depth = problem.model.num_multi_token_prediction_layers
        if depth:
            extra = depth * head
            dense, moe = (dense, moe + extra) if problem.model.is_moe else (dense + extra, moe)
        dense_kept, moe_kept = _kept(batch, dense, moe)
        embedding = np.zeros_like(dense)
        embedding[:, 0, 0] = 1
        return cls(dense, moe, dense_kept, moe_kept, embedding, head * (1 + depth))


def _head_place(table: StageTable) -> IntArray:
    head = np.zeros(table.dense.shape, dtype=np.int64)
    layouts = np.arange(len(table.ranks))
    head[layouts, np.where(table.v_shaped, 0, table.ranks - 1), table.chunks - 1] = 1
    return head[table.index]


def _kept(batch: ConfigBatch, dense: IntArray, moe: IntArray) -> tuple[IntArray, IntArray]:
    blocks = batch.is_("recompute_granularity", "full") & batch.is_("recompute_method", "block")
    if not blocks.any():
        return np.zeros_like(dense), np.zeros_like(moe)
    recomputed = batch.recompute_num_layers[:, None, None]
    dense_again = np.minimum(dense, recomputed)
    moe_again = np.minimum(moe, recomputed - dense_again)
    chosen = blocks[:, None, None]
    return np.where(chosen, dense - dense_again, 0), np.where(chosen, moe - moe_again, 0)


def stage_times(
    counts: LayerCounts, dense: LayerSeconds, moe: LayerSeconds, times: LayerTimes, hop: FloatArray
) -> StageTimes:
    """Return the seconds of every chunk, with exposed collectives."""
    forward = _weighted(counts.dense, dense.whole_forward) + _weighted(counts.moe, moe.whole_forward)
    backward = _weighted(counts.dense, dense.whole_backward_input + dense.whole_recompute)
    backward += _weighted(counts.moe, moe.whole_backward_input + moe.whole_recompute)
    weight = _weighted(counts.dense, dense.backward_weight) + _weighted(counts.moe, moe.backward_weight)
    if counts.dense_kept.any() or counts.moe_kept.any():
        backward -= _weighted(counts.dense_kept, dense.whole_recompute)
        backward -= _weighted(counts.moe_kept, moe.whole_recompute)
    edges = (
        (forward, times.embedding_forward, times.head_forward),
        (backward, times.embedding_backward_input, times.head_backward_input),
        (weight, times.embedding_backward_weight, times.head_backward_weight),
    )
    heads = np.nonzero(counts.head)
    for total, embedding, head in edges:
        total[:, 0, 0] += embedding
        total[heads] += counts.head[heads] * head[heads[0]]
    return StageTimes(forward, backward, weight, hop)


def _weighted(counts: IntArray, seconds: FloatArray) -> FloatArray:
    product: FloatArray = counts * seconds[:, None, None]
    return product
