"""What Kubernetes, or an inner value, would refuse later is refused at acceptance, with the spec's own field."""

import json
from typing import Any

import pytest

from tests.support.kube_documents import a_tuning_run
from tunewright.adapters.kube.acceptance import accept, read_candidate
from tunewright.adapters.kube.baseline import completed
from tunewright.adapters.kube.crd import custom_resource_definition
from tunewright.adapters.kube.settings_reader import naming_spec_fields
from tunewright.adapters.kube.spec.names import amount
from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.errors import InvalidInput
from tunewright.planner.settings import Budget

TINY = {"model": {"preset": "tiny-quickstart"}, "sequenceLength": 128, "globalBatchSize": 32, "backend": "builtin"}
LLAMA = {"model": {"preset": "llama-3-8b"}, "sequenceLength": 8192, "globalBatchSize": 2048}
GPT = {"model": {"preset": "gpt-24l-2048h-16a"}, "sequenceLength": 2048, "globalBatchSize": 64}
ONE_A100_NODE = {"nodes": 1, "accelerator": {"preset": "a100-80gb"}}
ARCHITECTURE = {
    "name": "own",
    "numLayers": 4,
    "hiddenSize": 128,
    "numAttentionHeads": 4,
    "numKeyValueHeads": 4,
    "headDim": 32,
    "ffnHiddenSize": 256,
    "vocabularySize": 1024,
}


def problems(document: dict[str, Any], **options: Any) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        accept(document, shipped_catalog(), **options)
    return {problem.field: problem.remedy for problem in caught.value.problems}


@pytest.mark.parametrize("nothing", [0, "0", "0.0", "000.000"])
def test_a_quantity_of_nothing_is_told_with_its_minimum(nothing: object) -> None:
    document = a_tuning_run(budget={"maxGPUHours": nothing}, reference={"tokensPerSecondPerGPU": nothing})
    found = problems(document)
    assert found == dict.fromkeys(
        ("spec.budget.maxGPUHours", "spec.reference.tokensPerSecondPerGPU"), "must be at least 0.000001"
    )


def test_the_smallest_quantity_is_accepted() -> None:
    run = accept(a_tuning_run(budget={"maxGPUHours": "0.000001"}), shipped_catalog())
    assert run.settings.budget.max_gpu_hours == 1e-6


def test_the_api_server_has_the_same_minimum() -> None:
    version = custom_resource_definition()["spec"]["versions"][0]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    hours = spec["budget"]["properties"]["maxGPUHours"]
    assert (hours["minimum"], hours["x-kubernetes-validations"][0]["message"]) == (1, "must be at least 0.000001")
    assert spec["budget"]["properties"]["maxLLMCostUSD"]["minimum"] == 0


def test_what_only_an_inner_value_refuses_names_the_field_of_the_spec() -> None:
    with pytest.raises(InvalidInput, match=r"spec\.budget\.maxGPUHours: 0: .*greater than 0"), naming_spec_fields():
        Budget(max_gpu_hours=0)


def test_a_baseline_that_cannot_be_is_told_by_the_names_of_the_spec() -> None:
    problem, _ = read_candidate(a_tuning_run(), shipped_catalog())
    with pytest.raises(InvalidInput, match=r"spec\.baseline\.expertParallelSize: 0: "):
        completed(problem, {"expert_parallel_size": 0})


NOT_WHOLE = ["2", True, 2.0, 2.5, 10**400]


@pytest.mark.parametrize("nodes", NOT_WHOLE, ids=lambda nodes: f"{nodes!r:.8}")
def test_a_count_is_a_whole_number_and_nothing_else(nodes: object) -> None:
    found = problems(a_tuning_run(cluster={"nodes": nodes, "accelerator": {"preset": "mi355x"}}))
    assert list(found) == ["spec.cluster.nodes"]


def test_only_the_names_of_the_custom_resource_are_known() -> None:
    assert "not a known field" in problems(a_tuning_run(parallel_trials=1))["spec.parallel_trials"]


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "own endpoint without a key": (
        {"llm": {"model": "openai/x", "apiBase": "https://llm.example.com"}},
        "spec.llm",
        "apiBase needs apiKeySecretRef",
    ),
    "accelerators": ({"trial": {"resources": {"limits": {"amd.com/gpu": "8"}}}}, "spec.trial.resources", "whole nodes"),
    "no resource": ({"trial": {"resources": {"limits": {"gpu": "8"}}}}, "spec.trial.resources.limits.gpu", "pattern"),
    "no quantity": ({"trial": {"resources": {"limits": {"cpu": "8ki"}}}}, "spec.trial.resources.limits.cpu", "pattern"),
    "more than the limit": (
        {"trial": {"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "2G"}}}},
        "spec.trial.resources",
        "exceed its limit 2G",
    ),
    "device without limit": (
        {"trial": {"resources": {"requests": {"example.com/nic": "1"}}}},
        "spec.trial.resources",
        "must equal its limit",
    ),
    "our volume": (
        {"trial": {"volumes": [{"name": "scratch", "claimName": "c", "mountPath": "/data"}]}},
        "spec.trial.volumes.0",
        "choose another name",
    ),
    "our path": (
        {"trial": {"volumes": [{"name": "data", "claimName": "c", "mountPath": "/dev/shm"}]}},
        "spec.trial.volumes.0",
        "choose another name and path",
    ),
    "volume twice": (
        {"trial": {"volumes": [{"name": "a", "claimName": "c", "mountPath": f"/{path}"} for path in "xy"]}},
        "spec.trial.volumes",
        "a is given twice",
    ),
    "path twice": (
        {"trial": {"volumes": [{"name": name, "claimName": "c", "mountPath": "/x"} for name in "ab"]}},
        "spec.trial.volumes",
        "/x is given twice",
    ),
    "variable twice": (
        {"trial": {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}},
        "spec.trial.env",
        "A is given twice",
    ),
    "our variable": (
        {"trial": {"env": [{"name": "TUNEWRIGHT_REQUEST_JSON", "value": "{}"}]}},
        "spec.trial.env.0",
        "trial program's own",
    ),
    "axis twice": ({"sweep": {"axes": ["precision", "precision"]}}, "spec.sweep.axes", "precision is given twice"),
    "value twice": ({"searchSpace": {"microBatchSize": [1, 1]}}, "spec.searchSpace.microBatchSize", "1 is given twice"),
    "negative group": ({"pod": {"supplementalGroups": [-1]}}, "spec.pod.supplementalGroups.0", "equal to 0"),
    "selector key": ({"pod": {"nodeSelector": {"bad key": "x"}}}, "spec.pod.nodeSelector.bad key", "pattern"),
    "selector value": ({"pod": {"nodeSelector": {"pool": "-"}}}, "spec.pod.nodeSelector.pool", "pattern"),
    "resource name": ({"pod": {"resourceName": "gpu"}}, "spec.pod.resourceName", "pattern"),
    "foreign resource": ({"pod": {"resourceName": "kubernetes.io/gpu"}}, "spec.pod.resourceName", "Kubernetes' own"),
    "toleration of everything": (
        {"pod": {"tolerations": [{"operator": "Exists"}]}},
        "spec.pod.tolerations.0",
        "name a key other than amd-gpu-unhealthy and amd-dcm",
    ),
    "toleration of faulty devices": (
        {"pod": {"tolerations": [{"key": "amd-gpu-unhealthy", "operator": "Exists"}]}},
        "spec.pod.tolerations.0",
        "not fit to be measured on",
    ),
    "image": ({"trial": {"image": "trial 1"}}, "spec.trial.image", "pattern"),
}


@pytest.mark.parametrize(("spec", "field", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_kubernetes_would_refuse_is_refused_at_once(spec: dict[str, Any], field: str, said: str) -> None:
    found = problems(a_tuning_run(**spec))
    names = {name.removesuffix(".[key]"): remedy for name, remedy in found.items()}
    assert said in names[field], found


def test_what_kubernetes_takes_is_taken() -> None:
    trial = {
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}],
        "volumes": [{"name": "data", "claimName": "c", "mountPath": "/data"}],
        "resources": {
            "requests": {"cpu": "500m", "memory": "2G", "example.com/nic": "1"},
            "limits": {"cpu": "1", "memory": "2Gi", "example.com/nic": "1", "hugepages-2Mi": "1Gi"},
        },
    }
    pod = {
        "nodeSelector": {"example.com/pool": "a.b_c", "zone": ""},
        "tolerations": [
            {"key": "dedicated", "operator": "Exists"},
            {"key": "a/b", "value": "x", "effect": "NoSchedule"},
        ],
        "supplementalGroups": [0, 44],
        "resourceName": "nvidia.com/gpu",
    }
    assert (
        accept(a_tuning_run(trial=trial, pod=pod), shipped_catalog()).pod_options.pod.resource_name == "nvidia.com/gpu"
    )


@pytest.mark.parametrize(
    ("quantity", "number"), [("1500m", 1.5), ("1k", 1000), ("2Ki", 2048), ("3", 3), ("1E", 10**18)]
)
def test_quantities_are_compared_as_numbers(quantity: str, number: float) -> None:
    assert float(amount(quantity)) == number


@pytest.mark.parametrize(
    ("workload", "cluster", "field", "said"),
    [
        (LLAMA | {"precision": "fp8"}, ONE_A100_NODE, "spec.workload.precision", "a100-80gb does not have it"),
        (GPT | {"sequenceLength": 4096}, ONE_A100_NODE, "spec.workload.sequenceLength", "learned positions for 2048"),
        (TINY | {"precision": "fp8"}, ONE_A100_NODE, "spec.workload.precision", "use bf16"),
    ],
)
@pytest.mark.parametrize("baseline", [{}, {"microBatchSize": 1}], ids=["default", "given"])
def test_a_fault_of_the_workload_is_not_blamed_on_the_baseline(
    workload: dict[str, Any], cluster: dict[str, Any], field: str, said: str, baseline: dict[str, Any]
) -> None:
    found = problems(a_tuning_run(workload=workload, cluster=cluster, baseline=baseline))
    assert list(found) == [field]
    assert said in found[field]


def test_a_batch_smaller_than_its_ranks_is_told_with_one_that_runs() -> None:
    cluster = {"nodes": 2048, "accelerator": {"preset": "mi355x"}}
    found = problems(a_tuning_run(workload=LLAMA | {"globalBatchSize": 16}, cluster=cluster))
    assert found == {
        "spec.workload.globalBatchSize": "is less than the 64 data parallel ranks that every usual split of 16384 GPUs"
        " leaves: use a multiple of 64, such as 64"
    }
    accept(a_tuning_run(workload=LLAMA | {"globalBatchSize": 64}, cluster=cluster), shipped_catalog())


def test_an_indivisible_batch_is_told_with_one_that_runs() -> None:
    cluster = {"nodes": 5, "accelerator": {"preset": "mi355x"}}
    remedy = problems(a_tuning_run(workload=TINY | {"globalBatchSize": 7}, cluster=cluster))[
        "spec.workload.globalBatchSize"
    ]
    suggested = int(remedy.rpartition(" ")[2])
    accept(a_tuning_run(workload=TINY | {"globalBatchSize": suggested}, cluster=cluster), shipped_catalog())


def test_an_empty_space_names_the_rules_that_empty_it() -> None:
    found = problems(a_tuning_run(baseline={"tensorParallelSize": 1}, searchSpace={"tensorParallelSize": [3, 5]}))
    assert "reject most of 2 combinations" in found["spec.searchSpace"]
    assert "degrees-divide-world-size 2" in found["spec.searchSpace"]


def test_a_candidate_can_be_read_where_the_search_is_refused() -> None:
    catalog = shipped_catalog()
    _, config = read_candidate(a_tuning_run(searchSpace={"tensorParallelSize": [3]}), catalog)
    assert config.tensor_parallel_size == 1
    _, config = read_candidate(a_tuning_run(baseline={"tensorParallelSize": 3}), catalog)
    assert config.tensor_parallel_size == 3
    problem, _ = read_candidate(a_tuning_run(workload=LLAMA | {"precision": "fp8"}, cluster=ONE_A100_NODE), catalog)
    assert problem.precision == "fp8"


def test_more_than_four_thousand_context_ranks_are_legal() -> None:
    workload = LLAMA | {"sequenceLength": 2**20}
    cluster = {"nodes": 2048, "accelerator": {"preset": "mi355x"}}
    space = {"contextParallelSize": [8192], "tensorParallelSize": [1, 2]}
    baseline = {"contextParallelSize": 8192, "tensorParallelSize": 2}
    run = accept(
        a_tuning_run(workload=workload, cluster=cluster, searchSpace=space, baseline=baseline), shipped_catalog()
    )
    assert run.settings.baseline.context_parallel_size == 8192


@pytest.mark.parametrize(
    ("name", "size"),
    [("numLayers", 10**30), ("numAttentionHeads", 10**18), ("ffnHiddenSize", 2**64), ("vocabularySize", 10**18)],
)
def test_an_impossible_size_is_named(name: str, size: int) -> None:
    document = a_tuning_run(workload=TINY | {"model": {"architecture": ARCHITECTURE | {name: size}}})
    assert list(problems(document)) == [f"spec.workload.model.architecture.{name}"]


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31mred", "with space", "-x", ""])
def test_a_model_name_is_plain(name: str) -> None:
    document = a_tuning_run(workload=TINY | {"model": {"architecture": ARCHITECTURE | {"name": name}}})
    assert list(problems(document)) == ["spec.workload.model.architecture.name"]


def from_config_map(text: str) -> dict[str, str]:
    reference = {"configMapKeyRef": {"name": "m", "key": "k"}}
    return problems(a_tuning_run(workload=TINY | {"model": reference}), config_maps={("m", "k"): text})


def test_a_config_names_each_of_its_bad_keys() -> None:
    place = "spec.workload.model.configMapKeyRef"
    found = from_config_map(json.dumps({"model_type": "llama", "num_hidden_layers": 2**31, "hidden_size": 64}))
    expected = {
        f"{place} ({key})" for key in ("num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
    }
    assert set(found) == expected
    assert found[f"{place} (num_hidden_layers)"] == "must be a whole number from 1 to 4096"


def test_a_config_that_is_nested_without_end_is_refused() -> None:
    assert "nested too deeply" in from_config_map("[" * 100_000)["spec.workload.model.configMapKeyRef"]


def test_a_sized_preset_names_its_impossible_sizes() -> None:
    found = problems(a_tuning_run(workload=TINY | {"model": {"preset": "gpt-0l-64h-1a"}}))
    assert "impossible size: numLayers 0" in found["spec.workload.model.preset"]
