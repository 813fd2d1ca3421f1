"""The enumeration against a second one in plain Python, written from the launch rules and not from the code."""

import time
from collections.abc import Iterator
from itertools import product

import pytest

from tests.support.builders import a_cluster, a_model, a_moe_model, a_problem, mixtral_problem
from tunewright import legality
from tunewright.domain.config_batch import FIELDS, ConfigBatch
from tunewright.domain.value import camel_case
from tunewright.errors import InvalidInput
from tunewright.search.axis_values import axis_values
from tunewright.search.enumeration import enumerate_space

MIXTRAL_POINTS = 6699
"""Mixtral 8x22B, 8 x 8 MI355X, batch 512, sequence 8192, Primus: what the loops below count."""


def shorter_edges(layers: int, ranks: int, chunks: int) -> list[int] | None:
    """Equal middle ranks of ceil(L / P) layers in whole chunks, the rest split over both ends, the last no longer."""
    if ranks == 1 or layers % chunks:
        return None
    middle = chunks
    while middle * ranks < layers:
        middle += chunks
    rest = layers - middle * (ranks - 2)
    last = 0
    while (last + chunks) * 2 <= rest:
        last += chunks
    first = rest - last
    return [first, *[middle] * (ranks - 2), last] if last > 0 and first <= middle else None


def layouts(layers: int, ranks: int, chunks: int) -> list[str]:
    if layers % (ranks * chunks) == 0:
        return ["even"]
    return ["shorter-edges"] if shorter_edges(layers, ranks, chunks) else []


def stages(micro_batches: int, ranks: int) -> Iterator[tuple[str, int]]:
    yield "1f1b", 1
    if ranks == 1:
        return
    if micro_batches % ranks == 0:
        yield from (("interleaved-1f1b", chunks) for chunks in range(2, 9))
    yield "zero-bubble-h1", 1
    yield "zero-bubble-h2", 1
    if micro_batches >= 2 * ranks - 1:
        yield "zero-bubble-v", 2
    yield "v-half", 2
    yield "v-min", 2


def mixtral_by_hand() -> Iterator[tuple[object, ...]]:
    world, layers, heads, groups, experts, batch = 64, 56, 48, 8, 8, 512
    for tensor, ranks, expert, size in product((1, 2, 4, 8), range(1, layers + 1), range(1, 9), range(1, 9)):
        if world % (tensor * ranks) or heads % tensor or groups % tensor or experts % expert:
            continue
        data = world // (tensor * ranks)
        if world % (expert * ranks) or batch % (size * data):
            continue
        for schedule, chunks in stages(batch // (size * data), ranks):
            splits_backward = schedule not in ("1f1b", "interleaved-1f1b")
            for layout in layouts(layers, ranks, chunks):
                for recompute in ("none",) if splits_backward else ("none", "selective", "full"):
                    for dispatcher in ("all-to-all", "deepep") if expert > 1 else ("all-to-all",):
                        yield tensor, ranks, expert, size, schedule, chunks, layout, recompute, dispatcher


def test_mixtral_has_exactly_the_points_of_a_brute_force_enumeration() -> None:
    batch = enumerate_space(mixtral_problem(), {})
    found = {
        (
            config.tensor_parallel_size,
            config.pipeline_parallel_size,
            config.expert_parallel_size,
            config.micro_batch_size,
            config.pipeline_schedule,
            config.virtual_pipeline_parallel_size,
            config.pipeline_layout,
            config.recompute_granularity,
            config.moe_dispatcher,
        )
        for config in batch.configs()
    }
    assert found == set(mixtral_by_hand())
    assert len(found) == len(batch) == MIXTRAL_POINTS


def test_dependent_fields_follow_the_schedule_and_the_dispatcher() -> None:
    batch = enumerate_space(mixtral_problem(), {})
    split = ~batch.is_("pipeline_schedule", "1f1b", "interleaved-1f1b")
    assert ((batch.overlap_grad_reduce == 0) == split).all()
    assert ((batch.overlap_param_gather == 0) == split).all()
    assert ((batch.sync_free_stage == 1) == batch.is_("moe_dispatcher", "deepep")).all()
    assert (batch.cross_entropy_fusion == 1).all()
    selective = batch.is_("recompute_granularity", "selective")
    assert ((batch.recompute_modules > 0) == selective).all()


def test_sync_free_stays_off_on_other_devices() -> None:
    batch = enumerate_space(mixtral_problem(cluster=a_cluster("mi300x", nodes=8, gpus_per_node=8)), {})
    assert batch.is_("moe_dispatcher", "deepep").any()
    assert (batch.sync_free_stage == 0).all()


@pytest.mark.parametrize("backend", ["primus", "megatron", "torchtitan", "builtin"])
@pytest.mark.parametrize("model", [a_model(), a_moe_model()], ids=["dense", "moe"])
def test_every_point_is_legal_and_none_repeats(backend: str, model: object) -> None:
    problem = a_problem(backend=backend, model=model)
    batch = enumerate_space(problem, {})
    assert legality.judge(problem, batch).legal.all()
    rows = {tuple(int(batch.columns[name][row]) for name in FIELDS) for row in range(len(batch))}
    assert len(rows) == len(batch) > 0


def test_equal_inputs_give_equal_batches() -> None:
    first, second = enumerate_space(a_problem(), {}), enumerate_space(a_problem(), {})
    assert all((first.columns[name] == second.columns[name]).all() for name in FIELDS)


def test_context_is_searched_for_long_sequences_only() -> None:
    assert set(enumerate_space(a_problem(sequence_length=16_384), {}).context_parallel_size) == {1}
    assert set(enumerate_space(a_problem(sequence_length=32_768), {}).context_parallel_size) == {1, 2, 4, 8}
    asked = enumerate_space(a_problem(), {"context_parallel_size": (1, 2)})
    assert set(asked.context_parallel_size) == {1, 2}


def test_named_values_replace_an_axis() -> None:
    batch = enumerate_space(a_problem(), {"micro_batch_size": (2, 4), "pipelineSchedule": ("1f1b",)})
    assert set(batch.micro_batch_size) == {2, 4}
    assert batch.is_("pipeline_schedule", "1f1b").all()


def test_switches_that_are_asked_for_are_searched_where_they_are_legal() -> None:
    batch = enumerate_space(a_problem(), {"overlap_grad_reduce": (True, False)})
    plain = batch.is_("pipeline_schedule", "1f1b")
    assert set(batch.overlap_grad_reduce[plain]) == {0, 1}
    assert set(batch.overlap_grad_reduce[~plain & (batch.is_("pipeline_schedule", "zero-bubble-h1"))]) == {0}
    assert (batch.overlap_param_gather <= batch.overlap_grad_reduce).all()


def test_explicit_layouts_and_modules_are_searched() -> None:
    batch = enumerate_space(
        a_problem(),
        {"pipeline_layout": ("even", "3,5"), "recompute_modules": ("mlp", "core_attn+mlp")},
    )
    assert "3,5" in set(batch.layout_names)
    modules = {config.recompute_modules for config in batch.configs()}
    assert modules == {(), ("mlp",), ("core_attn", "mlp")}


def test_layers_that_do_not_divide_get_shorter_edges() -> None:
    batch = enumerate_space(a_problem(model=a_model(num_layers=9)), {})
    piped = batch.pipeline_parallel_size > 1
    assert piped.any()
    assert set(batch.layout_names[piped]) == {"shorter-edges"}


@pytest.mark.parametrize(
    ("field", "values", "remedy"),
    [
        ("micro_batch_size", (0,), "whole number of at least 1"),
        ("pipeline_schedule", ("2f2b",), "must be one of 1f1b"),
        ("overlap_grad_reduce", ("on",), "true or false"),
        ("recompute_modules", ("attention",), "joined by +"),
        ("tensor_parallel_size", (), "at least one value"),
    ],
)
def test_impossible_values_are_named(field: str, values: tuple[object, ...], remedy: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        enumerate_space(a_problem(), {field: values})  # type: ignore[dict-item]
    assert f"spec.searchSpace.{camel_case(field)}" in str(caught.value)
    assert remedy in str(caught.value)


def test_a_product_that_no_memory_holds_is_refused() -> None:
    wide = {"recompute_num_layers": tuple(range(1, 4000)), "micro_batch_size": tuple(range(1, 64))}
    with pytest.raises(InvalidInput, match="name fewer values"):
        enumerate_space(mixtral_problem(), wide)


def test_no_legal_point_is_an_empty_batch() -> None:
    batch = enumerate_space(a_problem(), {"tensor_parallel_size": (3,)})
    assert isinstance(batch, ConfigBatch)
    assert len(batch) == 0


def test_a_hundred_thousand_raw_points_take_a_fraction_of_a_second() -> None:
    problem = mixtral_problem()
    enumerate_space(problem, {})
    started = time.perf_counter()
    enumerate_space(problem, {"recompute_modules": ("layernorm", "moe_act", "core_attn"), "sync_free_stage": (0, 1, 2)})
    assert time.perf_counter() - started < 3.0


@pytest.mark.parametrize(
    ("backend", "optimizer"),
    [("primus", "distributed"), ("megatron", "distributed"), ("torchtitan", "fsdp2"), ("builtin", "distributed")],
)
def test_states_are_spread_as_the_launcher_does_unless_somebody_says_otherwise(backend: str, optimizer: str) -> None:
    problem = a_problem(backend=backend)
    assert axis_values(problem, {})["optimizer"] == (problem.usual_optimizer,) == (optimizer,)
    assert axis_values(problem, {"optimizer": ("replicated",)})["optimizer"] == ("replicated",)
