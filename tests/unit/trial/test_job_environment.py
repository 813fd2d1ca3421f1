"""Where a Job's environment says that a node is; what it cannot mean is a fault of the place, told by its name."""

import re

import pytest

from tests.unit.trial.requests import make_request
from tunewright_trial.failures import TrialFailure
from tunewright_trial.gathering import gather
from tunewright_trial.job_environment import master_address_in, master_port_in, start_seconds_in
from tunewright_trial.supervisor import places


def test_ranks_count_through_the_nodes() -> None:
    request = make_request(world=4, request={"nodes": 2, "processes_per_node": 2})
    assert [place.rank for place in places(request, {"NODE_RANK": "1"}, "")] == [2, 3]
    assert [place.rank for place in places(request, {"JOB_COMPLETION_INDEX": "0"}, "")] == [0, 1]


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, "NODE_RANK is not set"),
        ({"NODE_RANK": ""}, "NODE_RANK is not set"),
        ({"NODE_RANK": "first"}, "NODE_RANK is 'first': give a whole number from 0 to 1"),
        ({"NODE_RANK": "2"}, "NODE_RANK is '2'"),
        ({"NODE_RANK": "-1"}, "NODE_RANK is '-1'"),
        ({"NODE_RANK": "9" * 5000}, f"NODE_RANK is '{'9' * 40}'"),
        ({"JOB_COMPLETION_INDEX": "5"}, "JOB_COMPLETION_INDEX is '5'"),
        ({"NODE_RANK": "1"}, "MASTER_ADDR is not set"),
        ({"NODE_RANK": "0", "MASTER_PORT": "http"}, "MASTER_PORT is 'http': give a whole number from 1 to 65535"),
        ({"NODE_RANK": "0", "MASTER_PORT": "0"}, "MASTER_PORT is '0'"),
        ({"NODE_RANK": "0", "MASTER_PORT": "65536"}, "MASTER_PORT is '65536'"),
        ({"NODE_RANK": "0", "TUNEWRIGHT_START_SECONDS": "nan"}, "TUNEWRIGHT_START_SECONDS is 'nan': give seconds"),
        ({"NODE_RANK": "0", "TUNEWRIGHT_START_SECONDS": "inf"}, "TUNEWRIGHT_START_SECONDS is 'inf'"),
        ({"NODE_RANK": "0", "TUNEWRIGHT_START_SECONDS": "-5"}, "TUNEWRIGHT_START_SECONDS is '-5'"),
        ({"NODE_RANK": "0", "TUNEWRIGHT_START_SECONDS": "soon"}, "TUNEWRIGHT_START_SECONDS is 'soon'"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value.partition(":")[0],
)
def test_a_variable_that_cannot_be_right_is_a_fault_of_the_place(variables: dict[str, str], words: str) -> None:
    """Not of the configuration, which would never be tried again."""
    request = make_request("measure", world=2, request={"nodes": 2, "processes_per_node": 1})
    with pytest.raises(TrialFailure, match=re.escape(f"the environment variable {words}")) as failure:
        gather(request, variables)
    assert failure.value.failure == "RcclFailure"


def test_a_name_that_no_host_can_have_is_told_like_one_that_is_not_there() -> None:
    request = make_request("measure", world=2, request={"nodes": 2, "processes_per_node": 1})
    variables = {"NODE_RANK": "1", "MASTER_ADDR": "a..b", "MASTER_PORT": "1", "TUNEWRIGHT_START_SECONDS": "0.01"}
    with pytest.raises(TrialFailure, match=r"node 0 at a\.\.b:1 gave no word within 0\.01 s"):
        gather(request, variables)


def test_the_first_node_needs_no_address() -> None:
    assert master_address_in({}, 0) == "localhost"
    assert master_port_in({}, 29500) == 29500
    assert start_seconds_in({}, 60.0) == 60.0
