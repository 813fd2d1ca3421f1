"""The support bundle's files from documents: what is in them, and what must not be."""

import io
import tarfile
from typing import Any, get_args

import yaml

from tests.support.kube_documents import A_RUN, a_job, a_pod, a_tuning_run
from tunewright.adapters.kube.manifests import ledger_shard
from tunewright.adapters.kube.support import HIDDEN, cleaned, events_of, node_facts, parted, yaml_files
from tunewright.adapters.kube.support_summary import summary_of
from tunewright.cli.support_bundle import archive
from tunewright.trial_protocol.failure_guide import FAILURE_GUIDE
from tunewright.trial_protocol.report import FailureClass

SECRET = "hunter2-and-more"
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def a_run() -> dict[str, Any]:
    run = a_tuning_run()
    run["metadata"] |= {"annotations": {APPLIED: SECRET, "team": "ml"}, "managedFields": [{"manager": SECRET}]}
    run["spec"]["trial"] = {"env": [{"name": "HF_TOKEN", "value": SECRET}]}
    run["status"] = {
        "state": "Failed",
        "answer": "nothing was measured",
        "conditions": [{"type": "Finished", "status": "True", "reason": "Failed", "message": "6 trials failed"}],
        "trials": {
            "failedByClass": [{"class": "NodeLost", "count": 6}],
            "lastFailure": {"trial": "t0006", "class": "NodeLost", "node": "gpu-3", "message": "gone"},
        },
    }
    return run


def test_values_of_variables_and_what_repeats_them_are_left_out() -> None:
    job = a_job()
    job["spec"]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "HF_TOKEN", "value": SECRET},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "llm", "key": "apiKey"}}},
    ]
    texts = yaml_files({"run": [a_run()], "jobs": [job], "pods": [a_pod({})], "events": []})
    assert set(texts) == {"run.yaml", "jobs.yaml", "pods.yaml"}
    assert SECRET not in "".join(texts.values())
    container = next(yaml.safe_load_all(texts["jobs.yaml"]))["spec"]["template"]["spec"]["containers"][0]
    assert container["env"][0] == {"name": "HF_TOKEN", "value": HIDDEN}
    assert container["env"][1]["valueFrom"]["secretKeyRef"]["name"] == "llm", "a name is no secret, and explains much"
    assert next(yaml.safe_load_all(texts["run.yaml"]))["metadata"]["annotations"] == {"team": "ml"}


def test_cleaning_leaves_a_document_as_it_was() -> None:
    document = a_run()
    cleaned(document)
    assert document == a_run()


def test_the_summary_says_what_to_do_about_failures_and_what_is_missing() -> None:
    text = summary_of("default/tiny", a_run(), ["nodes: may not be listed"])
    assert text.startswith("default/tiny: Failed\nnothing was measured\n")
    assert "Finished=True Failed: 6 trials failed" in text
    assert f"6 × NodeLost: {FAILURE_GUIDE['NodeLost'].meaning}" in text
    assert "t0006 on gpu-3: gone" in text
    assert "nodes: may not be listed" in text


def test_a_run_without_a_status_has_a_summary_too() -> None:
    assert summary_of("default/tiny", None, []) == "default/tiny: no status\n"


def test_every_failure_class_has_a_meaning_and_a_remedy() -> None:
    assert set(FAILURE_GUIDE) == set(get_args(FailureClass))
    assert all(guide.meaning and guide.remedy for guide in FAILURE_GUIDE.values())


def test_shards_are_put_in_order_and_results_apart() -> None:
    shards = [ledger_shard(A_RUN, number, f"line {number}\n") for number in (1, 0)]
    result = {"metadata": {"name": "tiny-result", "labels": {}}}
    ordered, others = parted([*shards, result])
    assert ordered == [shards[1], shards[0]]
    assert others == [result]


def test_events_of_other_runs_stay_outside() -> None:
    events = [{"involvedObject": {"name": name}} for name in ("tiny", "tiny-t0001-a1-abcdef", "tinyish", "other")]
    assert [event["involvedObject"]["name"] for event in events_of(events, "tiny")] == ["tiny", "tiny-t0001-a1-abcdef"]


def test_a_node_shows_what_scheduling_looks_at_and_no_address() -> None:
    status = {"addresses": [{"address": "10.0.0.7"}], "allocatable": {"amd.com/gpu": "8"}, "images": [{"names": ["x"]}]}
    node = {"metadata": {"name": "gpu-1", "labels": {"a": "b"}, "annotations": {"c": "d"}}, "status": status}
    assert node_facts(node) == {
        "metadata": {"name": "gpu-1", "labels": {"a": "b"}},
        "spec": {"taints": []},
        "status": {"allocatable": {"amd.com/gpu": "8"}},
    }


def test_the_archive_has_the_files_below_the_name_of_the_run() -> None:
    with tarfile.open(fileobj=io.BytesIO(archive("tiny", {"summary.txt": "ü\n", "logs/a/b.log": "x"}))) as tar:
        assert tar.getnames() == ["tiny/summary.txt", "tiny/logs/a/b.log"]
        read = tar.extractfile("tiny/summary.txt")
        assert read is not None
        assert read.read().decode() == "ü\n"
