"""Optimal transport between two states: the cost of a step and the flows of mass (TMT: Sec. 4.3, Appendix B).

W(p, q; C) = min over plans Q of <Q, C>, with C = d^rho between the items of the two supports. Mass that p and q share
stays in place, and only (p - q)+ is moved to (q - p)+: for rho = 1, a metric, that is W1 itself; for rho > 1 it is
an upper bound of it, which is what is computed here. step_costs.py prices many steps at once.

Kernels take states as sparse rows, csr.Rows(indptr, indices, data), sorted by item.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError
from kinrank.stages.csr import Rows
from kinrank.stages.kernels.compiler import compile_inner, compile_kernel
from kinrank.stages.kernels.data_structures import new_range
from kinrank.stages.kernels.fastmath import exp32, power32, to_bits, to_float
from kinrank.stages.kernels.nearest_search import squared_distance
from kinrank.vector_input import Vectors

EQUAL_MASS_SHARE = np.float32(1e-6)  # masses whose relative difference is smaller are equal: nothing moves
MIN_EXPONENT = np.float32(-80.0)  # exp(-80) is still a float32, so every row and column of a plan stays positive
LANES = 8  # float32 numbers per vector instruction
CODE_SHIFT, CODE_ROUNDING = np.int32(13), np.int32(1 << 12)  # bits of a float32 that a CostTable leaves out; half of 1
MIN_CODE = np.int32(1 << 10)  # smaller ones are not normal numbers, which are slow; their costs count as 0
CLOSE_SQUARED_DISTANCE = np.float32(1e-3)  # of unit rows; below, inner products lose digits: sum differences instead

State = tuple[NDArray[np.int32], NDArray[np.float32]]  # items of one state and their mass
Flow = tuple[int, int, float, float]  # from, to, mass, cost of one unit


def wasserstein(
    p: NDArray[Any], q: NDArray[Any], cost: NDArray[Any], *, epsilon: float = 0.05, iterations: int = 0
) -> tuple[float, NDArray[np.float32]]:
    """Return (value, plan) of the transport between two dense distributions under a dense cost matrix.

    `iterations = 0` solves it exactly; otherwise that many Sinkhorn steps run with regularisation `epsilon` times the
    mean cost. The value is <Q, C>, without the entropy term, and never negative.

    Example:
        >>> wasserstein([1.0, 0.0], [0.0, 1.0], [[0.0, 2.0], [2.0, 0.0]])[0]
        2.0
    """
    a, b = np.asarray(p, np.float32), np.asarray(q, np.float32)
    ground = np.ascontiguousarray(cost, np.float32)
    if ground.shape != (len(a), len(b)):
        raise InputError(
            f"has shape {ground.shape}, but the distributions have {len(a)} and {len(b)} entries", parameter="cost"
        )
    rows, columns = np.flatnonzero(a > 0), np.flatnonzero(b > 0)
    m, k = len(rows), len(columns)
    inner = np.ascontiguousarray(ground[np.ix_(rows, columns)])
    part = np.zeros(inner.shape, np.float32)
    if iterations:
        settings, width = TransportSettings(1.0, 1.0, float(epsilon), iterations), -(-k // LANES) * LANES
        padded = np.pad(inner, ((0, 0), (0, width - k)))
        u, v, sums = np.empty(m, np.float32), np.empty(width, np.float32), np.empty(width, np.float32)
        work = SinkhornScratch(np.empty(padded.size, np.float32), u, v, sums)
        value = sinkhorn(a[rows], b[columns], padded.reshape(-1), settings, work)
        part = work.plan.reshape(m, width)[:, :k] * u[:, None] * v[:k]
    else:
        value = solve_exactly(a[rows], b[columns], inner, part)
    plan = np.zeros(ground.shape, np.float32)
    plan[np.ix_(rows, columns)] = part
    return float(value), plan


def get_state(states: Rows, item: int) -> State:
    """Return p_i: its items and their mass."""
    entries = slice(int(states.indptr[item]), int(states.indptr[item + 1]))
    return states.indices[entries], states.data[entries]


def solve_exact_flows(left: State, right: State, vectors: Vectors, rho: float, unit: bool = True) -> list[Flow]:
    """Return the exact plan between two states: (from, to, mass, cost of one unit), largest flows first.

    `unit`: the vectors have length one.
    """
    items, inverse = np.unique(np.concatenate([left[0], right[0]]), return_inverse=True)
    difference = np.zeros(len(items))
    np.add.at(difference, inverse, np.concatenate([left[1], -right[1]]))
    away, towards = np.flatnonzero(difference > 0), np.flatnonzero(difference < 0)
    if not len(away) or not len(towards):
        return []
    rows, columns = vectors[items[away]], vectors[items[towards]]
    both = np.concatenate([rows, columns])
    numbers = np.arange(len(both), dtype=np.int32)
    cost = np.ascontiguousarray(rows @ columns.T)
    settings = TransportSettings(float(rho), 1.0, 1.0, 0, unit)
    compute_ground_costs(cost, both, numbers[: len(rows)], numbers[len(rows) :], settings)
    a, b = difference[away].astype(np.float32), -difference[towards].astype(np.float32)
    plan = np.zeros(cost.shape, np.float32)
    solve_exactly(a, b, cost, plan)
    flows = [
        (int(items[away[x]]), int(items[towards[y]]), float(plan[x, y]), float(cost[x, y]))
        for x, y in zip(*np.nonzero(plan > 0), strict=True)
    ]
    return sorted(flows, key=lambda flow: (-flow[2], flow[0], flow[1]))


def state_entropy(mass: NDArray[Any]) -> float:
    """Return S = - sum p log p of a state, in nats."""
    p = np.asarray(mass, np.float64)
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


class TransportSettings(NamedTuple):
    """Settings for pricing a step: W(p, q; d^rho)^gamma by `iterations` of Sinkhorn, exactly if that is 0.

    `unit`: all vectors have length one, so that inner products determine distances.
    """

    rho: float
    gamma: float
    epsilon: float
    iterations: int
    unit: bool = True


class SinkhornScratch(NamedTuple):
    """Work arrays of `sinkhorn`: plan (m * width,), u (m,), v and sums (width,) float32, or longer."""

    plan: Any
    u: Any
    v: Any
    sums: Any


class TransportScratch(NamedTuple):
    """Work arrays for pricing; s is the length of the longest state.

    left, right: (s + 1,) float32 mass that has to leave and to arrive. left_at, right_at: (s + 1,) int32 its rows and
    columns in the matrix of ground costs. cost: (s * s,) float32. sinkhorn: SinkhornScratch. slots: (n,) int32 the
    column of each item in the ground costs, -1 for none.
    """

    left: Any
    right: Any
    left_at: Any
    right_at: Any
    cost: Any
    sinkhorn: Any
    slots: Any


@compile_inner
def padded_width(count: Any) -> Any:
    """Return the next multiple of LANES."""
    return (count + LANES - 1) // LANES * LANES


@compile_inner
def new_transport_scratch(longest: Any, slots: Any) -> Any:
    """Allocate work arrays for states of at most `longest` entries."""
    left, right = np.empty(longest + 1, np.float32), np.empty(longest + 1, np.float32)
    left_at, right_at = np.empty(longest + 1, np.int32), np.empty(longest + 1, np.int32)
    longest = padded_width(longest)
    u, v, sums = np.empty(longest, np.float32), np.empty(longest, np.float32), np.empty(longest, np.float32)
    cost, plan = np.empty(longest * longest, np.float32), np.empty(longest * longest, np.float32)
    work = SinkhornScratch(plan, u, v, sums)
    return TransportScratch(left, right, left_at, right_at, cost, work, slots)


@compile_inner
def longest_row(indptr: Any) -> Any:
    """Return the largest number of entries in a row, at least 1."""
    longest = 1
    for row in range(len(indptr) - 1):
        longest = max(longest, indptr[row + 1] - indptr[row])
    return longest


@compile_inner
def _split_difference(states: Any, i: Any, j: Any, scratch: Any) -> Any:
    """Split p_i - p_j into mass that must leave and to arrive, with positions in both states; return the two sizes."""
    indices, masses = states.indices, states.data
    begin, other = np.uint64(states.indptr[i]), np.uint64(states.indptr[j])
    left, left_end = begin, np.uint64(states.indptr[i + 1])
    right, right_end = other, np.uint64(states.indptr[j + 1])
    m = 0 * i  # a literal has another type, for which Numba would compile the callees again
    k = 0 * i
    while left < left_end and right < right_end:
        # written always, counted conditionally: unpredictable branches would take three times the time
        first, second = indices[left], indices[right]
        mine = masses[left] * np.float32(first <= second)
        theirs = masses[right] * np.float32(second <= first)
        difference = mine - theirs
        moves = abs(difference) > EQUAL_MASS_SHARE * mine
        scratch.left[np.uint64(m)], scratch.left_at[np.uint64(m)] = difference, left - begin
        scratch.right[np.uint64(k)], scratch.right_at[np.uint64(k)] = -difference, right - other
        m += np.int64(moves) & np.int64(difference > 0.0)
        k += np.int64(moves) & np.int64(difference < 0.0)
        left += np.uint64(first <= second)
        right += np.uint64(second <= first)
    for entry in range(left, left_end):
        scratch.left[np.uint64(m)], scratch.left_at[np.uint64(m)] = masses[entry], entry - begin
        m += np.int64(masses[entry] > 0.0)
    for entry in range(right, right_end):
        scratch.right[np.uint64(k)], scratch.right_at[np.uint64(k)] = masses[entry], entry - other
        k += np.int64(masses[entry] > 0.0)
    return m, k


@compile_kernel
def sinkhorn(a: Any, b: Any, cost: Any, settings: Any, work: Any) -> Any:
    """Return <Q, C> of the entropic plan Q between a (m,) and b (k,), of equal sums, without the entropy term.

    Q = u_x plan_xy v_y, with the kernel exp(-(C - least C) / eps) in plan. settings: TransportSettings, of which
    `epsilon` is relative to the mean cost, so that it means the same for every ground power and data set; work:
    SinkhornScratch. The last half step makes the columns of Q exact. cost and plan are flat, with rows of
    `padded_width(k)` entries: the compiler then handles eight entries per instruction and needs no scalar remainder
    loop, which would take twice the time.
    """
    m, k = len(a), len(b)
    plan, u, v, sums = work
    width = padded_width(k)
    mean = np.float32(0.0)
    for x in range(m):
        for y in range(x * width + k, (x + 1) * width):
            cost[y] = cost[x * width]
            mean -= cost[y]
    low = to_bits(cost[0])  # bits of costs sort like the costs; the compiler vectorises only their minimum
    for y in range(m * width):
        mean += cost[y]
        low = min(low, to_bits(cost[y]))
    least = to_float(low)
    mean /= np.float32(m * k)
    scale = np.float32(-1.0) / (np.float32(settings.epsilon) * max(mean, np.float32(1e-36)))
    for y in range(m * width):
        plan[y] = exp32(max((cost[y] - least) * scale, MIN_EXPONENT))
    for y in range(width):
        v[y] = 1.0 if y < k else 0.0  # what the plan holds beyond k counts nowhere
    for _ in range(settings.iterations):
        for y in range(width):
            sums[y] = 0.0
        for x in range(m):
            kernel = plan[x * width : (x + 1) * width]
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
        row, kernel = cost[x * width : (x + 1) * width], plan[x * width : (x + 1) * width]
        moved = np.float32(0.0)
        for y in range(width):
            moved += kernel[y] * v[y] * row[y]
        answer += u[x] * moved
    return answer


class ColumnPaths(NamedTuple):
    """Shortest paths to the columns so far: their lengths (k,) float64, last rows (k,) int64, and which are done."""

    reached: Any
    came_from: Any
    done: Any


@compile_inner
def _relax(row: Any, so_far: Any, cost: Any, row_price: Any, column_price: Any, paths: Any) -> None:
    """Update the columns that are not done if they are nearer through this row (reduced costs)."""
    reached, came_from, done = paths
    for y in range(len(done)):
        if not done[y]:
            through = so_far + cost[row, y] - row_price[row] - column_price[y]
            if through < reached[y]:
                reached[y] = through
                came_from[y] = row


@compile_inner
def _nearest_open(reached: Any, done: Any) -> Any:
    """Return the nearest column that is not done, -1 if none is left."""
    nearest = -1
    for y in range(len(reached)):
        if not done[y] and (nearest < 0 or reached[y] < reached[nearest]):
            nearest = y
    return nearest


@compile_kernel
def solve_exactly(a: Any, b: Any, cost: Any, plan: Any) -> Any:
    """Minimise <Q, C> over all plans between a (m,) and b (k,); write an optimal Q to plan (m, k) and return the cost.

    The sums of a and b must be equal up to rounding. Successive shortest paths with potentials on the dense
    bipartite graph: every augmentation empties a source, fills a sink or frees an edge, and finding it costs O(m k).
    """
    m, k = len(a), len(b)
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
    paths = ColumnPaths(reached, came_from, done)
    for source in range(m):
        while supply[source] > small:
            for y in range(k):
                reached[y] = np.inf
                done[y] = False
            for x in range(m):
                row_done[x] = x == source
            row_reached[source] = 0.0
            _relax(source, 0.0, cost, row_price, column_price, paths)
            target = _nearest_open(reached, done)
            while target >= 0 and demand[target] <= small:
                done[target] = True  # full: its mass may be redirected by the rows that feed it
                for x in range(m):
                    if flow[x, target] > 0.0 and not row_done[x]:
                        row_done[x] = True
                        row_reached[x] = reached[target]
                        row_from[x] = target
                        _relax(x, row_reached[x], cost, row_price, column_price, paths)
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


@compile_inner
def _largest_value(values: Any, size: Any) -> Any:
    """Return the largest of values[:size]."""
    best = values[0]
    for position in range(1, size):
        best = max(best, values[position])
    return best


@compile_inner
def _puts_right_first(m: Any, k: Any, scratch: Any) -> Any:
    """Return whether the right side is the smaller one, so that a price does not depend on the numbering of the items.

    An entropic price depends on which side comes first.
    """
    return m > k or (m == k and _largest_value(scratch.left, m) < _largest_value(scratch.right, k))


@compile_inner
def set_up_problem(i: Any, j: Any, states: Any, ground: Any, scratch: Any) -> Any:
    """Set up the transport between p_i and p_j: return sizes (m, k) and whether the sides were swapped.

    `ground`: costs, with rows for the entries of p_i and columns by `scratch.slots`. The smaller side comes first.
    """
    m, k = _split_difference(states, i, j, scratch)
    for y in range(k):
        scratch.right_at[y] = scratch.slots[states.indices[states.indptr[j] + scratch.right_at[y]]]
    if m == 0 or k == 0:
        return 0, 0, False
    if _puts_right_first(m, k, scratch):
        width = np.uint64(padded_width(m))
        for x in range(np.uint64(m)):
            row = ground[np.uint32(scratch.left_at[x])]
            for y in range(np.uint64(k)):
                scratch.cost[y * width + x] = row[np.uint32(scratch.right_at[y])]
        return k, m, True
    width = np.uint64(padded_width(k))
    for x in range(np.uint64(m)):
        row, line = ground[np.uint32(scratch.left_at[x])], scratch.cost[x * width : (x + np.uint64(1)) * width]
        for y in range(np.uint64(k)):
            line[y] = row[np.uint32(scratch.right_at[y])]
    return m, k, False


@compile_inner
def set_up_from_table(i: Any, j: Any, states: Any, table: Any, scratch: Any) -> Any:
    """Do the same as `set_up_problem` with costs from a CostTable, in its unit."""
    m, k = _split_difference(states, i, j, scratch)
    if m == 0 or k == 0:
        return 0, 0, False
    swapped = _puts_right_first(m, k, scratch)
    for x in range(m):
        scratch.left_at[x] = states.indices[states.indptr[i] + scratch.left_at[x]]
    for y in range(k):
        scratch.right_at[y] = states.indices[states.indptr[j] + scratch.right_at[y]]
    rows, columns = (scratch.right_at, scratch.left_at) if swapped else (scratch.left_at, scratch.right_at)
    m, k = (k, m) if swapped else (m, k)
    width = np.uint64(padded_width(k))
    for x in range(np.uint64(m)):
        row, line = table.codes[np.uint32(rows[x])], scratch.cost[x * width : (x + np.uint64(1)) * width]
        for y in range(np.uint64(k)):
            line[y] = to_float(np.int32(row[np.uint32(columns[y])]) << CODE_SHIFT)
    return m, k, swapped


@compile_inner
def price_problem(problem: Any, unit: Any, scratch: Any, settings: Any) -> Any:
    """Return W^gamma of the problem in `scratch` by Sinkhorn: the only place where a step gets its price.

    `problem`: what `set_up_problem` returned; `unit` of its costs.
    """
    m, k, swapped = problem
    if m == 0:
        return np.float32(0.0)
    a, b = (scratch.right, scratch.left) if swapped else (scratch.left, scratch.right)
    moved = sinkhorn(a[:m], b[:k], scratch.cost, settings, scratch.sinkhorn)
    return (moved * unit) ** np.float32(settings.gamma)


class CostTable(NamedTuple):
    """Ground costs d^rho of all pairs, uint16: the leading bits of the float32 number cost / unit.

    The first n of the 2 n codes in each row count: they replace the inner products in memory. A code has ten bits of
    the fraction, so costs are exact to 0.05 %. The table is half as large as one of float32, and reading it in random
    order takes most of the time of a price.
    """

    codes: NDArray[np.uint16]
    unit: Any


@compile_kernel
def encode_costs(start: Any, stop: Any, vectors: Any, products: Any, settings: Any, table: Any) -> None:
    """Write rows start..stop of a CostTable; vectors (n, d), products (n, n) float32; settings: TransportSettings.

    The table and the products may share their memory.
    """
    n = len(products)
    everyone, costs = new_range(n), np.empty((1, n), np.float32)
    line, inverse = costs[0], np.float32(1.0) / table.unit
    for row in range(start, stop):
        known, codes = products[row], table.codes[row]
        for column in range(n):
            line[column] = known[column]
        line[row] = 0.0  # not close: its cost is known, see below
        compute_ground_costs(costs, vectors, everyone[row : row + 1], everyone, settings)
        for column in range(n):
            code = (to_bits(line[column] * inverse) + CODE_ROUNDING) >> CODE_SHIFT
            codes[column] = code if code >= MIN_CODE else np.int32(0)
        codes[row] = 0


@compile_inner
def _squared_length(row: Any) -> Any:
    """Return |row|^2."""
    total = np.float32(0.0)
    for column in range(len(row)):
        total += row[column] * row[column]
    return total


@compile_kernel
def compute_ground_costs(products: Any, vectors: Any, left: Any, right: Any, settings: Any) -> None:
    """Turn inner products of the vectors of `left` and `right` into d^rho, in place.

    products (>= m, >= k) float32; vectors (n, d) float32; left (m,) and right (k,) int32 items; settings:
    TransportSettings.
    """
    half, unit = np.float32(0.5 * settings.rho), settings.unit
    lengths = np.empty(0 if unit else len(right), np.float32)
    for y in range(len(lengths)):
        lengths[y] = _squared_length(vectors[right[y]])
    for x in range(len(left)):
        row = products[x, : len(right)]
        close = CLOSE_SQUARED_DISTANCE
        if not unit:
            length = _squared_length(vectors[left[x]])
            close = CLOSE_SQUARED_DISTANCE * max(length, np.float32(1.0))
            for y in range(len(row)):  # 1 - d^2 / 2, the product of unit rows at this distance
                row[y] += np.float32(1.0) - np.float32(0.5) * (length + lengths[y])
        least = to_bits(np.float32(4.0))  # the compiler vectorises only the minimum of bits; below 0, they are, too
        for y in range(len(row)):
            row[y] = np.float32(2.0) - np.float32(2.0) * row[y]
            least = min(least, to_bits(row[y]))
        if to_float(least) < close:  # products have lost digits here, and duplicates must be at distance 0
            for y in range(len(row)):
                if row[y] < close:
                    row[y] = 0.0
                    if left[x] != right[y]:
                        row[y] = squared_distance(vectors[left[x]], vectors[right[y]])
        for y in range(len(row)):
            row[y] = power32(row[y], half)
