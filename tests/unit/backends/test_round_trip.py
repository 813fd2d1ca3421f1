"""A configuration survives render and parse in every launcher that expresses it."""

import pytest

from tunewright.backends import megatron, primus
from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.hardware import Cluster
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.errors import InvalidInput

CONFIGS = {
    "plain": TrainingConfig(),
    "tensor and pipeline": TrainingConfig(tensor_parallel_size=2, pipeline_parallel_size=4, micro_batch_size=2),
    "interleaved": TrainingConfig(
        pipeline_parallel_size=4, virtual_pipeline_parallel_size=2, pipeline_schedule="interleaved-1f1b"
    ),
    "full recomputation": TrainingConfig(
        recompute_granularity="full", recompute_method="block", recompute_num_layers=2
    ),
    "selective recomputation": TrainingConfig(
        recompute_granularity="selective", recompute_modules=("layernorm", "moe_act")
    ),
    "deepep": TrainingConfig(expert_parallel_size=8, moe_dispatcher="deepep"),
    "fp8": TrainingConfig(precision="fp8", cross_entropy_fusion=False),
    "mxfp8": TrainingConfig(precision="mxfp8", overlap_grad_reduce=False, overlap_param_gather=False),
    "fsdp2": TrainingConfig(optimizer="fsdp2", overlap_param_gather=False),
}


@pytest.fixture(scope="module")
def mixtral() -> TuningProblem:
    catalog = shipped_catalog()
    return TuningProblem(
        model=catalog.model("mixtral-8x22b"),
        sequence_length=8192,
        global_batch_size=512,
        cluster=Cluster(
            nodes=8,
            gpus_per_node=8,
            accelerator=catalog.accelerator("mi355x"),
            network=catalog.network("mi355x-pollara"),
        ),
    )


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_megatron_arguments_read_back_as_the_same_configuration(mixtral: TuningProblem, config: TrainingConfig) -> None:
    assert megatron.parse(megatron.render(mixtral, config)) == config


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_primus_yaml_reads_back_as_the_same_configuration(mixtral: TuningProblem, config: TrainingConfig) -> None:
    assert primus.parse(primus.render(mixtral, config)) == config


def test_primus_runs_zero_bubble_with_its_own_runner(mixtral: TuningProblem) -> None:
    config = TrainingConfig(pipeline_parallel_size=8, pipeline_schedule="zero-bubble-h2")
    keys = primus.overrides(mixtral, config)
    assert (keys["pp_algorithm"], keys["patch_primus_pipeline"], keys["pp_max_mem"]) == (
        "zero-bubble-heuristic",
        True,
        15,
    )


def test_megatron_says_where_a_zero_bubble_schedule_can_run(mixtral: TuningProblem) -> None:
    config = TrainingConfig(pipeline_parallel_size=8, pipeline_schedule="zero-bubble-v")
    assert megatron.render(mixtral, config).startswith("# pipelineSchedule: 'zero-bubble-v': Megatron-LM has no")


def test_full_recomputation_names_method_and_count_and_selective_neither(mixtral: TuningProblem) -> None:
    full = megatron.render(mixtral, CONFIGS["full recomputation"])
    selective = megatron.render(mixtral, CONFIGS["selective recomputation"])
    assert "--recompute-method block\n--recompute-num-layers 2\n" in full
    assert "--recompute-modules layernorm moe_act\n" in selective
    assert "--recompute-method" not in selective


def test_expert_tensor_parallel_size_is_always_written_for_experts(mixtral: TuningProblem) -> None:
    config = TrainingConfig(tensor_parallel_size=2)
    assert "--expert-tensor-parallel-size 1\n" in megatron.render(mixtral, config)
    assert primus.overrides(mixtral, config)["expert_tensor_parallel_size"] == 1


def test_shorter_edges_become_first_and_last_counts(mixtral: TuningProblem) -> None:
    problem = mixtral.model_copy(update={"model": shipped_catalog().model("deepseek-v2-lite")})
    config = TrainingConfig(pipeline_parallel_size=4, pipeline_layout="shorter-edges")
    rendered = megatron.render(problem, config)
    assert "--decoder-first-pipeline-num-layers 7\n--decoder-last-pipeline-num-layers 6\n" in rendered


def test_explicit_layouts_become_cells(mixtral: TuningProblem) -> None:
    config = TrainingConfig(pipeline_parallel_size=4, pipeline_layout="13,15,14,14")
    cells = primus.overrides(mixtral, config)["pipeline_model_parallel_layout"]
    assert [cell.count("t") for cell in cells.split("|")] == [13, 15, 14, 14]
    assert cells.startswith("E") and cells.endswith("L")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "modules.pre_trainer.overrides"),
        ("modules: []", "modules.pre_trainer.overrides"),
        ("modules: {pre_trainer: {overrides: 3}}", "modules.pre_trainer.overrides"),
        ("{", "is not YAML"),
    ],
)
def test_a_yaml_that_is_no_experiment_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        primus.parse(text)


def test_a_flag_without_its_number_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"--micro-batch-size.*whole number"):
        megatron.parse("--micro-batch-size --bf16")
