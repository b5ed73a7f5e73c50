"""Rows enriched by their neighbours: weighted sums, or the normal of a separating plane."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.neighbors import Integers, Neighbors, find_nearest, half_squares, pairwise_distances, pairwise_similarities
from kinrank.progress import Progress
from kinrank.stages.csr import matrix_from_lists
from kinrank.stages.kernels.compiler import compile_inner, compile_kernel, run_in_chunks
from kinrank.vector_input import Vectors

MIN_LENGTH = 1e-6  # a shorter sum of unit vectors has no direction: its row stays as it was
PLANES_PER_BLOCK = 512  # separating planes between two progress reports
RIDGE = 1e-8  # 1 / C of the squared slack: far below any real margin, far above rounding in float64
MARGIN_TOLERANCE = 1e-13  # allowed violation of an optimality condition


def weighted_sum(rows: Vectors, gallery: Vectors, others: Neighbors, weights: Vectors, unit: bool = True) -> Vectors:
    """Return l2(row + sum_i weight_i neighbour_i), (n, d), by one sparse product, without an (n, k, d) array.

    If rows do not have length one (`unit`), the sum gets the mean length of its summands.

    Example:
        >>> weighted_sum(rows, gallery, others, np.ones(others.indices.shape, np.float32))
    """
    sums = matrix_from_lists(others.indices, weights, len(gallery)) @ gallery
    sums += rows
    return _rescale_sums(sums, rows, None if unit else _mean_lengths(rows, gallery, others, weights))


def find_farthest(
    rows: Vectors, gallery: Vectors, count: int, own: Integers | None, unit: bool = True
) -> NDArray[np.int32]:
    """Return the last `count` positions of every row's ranking, the very last one first, without `own`.

    The farthest from x are the nearest to -x. The gallery is read backwards, because a ranking puts the lower of two
    equal items first, so its end holds the higher one. If rows do not have length one (`unit`), all are compared.
    """
    last = len(gallery) - 1
    backwards = np.ascontiguousarray(gallery[::-1])
    if not unit:
        return _find_farthest_by_distance(rows, backwards, count, own)
    mirrored = None if own is None else last - own
    return (last - find_nearest(-rows, backwards, count, own=mirrored, self_first=False).indices).astype(np.int32)


def _find_farthest_by_distance(
    rows: Vectors, backwards: Vectors, count: int, own: Integers | None
) -> NDArray[np.int32]:
    """Compare all distances; for rows of any length."""
    last = len(backwards) - 1
    far = np.empty((len(rows), count), np.int32)
    for start in range(0, len(rows), PLANES_PER_BLOCK):
        block = slice(start, start + PLANES_PER_BLOCK)
        distances = pairwise_distances(rows[block], backwards, unit=False)
        if own is not None:
            distances[np.arange(len(distances)), last - own[block]] = -1.0
        far[block] = last - np.argsort(-distances, axis=1, kind="stable")[:, :count]
    return far


def max_margin_normals(
    rows: Vectors, gallery: Vectors, others: Neighbors, far: NDArray[np.int32], progress: Progress, unit: bool = True
) -> Vectors:
    """Return the unit normals of the widest margin between {row, neighbours} and {far items}: (n, d).

    If rows do not have length one (`unit`), a normal gets the mean length of the row and its neighbours.

    Hard-margin linear SVM, max 1'a - 1/2 a'Ha with a >= 0, y'a = 0, H_ij = y_i y_j <x_i, x_j>, solved in the
    equivalent form of the two nearest points of the convex hulls. Sets that no plane separates make the hard
    dual unbounded, so violations cost C = 1e8 times their square. Without far items: the plain average.
    """
    if not far.shape[1]:
        return weighted_sum(rows, gallery, others, np.ones(others.indices.shape, np.float32), unit)
    wanted = None if unit else _mean_lengths(rows, gallery, others, np.ones(others.indices.shape, np.float32))
    result = np.empty(rows.shape, np.float32)
    starts = range(0, len(rows), PLANES_PER_BLOCK)
    for start in progress.each("separating planes", starts, len(starts)):
        block = slice(start, start + PLANES_PER_BLOCK)
        near = others.indices[block]
        normals = np.empty(rows[block].shape, np.float64)
        weights = np.empty((len(near), 1 + near.shape[1] + far.shape[1]), np.float64)
        sides = MarginSides(rows[block], gallery, near, far[block])
        run_in_chunks(write_margin_normals, len(near), sides, normals, weights, chunk=32)
        result[block] = _rescale_sums(normals, rows[block], None if wanted is None else wanted[block], vanished=1e-12)
    return result


def find_nearest_within(items: Vectors, k: int, unit: bool = True) -> tuple[Integers, NDArray[np.float32]]:
    """Return every item and its k nearest among the given items, (m, d): positions and similarities, both (m, 1 + k).

    Each item comes first in its row, even among duplicates; there are at most m - 1 others. Runs on the calling thread,
    because callers distribute queries over threads.
    """
    shape = (len(items), 1 + min(k, len(items) - 1))
    positions, products = np.empty(shape, np.int64), np.empty(shape, np.float32)
    run_in_chunks(
        keep_nearest, len(items), pairwise_similarities(items, items, unit), positions, products, chunk=len(items)
    )
    return positions, products


def _rescale_sums(
    sums: NDArray[np.floating], rows: Vectors, wanted: Vectors | None = None, vanished: float = MIN_LENGTH
) -> Vectors:
    """Scale the sums to length one, or to `wanted` lengths (n, 1); if a sum cancelled out, return its original row."""
    lengths = np.sqrt(np.einsum("ij,ij->i", sums, sums, dtype=np.float64))
    gone = lengths < vanished
    lengths[gone] = 1.0
    unit: Vectors = (sums / lengths[:, None]).astype(np.float32)
    if wanted is not None:
        unit *= wanted
    unit[gone] = rows[gone]
    return unit


def _mean_lengths(rows: Vectors, gallery: Vectors, others: Neighbors, weights: Vectors) -> Vectors:
    """Return (n, 1) the weighted mean length of each row and its neighbours; negative weights count as positive."""
    weights = np.abs(weights)
    own, lengths = (np.sqrt(2.0 * half_squares(part)) for part in (rows, gallery))
    total = own + (weights * lengths[others.indices]).sum(axis=1)
    return np.asarray(total / (1.0 + weights.sum(axis=1)), np.float32)[:, None]


@compile_inner
def _solve_on_active(signed: Any, active: Any, size: Any, positives: Any, factor: Any, left: Any, right: Any) -> Any:
    """Minimise z'Kz over the active points, each side's weights summing to one, signs free.

    K = L L' (Cholesky); z = a inverse(K) e_positive + b inverse(K) e_negative. `left` receives z. signed (m, m), factor
    (m, m), left and right (m,) float64; active (m,) int64, of which the first `size` count. Returns False if K is
    singular.
    """
    for row in range(size):
        for column in range(row + 1):
            total = signed[active[row], active[column]]
            for place in range(column):
                total -= factor[row, place] * factor[column, place]
            if column < row:
                factor[row, column] = total / factor[column, column]
            elif total <= 0.0:
                return False
            else:
                factor[row, row] = np.sqrt(total)
    for row in range(size):
        one, other = 0.0, 1.0
        if active[row] < positives:
            one, other = 1.0, 0.0
        for place in range(row):
            one -= factor[row, place] * left[place]
            other -= factor[row, place] * right[place]
        left[row] = one / factor[row, row]
        right[row] = other / factor[row, row]
    for row in range(size - 1, -1, -1):
        one, other = left[row], right[row]
        for place in range(row + 1, size):
            one -= factor[place, row] * left[place]
            other -= factor[place, row] * right[place]
        left[row] = one / factor[row, row]
        right[row] = other / factor[row, row]
    pp, pn, nn = 0.0, 0.0, 0.0
    for row in range(size):
        if active[row] < positives:
            pp += left[row]
            pn += right[row]
        else:
            nn += right[row]
    determinant = pp * nn - pn * pn
    if determinant <= 0.0:
        return False
    a, b = (nn - pn) / determinant, (pp - pn) / determinant
    for row in range(size):
        left[row] = a * left[row] + b * right[row]
    return True


@compile_inner
def _find_worst_violation(signed: Any, weights: Any, active: Any, size: Any, positives: Any, gradient: Any) -> Any:
    """Return the point outside the active set that shortens the distance of the two hulls most, or -1.

    signed, active, size, positives as in `_solve_on_active`; weights (m,) float64; gradient (m,) float64, written.
    """
    count = len(weights)
    level_positive, level_negative = 0.0, 0.0
    for point in range(count):
        total = 0.0
        for entry in range(size):
            total += signed[point, active[entry]] * weights[active[entry]]
        gradient[point] = total
        if point < positives:
            level_positive += weights[point] * total
        else:
            level_negative += weights[point] * total
    best, worst = -1, -MARGIN_TOLERANCE
    for point in range(count):
        excess = gradient[point] - (level_positive if point < positives else level_negative)
        if weights[point] == 0.0 and excess < worst:
            best, worst = point, excess
    return best


@compile_inner
def _find_widest_margin(signed: Any, positives: Any, weights: Any, active: Any, work: Any) -> None:
    """Find the nearest points of two convex hulls; the first `positives` points are one side.

    signed (m, m): y_i y_j <x_i, x_j> + RIDGE on the diagonal. weights (m,): non-negative, each side sums to
    one. Points enter one at a time, the most violated first, and leave when their weight would turn
    negative, so the steps are finite and the answer is exact to rounding. active (m,) int64 and work (m + 3, m) float64
    are work arrays.
    """
    count = len(signed)
    factor, left, right, gradient = work[:count], work[count], work[count + 1], work[count + 2]
    weights[:] = 0.0
    active[0], active[1], size = 0, positives, 0 * count + 2  # a literal would have another type
    weights[0], weights[positives] = 1.0, 1.0
    for _ in range(20 * count):
        entering = _find_worst_violation(signed, weights, active, size, positives, gradient)
        if entering < 0:
            return
        active[size] = entering
        size += 1
        while True:
            if not _solve_on_active(signed, active, size, positives, factor, left, right):
                return  # singular to rounding: the current weights are the answer
            step, leaving = 1.0, -1
            for entry in range(size):
                if left[entry] <= 0.0:
                    have = weights[active[entry]]
                    allowed = have / (have - left[entry]) if have > left[entry] else 0.0
                    if leaving < 0 or allowed < step:
                        step, leaving = allowed, active[entry]
            for entry in range(size):
                have = weights[active[entry]]
                weights[active[entry]] = left[entry] if leaving < 0 else have + step * (left[entry] - have)
            if leaving < 0:
                break
            weights[leaving] = 0.0
            if leaving == entering:  # progress has fallen below rounding
                return
            kept = 0
            for entry in range(size):
                if active[entry] != leaving:
                    active[kept] = active[entry]
                    kept += 1
            size = kept


class MarginSides(NamedTuple):
    """Sides to separate, {row, near} and {far}: rows (n, d) and gallery (g, d) float32.

    near (n, k) and far (n, f) int32: positions in the gallery.
    """

    rows: Vectors
    gallery: Vectors
    near: NDArray[np.int32]
    far: NDArray[np.int32]


@compile_kernel
def write_margin_normals(start: Any, stop: Any, sides: Any, normals: Any, weights: Any) -> None:
    """Write the normals of the widest margin between two sides and their weights; rows start..stop.

    sides: MarginSides; normals (n, d) and weights (n, 1 + k + f) float64, written.
    """
    rows, gallery, near, far = sides
    positives = 1 + near.shape[1]
    count, width = positives + far.shape[1], rows.shape[1]
    points = np.empty((count, width), np.float64)
    signed = np.empty((count, count), np.float64)
    active = np.empty(count, np.int64)
    work = np.empty((count + 3, count), np.float64)
    for row in range(start, stop):
        for point in range(count):
            source = rows[row]
            if point >= positives:
                source = gallery[far[row, point - positives]]
            elif point > 0:
                source = gallery[near[row, point - 1]]
            sign = 1.0 if point < positives else -1.0
            for column in range(width):
                points[point, column] = sign * source[column]
        for point in range(count):
            for other in range(point + 1):
                total = 0.0
                for column in range(width):
                    total += points[point, column] * points[other, column]
                signed[point, other] = total
                signed[other, point] = total
            signed[point, point] += RIDGE
        _find_widest_margin(signed, positives, weights[row], active, work)
        normals[row] = 0.0
        for point in range(count):
            weight = weights[row, point]
            if weight > 0.0:
                for column in range(width):
                    normals[row, column] += weight * points[point, column]


@compile_kernel
def keep_nearest(start: Any, stop: Any, products: Any, numbers: Any, values: Any) -> None:
    """Write the k largest inner products of rows start..stop: positions and values, largest first.

    products (m, m) float32; numbers (m, 1 + k) int64 and values (m, 1 + k) float32, written. Column 0 is the item
    itself even among duplicates; ties go to the earlier item. A short insertion sort suffices: k is small, and most
    candidates fail the first comparison.
    """
    k = numbers.shape[1] - 1
    for row in range(start, stop):
        numbers[row, 0] = row
        values[row, 0] = products[row, row]
        filled = 0
        for column in range(products.shape[0]):
            value = products[row, column]
            if column == row or k == 0 or (filled == k and value <= values[row, k]):
                continue
            place = filled + 1 if filled < k else k
            filled = min(filled + 1, k)
            while place > 1 and values[row, place - 1] < value:
                values[row, place] = values[row, place - 1]
                numbers[row, place] = numbers[row, place - 1]
                place -= 1
            values[row, place] = value
            numbers[row, place] = column
