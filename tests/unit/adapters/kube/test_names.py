import re

from tests.support.kube_documents import A_RUN, an_identity
from tunewright.adapters.kube.names import RunReference, ledger_shard_name, nodes_service_name, trial_job_name
from tunewright.adapters.kube.spec.tuning_run import MAX_NAME_LENGTH


def test_a_trial_job_is_named_after_run_trial_and_attempt() -> None:
    assert re.fullmatch(r"tiny-t0012-a1-[0-9a-f]{6}", trial_job_name(A_RUN, an_identity()))


def test_the_name_is_the_same_after_a_restart_and_another_for_a_namesake() -> None:
    again = RunReference("team-a", "tiny", A_RUN.uid)
    namesake = RunReference("team-a", "tiny", "another")
    assert trial_job_name(A_RUN, an_identity()) == trial_job_name(again, an_identity())
    assert trial_job_name(A_RUN, an_identity()) != trial_job_name(namesake, an_identity())


def test_the_longest_name_fits_an_indexed_job() -> None:
    run = RunReference("n", "r" * MAX_NAME_LENGTH, "uid")
    assert len(trial_job_name(run, an_identity(trial="t123456", attempt=99))) <= 61


def test_the_pods_of_a_thousand_nodes_have_names_that_are_host_names() -> None:
    run = RunReference("n", "r" * MAX_NAME_LENGTH, "uid")
    assert len(f"{trial_job_name(run, an_identity(trial='t1234', attempt=99))}-999") <= 63
    assert len(nodes_service_name(run)) <= 63


def test_shards_sort_by_number() -> None:
    assert ledger_shard_name(A_RUN, 2) == "tiny-ledger-0002"
