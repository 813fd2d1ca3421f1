"""Placement of groups and the alpha-beta times on it, by hand; measured bandwidth in its place."""

import numpy as np
import pytest

from tests.unit.performance.builders import a_batch, a_cluster, a_problem
from tunewright.domain.hardware import Cluster
from tunewright.performance.collectives import Collectives
from tunewright.performance.placement import Group, Groups, domain_size
from tunewright.trial_protocol.report import CollectiveTiming, Timing

SIZE = np.array([64e6])


def a_group(size: int, inside: int) -> Group:
    return Group(np.array([size]), np.array([inside]))


def without_latency(*, mesh: bool = True) -> Cluster:
    cluster = a_cluster(scale_up_latency_seconds=0.0, scale_up_is_mesh=mesh)
    return cluster.model_copy(update={"network": cluster.network.model_copy(update={"latency_seconds": 0.0})})


def test_ranks_are_laid_out_tensor_context_expert_then_data_then_pipeline() -> None:
    groups = Groups.of(
        a_problem(),
        a_batch(
            {
                "tensor_parallel_size": 2,
                "context_parallel_size": 2,
                "expert_parallel_size": 8,
                "pipeline_parallel_size": 4,
            }
        ),
    )
    assert (groups.tensor.size[0], groups.tensor.inside[0]) == (2, 2)
    assert (groups.context.size[0], groups.context.inside[0]) == (2, 2)
    assert (groups.expert.size[0], groups.expert.inside[0]) == (8, 8)
    assert (groups.data.size[0], groups.data.inside[0], groups.data.outside[0]) == (8, 4, 2)
    assert (groups.expert_data.size[0], groups.expert_data.inside[0]) == (2, 1)
    assert groups.neighbours.inside[0] == 1


def test_a_pipeline_inside_a_node_has_near_neighbours() -> None:
    problem = a_problem(cluster=a_cluster(nodes=1))
    assert Groups.of(problem, a_batch({"pipeline_parallel_size": 4})).neighbours.inside[0] == 2


@pytest.mark.parametrize(("domain", "per_node", "expected"), [(8, 8, 8), (8, 4, 4), (72, 4, 64), (1, 8, 1)])
def test_only_a_rack_scale_domain_spans_nodes(domain: int, per_node: int, expected: int) -> None:
    assert domain_size(a_cluster(gpus_per_node=per_node, scale_up_domain=domain)) == expected


def test_a_group_of_one_takes_no_time() -> None:
    collectives = Collectives(a_cluster())
    alone = a_group(1, 1)
    for operation in (collectives.all_gather, collectives.all_reduce, collectives.all_to_all, collectives.send_receive):
        assert operation(alone, SIZE)[0] == 0.0


def test_all_gather_on_a_full_mesh_uses_all_links_and_a_pair_one_in_seven() -> None:
    collectives = Collectives(without_latency())
    assert collectives.all_gather(a_group(8, 8), SIZE)[0] == pytest.approx(64e6 * 7 / 8 / 560e9)
    assert collectives.all_gather(a_group(2, 2), SIZE)[0] == pytest.approx(64e6 / 2 / (560e9 / 7))
    assert collectives.send_receive(a_group(2, 2), SIZE)[0] == pytest.approx(64e6 / (560e9 / 7))


def test_a_switch_gives_a_pair_the_whole_bandwidth() -> None:
    collectives = Collectives(without_latency(mesh=False))
    assert collectives.all_to_all(a_group(2, 2), SIZE)[0] == pytest.approx(64e6 / 2 / 560e9)


def test_all_reduce_is_reduce_scatter_and_all_gather() -> None:
    collectives, group = Collectives(a_cluster()), a_group(32, 8)
    both = collectives.reduce_scatter(group, SIZE) + collectives.all_gather(group, SIZE)
    assert collectives.all_reduce(group, SIZE)[0] == pytest.approx(both[0])


def test_a_group_over_nodes_shares_the_network_ports_of_its_ranks() -> None:
    collectives = Collectives(without_latency())
    assert collectives.all_gather(a_group(32, 8), SIZE)[0] == pytest.approx(64e6 / 8 * 3 / 4 / 50e9)
    assert collectives.all_gather(a_group(4, 1), SIZE)[0] == pytest.approx(64e6 * 3 / 4 / 50e9)


def test_all_to_all_over_nodes_is_bound_by_what_leaves_the_node() -> None:
    collectives = Collectives(without_latency())
    assert collectives.all_to_all(a_group(16, 8), SIZE)[0] == pytest.approx(64e6 / 2 / 50e9)


def test_latency_grows_with_the_group() -> None:
    collectives, tiny = Collectives(a_cluster()), np.array([1.0])
    times = [collectives.all_gather(a_group(n, min(n, 8)), tiny)[0] for n in (2, 4, 8, 16, 64)]
    assert times == sorted(times)
    assert times[0] > 1e-6


def timed(size_bytes: int, seconds: float) -> CollectiveTiming:
    return CollectiveTiming(operation="all-gather", ranks=8, bytes=size_bytes, timing=Timing(seconds=seconds))


def test_a_timed_message_sets_latency_and_bandwidth_of_its_operation_and_group_only() -> None:
    plain, measured = Collectives(a_cluster()), Collectives(a_cluster(), (timed(10**6, 1e-3),))
    latency = a_cluster().accelerator.scale_up_latency_seconds * 7**0.5
    expected = latency + 64 * (1e-3 - latency)
    assert measured.all_gather(a_group(8, 8), SIZE)[0] == pytest.approx(expected)
    assert measured.all_gather(a_group(8, 8), np.array([1e6]))[0] == pytest.approx(1e-3)
    for group in (a_group(4, 4), a_group(8, 4)):
        assert measured.all_gather(group, SIZE)[0] == plain.all_gather(group, SIZE)[0]
    assert measured.reduce_scatter(a_group(8, 8), SIZE)[0] == plain.reduce_scatter(a_group(8, 8), SIZE)[0]


def test_between_two_timed_messages_seconds_are_on_their_line() -> None:
    measured = Collectives(a_cluster(), (timed(10**6, 3e-3), timed(10**5, 2e-3)))
    sizes = np.array([1e5, 5.5e5, 1e6, 1.9e6])
    assert measured.all_gather(a_group(8, 8), sizes) == pytest.approx([2e-3, 2.5e-3, 3e-3, 4e-3])


def test_a_larger_message_is_never_faster_whatever_the_timings_say() -> None:
    measured = Collectives(a_cluster(), (timed(10**5, 2e-3), timed(10**6, 1e-3)))
    seconds = measured.all_gather(a_group(8, 8), np.array([0.0, 1.0, 1e4, 1e5, 5e5, 1e6, 1e8]))
    assert (np.diff(seconds) >= 0).all()
    assert seconds[0] < seconds[3]
