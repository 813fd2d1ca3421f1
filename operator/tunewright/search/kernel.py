"""How alike two rows are expected to err: effects of single axes, of pairs and of triples. Called by `surrogate`.

The kernel is the sum over orders of the elementary symmetric polynomials of one kernel per axis (Duvenaud, Nickisch,
Rasmussen 2011, "Additive Gaussian processes", equations 4 to 7). The kernels of axes are centred, so that a pair's part
holds only what its two axes do not explain alone; products of matrices of features give all orders at once.
"""

from collections.abc import Collection, Mapping, Sequence
from math import comb

import numpy as np

from tunewright.domain.axes import AXES
from tunewright.domain.config_batch import FloatArray, IntArray
from tunewright.search.space import Space

ORDERS = 3
"""Synergies of up to three axes are told apart."""
SMOOTH_SHARE = 0.3
"""Part of a degree's effect that neighbouring degrees share; the rest belongs to each value."""
COMMON_SHARE = 0.3
"""Variance that all rows have in common, relative to the rest: an error that changes no ranking."""

ALL_FIELDS = tuple(axis.field for axis in AXES)

Features = tuple[FloatArray, ...]
"""Rows whose products with other rows are the sums over axes of the first, second and third power of their kernels."""


class AxisKernel:
    """The kernels of some axes of a space. Orders are weighted by `shares`, which add up to one."""

    def __init__(self, space: Space, fields: Collection[str]) -> None:
        self._tables: list[tuple[IntArray, Features]] = []
        for name in independent_axes(space, fields):
            values, codes = np.unique(space.batch.columns[name], return_inverse=True)
            kernel = _axis_kernel(values, is_degree=_IS_DEGREE[name])
            powers = tuple(_factor(kernel**power) for power in range(1, ORDERS + 1))
            self._tables.append((codes.reshape(-1), powers))

    def features(self, rows: IntArray) -> Features:
        """Return the features of rows."""
        constant = np.zeros((len(rows), 1))
        return tuple(
            np.concatenate([constant, *(powers[order][codes[rows]] for codes, powers in self._tables)], axis=1)
            for order in range(ORDERS)
        )

    def between(self, left: Features, right: Features, shares: Sequence[float]) -> FloatArray:
        """Return the covariances of two sets of rows, shape (left, right)."""
        return self._orders([one @ other.T for one, other in zip(left, right, strict=True)], shares)

    def variance(self, rows: Features, shares: Sequence[float]) -> FloatArray:
        """Return the variance of each row."""
        return self._orders([np.einsum("ij,ij->i", part, part) for part in rows], shares)

    def _orders(self, sums: Sequence[FloatArray], shares: Sequence[float]) -> FloatArray:
        """Weigh the elementary symmetric polynomials, from power sums by Newton's identities."""
        first, second, third = sums
        pairs = (first * first - second) / 2
        triples = (pairs * first - first * second + third) / 3
        axes = len(self._tables)
        polynomials = (first, pairs, triples)
        total = np.full_like(first, COMMON_SHARE)
        for order, (share, polynomial) in enumerate(zip(shares, polynomials, strict=True), start=1):
            total += share / max(comb(axes, order), 1) * polynomial
        return total


def axis_kernel(space: Space, fields: Collection[str] = ALL_FIELDS) -> AxisKernel:
    """Return the kernel of a space over some fields, built once."""
    key = ("axis kernel", tuple(fields))
    if key not in space.memo:
        space.memo[key] = AxisKernel(space, fields)
    kernel: AxisKernel = space.memo[key]
    return kernel


def independent_axes(space: Space, fields: Collection[str] = ALL_FIELDS) -> tuple[str, ...]:
    """Return the fields that vary, without those that follow from one other field, such as overlap from schedule."""
    codes = {name: _codes(space.batch.columns[name]) for name in ALL_FIELDS if name in fields}
    counts = {name: int(code.max(initial=-1)) + 1 for name, code in codes.items()}
    kept: list[str] = []
    for name in sorted(counts, key=lambda field: -counts[field]):
        if counts[name] > 1 and not any(_follows(codes[name], codes[other], counts[name]) for other in kept):
            kept.append(name)
    return tuple(kept)


def _codes(column: IntArray) -> IntArray:
    return np.unique(column, return_inverse=True)[1].reshape(-1)


def _follows(code: IntArray, other: IntArray, count: int) -> bool:
    """Tell whether each value of `other` goes with only one value of `code`."""
    return len(np.unique(other * count + code)) == len(np.unique(other))


def _axis_kernel(values: IntArray, *, is_degree: bool) -> FloatArray:
    """Return the centred kernel of one axis, shape (values, values), with a variance of one on average."""
    kernel = np.eye(len(values))
    if is_degree:
        position = np.log2(np.maximum(values, 0.5))
        smooth = np.exp(-0.5 * (position[:, None] - position[None, :]) ** 2)
        kernel = (1 - SMOOTH_SHARE) * kernel + SMOOTH_SHARE * smooth
    centring = np.eye(len(values)) - 1 / len(values)
    centred: FloatArray = centring @ kernel @ centring
    return centred * (len(values) / np.trace(centred))


def _factor(kernel: FloatArray) -> FloatArray:
    """Return rows whose inner products are the kernel. Powers of a kernel, elementwise, are kernels too (Schur)."""
    values, vectors = np.linalg.eigh(kernel)
    factor: FloatArray = vectors * np.sqrt(np.maximum(values, 0.0))
    return factor


_IS_DEGREE: Mapping[str, bool] = {axis.field: axis.kind == "degree" for axis in AXES}
