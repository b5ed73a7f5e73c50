"""Two sparse distributions and the vectors of their supports -> what it costs to carry one into the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages.kernels.compiled import compiled

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
        for y in range(k):
            v[y] = 0.0
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
def _relax(
    row: Any, so_far: Any, cost: Any, row_price: Any, column_price: Any, done: Any, reach: Any, came_from: Any
) -> None:
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
    supply = np.empty(m, np.float64)
    demand = np.empty(k, np.float64)
    given = 0.0
    wanted = 0.0
    for x in range(m):
        supply[x] = a[x]
        given += supply[x]
    for y in range(k):
        wanted += b[y]
    for y in range(k):
        demand[y] = b[y] * (given / wanted)
    small = 1e-12 * given
    flow = np.zeros((m, k), np.float64)
    row_price = np.zeros(m, np.float64)
    column_price = np.empty(k, np.float64)
    for y in range(k):
        column_price[y] = cost[0, y]
        for x in range(1, m):
            column_price[y] = min(column_price[y], cost[x, y])
    reach = np.empty(k, np.float64)
    row_reach = np.empty(m, np.float64)
    came_from = np.empty(k, np.int64)
    row_from = np.empty(m, np.int64)
    done = np.empty(k, np.bool_)
    row_done = np.empty(m, np.bool_)
    for source in range(m):
        while supply[source] > small:
            for y in range(k):
                reach[y] = np.inf
                done[y] = False
            for x in range(m):
                row_done[x] = x == source
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
    masses = np.empty((2, longest), np.float32)
    places = np.empty((2, longest), np.int64)
    rows = np.empty((longest, dimensions), np.float32)
    columns = np.empty((min(n, together * longest), dimensions), np.float32)
    slots = np.empty(n, np.int32)
    for node in range(n):
        slots[node] = -1
    return masses, places, rows, columns, slots


@compiled
def _copy(source: Any, target: Any) -> None:
    """One row into another; an assignment of slices would compile a message about shapes for several seconds."""
    for column in range(len(source)):
        target[column] = source[column]


@compiled
def _largest(values: Any, size: Any) -> Any:
    best = values[0]
    for position in range(1, size):
        best = max(best, values[position])
    return best


@compiled
def ground_block(i: Any, others: Any, indptr: Any, indices: Any, vectors: Any, rho: Any, room: Any) -> Any:
    """Distances^rho from i's support to the union of the supports of `others`; `slots` says which column is whose.

    The supports of neighbours overlap: together they are far fewer than one after the other.
    """
    _, _, rows, columns, slots = room
    begin, end = indptr[i], indptr[i + 1]
    for entry in range(begin, end):
        _copy(vectors[indices[entry]], rows[entry - begin])
    used = 0
    for j in others:
        for entry in range(indptr[j], indptr[j + 1]):
            node = indices[entry]
            if slots[node] < 0:
                slots[node] = used
                _copy(vectors[node], columns[used])
                used += 1
    return ground(rows[: end - begin], columns[:used], rho)


@compiled
def release(others: Any, indptr: Any, indices: Any, room: Any) -> None:
    """Forget the columns of `others`."""
    slots = room[4]
    for j in others:
        for entry in range(indptr[j], indptr[j + 1]):
            slots[indices[entry]] = -1


@compiled
def problem(i: Any, j: Any, indptr: Any, indices: Any, values: Any, block: Any, room: Any) -> Any:
    """(a, b, cost) of the residual transport between p_i and p_j, or empty arrays where nothing moves.

    The smaller side is put first, so that an entropic value does not depend on how the items are numbered.
    """
    masses, places, _, _, slots = room
    m, k = residual(indptr, indices, values, i, j, masses[0], places[0], masses[1], places[1])
    if m == 0 or k == 0:
        return masses[0, :0], masses[1, :0], block[:0]
    begin = indptr[i]
    if m > k or (m == k and _largest(masses[0], m) < _largest(masses[1], k)):
        cost = np.empty((k, m), np.float32)
        for y in range(k):
            column = slots[indices[places[1, y]]]
            for x in range(m):
                cost[y, x] = block[places[0, x] - begin, column]
        return masses[1, :k], masses[0, :m], cost
    cost = np.empty((m, k), np.float32)
    for y in range(k):
        column = slots[indices[places[1, y]]]
        for x in range(m):
            cost[x, y] = block[places[0, x] - begin, column]
    return masses[0, :m], masses[1, :k], cost


@compiled
def entropic_transitions(
    start: Any,
    stop: Any,
    pairs: Any,
    indptr: Any,
    indices: Any,
    values: Any,
    vectors: Any,
    rho: Any,
    epsilon: Any,
    iterations: Any,
    costs: Any,
) -> None:
    """Sinkhorn's W(p_i, p_j; d^rho) of pairs start..stop."""
    room = workspace(indptr, vectors.shape[1], 1)
    for pair in range(start, stop):
        i, others = pairs[pair, 0], pairs[pair, 1:]
        block = ground_block(i, others, indptr, indices, vectors, rho, room)
        a, b, cost = problem(i, others[0], indptr, indices, values, block, room)
        costs[pair] = sinkhorn(a, b, cost, epsilon, iterations, np.empty_like(cost)) if len(a) > 0 else 0.0
        release(others, indptr, indices, room)


@compiled
def exact_transitions(
    start: Any,
    stop: Any,
    pairs: Any,
    indptr: Any,
    indices: Any,
    values: Any,
    vectors: Any,
    rho: Any,
    costs: Any,
) -> None:
    """The exact W(p_i, p_j; d^rho) of pairs start..stop."""
    room = workspace(indptr, vectors.shape[1], 1)
    for pair in range(start, stop):
        i, others = pairs[pair, 0], pairs[pair, 1:]
        block = ground_block(i, others, indptr, indices, vectors, rho, room)
        a, b, cost = problem(i, others[0], indptr, indices, values, block, room)
        costs[pair] = exact(a, b, cost, np.empty_like(cost)) if len(a) > 0 else 0.0
        release(others, indptr, indices, room)
