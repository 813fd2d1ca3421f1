"""What one launcher alone cannot: `builtin_rules` and `torchtitan_rules`."""

from tests.unit.legality.problems import a_model, a_problem
from tests.unit.legality.rows import ET, FSDP2, MIXTRAL, MODULES, RECOMPUTE, Row, T

ROWS = [
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
]
