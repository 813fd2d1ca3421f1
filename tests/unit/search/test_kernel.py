from itertools import combinations
from math import comb

import numpy as np
import pytest

from tests.support.builders import mixtral_problem, settings_of, small_space
from tunewright.search.kernel import COMMON_SHARE, axis_kernel, independent_axes
from tunewright.search.space import build_space


def test_axes_that_follow_from_another_are_left_out() -> None:
    problem = mixtral_problem()
    space = build_space(problem, settings_of(problem))
    axes = independent_axes(space)
    assert {"moe_dispatcher", "pipeline_schedule", "tensor_parallel_size"} <= set(axes)
    assert not {"sync_free_stage", "overlap_grad_reduce", "recompute_modules", "precision"} & set(axes)


def test_orders_are_the_sums_over_single_axes_pairs_and_triples() -> None:
    space = small_space()
    kernel = axis_kernel(space)
    rows = space.ranking[:: max(1, len(space.ranking) // 8)]
    features = kernel.features(rows)
    single = [powers[0][codes[rows]] @ powers[0][codes[rows]].T for codes, powers in kernel._tables]
    for order in (1, 2, 3):
        expected = sum(np.prod(group, axis=0) for group in combinations(single, order)) / comb(len(single), order)
        shares = [float(order == number) for number in (1, 2, 3)]
        assert kernel.between(features, features, shares) - COMMON_SHARE == pytest.approx(expected, abs=1e-9)


def test_the_variance_is_the_covariance_with_itself() -> None:
    space = small_space()
    kernel = axis_kernel(space)
    features = kernel.features(space.ranking[:20])
    shares = (0.6, 0.3, 0.1)
    assert kernel.variance(features, shares) == pytest.approx(np.diag(kernel.between(features, features, shares)))


def test_rows_that_differ_in_fewer_axes_are_more_alike() -> None:
    space = small_space()
    kernel = axis_kernel(space)
    codes = np.stack([space.batch.columns[name] for name in independent_axes(space)], axis=1)
    rows = space.ranking[:200]
    differing = (codes[rows] != codes[rows[0]]).sum(axis=1)
    alike = kernel.between(kernel.features(rows[:1]), kernel.features(rows), (0.7, 0.2, 0.1))[0]
    assert alike[differing == 1].mean() > alike[differing == differing.max()].mean()
    assert alike[0] == alike.max()
