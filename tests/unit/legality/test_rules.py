"""One row per rule: the smallest configuration that breaks exactly this rule, and its legal neighbour."""

from dataclasses import dataclass

import pytest

from tests.unit.legality.problems import a_model, a_problem
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.legality import RULES, judge

Change = dict[str, object]
NO_OVERLAP: Change = {"overlap_grad_reduce": False, "overlap_param_gather": False}
FSDP2: Change = {"optimizer": "fsdp2", **NO_OVERLAP}


@dataclass(frozen=True)
class Row:
    rule: str
    problem: TuningProblem
    broken: Change
    legal: Change
    legal_problem: TuningProblem | None = None
    shared: Change | None = None
    note: str = ""

    def config(self, change: Change) -> TrainingConfig:
        own = FSDP2 if self.problem.backend == "torchtitan" else {}
        return TrainingConfig.parse({**own, **(self.shared or {}), **change})


T, P, V, C = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "virtual_pipeline_parallel_size",
    "context_parallel_size",
)
E, ET, B = "expert_parallel_size", "expert_tensor_parallel_size", "micro_batch_size"
SCHEDULE, RECOMPUTE, MODULES = "pipeline_schedule", "recompute_granularity", "recompute_modules"
DEEPEP: Change = {"moe_dispatcher": "deepep"}
ALL_TO_ALL: Change = {"moe_dispatcher": "all-to-all"}
MIXTRAL = "mixtral-8x7b"

ROWS = [
    Row("degrees-divide-world-size", a_problem(nodes=3, batch=48), {T: 8, P: 2}, {T: 4, P: 2}),
    Row("expert-degrees-divide-world-size", a_problem(MIXTRAL, nodes=3, batch=48), {E: 8, P: 2}, {E: 4, P: 2}),
    Row(
        "tensor-divides-heads",
        a_problem(a_model(num_attention_heads=12, num_key_value_heads=4)),
        {T: 8},
        {T: 4},
    ),
    Row(
        "tensor-fits-key-value-heads",
        a_problem(a_model(num_attention_heads=24, num_key_value_heads=6)),
        {T: 8},
        {T: 2},
    ),
    Row(
        "tensor-divides-key-value-heads",
        a_problem(a_model(num_key_value_heads=4), backend="torchtitan"),
        {T: 8},
        {T: 4},
    ),
    Row("tensor-divides-ffn", a_problem(a_model(ffn_hidden_size=1028)), {T: 8}, {T: 4}),
    Row(
        "tensor-divides-shared-experts",
        a_problem(a_model(MIXTRAL, experts_shared_expert_ffn_hidden_size=2820)),
        {T: 8},
        {T: 4},
    ),
    Row("tensor-within-node", a_problem(nodes=4, gpus_per_node=4), {T: 8}, {T: 4}),
    Row("expert-divides-experts", a_problem(MIXTRAL), {E: 16}, {E: 8}),
    Row(
        "expert-tensor-divides-expert-ffn",
        a_problem(a_model(MIXTRAL, experts_expert_ffn_hidden_size=14340)),
        {ET: 8},
        {ET: 4},
    ),
    Row("expert-split-needs-experts", a_problem(), {E: 2}, {E: 1}),
    Row("expert-bias-needs-whole-experts", a_problem("gpt-oss-20b"), {ET: 2}, {ET: 1}),
    Row("expert-tensor-is-one-or-tensor", a_problem(MIXTRAL, backend="torchtitan"), {ET: 4, T: 2}, {ET: 2, T: 2}),
    Row("layout-fits-layers", a_problem(nodes=3, batch=48), {P: 3}, {P: 2}, note="even"),
    Row(
        "layout-fits-layers",
        a_problem("deepseek-v2-lite"),
        {"pipeline_layout": "even"},
        {"pipeline_layout": "shorter-edges"},
        shared={P: 4},
        note="27 layers",
    ),
    Row(
        "layout-fits-layers",
        a_problem(),
        {"pipeline_layout": "15,16"},
        {"pipeline_layout": "15,17"},
        shared={P: 2},
        note="explicit",
    ),
    Row(
        "layout-fits-layers",
        a_problem(a_model(num_layers=30)),
        {P: 4, V: 2},
        {P: 4, V: 2, "pipeline_layout": "8,8,8,6"},
        shared={SCHEDULE: "interleaved-1f1b"},
        note="chunks",
    ),
    Row(
        "inner-stages-hold-layers",
        a_problem(),
        {"pipeline_layout": "8,0,8,16"},
        {"pipeline_layout": "0,16,16,0"},
        shared={P: 2, V: 2, SCHEDULE: "interleaved-1f1b"},
    ),
    Row(
        "every-stage-holds-layers",
        a_problem(backend="torchtitan"),
        {"pipeline_layout": "0,16,8,8"},
        {"pipeline_layout": "4,12,8,8"},
        shared={P: 2, V: 2, SCHEDULE: "interleaved-1f1b"},
    ),
    Row("schedule-fixes-virtual-pipeline", a_problem(), {P: 2, V: 2}, {P: 2, V: 1}, note="1f1b"),
    Row(
        "schedule-fixes-virtual-pipeline",
        a_problem(),
        {V: 1},
        {V: 2},
        shared={P: 2, SCHEDULE: "interleaved-1f1b"},
        note="interleaved",
    ),
    Row(
        "schedule-fixes-virtual-pipeline",
        a_problem(),
        {V: 4},
        {V: 2},
        shared={P: 2, SCHEDULE: "v-min", **NO_OVERLAP},
        note="v",
    ),
    Row(
        "schedule-fixes-virtual-pipeline",
        a_problem(),
        {V: 2},
        {V: 1},
        shared={P: 2, SCHEDULE: "zero-bubble-h2", **NO_OVERLAP},
        note="h2",
    ),
    Row(
        "schedule-needs-pipeline",
        a_problem(),
        {P: 1},
        {P: 2},
        shared={SCHEDULE: "zero-bubble-h1", **NO_OVERLAP},
    ),
    Row(
        "schedule-is-in-megatron",
        a_problem(backend="megatron"),
        {SCHEDULE: "zero-bubble-h1"},
        {SCHEDULE: "1f1b"},
        shared={P: 2},
    ),
    Row(
        "schedule-is-in-torch",
        a_problem(backend="torchtitan"),
        {SCHEDULE: "v-half"},
        {SCHEDULE: "zero-bubble-v"},
        shared={P: 2, V: 2},
    ),
    Row("batch-is-divisible", a_problem(), {B: 3}, {B: 4}),
    Row("batch-is-divisible", a_problem(), {B: 8}, {B: 4}, note="less than one micro batch"),
    Row(
        "interleaving-needs-whole-groups",
        a_problem(batch=40),
        {T: 1},
        {T: 2},
        shared={P: 4, V: 2, SCHEDULE: "interleaved-1f1b"},
    ),
    Row(
        "zero-bubble-v-fills-pipeline",
        a_problem(batch=24),
        {T: 1},
        {T: 2},
        shared={P: 4, V: 2, SCHEDULE: "zero-bubble-v", **NO_OVERLAP},
    ),
    Row("torch-1f1b-fills-pipeline", a_problem(batch=8, backend="torchtitan"), {T: 1}, {T: 2}, shared={P: 4}),
    Row(
        "torch-interleaving-needs-whole-rounds",
        a_problem(batch=40, backend="torchtitan"),
        {T: 1},
        {T: 2},
        shared={P: 2, V: 2, SCHEDULE: "interleaved-1f1b"},
    ),
    Row("sequence-parallel-divides-slice", a_problem(sequence=4100), {T: 8}, {T: 4}),
    Row("sequence-parallel-divides-slice", a_problem(sequence=4104), {T: 8, C: 2}, {T: 8}, note="with context"),
    Row("context-divides-sequence", a_problem(sequence=4098), {C: 2}, {C: 1}),
    Row("context-needs-full-attention", a_problem(a_model(sliding_window=128)), {C: 2}, {C: 1}),
    Row("context-excludes-attention-sinks", a_problem(a_model(attention_sinks=True)), {C: 2}, {C: 1}),
    Row(
        "sequence-fits-position-table",
        a_problem("gpt3-175b", sequence=4096),
        {},
        {},
        legal_problem=a_problem("gpt3-175b", sequence=2048),
    ),
    Row(
        "zero-bubble-excludes-recompute",
        a_problem(),
        {RECOMPUTE: "full"},
        {RECOMPUTE: "none"},
        shared={P: 2, SCHEDULE: "zero-bubble-h1", **NO_OVERLAP},
    ),
    Row(
        "selective-recompute-names-modules",
        a_problem(),
        {RECOMPUTE: "selective"},
        {RECOMPUTE: "selective", MODULES: ["mlp"]},
    ),
    Row(
        "recompute-modules-exist",
        a_problem(),
        {MODULES: ["mlp", "moe_act"]},
        {MODULES: ["mlp"]},
        shared={RECOMPUTE: "selective"},
    ),
    Row(
        "selective-recompute-is-by-operation",
        a_problem(backend="torchtitan"),
        {MODULES: ["mlp"]},
        {MODULES: []},
        shared={RECOMPUTE: "selective"},
    ),
    Row(
        "full-recompute-is-by-layer",
        a_problem(backend="torchtitan"),
        {"recompute_num_layers": 2},
        {"recompute_num_layers": 1},
        shared={RECOMPUTE: "full"},
    ),
    Row(
        "weights-are-sharded-or-replicated",
        a_problem(backend="torchtitan"),
        {"optimizer": "distributed"},
        {"optimizer": "replicated"},
    ),
    Row(
        "full-recompute-fits-chunk",
        a_problem(),
        {"recompute_num_layers": 17},
        {"recompute_num_layers": 16},
        shared={RECOMPUTE: "full", P: 2},
    ),
    Row(
        "primus-scheduler-excludes-overlap",
        a_problem(),
        {"overlap_grad_reduce": True},
        {"overlap_grad_reduce": False},
        shared={P: 2, SCHEDULE: "zero-bubble-h1", "overlap_param_gather": False},
    ),
    Row(
        "gather-overlap-needs-distributed-optimizer",
        a_problem(),
        {"overlap_param_gather": True},
        {"overlap_param_gather": False},
        shared={"optimizer": "replicated"},
    ),
    Row(
        "gather-overlap-needs-reduce-overlap",
        a_problem(),
        {"overlap_grad_reduce": False},
        {"overlap_grad_reduce": True},
    ),
    Row("fsdp2-needs-one-stage", a_problem(), {P: 2}, {P: 1}, shared=FSDP2),
    Row("fsdp2-needs-whole-expert-layers", a_problem(MIXTRAL), {E: 2}, {E: 1}, shared=FSDP2),
    Row(
        "fsdp2-needs-untied-embeddings",
        a_problem(a_model(tied_embeddings=True)),
        {"optimizer": "fsdp2"},
        {"optimizer": "replicated"},
        shared=NO_OVERLAP,
    ),
    Row("precision-is-in-device", a_problem(accelerator="a100-80gb"), {"precision": "fp8"}, {"precision": "bf16"}),
    Row(
        "precision-is-in-device",
        a_problem("tiny-quickstart", accelerator="cpu", backend="torchtitan", sequence=64),
        {"precision": "fp8"},
        {"precision": "fp32"},
        note="cpu",
    ),
    Row(
        "fp8-widths-are-whole-blocks",
        a_problem(a_model(ffn_hidden_size=14352)),
        {"precision": "mxfp8"},
        {"precision": "fp8"},
    ),
    Row(
        "fp8-widths-are-whole-blocks",
        a_problem(a_model(MIXTRAL, experts_expert_ffn_hidden_size=32 * 449)),
        {ET: 2},
        {ET: 1},
        shared={"precision": "mxfp8"},
        note="on a rank",
    ),
    Row("fp8-rows-are-whole-blocks", a_problem(sequence=4104), {B: 1}, {B: 2}, shared={"precision": "fp8"}),
    Row(
        "fp8-rows-are-whole-blocks",
        a_problem("deepseek-v3", sequence=64),
        {T: 8},
        {T: 4},
        shared={"precision": "fp8"},
        note="latent attention",
    ),
    Row(
        "precision-is-in-builtin-runner",
        a_problem(backend="builtin"),
        {"precision": "mxfp8"},
        {"precision": "bf16"},
    ),
    Row(
        "fsdp2-needs-whole-experts",
        a_problem(MIXTRAL, backend="builtin"),
        {ET: 2},
        {ET: 1},
        shared=FSDP2,
    ),
    Row(
        "split-query-key-norm-is-rms",
        a_problem(a_model(query_key_norm="per-layer", normalization="layernorm"), backend="builtin"),
        {T: 2},
        {T: 1},
    ),
    Row(
        "attention-sinks-are-available",
        a_problem(a_model(attention_sinks=True), backend="builtin"),
        {},
        {},
        legal_problem=a_problem(backend="builtin"),
    ),
    Row(
        "prediction-layers-are-available",
        a_problem(a_model(num_multi_token_prediction_layers=1), backend="builtin"),
        {},
        {},
        legal_problem=a_problem(backend="builtin"),
    ),
    Row("deepep-is-available", a_problem(MIXTRAL, backend="builtin"), DEEPEP, ALL_TO_ALL, shared={E: 2}),
    Row("deepep-needs-experts", a_problem(), DEEPEP, ALL_TO_ALL),
    Row("deepep-needs-expert-group", a_problem(MIXTRAL), {E: 1}, {E: 2}, shared=DEEPEP),
    Row(
        "deepep-group-size-is-supported",
        a_problem(a_model(MIXTRAL, experts_num_experts=12), nodes=3, batch=48),
        {E: 12},
        {E: 4},
        shared=DEEPEP,
    ),
    Row("sync-free-is-available", a_problem(MIXTRAL, backend="megatron"), {"sync_free_stage": 1}, {}),
    Row("sync-free-needs-experts", a_problem(), {"sync_free_stage": 1}, {}),
    Row(
        "sync-free-uses-deepep",
        a_problem(MIXTRAL),
        ALL_TO_ALL,
        DEEPEP,
        shared={"sync_free_stage": 2, E: 2},
    ),
    Row(
        "sync-free-needs-whole-experts",
        a_problem(MIXTRAL),
        {ET: 2},
        {ET: 1},
        shared={"sync_free_stage": 2, E: 2, **DEEPEP},
    ),
]
IDS = [f"{row.rule}{'-' if row.note else ''}{row.note}" for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_broken_configuration_breaks_exactly_its_rule(row: Row) -> None:
    verdicts = judge(row.problem, ConfigBatch.of([row.config(row.broken)]))

    assert list(verdicts.violations(0)) == [row.rule]
    assert not verdicts.legal[0]


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_neighbour_is_legal(row: Row) -> None:
    verdicts = judge(row.legal_problem or row.problem, ConfigBatch.of([row.config(row.legal)]))

    assert verdicts.violations(0) == {}
    assert verdicts.legal[0]


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_message_names_a_field_of_the_configuration_or_the_problem(row: Row) -> None:
    (message,) = judge(row.problem, ConfigBatch.of([row.config(row.broken)])).violations(0).values()
    fields = [field.alias or name for name, field in TrainingConfig.model_fields.items()]

    assert message.split()[0] in [*fields, "sequenceLength", "model"]


def test_every_rule_of_every_backend_has_a_row() -> None:
    assert {rule.name for rules in RULES.values() for rule in rules} == {row.rule for row in ROWS}


def test_rule_names_are_unique_within_a_backend() -> None:
    for rules in RULES.values():
        names = [rule.name for rule in rules]
        assert len(names) == len(set(names))
