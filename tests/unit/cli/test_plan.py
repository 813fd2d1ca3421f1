"""A plan takes the space that acceptance built, and builds one only for another cluster."""

import time
from pathlib import Path

import pytest

from tests.unit.cli.test_bad_input import EXAMPLES
from tunewright.adapters.kube.acceptance import Accepted
from tunewright.cli.loading import load
from tunewright.cli.plan import make_plan, on_nodes, plan_document


@pytest.fixture(scope="module")
def accepted() -> Accepted:
    return load(Path(EXAMPLES / "mixtral-8x22b-mi355x.yaml"))


def test_the_accepted_space_is_planned_without_building_it_again(accepted: Accepted) -> None:
    plan = make_plan(accepted, time.perf_counter())
    assert plan.accepted.space is accepted.space
    assert plan_document(plan, top=1)["space"] == accepted.space.counts.to_json()


def test_the_files_own_number_of_nodes_keeps_its_space(accepted: Accepted) -> None:
    assert on_nodes(accepted, accepted.problem.cluster.nodes).space is accepted.space


def test_another_number_of_nodes_has_the_space_of_that_cluster(accepted: Accepted) -> None:
    smaller = on_nodes(accepted, 4)
    assert smaller.space.problem == smaller.problem
    assert (smaller.problem.cluster.nodes, smaller.settings.validation.nodes) == (4, 4)
    assert len(smaller.space) != len(accepted.space)
