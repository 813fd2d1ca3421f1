"""The problems of the search benchmark: their spaces, built once. Called by every part of `benchmarks.search`."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.hardware import Cluster
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.planner.settings import Budget, ExploreSettings, PlannerSettings, ValidationSettings
from tunewright.search.space import Space, build_space

_GPUS_PER_NODE = 8


@dataclass(frozen=True)
class Case:
    """One problem: a model of the catalog on MI355X nodes, and what somebody would start from."""

    model: str
    nodes: int
    global_batch_size: int
    sequence_length: int
    precision: str
    baseline: TrainingConfig

    @property
    def name(self) -> str:
        """Model and size, such as `deepseek-v2 256`."""
        return f"{self.model} {self.nodes * _GPUS_PER_NODE}"


CASES = (
    Case(
        "llama-3-70b",
        nodes=4,
        global_batch_size=128,
        sequence_length=8192,
        precision="bf16",
        baseline=TrainingConfig(tensor_parallel_size=8, pipeline_parallel_size=4, cross_entropy_fusion=True),
    ),
    Case(
        "mixtral-8x22b",
        nodes=8,
        global_batch_size=512,
        sequence_length=8192,
        precision="fp8",
        baseline=TrainingConfig(
            pipeline_parallel_size=4, expert_parallel_size=8, cross_entropy_fusion=True, precision="fp8"
        ),
    ),
    Case(
        "deepseek-v2",
        nodes=32,
        global_batch_size=2048,
        sequence_length=4096,
        precision="bf16",
        baseline=TrainingConfig(pipeline_parallel_size=4, expert_parallel_size=32, cross_entropy_fusion=True),
    ),
)
"""A dense model on 32, and two mixtures of experts on 64 and 256 accelerators."""


@cache
def space_of(case: Case) -> Space:
    """Return the enumerated and filtered space of a problem."""
    catalog = shipped_catalog()
    cluster = Cluster(
        nodes=case.nodes,
        gpus_per_node=_GPUS_PER_NODE,
        accelerator=catalog.accelerator("mi355x"),
        network=catalog.network("mi355x-pollara"),
    )
    problem = TuningProblem.model_validate(
        {
            "model": catalog.model(case.model),
            "cluster": cluster,
            "sequence_length": case.sequence_length,
            "global_batch_size": case.global_batch_size,
            "precision": case.precision,
            "backend": "primus",
        }
    )
    return build_space(problem, settings_of(case))


def settings_of(case: Case, profiles: int = 30, measurements: int = 3, **changes: object) -> PlannerSettings:
    """Return planner settings: `profiles` trials, and `measurements` of the best of them. Patience never ends a run."""
    fields: Mapping[str, object] = {
        "baseline": case.baseline,
        "explore": ExploreSettings(strategy="Surrogate", patience=profiles),
        "validation": ValidationSettings(
            top_k=measurements, include_baseline=False, nodes=case.nodes, steps=10, repeats=1
        ),
        "budget": Budget(max_trials=profiles, max_gpu_hours=1e6),
        "profile_gpus": _GPUS_PER_NODE,
    }
    return PlannerSettings.model_validate(dict(fields) | changes)
