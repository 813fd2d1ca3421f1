"""torchtitan job configurations: TOML that reads back as the same configuration, or a comment that says why not."""

import tomllib

import pytest

from tests.support.builders import a_moe_model, a_problem
from tunewright.backends import torchtitan
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.errors import InvalidInput

UNSAID = {"overlap_grad_reduce": True, "overlap_param_gather": True, "cross_entropy_fusion": True}
"""torchtitan has no keys for these: a configuration that is read has the defaults."""
CONFIGS = {
    "plain": TrainingConfig(optimizer="fsdp2", micro_batch_size=2),
    "replicated": TrainingConfig(optimizer="replicated"),
    "tensor and context": TrainingConfig(optimizer="fsdp2", tensor_parallel_size=2, context_parallel_size=2),
    "pipeline": TrainingConfig(optimizer="replicated", pipeline_parallel_size=4, micro_batch_size=2),
    "interleaved": TrainingConfig(
        optimizer="replicated",
        pipeline_parallel_size=2,
        virtual_pipeline_parallel_size=2,
        pipeline_schedule="interleaved-1f1b",
    ),
    "zero bubble": TrainingConfig(
        optimizer="replicated",
        pipeline_parallel_size=2,
        virtual_pipeline_parallel_size=2,
        pipeline_schedule="zero-bubble-v",
    ),
    "experts": TrainingConfig(optimizer="fsdp2", expert_parallel_size=4, moe_dispatcher="deepep"),
    "recomputation": TrainingConfig(optimizer="fsdp2", recompute_granularity="full"),
    "fp8": TrainingConfig(optimizer="fsdp2", precision="fp8"),
    "fp32": TrainingConfig(optimizer="fsdp2", precision="fp32"),
}


@pytest.fixture(scope="module")
def problem() -> TuningProblem:
    return a_problem(model=a_moe_model())


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_a_job_configuration_reads_back_as_the_same_configuration(
    problem: TuningProblem, config: TrainingConfig
) -> None:
    assert torchtitan.parse(problem, torchtitan.render(problem, config)) == config.model_copy(update=UNSAID)


def test_with_a_pipeline_the_local_batch_is_a_whole_step(problem: TuningProblem) -> None:
    sections = tomllib.loads(torchtitan.render(problem, CONFIGS["pipeline"]))
    assert sections["training"]["local_batch_size"] == 64 // 2  # eight ranks of four stages: two data ranks
    assert sections["parallelism"]["pipeline_parallel_microbatch_size"] == 2
    assert sections["parallelism"]["data_parallel_replicate_degree"] == 2


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (TrainingConfig(), "use fsdp2"),
        (TrainingConfig(optimizer="fsdp2", pipeline_parallel_size=2, pipeline_schedule="zero-bubble-h1"), "Primus"),
    ],
    ids=["optimizer", "schedule"],
)
def test_what_torchtitan_cannot_express_is_a_comment(
    problem: TuningProblem, config: TrainingConfig, words: str
) -> None:
    text = torchtitan.render(problem, config)
    assert text.startswith("# ") and text.count("\n") == 1
    assert words in text


@pytest.mark.parametrize("text", ["[", "parallelism = 3"])
def test_what_is_no_job_configuration_is_refused(problem: TuningProblem, text: str) -> None:
    with pytest.raises(InvalidInput):
        torchtitan.parse(problem, text)
