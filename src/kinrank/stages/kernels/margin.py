"""Two small sets of vectors per row -> the normal of the widest margin between them, by an active set."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages.kernels.compiled import compiled, inner

RIDGE = 1e-8  # 1 / C of the squared slack: far below any real margin, far above rounding in float64
TOLERANCE = 1e-13  # by how much an optimality condition may fail


@inner
def _solve_on(signed: Any, active: Any, size: Any, positives: Any, factor: Any, left: Any, right: Any) -> Any:
    """Minimise z'Kz over the active points, each side's weights summing to one, signs free.

    K = L L' (Cholesky); z = a inverse(K) e_positive + b inverse(K) e_negative. `left` receives z. signed (m, m), factor
    (m, m), left and right (m,) float64; active (m,) int64, of which the first `size` count. False where K is singular.
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


@inner
def _most_violated(signed: Any, weights: Any, active: Any, size: Any, positives: Any, gradient: Any) -> Any:
    """The point outside the active set that shortens the distance of the two hulls most, or -1 where none does.

    signed, active, size, positives as in `_solve_on`; weights (m,) float64; gradient (m,) float64, written.
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
    best, worst = -1, -TOLERANCE
    for point in range(count):
        excess = gradient[point] - (level_positive if point < positives else level_negative)
        if weights[point] == 0.0 and excess < worst:
            best, worst = point, excess
    return best


@inner
def _widest_margin(signed: Any, positives: Any, weights: Any, active: Any, work: Any) -> None:
    """Nearest points of two convex hulls; the first `positives` points are one side.

    signed (m, m): y_i y_j <x_i, x_j> + RIDGE on the diagonal. weights (m,): non-negative, each side sums to
    one. Points enter one at a time, the most violated first, and leave when their weight would turn
    negative, so the steps are finite and the answer exact to rounding. active (m,) int64 and work (m + 3, m) float64:
    scratch.
    """
    count = len(signed)
    factor, left, right, gradient = work[:count], work[count], work[count + 1], work[count + 2]
    weights[:] = 0.0
    active[0], active[1], size = 0, positives, 0 * count + 2  # a number written out would be compiled once more
    weights[0], weights[positives] = 1.0, 1.0
    for _ in range(20 * count):
        entering = _most_violated(signed, weights, active, size, positives, gradient)
        if entering < 0:
            return
        active[size] = entering
        size += 1
        while True:
            if not _solve_on(signed, active, size, positives, factor, left, right):
                return  # singular to rounding: what stands is the answer
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
            if leaving == entering:  # it only seemed to help: progress has fallen below rounding
                return
            kept = 0
            for entry in range(size):
                if active[entry] != leaving:
                    active[kept] = active[entry]
                    kept += 1
            size = kept


@compiled
def margin_normals(
    start: Any, stop: Any, rows: Any, gallery: Any, near: Any, far: Any, normals: Any, weights: Any
) -> None:
    """The normal of the widest margin between {row, near} and {far}, and the weights it is made of; rows start..stop.

    rows (n, d) and gallery (g, d) float32; near (n, k) and far (n, f) int32 positions in the gallery; normals (n, d)
    and weights (n, 1 + k + f) float64, written.
    """
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
        _widest_margin(signed, positives, weights[row], active, work)
        normals[row] = 0.0
        for point in range(count):
            weight = weights[row, point]
            if weight > 0.0:
                for column in range(width):
                    normals[row, column] += weight * points[point, column]
