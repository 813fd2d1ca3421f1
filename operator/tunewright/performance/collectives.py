"""Seconds of collectives: alpha-beta per link class, or what a trial measured, between sizes that it timed.

Called by the communication formulas.

Message sizes are the bytes of the full buffer of one rank: what a rank holds after an all-gather, before a
reduce-scatter, of an all-reduce, and all that it sends (its own share included) in an all-to-all. Large groups over
several domains run hierarchically: each link class carries its part at the same time, so the slower one counts.
Ring terms: Thakur et al. 2005; 2(n−1)/n for an all-reduce.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tunewright.domain.config_batch import FloatArray
from tunewright.domain.hardware import Cluster
from tunewright.performance.constants import Efficiency
from tunewright.performance.placement import Group, domain_size
from tunewright.trial_protocol.report import CollectiveTiming


@dataclass(frozen=True)
class Collectives:
    """The network of a cluster, with the collectives that a trial timed inside a node."""

    cluster: Cluster
    measured: Sequence[CollectiveTiming] = field(default=())
    efficiency: Efficiency = field(default_factory=lambda: Efficiency(expert_bandwidth=1.0))
    """Calibrated rates over the catalog's."""

    def all_gather(self, group: Group, size_bytes: FloatArray) -> FloatArray:
        """Return the time to gather `size_bytes` on every rank."""
        return self._measured_or("all-gather", group, size_bytes, self._ring(group, size_bytes))

    def reduce_scatter(self, group: Group, size_bytes: FloatArray) -> FloatArray:
        """Return the time to reduce `size_bytes` of every rank to a share each."""
        return self._measured_or("reduce-scatter", group, size_bytes, self._ring(group, size_bytes))

    def all_reduce(self, group: Group, size_bytes: FloatArray) -> FloatArray:
        """Return the time to sum `size_bytes` over the ranks: a reduce-scatter and an all-gather."""
        return self._measured_or("all-reduce", group, size_bytes, 2.0 * self._ring(group, size_bytes))

    def all_to_all(self, group: Group, size_bytes: FloatArray) -> FloatArray:
        """Return the time in which each rank sends an equal part of `size_bytes` to every rank."""
        inside = size_bytes * (group.inside - 1) / group.size
        outside = size_bytes * (group.size - group.inside) / group.size
        modelled = self.exchange(group, inside, outside)
        return self._measured_or("all-to-all", group, size_bytes, modelled)

    def exchange(self, group: Group, inside_bytes: FloatArray, outside_bytes: FloatArray) -> FloatArray:
        """Return the time in which each rank sends given bytes inside its domain and to other domains."""
        network = self.cluster.network
        slower = np.maximum(inside_bytes / self._inside_rate(group), outside_bytes / self._outside_rate())
        seconds: FloatArray = slower / self.efficiency.expert_bandwidth + self._latency(group, network.latency_seconds)
        return np.where(group.size > 1, seconds, 0.0)

    def send_receive(self, group: Group, size_bytes: FloatArray) -> FloatArray:
        """Return the time of one point-to-point message between two ranks of `group`."""
        near = group.inside > 1
        link = np.where(near, self._pair_rate(), self._outside_rate())
        accelerator, network = self.cluster.accelerator, self.cluster.network
        latency = np.where(near, accelerator.scale_up_latency_seconds, network.latency_seconds)
        modelled = np.where(group.size > 1, size_bytes / link + latency, 0.0)
        return self._measured_or("send-receive", group, size_bytes, modelled)

    def _ring(self, group: Group, size_bytes: FloatArray) -> FloatArray:
        inside = size_bytes * (group.inside - 1) / group.inside / self._inside_rate(group)
        # Every rank of a domain has its own network port, so each carries 1/inside of what leaves the domain.
        outside = size_bytes / group.inside * (group.outside - 1) / group.outside / self._outside_rate()
        return np.maximum(inside, outside) + self._latency(group, self.cluster.network.latency_seconds)

    def _latency(self, group: Group, network_seconds: float) -> FloatArray:
        inside = self.cluster.accelerator.scale_up_latency_seconds * np.sqrt(group.inside - 1.0)
        outside = network_seconds * np.ceil(np.log2(np.maximum(group.outside, 1)))
        return np.asarray(inside + outside, dtype=np.float64)

    def _inside_rate(self, group: Group) -> FloatArray:
        """Bytes per second of one rank inside its domain; in a mesh a group of n uses n−1 of the links."""
        accelerator = self.cluster.accelerator
        rate = self._scale_up_rate()
        if not accelerator.scale_up_is_mesh:
            return np.full(np.shape(group.size), rate)
        links = max(domain_size(self.cluster) - 1, accelerator.scale_up_domain - 1, 1)
        return rate * np.maximum(group.inside - 1, 1) / links

    def _pair_rate(self) -> float:
        accelerator = self.cluster.accelerator
        rate = self._scale_up_rate()
        return rate / max(accelerator.scale_up_domain - 1, 1) if accelerator.scale_up_is_mesh else rate

    def _outside_rate(self) -> float:
        network = self.cluster.network
        return network.bytes_per_second_per_gpu * network.efficiency * self.efficiency.scale_out_bandwidth

    def _scale_up_rate(self) -> float:
        accelerator = self.cluster.accelerator
        share = accelerator.scale_up_efficiency * self.efficiency.scale_up_bandwidth
        return accelerator.scale_up_bytes_per_second * share

    def _measured_or(self, operation: str, group: Group, size_bytes: FloatArray, modelled: FloatArray) -> FloatArray:
        """Replace the model by what was timed, for groups of its size inside one domain."""
        seconds = modelled
        for ranks, points in self._timed.get(operation, {}).items():
            same = (group.size == ranks) & (group.inside == ranks)
            if same.any():
                seconds = np.where(same, self._between(points, ranks, size_bytes), seconds)
        return np.asarray(seconds, dtype=np.float64)

    @cached_property
    def _timed(self) -> Mapping[str, Mapping[int, list[tuple[float, float]]]]:
        """Bytes and seconds of the timed messages in ascending order, by operation and group size."""
        found: dict[str, dict[int, dict[int, float]]] = {}
        for one in self.measured:
            if one.timing.seconds > 0:
                found.setdefault(one.operation, {}).setdefault(one.ranks, {})[one.bytes] = one.timing.seconds
        return {
            operation: {ranks: sorted(points.items()) for ranks, points in by_ranks.items()}
            for operation, by_ranks in found.items()
        }

    def _between(self, points: Sequence[tuple[float, float]], ranks: int, size_bytes: FloatArray) -> FloatArray:
        """Return seconds on the line through the two timed sizes around each message; the outer lines go on.

        The line below the smallest message starts at the link's latency, which the smallest message may undercut.
        """
        latency = self.cluster.accelerator.scale_up_latency_seconds * np.sqrt(ranks - 1.0)
        sizes = np.array([0.0, *(size for size, _ in points)])
        times = np.array([min(latency, points[0][1]), *(seconds for _, seconds in points)])
        times = np.maximum.accumulate(times)  # a larger message is not faster: that is the timings' spread
        slopes = np.diff(times) / np.diff(sizes)
        piece = np.clip(np.searchsorted(sizes, size_bytes, side="left") - 1, 0, len(slopes) - 1)
        seconds: FloatArray = times[piece] + (size_bytes - sizes[piece]) * slopes[piece]
        return seconds
