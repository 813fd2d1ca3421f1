"""Whatever is accepted satisfies the group arithmetic recomputed in plain integers; whatever is refused says why."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.legality.problems import a_problem
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.problem import Backend, TuningProblem
from tunewright.domain.training_config import (
    MOE_DISPATCHERS,
    OPTIMIZERS,
    PIPELINE_SCHEDULES,
    PRECISIONS,
    RECOMPUTE_GRANULARITIES,
    TrainingConfig,
)
from tunewright.legality import judge

MODELS = ("tiny-moe", "llama-3-8b", "mixtral-8x7b", "deepseek-v2-lite", "gpt-oss-20b")
BACKENDS: tuple[Backend, ...] = ("primus", "megatron", "torchtitan", "builtin")
DEGREE = st.sampled_from((1, 1, 2, 3, 4, 8))


def config_of(
    degrees: tuple[int, ...],
    schedule: str,
    recompute: str,
    dispatcher: str,
    precision: str,
    optimizer: str,
    overlap: bool,
) -> TrainingConfig:
    tensor, pipeline, virtual, context, expert, expert_tensor, micro = degrees
    return TrainingConfig.parse(
        {
            "tensor_parallel_size": tensor,
            "pipeline_parallel_size": pipeline,
            "virtual_pipeline_parallel_size": virtual,
            "context_parallel_size": context,
            "expert_parallel_size": expert,
            "expert_tensor_parallel_size": expert_tensor,
            "micro_batch_size": micro,
            "pipeline_schedule": schedule,
            "recompute_granularity": recompute,
            "recompute_modules": ["core_attn"] if recompute == "selective" else [],
            "moe_dispatcher": dispatcher,
            "precision": precision,
            "optimizer": optimizer,
            "overlap_grad_reduce": overlap,
            "overlap_param_gather": overlap,
        }
    )


CONFIGS = st.builds(
    config_of,
    st.tuples(
        DEGREE,
        DEGREE,
        st.sampled_from((1, 1, 2, 4)),
        st.sampled_from((1, 1, 2)),
        DEGREE,
        st.sampled_from((1, 2)),
        DEGREE,
    ),
    st.sampled_from(PIPELINE_SCHEDULES),
    st.sampled_from(RECOMPUTE_GRANULARITIES),
    st.sampled_from(MOE_DISPATCHERS),
    st.sampled_from(PRECISIONS),
    st.sampled_from(OPTIMIZERS),
    st.booleans(),
)
PROBLEMS = st.builds(
    lambda model, nodes, batch, sequence, backend: a_problem(
        model, nodes=nodes, batch=batch, sequence=sequence, backend=backend
    ),
    st.sampled_from(MODELS),
    st.sampled_from((1, 2, 3, 4)),
    st.sampled_from((8, 48, 96, 512)),
    st.sampled_from((1024, 1536, 4096)),
    st.sampled_from(BACKENDS),
)


def satisfies_group_arithmetic(problem: TuningProblem, config: TrainingConfig) -> bool:
    """The whole-number conditions of Megatron-style groups, in plain integers and for one configuration."""
    model, world = problem.model, problem.cluster.nodes * problem.cluster.gpus_per_node
    tensor, pipeline, ring = (
        config.tensor_parallel_size,
        config.pipeline_parallel_size,
        config.context_parallel_size,
    )
    expert, expert_tensor = config.expert_parallel_size, config.expert_tensor_parallel_size
    if world % (tensor * pipeline * ring):
        return False
    data = world // (tensor * pipeline * ring)
    stage_ranks = tensor * ring * data
    micro_batches, rest = divmod(problem.global_batch_size, config.micro_batch_size * data)
    experts = model.experts.num_experts if model.experts else 1
    expert_width = model.experts.expert_ffn_hidden_size if model.experts else 1
    return (
        rest == 0
        and micro_batches >= 1
        and stage_ranks * pipeline == world
        and stage_ranks % (expert * expert_tensor) == 0
        and experts % expert == 0
        and expert_width % expert_tensor == 0
        and model.num_attention_heads % tensor == 0
        and problem.cluster.gpus_per_node % tensor == 0
        and model.num_layers % (pipeline * config.virtual_pipeline_parallel_size) == 0
        and (ring == 1 or problem.sequence_length % (2 * ring) == 0)
        and (problem.sequence_length // ring) % tensor == 0
    )


@settings(max_examples=60)
@given(problem=PROBLEMS, configs=st.lists(CONFIGS, min_size=1, max_size=40))
def test_accepted_configurations_satisfy_the_group_arithmetic(
    problem: TuningProblem, configs: list[TrainingConfig]
) -> None:
    legal = judge(problem, ConfigBatch.of(configs)).legal

    for config, accepted in zip(configs, legal, strict=True):
        assert not accepted or satisfies_group_arithmetic(problem, config)


@settings(max_examples=40)
@given(problem=PROBLEMS, configs=st.lists(CONFIGS, min_size=1, max_size=20))
def test_refused_configurations_name_a_rule_and_accepted_ones_none(
    problem: TuningProblem, configs: list[TrainingConfig]
) -> None:
    verdicts = judge(problem, ConfigBatch.of(configs))

    for row in range(len(configs)):
        violations = verdicts.violations(row)
        assert bool(violations) is not bool(verdicts.legal[row])
        assert all(violations.values())


@settings(max_examples=30)
@given(problem=PROBLEMS, configs=st.lists(CONFIGS, min_size=1, max_size=12))
def test_a_row_of_a_batch_is_judged_as_if_it_were_alone(problem: TuningProblem, configs: list[TrainingConfig]) -> None:
    together = judge(problem, ConfigBatch.of(configs))

    for row, config in enumerate(configs):
        assert judge(problem, ConfigBatch.of([config])).violations(0) == together.violations(row)


@settings(max_examples=60)
@given(problem=PROBLEMS, degrees=st.tuples(DEGREE, DEGREE, DEGREE, DEGREE))
def test_plain_configurations_that_satisfy_the_arithmetic_are_accepted_by_megatron(
    problem: TuningProblem, degrees: tuple[int, int, int, int]
) -> None:
    tensor, pipeline, expert, micro = degrees
    config = TrainingConfig(
        tensor_parallel_size=tensor,
        pipeline_parallel_size=pipeline,
        expert_parallel_size=expert if problem.model.is_moe else 1,
        micro_batch_size=micro,
    )
    problem = problem.model_copy(update={"backend": "megatron"})
    groups = problem.model.num_key_value_heads
    shares_heads = problem.model.latent_attention is not None or groups % tensor == 0 or tensor % groups == 0
    widths = [problem.model.ffn_hidden_size if problem.model.num_dense_layers else 0]
    widths.append(problem.model.experts.shared_expert_ffn_hidden_size if problem.model.experts else 0)
    expected = (
        satisfies_group_arithmetic(problem, config) and shares_heads and not any(width % tensor for width in widths)
    )

    assert bool(judge(problem, ConfigBatch.of([config])).legal[0]) is expected
