"""How a profile measures: warm-up, repetitions, two depths, and where its own time goes."""

import os

import pytest
import torch

from tests.unit.trial.requests import DENSE, make_request
from tunewright_trial.profile import contention, profile_context
from tunewright_trial.profile_collectives import modelled_groups
from tunewright_trial.profile_layers import SMALLEST_SLOPE, profile_layer, slope
from tunewright_trial.profile_timing import MOST_REPETITIONS, MOST_WARM_UPS, SECONDS_PER_CASE, Case, time_cases
from tunewright_trial.supervisor import places
from tunewright_trial.timing import is_stable, timing

CPU = torch.device("cpu")


class Counted:
    """A tiny computation that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.weight = torch.ones(64, 64, requires_grad=True)

    def __call__(self) -> torch.Tensor:
        self.calls += 1
        return self.weight @ self.weight


def test_warm_up_rounds_are_run_and_dropped() -> None:
    work = Counted()
    case = Case(work, (), [work.weight])
    time_cases(CPU, [case], steps=5)
    warm_up = work.calls - len(case.forward)
    assert 2 <= warm_up <= MOST_WARM_UPS  # one round to compare with, at least one more
    assert len(case.forward) == len(case.whole_backward)


def test_samples_are_taken_until_the_median_is_known_or_the_time_is_up() -> None:
    work = Counted()
    case = Case(work, (), [work.weight])
    time_cases(CPU, [case], steps=9)
    assert 9 <= len(case.forward) <= MOST_REPETITIONS
    taken = sum(case.forward) + sum(case.whole_backward)
    out_of_time = taken > SECONDS_PER_CASE / 2 or len(case.forward) == MOST_REPETITIONS
    assert out_of_time or (is_stable(case.forward) and is_stable(case.whole_backward))


def test_all_cases_are_sampled_in_turn() -> None:
    order: list[str] = []
    weight = torch.ones(1, requires_grad=True)

    def named(name: str) -> Case:
        def run() -> torch.Tensor:
            order.append(name)
            return weight * 1

        return Case(run, (), [weight])

    time_cases(CPU, [named("a"), named("b")], steps=3)
    assert order[: 2 * (len(order) // 2)] == ["a", "b"] * (len(order) // 2)


def test_a_layer_is_the_difference_of_two_depths() -> None:
    stacks = [timing(5.0, 0.0), timing(9.0, 0.02)]
    assert slope([2, 4], stacks) == timing(2.0, 0.02)  # what the stack costs once, a second, stays out


def test_a_difference_that_is_noise_is_bounded_by_the_quotient() -> None:
    assert slope([2, 4], [timing(9.0, 0.0), timing(9.0, 0.0)]).seconds == SMALLEST_SLOPE * 9.0 / 4
    assert slope([2, 4], [timing(1.0, 0.0), timing(9.0, 0.0)]).seconds == 9.0 / 4
    assert slope([4], [timing(8.0, 0.1)]).seconds == 2.0


@pytest.mark.parametrize(
    ("stretches", "ranks_per_core", "expected"),
    [
        ([1.9, 2.1], 2, 1.9),  # what others use of the cores is not shared by ranks
        ([3.5], 2, 2.0),
        ([1.5], 1, 1.0),  # every rank has a core: who slows it down is somebody else
        ([0.0], 2, 1.0),
    ],
)
def test_contention_is_what_ranks_take_from_each_other(
    stretches: list[float], ranks_per_core: int, expected: float
) -> None:
    assert contention(stretches, ranks_per_core * len(os.sched_getaffinity(0))) == expected


def test_kept_bytes_of_a_layer_do_not_depend_on_the_depths() -> None:
    context = profile_context(make_request(model=DENSE), CPU)
    kept = {depths: profile_layer(context, "dense", depths, 1).saved_bytes for depths in ((1, 2), (2, 4))}
    assert kept[(1, 2)] == kept[(2, 4)] > 0


@pytest.mark.parametrize(
    ("node_processes", "outside"),
    [(8, ()), (4, ("pipeline",)), (2, ("data", "pipeline")), (1, ("tensor", "data", "pipeline"))],
)
def test_groups_that_reach_beyond_the_node_are_modelled(node_processes: int, outside: tuple[str, ...]) -> None:
    request = make_request(
        world=8,
        request={"processes_per_node": node_processes},
        tensor_parallel_size=2,
        pipeline_parallel_size=2,
    )
    assert modelled_groups(request, places(request, {}, "")[0]) == outside
