"""Experts, dispatchers and what goes with them: `expert_rules`."""

from tests.unit.legality.problems import a_model, a_problem
from tests.unit.legality.rows import ALL_TO_ALL, DEEPEP, ET, MIXTRAL, E, Row, T

ROWS = [
    Row("expert-bias-needs-whole-experts", a_problem("gpt-oss-20b"), {ET: 2}, {ET: 1}),
    Row("expert-tensor-is-one-or-tensor", a_problem(MIXTRAL, backend="torchtitan"), {ET: 4, T: 2}, {ET: 2, T: 2}),
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
