"""Rows, and perhaps pairs of them that match -> the mean to subtract and the directions to multiply with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.memory import NotEnoughMemory, allowed_bytes, in_words
from kinrank.whitening.blocks import Floats, Numbers, blocks, ranges, unit_rows

LEAST = 1e-6  # share of the largest variance below which a direction is left out
NOTHING = 1e-6  # length up to which what is left of a row of length one is rounding
JITTER = 1e-10  # the first that is added to a matrix which has no Cholesky factor; ten times as much each time


class AllTheSame(ValueError):
    """Vectors that do not differ have no direction to learn."""


class Fitted(NamedTuple):
    """What was learned: (d,) mean, (d, r) projection, and single numbers about it."""

    mean: Floats
    projection: Floats
    facts: dict[str, float]


def by_variance(rows: NDArray[Any], name: str, dimensions: int | None, power: float) -> Fitted:
    """PCA: directions by falling variance v, each multiplied by v^-power; the covariance divides by the rows."""
    count, columns = rows.shape
    _check_memory(min(count, columns), columns)
    mean = _sum(blocks(rows, name), lambda block: block.sum(axis=0)) / count
    if count < columns:  # as many directions as rows: those of the small matrix of inner products
        moved = np.concatenate([block - mean for block in blocks(rows, name)])
        values, vectors = _falling(moved @ moved.T / count)
        values, vectors = _kept(values, vectors, name)
        vectors = moved.T @ (vectors / np.sqrt(count * values))
    else:
        values, vectors = _falling(_sum(blocks(rows, name), lambda block: _squares(block - mean)) / count)
        values, vectors = _kept(values, vectors, name)
    wanted = _wanted(dimensions, len(values), rows.shape, name)
    if power > 0.25 and wanted >= count - 1:
        warnings.warn(
            f"{name} has {count} rows for {wanted} directions: at power {power:g} they come to lie nearly equally far "
            "from one another; give more rows, fewer dimensions or a lower power",
            stacklevel=3,
        )
    facts = {"vectors": float(count), "variance": float(values[:wanted].sum() / values.sum())}
    return Fitted(mean, _signed(vectors[:, :wanted] * values[:wanted] ** -power), facts)


def by_pairs(rows: NDArray[Any], name: str, pairs: Numbers, dimensions: int | None, power: float) -> Fitted:
    """Learned whitening: directions in which matching rows differ are damped; then PCA of what comes out.

    With S the mean of (x_i - x_j)(x_i - x_j)' over the pairs, not centred, rows are multiplied by S^-power, and turned
    to the principal directions of all rows about the mean of those that stand first in a pair.
    """
    count, columns = rows.shape
    _check_memory(columns, columns)
    if len(pairs) < columns:
        warnings.warn(
            f"pairs has {len(pairs)} rows for {columns} dimensions: directions in which no pair differs count most; "
            "give more pairs than there are dimensions",
            stacklevel=3,
        )
    some = list(ranges(len(pairs), columns))
    left, right = ([pairs[numbers, side] for numbers in some] for side in (0, 1))
    mean = _sum((unit_rows(rows[one], name, one) for one in left), lambda block: block.sum(axis=0)) / len(pairs)
    differences = (
        unit_rows(rows[one], name, one) - unit_rows(rows[other], name, other)
        for one, other in zip(left, right, strict=True)
    )
    lower, jitter = jittered_cholesky(_sum(differences, _squares) / len(pairs))
    axes, lengths, _ = np.linalg.svd(lower)  # S = lower lower', so that its variances are squares of these lengths
    damped = axes * lengths ** (-2.0 * power)
    values, vectors = _falling(_sum(blocks(rows, name), lambda block: _squares((block - mean) @ damped)) / count)
    values, vectors = _kept(values, vectors, name)
    wanted = _wanted(dimensions, len(values), rows.shape, name)
    share = float(values[:wanted].sum() / values.sum())
    facts = {"vectors": float(count), "pairs": float(len(pairs)), "variance": share, "jitter": jitter}
    return Fitted(mean, _signed(damped @ vectors[:, :wanted]), facts)


def jittered_cholesky(matrix: Floats) -> tuple[Floats, float]:
    """(d, d) lower factor of a matrix, and what had to be added to its diagonal: 0, 1e-10, 1e-9, ..."""
    jitter = 0.0
    while True:
        try:
            return np.asarray(np.linalg.cholesky(matrix + jitter * np.eye(len(matrix))), np.float64), jitter
        except np.linalg.LinAlgError:
            jitter = 10.0 * jitter or JITTER


def _sum(parts: Iterable[Floats], function: Callable[[Floats], Floats]) -> Floats:
    """The sum of what a function makes of every block, of which one is in memory at a time."""
    total: Any = 0.0
    for block in parts:
        total = total + function(block)
    return np.asarray(total, np.float64)


def _squares(block: Floats) -> Floats:
    return np.asarray(block.T @ block)


def _falling(matrix: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues of a symmetric matrix, the largest first, and their vectors as columns."""
    values, vectors = np.linalg.eigh(matrix)
    return values[::-1], vectors[:, ::-1]


def _kept(values: Floats, vectors: Floats, name: str) -> tuple[Floats, Floats]:
    """Without the directions of next to no variance."""
    if values[0] <= NOTHING**2:
        raise AllTheSame(
            f"{name} has {'one row' if len(values) == 1 else 'rows that are all the same'}; whitening is learned "
            "from rows that differ, best from thousands: give those of a gallery"
        )
    kept = values > LEAST * values[0]
    return values[kept], vectors[:, kept]


def _wanted(dimensions: int | None, there: int, shape: tuple[int, ...], name: str) -> int:
    """How many directions to keep."""
    if dimensions is None:
        return there
    if dimensions > shape[1]:
        raise ValueError(
            f"dimensions={dimensions} is not allowed; {name} has {shape[1]} of them: give as many or fewer"
        )
    if dimensions > there:
        raise ValueError(
            f"dimensions={dimensions} is not allowed; the {shape[0]} rows of {name} differ in {there} directions only: "
            f"give a number up to {there}, or more rows"
        )
    return dimensions


def _signed(projection: Floats) -> Floats:
    """Columns turned so that the entry of largest size is positive: the same rows always give the same bits."""
    largest = np.abs(projection).argmax(axis=0)
    return projection * np.where(projection[largest, np.arange(projection.shape[1])] < 0, -1.0, 1.0)


def _check_memory(side: int, columns: int) -> None:
    needed, free = 8 * side * (4 * side + columns), allowed_bytes()
    if needed > free:
        raise NotEnoughMemory(
            f"learning a whitening of {columns} dimensions takes {in_words(needed)} but only {in_words(free)} are "
            "free; give vectors of fewer dimensions"
        )
