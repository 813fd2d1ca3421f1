"""Verdicts over batches: all violations, counts, explanations, and combinations known to be accepted elsewhere."""

import pytest

from tests.unit.legality.problems import a_problem
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.legality import explain, judge, rules_for, warnings


def test_all_violations_of_a_row_are_reported() -> None:
    config = TrainingConfig(tensor_parallel_size=16, expert_parallel_size=3, micro_batch_size=7)

    violations = judge(a_problem("mixtral-8x7b", nodes=2), ConfigBatch.of([config])).violations(0)

    assert list(violations) == [
        "expert-degrees-divide-world-size",
        "tensor-within-node",
        "expert-divides-experts",
        "batch-is-divisible",
    ]
    assert violations["tensor-within-node"] == (
        "tensorParallelSize 16 does not divide the 8 accelerators of a node: use one of 1, 2, 4, 8"
    )


def test_counts_by_rule_leave_out_what_nobody_broke() -> None:
    configs = [TrainingConfig(micro_batch_size=size) for size in (1, 2, 3, 5)]

    verdicts = judge(a_problem(), ConfigBatch.of(configs))

    assert verdicts.legal.tolist() == [True, True, False, False]
    assert verdicts.by_rule == {"batch-is-divisible": 2}


def test_empty_batch_has_no_violations() -> None:
    verdicts = judge(a_problem(), ConfigBatch.of([]))

    assert (len(verdicts.legal), verdicts.by_rule) == (0, {})


def test_explanation_lists_every_rule_with_its_claim_or_its_remedy() -> None:
    problem = a_problem()
    lines = explain(problem, ConfigBatch.of([TrainingConfig(micro_batch_size=3)]))

    assert [name for name, _, _ in lines] == [rule.name for rule in rules_for("primus")]
    assert [name for name, kept, _ in lines if not kept] == ["batch-is-divisible"]
    texts = {name: text for name, _, text in lines}
    assert texts["tensor-divides-heads"] == "T divides the attention heads."
    assert texts["batch-is-divisible"] == (
        "microBatchSize 3 x data parallel size 16 = 48 does not divide globalBatchSize 64: "
        "lower the micro batch, or make the global batch a multiple"
    )


def test_fewer_micro_batches_than_ranks_is_a_warning_and_legal() -> None:
    problem, batch = a_problem(batch=8), ConfigBatch.of([TrainingConfig(pipeline_parallel_size=4)])

    assert judge(problem, batch).legal.all()
    assert list(warnings(problem, batch)) == ["pipeline-is-filled"]


def test_full_pipeline_has_no_warning() -> None:
    assert warnings(a_problem(), ConfigBatch.of([TrainingConfig(pipeline_parallel_size=4)])) == {}


def test_more_chunks_than_layers_is_refused_without_laying_them_out() -> None:
    config = TrainingConfig(
        pipeline_parallel_size=4096, virtual_pipeline_parallel_size=256, pipeline_schedule="interleaved-1f1b"
    )

    assert "layout-fits-layers" in judge(a_problem(), ConfigBatch.of([config])).violations(0)


# Each passes a check that confuses the three meanings of "data parallel", or tests no divisibility at all; none of
# them starts under Megatron or Primus.
TRAPS = [
    pytest.param(
        a_problem("mixtral-8x22b", nodes=1, batch=12),
        {"expert_parallel_size": 4, "micro_batch_size": 2},
        "batch-is-divisible",
        id="batch divisible by the expert data parallel size 2, not by the loading one 8",
    ),
    pytest.param(
        a_problem("deepseek-v2", nodes=4, batch=640),
        {"expert_parallel_size": 8, "pipeline_parallel_size": 4, "micro_batch_size": 3},
        "batch-is-divisible",
        id="micro batch 3 where the quotient is rounded down",
    ),
    pytest.param(
        a_problem(batch=64),
        {"context_parallel_size": 2, "micro_batch_size": 16},
        "batch-is-divisible",
        id="global batch smaller than one micro batch on every rank",
    ),
    pytest.param(
        a_problem("mixtral-8x22b", nodes=3, batch=48),
        {"expert_parallel_size": 8, "pipeline_parallel_size": 2},
        "expert-degrees-divide-world-size",
        id="experts times stages do not divide the world",
    ),
    pytest.param(
        a_problem("deepseek-v2-lite", nodes=1),
        {"pipeline_parallel_size": 2},
        "layout-fits-layers",
        id="27 layers on 2 stages",
    ),
    pytest.param(
        a_problem("llama-3-70b", nodes=4),
        {
            "pipeline_parallel_size": 8,
            "virtual_pipeline_parallel_size": 4,
            "pipeline_schedule": "interleaved-1f1b",
        },
        "layout-fits-layers",
        id="80 layers in 32 chunks",
    ),
    pytest.param(
        a_problem("qwen3-30b-a3b", nodes=2, batch=64),
        {"expert_parallel_size": 12},
        "expert-divides-experts",
        id="128 experts over 12 ranks",
    ),
    pytest.param(
        a_problem("mixtral-8x22b", nodes=8, batch=512),
        {"tensor_parallel_size": 16},
        "tensor-within-node",
        id="tensor group over two nodes",
    ),
    pytest.param(
        a_problem("mixtral-8x22b", nodes=8, batch=24),
        {
            "pipeline_parallel_size": 8,
            "virtual_pipeline_parallel_size": 7,
            "pipeline_schedule": "interleaved-1f1b",
        },
        "interleaving-needs-whole-groups",
        id="interleaved with 3 micro batches on 8 stages",
    ),
    pytest.param(
        a_problem("mixtral-8x22b", nodes=8, batch=48),
        {
            "pipeline_parallel_size": 4,
            "virtual_pipeline_parallel_size": 2,
            "pipeline_schedule": "zero-bubble-v",
            "overlap_grad_reduce": False,
            "overlap_param_gather": False,
        },
        "zero-bubble-v-fills-pipeline",
        id="zero-bubble-v with 3 micro batches on 4 stages",
    ),
    pytest.param(
        a_problem("mixtral-8x22b", nodes=8, batch=512),
        {"pipeline_parallel_size": 4, "pipeline_schedule": "zero-bubble-h1"},
        "primus-scheduler-excludes-overlap",
        id="zero bubble with the inherited overlap",
    ),
    pytest.param(
        a_problem("mixtral-8x22b", nodes=8, batch=512),
        {"virtual_pipeline_parallel_size": 2},
        "schedule-fixes-virtual-pipeline",
        id="virtual pipeline without a pipeline",
    ),
    pytest.param(
        a_problem("mixtral-8x22b", nodes=8, batch=512),
        {"moe_dispatcher": "deepep"},
        "deepep-needs-expert-group",
        id="deepep with one expert rank",
    ),
    pytest.param(
        a_problem("llama-3-70b", nodes=8, batch=512),
        {"moe_dispatcher": "deepep"},
        "deepep-needs-experts",
        id="deepep in a dense model",
    ),
    pytest.param(
        a_problem("mixtral-8x22b", nodes=8, batch=512),
        {"recompute_granularity": "selective"},
        "selective-recompute-names-modules",
        id="selective recomputation of nothing",
    ),
    pytest.param(
        a_problem("llama-3-8b", nodes=1),
        {"optimizer": "fsdp2", "pipeline_parallel_size": 2},
        "fsdp2-needs-one-stage",
        id="fsdp2 over two stages",
    ),
]


@pytest.mark.parametrize(("problem", "change", "rule"), TRAPS)
def test_combination_that_cannot_launch_is_refused(
    problem: TuningProblem, change: dict[str, object], rule: str
) -> None:
    verdicts = judge(problem, ConfigBatch.of([TrainingConfig.parse(change)]))

    assert rule in verdicts.violations(0)


@pytest.mark.parametrize("schedule", ["1f1b", "interleaved-1f1b", "zero-bubble-h1", "zero-bubble-v", "v-half", "v-min"])
@pytest.mark.parametrize("model", ["deepseek-v2-lite", "deepseek-v3"])
def test_odd_numbers_of_layers_have_a_legal_pipeline_in_every_schedule(model: str, schedule: str) -> None:
    config = TrainingConfig.parse(
        {
            "pipeline_parallel_size": 4,
            "virtual_pipeline_parallel_size": 2 if schedule not in ("1f1b", "zero-bubble-h1") else 1,
            "pipeline_schedule": schedule,
            "pipeline_layout": "shorter-edges",
            "overlap_grad_reduce": False,
            "overlap_param_gather": False,
        }
    )

    assert judge(a_problem(model, nodes=2, batch=64), ConfigBatch.of([config])).violations(0) == {}
