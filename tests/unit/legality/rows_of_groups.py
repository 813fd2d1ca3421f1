"""How ranks and sequences are split: `group_rules` and `sequence_rules`."""

from tests.unit.legality.problems import a_model, a_problem
from tests.unit.legality.rows import ET, MIXTRAL, C, E, P, Row, T

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
]
