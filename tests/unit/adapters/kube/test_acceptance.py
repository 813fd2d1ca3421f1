import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.kube_documents import a_tuning_run
from tunewright.adapters.kube.acceptance import Accepted, accept, check_runs_in_cluster
from tunewright.adapters.kube.problem_reader import NotAccepted
from tunewright.adapters.kube.spec.search import LLMSpec, PriceSpec
from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.training_config import TrainingConfig
from tunewright.errors import DoesNotFit, IllegalConfig, InvalidInput
from tunewright.memory.estimate import estimate
from tunewright.memory.fit import fit

EXAMPLES = sorted((Path(__file__).parents[4] / "examples").glob("*.yaml"))
LARGE = {"model": {"preset": "mixtral-8x22b"}, "sequenceLength": 8192, "globalBatchSize": 512}
EIGHT_NODES = {"nodes": 8, "accelerator": {"preset": "mi355x"}}


def accepted(document: dict[str, Any], **options: Any) -> Accepted:
    return accept(document, shipped_catalog(), **options)


def problems(document: dict[str, Any], **options: Any) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        accepted(document, **options)
    return {problem.field: f"{problem.value}: {problem.remedy}" for problem in caught.value.problems}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_example_is_accepted(file: Path) -> None:
    run = accepted(yaml.safe_load(file.read_text()))
    assert run.space.fits.any()


@pytest.mark.parametrize(("given", "stops"), [({}, True), ({"earlyStop": False}, False)])
def test_measurements_that_lose_stop_early_unless_the_run_says_otherwise(given: dict[str, bool], stops: bool) -> None:
    assert accepted(a_tuning_run(validation=given)).settings.validation.early_stop is stops


def test_the_mixtral_example_says_what_it_says() -> None:
    run = accepted(yaml.safe_load((EXAMPLES[0].parent / "mixtral-8x22b-mi355x.yaml").read_text()))
    assert run.problem.world_size == 64
    assert run.problem.implementation == "transformer-engine"
    assert run.settings.reference is not None
    assert run.settings.reference.tokens_per_second_per_gpu == 3475
    baseline = run.settings.baseline
    assert (baseline.pipeline_parallel_size, baseline.expert_parallel_size, baseline.precision) == (4, 8, "fp8")
    assert run.settings.validation.nodes == 8
    assert run.settings.budget.max_gpu_hours == 60.0
    assert run.pod_options.pci_device_ids == ("75a3", "75b3")


@pytest.mark.parametrize("given", [{}, {"recomputeGranularity": "selective"}], ids=["chosen", "given"])
def test_torchtitans_baseline_shards_weights_and_names_no_modules(given: dict[str, str]) -> None:
    workload = {
        "model": {"preset": "llama-3-8b"},
        "sequenceLength": 8192,
        "globalBatchSize": 64,
        "backend": "torchtitan",
    }
    baseline = accepted(a_tuning_run(workload=workload, cluster=EIGHT_NODES, baseline=given)).settings.baseline
    assert baseline.optimizer == "fsdp2"
    assert baseline.recompute_modules == ()


def test_everything_that_does_not_resolve_is_told_at_once() -> None:
    document = a_tuning_run(
        workload={"model": {"preset": "mixtral-8x22"}, "sequenceLength": 128, "globalBatchSize": 32},
        cluster={"nodes": 1, "accelerator": {"preset": "mi355"}, "network": {"preset": "polara"}},
    )
    found = problems(document)
    assert set(found) == {
        "spec.workload.model.preset",
        "spec.cluster.accelerator.preset",
        "spec.cluster.network.preset",
    }
    assert "did you mean" in found["spec.workload.model.preset"]
    assert "mixtral-8x22b" in found["spec.workload.model.preset"]
    assert "mi355x" in found["spec.cluster.accelerator.preset"]


def test_an_unknown_preset_has_its_own_reason() -> None:
    with pytest.raises(NotAccepted) as caught:
        accepted(a_tuning_run(trial={"devicePreset": "mi999"}))
    assert caught.value.reason == "UnknownPreset"
    assert caught.value.problems[0].field == "spec.trial.devicePreset"


def test_an_illegal_baseline_lists_every_broken_rule() -> None:
    with pytest.raises(IllegalConfig) as caught:
        accepted(a_tuning_run(baseline={"tensorParallelSize": 3, "pipelineParallelSize": 5}))
    assert {"tensor-divides-heads", "layout-fits-layers", "degrees-divide-world-size"} <= set(caught.value.violations)


def test_a_baseline_that_does_not_fit_is_itemised() -> None:
    with pytest.raises(DoesNotFit, match=r"spec\.baseline: does not fit: rank 0 .* more than 282\.2 GiB") as caught:
        accepted(a_tuning_run(workload=LARGE, cluster=EIGHT_NODES, baseline={"microBatchSize": 1}))
    assert caught.value.items["weights"] > 2**37


def test_a_cluster_that_is_too_small_is_told() -> None:
    found = problems(a_tuning_run(workload=LARGE))
    assert found.keys() == {"spec.cluster"}
    assert found["spec.cluster"].startswith("1 node(s) of 8 mi355x: is too small for mixtral-8x22b")
    assert found["spec.cluster"].endswith("or use more nodes")


def test_a_batch_that_nothing_divides_is_told() -> None:
    document = a_tuning_run(
        workload={"model": {"preset": "tiny-quickstart"}, "sequenceLength": 128, "globalBatchSize": 7},
        cluster={"nodes": 5, "accelerator": {"preset": "mi355x"}},
    )
    assert "spec.workload.globalBatchSize" in problems(document)


def test_an_empty_space_is_told() -> None:
    with pytest.raises(NotAccepted) as caught:
        accepted(a_tuning_run(baseline={"tensorParallelSize": 1}, searchSpace={"tensorParallelSize": [3, 5]}))
    assert caught.value.reason == "EmptySpace"
    assert caught.value.problems[0].value == {"tensorParallelSize": [3, 5]}


def test_a_space_of_the_baseline_alone_is_not_empty() -> None:
    space = {"tensorParallelSize": [1], "pipelineParallelSize": [1], "microBatchSize": [1]}
    only = {**space, "pipelineSchedule": ["1f1b"], "recomputeGranularity": ["none"]}
    assert len(accepted(a_tuning_run(searchSpace=only)).space.batch) == 1


def test_an_unknown_sweep_axis_gets_the_nearest_name() -> None:
    found = problems(a_tuning_run(sweep={"axes": ["microBatchSise", "pipelineSchedule"]}))
    assert "microBatchSize" in found["spec.sweep.axes"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"parallelTrials": 3, "budget": {"maxTrials": 2}}, "spec.parallelTrials"),
        ({"validation": {"nodes": 2}}, "spec.validation.nodes"),
        ({"explore": {"strategy": "Surrogate"}, "llm": {"model": "openai/x"}}, "spec.llm"),
    ],
)
def test_files_meet_the_rules_of_the_api_server(spec: dict[str, Any], field: str) -> None:
    assert set(problems(a_tuning_run(**spec))) == {field}


def test_selective_recomputation_names_its_modules() -> None:
    run = accepted(a_tuning_run(baseline={"recomputeGranularity": "selective"}))
    assert run.settings.baseline.recompute_modules == ("mlp",)


def test_the_default_baseline_is_the_least_split_that_fits() -> None:
    run = accepted(a_tuning_run(workload=LARGE, cluster=EIGHT_NODES))
    chosen = run.settings.baseline
    assert (chosen.tensor_parallel_size, chosen.recompute_granularity, chosen.expert_parallel_size) == (1, "none", 8)
    assert not _is_tight(run, chosen)
    less = chosen.model_copy(update={"pipeline_parallel_size": chosen.pipeline_parallel_size // 2})
    assert _is_tight(run, less)


def _is_tight(run: Accepted, config: TrainingConfig) -> bool:
    verdict = fit(run.problem, estimate(run.problem, ConfigBatch.of([config])))
    return bool(verdict.tight[0] or verdict.filtered[0])


def huggingface_reference() -> dict[str, Any]:
    reference = {"configMapKeyRef": {"name": "my-model", "key": "config.json"}}
    return a_tuning_run(workload={"model": reference, "sequenceLength": 128, "globalBatchSize": 32})


def test_a_model_may_come_from_a_config_map() -> None:
    config = {
        "model_type": "llama",
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 128,
        "vocab_size": 256,
        "hidden_act": "silu",
    }
    run = accepted(huggingface_reference(), config_maps={("my-model", "config.json"): json.dumps(config)})
    assert (run.problem.model.name, run.problem.model.num_layers) == ("my-model", 2)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({}, "does not exist: create this ConfigMap"),
        ({("my-model", "config.json"): "{"}, "is not JSON"),
        ({("my-model", "config.json"): "[]"}, "is no JSON object"),
    ],
)
def test_a_config_map_that_cannot_be_read_is_named(texts: dict[tuple[str, str], str], said: str) -> None:
    found = problems(huggingface_reference(), config_maps=texts)
    assert said in found["spec.workload.model.configMapKeyRef"]


def test_a_cpu_is_what_the_caller_measured() -> None:
    measured = shipped_catalog().accelerator("cpu").model_copy(update={"hbm_capacity_bytes": 2**35})
    document = yaml.safe_load((EXAMPLES[0].parent / "quickstart.yaml").read_text())
    run = accepted(document, cpu_accelerator=measured)
    assert run.problem.cluster.accelerator.hbm_capacity_bytes == 2**35
    assert (run.device.preset, run.device.vendor, run.device.hbm_capacity_bytes) == ("cpu", "cpu", 0)


def test_pods_may_find_a_cpu_where_instinct_is_modelled() -> None:
    run = accepted(a_tuning_run(trial={"devicePreset": "cpu"}))
    assert run.device.preset == "cpu"
    assert run.problem.cluster.accelerator.name == "mi355x"
    assert run.pod_options.pci_device_ids == ("75a3", "75b3")


def test_in_a_cluster_an_image_is_needed() -> None:
    document = a_tuning_run(cluster=EIGHT_NODES)
    with pytest.raises(NotAccepted) as caught:
        check_runs_in_cluster(accepted(document))
    assert [problem.field for problem in caught.value.problems] == ["spec.trial.image"]
    check_runs_in_cluster(accepted(document, default_image="trial:1"))


OWN_LLM = LLMSpec(model="openai/own", max_output_tokens=1000)


def test_a_run_without_an_llm_gets_the_operators_own_if_it_wants_one() -> None:
    run = accepted(a_tuning_run(), default_llm=OWN_LLM)
    assert run.llm == OWN_LLM
    assert run.settings.llm is not None
    assert (run.settings.llm.model, run.settings.llm.max_output_tokens) == ("openai/own", 1000)
    alone = accepted(a_tuning_run(explore={"strategy": "Surrogate"}), default_llm=OWN_LLM)
    assert (alone.llm, alone.settings.llm) == (None, None)
    given = accepted(a_tuning_run(llm={"model": "openai/given"}), default_llm=OWN_LLM)
    assert given.settings.llm is not None
    assert given.settings.llm.model == "openai/given"


def test_a_cost_limit_needs_the_price_of_the_operators_own_llm() -> None:
    limited = a_tuning_run(budget={"maxLLMCostUSD": "5"})
    found = problems(limited, default_llm=OWN_LLM)
    assert "the operator's own endpoint has no price" in found["spec.budget.maxLLMCostUSD"]
    price = PriceSpec(input_usd_per_million_tokens="0.25", output_usd_per_million_tokens="2")
    run = accepted(limited, default_llm=OWN_LLM.model_copy(update={"price": price}))
    assert run.settings.llm is not None
    assert run.settings.llm.input_usd_per_million_tokens == 0.25
