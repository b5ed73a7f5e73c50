"""Two sparse distributions and the vectors of their supports -> what it costs to carry one into the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages._kernels.compiled import compiled

CLOSE = np.float32(1e-3)  # squared distance below which differences are summed instead


@compiled
def residual(indptr: Any, indices: Any, values: Any, i: Any, j: Any, a: Any, a_at: Any, b: Any, b_at: Any) -> Any:
    """Split p_i - p_j into what must leave (a) and what must arrive (b); shared mass stays where it is.

    Rows are sorted by item. `a_at` and `b_at` are positions in `indices`. Returns the two sizes.
    """
    left, left_end = indptr[i], indptr[i + 1]
    right, right_end = indptr[j], indptr[j + 1]
    m = 0
    k = 0
    while left < left_end or right < right_end:
        if right >= right_end or (left < left_end and indices[left] < indices[right]):
            gap = values[left]
            left += 1
        elif left >= left_end or indices[right] < indices[left]:
            gap = -values[right]
            right += 1
        else:
            gap = values[left] - values[right]
            left += 1
            right += 1
        if gap > 0:
            a[m] = gap
            a_at[m] = left - 1
            m += 1
        elif gap < 0:
            b[k] = -gap
            b_at[k] = right - 1
            k += 1
    return m, k


@compiled
def ground(left: Any, right: Any, rho: Any) -> Any:
    """(m, k) costs d^rho between unit rows."""
    cost = np.dot(left, right.T)
    m, k = cost.shape
    half = np.float32(0.5 * rho)
    for x in range(m):
        for y in range(k):
            squared = np.float32(2.0) - np.float32(2.0) * cost[x, y]
            if squared < CLOSE:  # the inner product has lost the digits: duplicates must be at distance 0
                squared = np.float32(0.0)
                for column in range(left.shape[1]):
                    gap = left[x, column] - right[y, column]
                    squared += gap * gap
            if rho == 1.0:
                cost[x, y] = np.sqrt(squared)
            elif rho == 2.0:
                cost[x, y] = squared
            elif rho == 4.0:
                cost[x, y] = squared * squared
            else:
                cost[x, y] = squared**half
    return cost


@compiled
def sinkhorn(a: Any, b: Any, cost: Any, epsilon: Any, iterations: Any, plan: Any) -> Any:
    """<Q, C> of the entropic plan Q between a and b (equal sums), without the entropy term; fills `plan` with Q.

    `epsilon` is relative to the mean cost, so that it means the same for every ground power and data set. The last
    half step makes the columns of Q exact.
    """
    m, k = cost.shape
    mean = np.float32(0.0)
    least = cost[0, 0]
    for x in range(m):
        for y in range(k):
            mean += cost[x, y]
            least = min(least, cost[x, y])
    mean /= np.float32(m * k)
    scale = np.float32(-1.0) / (np.float32(epsilon) * max(mean, np.float32(1e-30)))
    for x in range(m):
        for y in range(k):
            # exp(-80) still is a float32: the floor keeps every row and column alive
            plan[x, y] = np.exp(max((cost[x, y] - least) * scale, np.float32(-80.0)))
    u = np.empty(m, np.float32)
    v = np.ones(k, np.float32)
    for _ in range(iterations):
        for x in range(m):
            total = np.float32(0.0)
            for y in range(k):
                total += plan[x, y] * v[y]
            u[x] = a[x] / total
        v[:] = 0.0
        for x in range(m):
            for y in range(k):
                v[y] += plan[x, y] * u[x]
        for y in range(k):
            v[y] = b[y] / v[y]
    answer = np.float32(0.0)
    for x in range(m):
        for y in range(k):
            plan[x, y] *= u[x] * v[y]
            answer += plan[x, y] * cost[x, y]
    return answer


@compiled
def _relax(row: Any, so_far: Any, cost: Any, row_price: Any, column_price: Any, done: Any, reach: Any, came_from: Any) -> None:
    """Let the columns that are not done yet be reached from this row, if that is nearer (reduced costs)."""
    for y in range(cost.shape[1]):
        if not done[y]:
            through = so_far + cost[row, y] - row_price[row] - column_price[y]
            if through < reach[y]:
                reach[y] = through
                came_from[y] = row


@compiled
def _nearest_open(reach: Any, done: Any) -> Any:
    """The nearest column that is not done, -1 if none is left."""
    nearest = -1
    for y in range(len(reach)):
        if not done[y] and (nearest < 0 or reach[y] < reach[nearest]):
            nearest = y
    return nearest


@compiled
def exact(a: Any, b: Any, cost: Any, plan: Any) -> Any:
    """min <Q, C> over all plans between a and b (equal sums up to rounding); fills `plan` with an optimal Q.

    Successive shortest paths with potentials on the dense bipartite graph: every augmentation empties a source, fills
    a sink or frees an edge, and finding it costs O(m k).
    """
    m, k = cost.shape
    supply = a.astype(np.float64)
    demand = b.astype(np.float64) * (np.sum(supply) / np.sum(b.astype(np.float64)))
    small = 1e-12 * np.sum(supply)
    flow = np.zeros((m, k), np.float64)
    row_price = np.zeros(m, np.float64)
    column_price = np.empty(k, np.float64)
    for y in range(k):
        column_price[y] = np.min(cost[:, y])
    reach = np.empty(k, np.float64)
    row_reach = np.empty(m, np.float64)
    came_from = np.empty(k, np.int64)
    row_from = np.empty(m, np.int64)
    done = np.empty(k, np.bool_)
    row_done = np.empty(m, np.bool_)
    for source in range(m):
        while supply[source] > small:
            reach[:] = np.inf
            done[:] = False
            row_done[:] = False
            row_done[source] = True
            row_reach[source] = 0.0
            _relax(source, 0.0, cost, row_price, column_price, done, reach, came_from)
            target = _nearest_open(reach, done)
            while target >= 0 and demand[target] <= small:
                done[target] = True  # full: its mass may be sent on from the rows that feed it
                for x in range(m):
                    if flow[x, target] > 0.0 and not row_done[x]:
                        row_done[x] = True
                        row_reach[x] = reach[target]
                        row_from[x] = target
                        _relax(x, row_reach[x], cost, row_price, column_price, done, reach, came_from)
                target = _nearest_open(reach, done)
            if target < 0:
                break  # only rounding is left
            for x in range(m):
                if row_done[x]:
                    row_price[x] += reach[target] - row_reach[x]
            for y in range(k):
                if done[y]:
                    column_price[y] -= reach[target] - reach[y]
            amount = min(supply[source], demand[target])
            column = target
            while came_from[column] != source:
                x = came_from[column]
                column = row_from[x]
                amount = min(amount, flow[x, column])
            supply[source] -= amount
            demand[target] -= amount
            column = target
            while True:
                x = came_from[column]
                flow[x, column] += amount
                if x == source:
                    break
                column = row_from[x]
                flow[x, column] -= amount
    answer = 0.0
    for x in range(m):
        for y in range(k):
            plan[x, y] = flow[x, y]
            answer += flow[x, y] * cost[x, y]
    return np.float32(answer)


@compiled
def workspace(indptr: Any, dimensions: Any, together: Any) -> Any:
    """Room for one group of transport problems after another: masses and places of both sides, vectors, slots."""
    n = len(indptr) - 1
    longest = 1
    for row in range(n):
        longest = max(longest, indptr[row + 1] - indptr[row])
    return (
        np.empty(longest, np.float32),
        np.empty(longest, np.int64),
        np.empty(longest, np.float32),
        np.empty(longest, np.int64),
        np.empty((longest, dimensions), np.float32),
        np.empty((min(n, together * longest), dimensions), np.float32),
        np.full(n, -1, np.int32),
    )


@compiled
def transitions_from(
    i: Any, others: Any, indptr: Any, indices: Any, values: Any, vectors: Any, rho: Any, epsilon: Any, iterations: Any,
    room: Any, out: Any,
) -> None:
    """W(p_i, p_j; d^rho) on the residual supports for all j in `others`; iterations = 0 asks for the exact values.

    The supports of neighbours overlap: the distances from i's support to the union of theirs are computed once. In
    each problem the smaller side is put first, so that the entropic value does not depend on how items are numbered.
    """
    a, a_at, b, b_at, rows, columns, slots = room
    begin, end = indptr[i], indptr[i + 1]
    for entry in range(begin, end):
        rows[entry - begin] = vectors[indices[entry]]
    used = 0
    for j in others:
        for entry in range(indptr[j], indptr[j + 1]):
            node = indices[entry]
            if slots[node] < 0:
                slots[node] = used
                columns[used] = vectors[node]
                used += 1
    block = ground(rows[: end - begin], columns[:used], rho)
    for position in range(len(others)):
        m, k = residual(indptr, indices, values, i, others[position], a, a_at, b, b_at)
        if m == 0 or k == 0:
            out[position] = 0.0
            continue
        swap = m > k or (m == k and np.max(a[:m]) < np.max(b[:k]))
        cost = np.empty((k, m) if swap else (m, k), np.float32)
        plan = np.empty((k, m) if swap else (m, k), np.float32)
        for x in range(m):
            line = block[a_at[x] - begin]
            for y in range(k):
                if swap:
                    cost[y, x] = line[slots[indices[b_at[y]]]]
                else:
                    cost[x, y] = line[slots[indices[b_at[y]]]]
        first, second = (b[:k], a[:m]) if swap else (a[:m], b[:k])
        if iterations == 0:
            out[position] = exact(first, second, cost, plan)
        else:
            out[position] = sinkhorn(first, second, cost, epsilon, iterations, plan)
    for j in others:
        for entry in range(indptr[j], indptr[j + 1]):
            slots[indices[entry]] = -1


@compiled
def transitions(
    start: Any, stop: Any, pairs: Any, indptr: Any, indices: Any, values: Any, vectors: Any, rho: Any, epsilon: Any,
    iterations: Any, costs: Any,
) -> None:
    """W(p_i, p_j; d^rho) of pairs start..stop."""
    room = workspace(indptr, vectors.shape[1], 1)
    for pair in range(start, stop):
        transitions_from(
            pairs[pair, 0], pairs[pair, 1:], indptr, indices, values, vectors, rho, epsilon, iterations, room,
            costs[pair : pair + 1],
        )  # fmt: skip
