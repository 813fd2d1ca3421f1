"""A check that confuses the three data parallel sizes, and divides without a remainder, against the rules."""

from itertools import product

from tests.property.test_legality import satisfies_group_arithmetic
from tests.unit.legality.problems import a_problem
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.legality import judge

PROBLEM = a_problem("mixtral-8x22b", nodes=8, batch=480)
CONFIGS = [
    TrainingConfig(
        tensor_parallel_size=tensor,
        pipeline_parallel_size=pipeline,
        expert_parallel_size=expert,
        virtual_pipeline_parallel_size=virtual,
        pipeline_schedule="interleaved-1f1b" if virtual > 1 else "1f1b",
        micro_batch_size=micro,
    )
    for tensor, pipeline, expert, virtual, micro in product(
        (1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4), range(1, 9)
    )
]


def confused(problem: TuningProblem, config: TrainingConfig) -> bool:
    """Experts as a factor of the world, their data parallel size for the batch, and no remainders."""
    model_ranks = config.tensor_parallel_size * config.pipeline_parallel_size * config.expert_parallel_size
    data = problem.world_size // model_ranks
    layers = problem.model.num_layers // (config.pipeline_parallel_size * config.virtual_pipeline_parallel_size)
    return data >= 1 and layers >= 1 and problem.global_batch_size // (config.micro_batch_size * data) >= 1


def test_the_rules_accept_nothing_that_cannot_launch_and_the_confused_check_much() -> None:
    legal = judge(PROBLEM, ConfigBatch.of(CONFIGS)).legal
    launches = [satisfies_group_arithmetic(PROBLEM, config) for config in CONFIGS]
    accepted = [confused(PROBLEM, config) for config in CONFIGS]
    wrong = sum(yes and not starts for yes, starts in zip(accepted, launches, strict=True))

    assert sum(bool(yes) and not starts for yes, starts in zip(legal, launches, strict=True)) == 0
    assert wrong / sum(accepted) > 0.39
    assert 0 < legal.sum() < sum(accepted)
