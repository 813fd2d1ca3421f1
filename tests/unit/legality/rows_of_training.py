"""Recomputation, optimizer, overlap and number formats: `training_rules` and `precision_rules`."""

from tests.unit.legality.problems import a_model, a_problem
from tests.unit.legality.rows import ET, FSDP2, MIXTRAL, MODULES, NO_OVERLAP, RECOMPUTE, SCHEDULE, B, E, P, Row, T

ROWS = [
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
]
