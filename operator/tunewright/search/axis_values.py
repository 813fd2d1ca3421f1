"""Which values each axis takes when nobody names others: what an expert would try. Called by `enumeration`.

Values are a superset: the launch rules decide which combinations exist. A person's own values replace a whole axis.
"""

from collections.abc import Iterable, Mapping

from tunewright.domain.axes import AXES, AxisValue, axis_named
from tunewright.domain.config_batch import CATEGORIES, SWITCHES
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import (
    EVEN_LAYOUT,
    MOE_DISPATCHERS,
    PIPELINE_SCHEDULES,
    RECOMPUTE_GRANULARITIES,
    RECOMPUTE_MODULES,
    SHORTER_EDGES_LAYOUT,
    default_recompute_modules,
)
from tunewright.domain.value import camel_case
from tunewright.errors import InvalidInput

LONG_SEQUENCE_TOKENS = 32_768
"""From here on context parallelism is searched without being asked for."""
MOST_VIRTUAL_STAGES = 8
FUSED_LOSS_BACKENDS = frozenset({"primus", "megatron"})
"""Launchers that take a fused loss; torchtitan and the builtin runner compute it plainly."""
MICRO_BATCH_SIZES = tuple(range(1, 9))

Values = tuple[AxisValue, ...]


def axis_values(problem: TuningProblem, search_space: Mapping[str, Values]) -> dict[str, Values]:
    """Return the values of every field, in the order of `AXES`.

    Fields whose default follows from other fields (overlap switches, sync-free stage) are left out unless a person
    names values for them. Raises `InvalidInput` for a value that its field cannot have.
    """
    defaults = _default_values(problem)
    asked = {axis_named(name).field: _checked(axis_named(name).field, values) for name, values in search_space.items()}
    fields = [axis.field for axis in AXES]
    return {field: asked.get(field, defaults.get(field, ())) for field in fields if field in asked or field in defaults}


def divisors(number: int, at_most: int | None = None) -> tuple[int, ...]:
    """Return the divisors of a number, ascending.

    >>> divisors(12, at_most=4)
    (1, 2, 3, 4)
    """
    limit = number if at_most is None else min(number, at_most)
    return tuple(part for part in range(1, limit + 1) if number % part == 0)


def modules_text(modules: Iterable[str]) -> str:
    """Return recompute modules as one axis value, such as ``layernorm+moe_act``."""
    return "+".join(sorted(modules))


def _default_values(problem: TuningProblem) -> dict[str, Values]:
    model, world = problem.model, problem.world_size
    experts = model.experts.num_experts if model.experts else 1
    searches_context = problem.sequence_length >= LONG_SEQUENCE_TOKENS
    return {
        "tensor_parallel_size": divisors(problem.cluster.gpus_per_node),
        "pipeline_parallel_size": divisors(world, at_most=model.num_layers),
        "virtual_pipeline_parallel_size": tuple(range(1, MOST_VIRTUAL_STAGES + 1)),
        "context_parallel_size": divisors(world) if searches_context else (1,),
        "expert_parallel_size": tuple(size for size in divisors(experts) if world % size == 0),
        "expert_tensor_parallel_size": (1,),
        "micro_batch_size": MICRO_BATCH_SIZES,
        "recompute_granularity": RECOMPUTE_GRANULARITIES,
        "recompute_modules": (_modules(problem),),
        "recompute_method": ("uniform",),
        "recompute_num_layers": (1,),
        "moe_dispatcher": MOE_DISPATCHERS if model.is_moe else ("all-to-all",),
        "pipeline_schedule": PIPELINE_SCHEDULES,
        "pipeline_layout": (EVEN_LAYOUT, SHORTER_EDGES_LAYOUT),
        "precision": (problem.precision,),
        "optimizer": (problem.usual_optimizer,),
        "cross_entropy_fusion": (problem.backend in FUSED_LOSS_BACKENDS,),
    }


def _modules(problem: TuningProblem) -> str:
    """What `selective` recomputes; torchtitan's works on operations and names no modules."""
    return "" if problem.backend == "torchtitan" else modules_text(default_recompute_modules(problem.model))


def _checked(field: str, values: Values) -> Values:
    if not values:
        raise InvalidInput.of(
            f"spec.searchSpace.{camel_case(field)}", values, "needs at least one value, or leave the axis out"
        )
    for value in values:
        if problem := _fault(field, value):
            raise InvalidInput.of(f"spec.searchSpace.{camel_case(field)}", value, problem)
    return tuple(dict.fromkeys(sorted(values) if all(isinstance(value, int) for value in values) else values))


def _fault(field: str, value: AxisValue) -> str:
    if field in CATEGORIES:
        return "" if value in CATEGORIES[field] else f"must be one of {', '.join(CATEGORIES[field])}"
    if field in SWITCHES:
        return "" if isinstance(value, bool) else "must be true or false"
    if field == "recompute_modules":
        known = isinstance(value, str) and all(part in RECOMPUTE_MODULES for part in value.split("+"))
        return "" if known else f"must name some of {', '.join(RECOMPUTE_MODULES)}, joined by +"
    if field == "pipeline_layout":
        return "" if isinstance(value, str) else "must be even, shorter-edges or a list such as 7,7,7,6"
    lowest = 0 if field == "sync_free_stage" else 1
    whole = isinstance(value, int) and not isinstance(value, bool)
    return "" if whole and int(value) >= lowest else f"must be a whole number of at least {lowest}"
