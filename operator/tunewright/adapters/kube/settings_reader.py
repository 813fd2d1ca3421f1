"""Turns the rest of a TuningRun (search, budget, validation) into what the planner reads. Called by `acceptance`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError

from tunewright.adapters.kube.spec.search import LLMSpec
from tunewright.adapters.kube.spec.tuning_run import TuningRunSpec
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.domain.value import problems_of
from tunewright.errors import InvalidInput
from tunewright.planner.settings import (
    Budget,
    ExploreSettings,
    LLMSettings,
    PlannerSettings,
    Reference,
    ValidationSettings,
)

_PLACES = {
    "Budget": "spec.budget",
    "Cluster": "spec.cluster",
    "ExploreSettings": "spec.explore",
    "LLMSettings": "spec.llm",
    "Reference": "spec.reference",
    "TrainingConfig": "spec.baseline",
    "TuningProblem": "spec.workload",
    "ValidationSettings": "spec.validation",
}
"""Where the values that a spec is turned into come from. Their fields are called as in the spec."""


@contextmanager
def naming_spec_fields() -> Iterator[None]:
    """Turn what an inner value refuses, and the spec let through, into `InvalidInput` that names the spec's field."""
    try:
        yield
    except ValidationError as error:
        raise InvalidInput(problems_of(error, _PLACES.get(error.title, "spec"))) from None


def planner_settings(
    spec: TuningRunSpec,
    problem: TuningProblem,
    baseline: TrainingConfig,
    sweep: tuple[str, ...],
    llm: LLMSpec | None,
) -> PlannerSettings:
    """Return the settings of an accepted spec."""
    document: Mapping[str, Any] = {
        "baseline": baseline,
        "search_space": given_fields(spec.search_space),
        "sweep_axes": sweep,
        "explore": ExploreSettings(**spec.explore.model_dump()),
        "llm": _llm(llm),
        "validation": ValidationSettings(
            top_k=spec.validation.top_k,
            include_baseline=spec.validation.include_baseline,
            nodes=spec.validation.nodes or spec.cluster.nodes,
            steps=spec.validation.steps,
            repeats=spec.validation.repeats,
            early_stop=spec.validation.early_stop,
        ),
        "budget": _budget(spec),
        "parallel_trials": spec.parallel_trials,
        "profile_gpus": problem.cluster.gpus_per_node,
        "reference": _reference(spec),
        "random_seed": spec.random_seed,
        "stop": spec.stop,
    }
    return PlannerSettings.model_validate(document)


def _budget(spec: TuningRunSpec) -> Budget:
    given = spec.budget
    return Budget(
        max_trials=given.max_trials,
        max_failed_trials=given.max_failed_trials,
        max_gpu_hours=_number(given.max_gpu_hours),
        max_duration_seconds=given.max_duration_seconds,
        max_llm_calls=given.max_llm_calls,
        max_llm_tokens=given.max_llm_tokens,
        max_llm_cost_usd=_number(given.max_llm_cost_usd),
    )


def _llm(llm: LLMSpec | None) -> LLMSettings | None:
    if llm is None:
        return None
    price = llm.price
    return LLMSettings(
        model=llm.model,
        max_output_tokens=llm.max_output_tokens,
        input_usd_per_million_tokens=_number(price.input_usd_per_million_tokens) if price else None,
        output_usd_per_million_tokens=_number(price.output_usd_per_million_tokens) if price else None,
    )


def _reference(spec: TuningRunSpec) -> Reference | None:
    given = spec.reference
    if given is None:
        return None
    return Reference(
        tokens_per_second_per_gpu=float(given.tokens_per_second_per_gpu),
        precision=given.precision,
        source=given.source,
    )


def given_fields(model: Any) -> dict[str, Any]:  # noqa: ANN401 - a model built at run time
    """Return the fields that were set, by their Python names."""
    return {} if model is None else dict(model.model_dump(exclude_none=True))


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)
