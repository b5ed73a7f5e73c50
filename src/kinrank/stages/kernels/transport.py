"""Two states and the vectors of their items -> the price of a step: what it costs to carry one state into the other.

States are sparse rows, csr.Rows(indptr, indices, data), sorted by item. Mass that two states share stays where it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinrank.stages.kernels.compiled import compiled, inner
from kinrank.stages.kernels.fastmath import exp32

SAME = np.float32(1e-6)  # of a mass: two that differ by less are equal but for rounding, and nothing moves
LEAST = np.float32(-80.0)  # exp(-80) still is a float32: the floor keeps every row and column of a plan alive


LANES = 8  # float32 numbers that a processor works on at once


class Transport(NamedTuple):
    """How a step is priced: W(p, q; d^rho)^gamma by `iterations` of Sinkhorn, exactly where that is 0.

    `unit`: whether all vectors have length one, so that inner products alone tell distances.
    """

    rho: float
    gamma: float
    epsilon: float
    iterations: int
    unit: bool = True


class Scratch(NamedTuple):
    """What pricing works in; s the longest state.

    left, right: (s,) float32 mass that has to leave, and to arrive. left_at, right_at: (s,) int32 its rows and columns
    in the matrix of ground costs. u, v, sums: (s,) float32. cost, plan: (s, s) float32. rows, columns: float32 vectors
    of the two sides. slots: (n,) int32 the column of each item in the ground costs, -1 where it has none.
    """

    left: Any
    right: Any
    left_at: Any
    right_at: Any
    u: Any
    v: Any
    sums: Any
    cost: Any
    plan: Any
    rows: Any
    columns: Any
    slots: Any


@inner
def scratch_for(longest: Any, rows: Any, columns: Any, slots: Any) -> Any:
    """Scratch for states of at most `longest` entries."""
    longest = (longest + LANES - 1) // LANES * LANES
    left, right = np.empty(longest, np.float32), np.empty(longest, np.float32)
    left_at, right_at = np.empty(longest, np.int32), np.empty(longest, np.int32)
    u, v, sums = np.empty(longest, np.float32), np.empty(longest, np.float32), np.empty(longest, np.float32)
    cost, plan = np.empty((longest, longest), np.float32), np.empty((longest, longest), np.float32)
    return Scratch(left, right, left_at, right_at, u, v, sums, cost, plan, rows, columns, slots)


@inner
def longest_row(indptr: Any) -> Any:
    """The largest number of entries in a row, at least 1."""
    longest = 1
    for row in range(len(indptr) - 1):
        longest = max(longest, indptr[row + 1] - indptr[row])
    return longest


@inner
def _residual(states: Any, i: Any, j: Any, scratch: Any) -> Any:
    """Split p_i - p_j into what must leave and what must arrive; positions within both. Returns the two sizes."""
    indices, masses = states.indices, states.data
    begin, other = states.indptr[i], states.indptr[j]
    left, left_end = begin, states.indptr[i + 1]
    right, right_end = other, states.indptr[j + 1]
    m = 0
    k = 0
    while left < left_end or right < right_end:
        if right >= right_end or (left < left_end and indices[left] < indices[right]):
            difference = masses[left]
            left += 1
        elif left >= left_end or indices[right] < indices[left]:
            difference = -masses[right]
            right += 1
        else:
            difference = masses[left] - masses[right]
            if abs(difference) <= SAME * masses[left]:
                difference = np.float32(0.0)
            left += 1
            right += 1
        if difference > 0:
            scratch.left[m] = difference
            scratch.left_at[m] = left - 1 - begin
            m += 1
        elif difference < 0:
            scratch.right[k] = -difference
            scratch.right_at[k] = right - 1 - other
            k += 1
    return m, k


@compiled
def sinkhorn(
    a: Any, b: Any, m: Any, k: Any, cost: Any, epsilon: Any, iterations: Any, plan: Any, u: Any, v: Any, sums: Any
) -> Any:
    """<Q, C> of the entropic plan Q between a[:m] and b[:k] (equal sums), without the entropy term.

    Q = u_x plan_xy v_y, with the kernel exp(-(C - least C) / eps) in plan[:m, :k]. `epsilon` is relative to the mean
    cost, so that it means the same for every ground power and data set. The last half step makes the columns of Q
    exact. Rows are taken as views, and filled up with zeros to a multiple of LANES where there is room: so the compiler
    puts eight entries into one instruction, and has no rest to do one by one, which takes twice the time.
    """
    mean = np.float32(0.0)
    least = cost[0, 0]
    for x in range(m):
        row = cost[x]
        for y in range(k):
            mean += row[y]
            least = min(least, row[y])
    mean /= np.float32(m * k)
    scale = np.float32(-1.0) / (np.float32(epsilon) * max(mean, np.float32(1e-30)))
    width = min((k + LANES - 1) // LANES * LANES, len(v))
    for x in range(m):
        row, kernel = cost[x], plan[x]
        for y in range(k, width):
            row[y] = 0.0
        for y in range(width):
            kernel[y] = exp32(max((row[y] - least) * scale, LEAST))
        for y in range(k, width):
            kernel[y] = 0.0
    for y in range(width):
        v[y] = 1.0
    for _ in range(iterations):
        for y in range(width):
            sums[y] = 0.0
        for x in range(m):
            kernel = plan[x]
            total = np.float32(0.0)
            for y in range(width):
                total += kernel[y] * v[y]
            u[x] = a[x] / total
            for y in range(width):
                sums[y] += kernel[y] * u[x]
        for y in range(k):
            v[y] = b[y] / sums[y]
    answer = np.float32(0.0)
    for x in range(m):
        row, kernel = cost[x], plan[x]
        moved = np.float32(0.0)
        for y in range(width):
            moved += kernel[y] * v[y] * row[y]
        answer += u[x] * moved
    return answer


@inner
def _relax(
    row: Any, so_far: Any, cost: Any, row_price: Any, column_price: Any, done: Any, reached: Any, came_from: Any
) -> None:
    """Let the columns that are not done yet be reached from this row, if that is nearer (reduced costs)."""
    for y in range(len(done)):
        if not done[y]:
            through = so_far + cost[row, y] - row_price[row] - column_price[y]
            if through < reached[y]:
                reached[y] = through
                came_from[y] = row


@inner
def _nearest_open(reached: Any, done: Any) -> Any:
    """The nearest column that is not done, -1 if none is left."""
    nearest = -1
    for y in range(len(reached)):
        if not done[y] and (nearest < 0 or reached[y] < reached[nearest]):
            nearest = y
    return nearest


@compiled
def exact(a: Any, b: Any, m: Any, k: Any, cost: Any, plan: Any) -> Any:
    """min <Q, C> over all plans between a[:m] and b[:k] (equal sums up to rounding); an optimal Q goes to plan[:m, :k].

    Successive shortest paths with potentials on the dense bipartite graph: every augmentation empties a source, fills
    a sink or frees an edge, and finding it costs O(m k).
    """
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
    reached = np.empty(k, np.float64)
    row_reached = np.empty(m, np.float64)
    came_from = np.empty(k, np.int64)
    row_from = np.empty(m, np.int64)
    done = np.empty(k, np.bool_)
    row_done = np.empty(m, np.bool_)
    for source in range(m):
        while supply[source] > small:
            for y in range(k):
                reached[y] = np.inf
                done[y] = False
            for x in range(m):
                row_done[x] = x == source
            row_reached[source] = 0.0
            _relax(source, 0.0, cost, row_price, column_price, done, reached, came_from)
            target = _nearest_open(reached, done)
            while target >= 0 and demand[target] <= small:
                done[target] = True  # full: its mass may be sent on from the rows that feed it
                for x in range(m):
                    if flow[x, target] > 0.0 and not row_done[x]:
                        row_done[x] = True
                        row_reached[x] = reached[target]
                        row_from[x] = target
                        _relax(x, row_reached[x], cost, row_price, column_price, done, reached, came_from)
                target = _nearest_open(reached, done)
            if target < 0:
                break  # only rounding is left
            for x in range(m):
                if row_done[x]:
                    row_price[x] += reached[target] - row_reached[x]
            for y in range(k):
                if done[y]:
                    column_price[y] -= reached[target] - reached[y]
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


@inner
def _largest(values: Any, size: Any) -> Any:
    best = values[0]
    for position in range(1, size):
        best = max(best, values[position])
    return best


@inner
def problem(i: Any, j: Any, states: Any, ground: Any, whole: Any, scratch: Any) -> Any:
    """Set up the transport of what differs between p_i and p_j: sizes (m, k), and whether the sides changed places.

    `ground`: costs between all items (`whole`), or rows for the entries of p_i and columns by `scratch.slots`. The
    smaller side is put first, so that an entropic price does not depend on how the items are numbered.
    """
    m, k = _residual(states, i, j, scratch)
    if whole:
        for x in range(m):
            scratch.left_at[x] = states.indices[states.indptr[i] + scratch.left_at[x]]
    for y in range(k):
        item = states.indices[states.indptr[j] + scratch.right_at[y]]
        scratch.right_at[y] = item if whole else scratch.slots[item]
    if m == 0 or k == 0:
        return 0, 0, False
    if m > k or (m == k and _largest(scratch.left, m) < _largest(scratch.right, k)):
        for x in range(m):
            row = ground[scratch.left_at[x]]
            for y in range(k):
                scratch.cost[y, x] = row[scratch.right_at[y]]
        return k, m, True
    for x in range(m):
        row = ground[scratch.left_at[x]]
        for y in range(k):
            scratch.cost[x, y] = row[scratch.right_at[y]]
    return m, k, False


@inner
def price(i: Any, j: Any, states: Any, ground: Any, whole: Any, scratch: Any, settings: Any) -> Any:
    """W(p_i, p_j; d^rho)^gamma by Sinkhorn: the one place where a step gets its price."""
    m, k, swapped = problem(i, j, states, ground, whole, scratch)
    if m == 0:
        return np.float32(0.0)
    a, b = (scratch.right, scratch.left) if swapped else (scratch.left, scratch.right)
    steps, scales = settings.iterations, (scratch.u, scratch.v, scratch.sums)
    moved = sinkhorn(a, b, m, k, scratch.cost, settings.epsilon, steps, scratch.plan, *scales)
    return moved ** np.float32(settings.gamma)
