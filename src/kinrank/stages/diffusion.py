"""Collaborative diffusion: F, the smoothed similarity, and beta, the weights of the graphs (BCD: Sec. 4.1, Appendix A).

The objective is min over F and beta of sum_v beta_v H_v(F) + lambda/2 |beta|^2 with beta on the simplex. With a =
1/(1 + mu) and S = sum_v beta_v S_v, the minimum over F solves the Lyapunov equation

    (I - a S) F + F (I - a S) = 2 (1 - a) E.

For E = I the solution commutes with S and is the resolvent F = (1 - a)(I - a S)^-1, so rows are independent: each is
spread over the sparse graph and read where it is needed, and no n x n matrix exists. Up to MAX_BLOCK_ITEMS items, where
a row reaches most of them anyway, a few rows are computed together from all items by Chebyshev's iteration, which is
several times faster there. kinrank_bench.paper.dense_diffusion has the paper's own solvers, for any E.

In kernels, `graph` is csr.Rows with the entries of a S_beta, and `spread` is a Spread.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.stages.csr import Rows
from kinrank.stages.gaussian_graph import GraphLayers
from kinrank.stages.kernels.compiler import THREAD_RUNNER, Output, Runner, compile_inner, compile_kernel
from kinrank.stages.kernels.data_structures import new_range, new_top_k_scratch, select_largest, sort_by_counting
from kinrank.stages.sparse_rows import Pattern
from kinrank.vector_input import sample_evenly

GraphWeights = NDArray[np.float64]
MAX_BLOCK_ITEMS = 1024  # up to here rows of F are computed in blocks, from all items
BLOCK_COLUMNS = 64  # rows of F in such a block, one per column
LINE_COLUMNS = 16  # columns of a block that a cache line holds; it divides BLOCK_COLUMNS
ENERGY_ROUNDING = 1e-9  # relative rounding of H, whose rows are float32
SWEEP_SECONDS, PUSH_SECONDS = 2e-10, 3e-9  # per edge that mass passes; kinrank.methods.base says how they were measured
REST_SHARE = np.float32(0.35)  # of the mass that waits at the end and is settled where it waits, in lists by F
WEIGHING_FACTOR = 8.0  # times the tolerance where only graph weights are estimated; they change by less than 0.001
SAMPLE_ROWS = 128, 512  # fewest and most items that statistics are estimated from; in between, every fourth


def estimate_diffusion_seconds(rows: int, items: int, degree: float, mu: float, tolerance: float) -> float:
    """Estimate the worst-case time of one core for rows of F in a graph of `items` with `degree` edges each.

    Mass is passed on wherever more than `tolerance` waits. The worst case are clusters of s items that keep it: it
    takes ln(1 / (s tolerance)) / ln(1 + mu) rounds over all s until less waits everywhere, which is largest for s = 1 /
    (e tolerance).
    """
    if items <= MAX_BLOCK_ITEMS:
        return SWEEP_SECONDS * rows * items * degree * len(chebyshev_weights(mu, tolerance))
    cluster = min(items, 1.0 / (math.e * tolerance))
    return PUSH_SECONDS * rows * degree * cluster * math.log(1.0 / (cluster * tolerance)) / math.log1p(mu)


def estimate_weighing_seconds(items: int, degree: float, mu: float, cycles: int, tolerance: float) -> float:
    """Estimate the worst-case time of one core for `fit_graph_weights`."""
    return cycles * estimate_diffusion_seconds(choose_sample_size(items), items, degree, mu, tolerance)


def choose_sample_size(items: int) -> int:
    """Return the number of items that graph weights and the contrast of distances are estimated from."""
    return max(SAMPLE_ROWS[0], min(items // 4, SAMPLE_ROWS[1]))


def build_diffusion_graph(layers: GraphLayers, beta: GraphWeights, mu: float) -> Rows:
    """Return a S_beta, the graph that mass spreads over."""
    return layers.mix(1.0 / (1.0 + mu) * beta)


def restart_share(mu: float) -> Any:
    """Return 1 - a, the share of mass that stays."""
    return np.float32(1.0 - 1.0 / (1.0 + mu))


def chebyshev_weights(mu: float, tolerance: float) -> NDArray[np.float32]:
    """Return (sweeps,) the weights w_2, w_3, ... of Chebyshev's iteration for x = G x + b.

    There are enough of them to bring the error below the tolerance. The eigenvalues of G = a S lie between -a and a, so
    that w_2 = 2 / (2 - a^2), w_k+1 = 1 / (1 - a^2 w_k / 4), and each sweep reduces the error by
    r = a / (1 + sqrt(1 - a^2)).
    """
    a = 1.0 / (1.0 + mu)
    rate = a / (1.0 + np.sqrt(1.0 - a * a))
    weights = [2.0 / (2.0 - a * a)]
    while 2.0 * rate ** len(weights) > tolerance:
        weights.append(1.0 / (1.0 - a * a * weights[-1] / 4.0))
    return np.array(weights, np.float32)


class Spread(NamedTuple):
    """A diffusion over a graph.

    Attributes:
        graph: a S_beta.
        restart: float32, 1 - a, the share of mass that stays.
        tolerance: float32, largest mass that is not passed on.
        weights: (sweeps,) float32 of Chebyshev's iteration, see `chebyshev_weights`.
    """

    graph: Rows
    restart: Any
    tolerance: Any
    weights: NDArray[np.float32]

    @classmethod
    def over(cls, graph: Rows, mu: float, tolerance: float) -> Spread:
        """Return the diffusion with a = 1 / (1 + mu) over a S_beta."""
        error = 0.25 * tolerance * np.sqrt(len(graph.indptr) - 1)  # less than the norm of what spreading leaves
        return cls(graph, restart_share(mu), np.float32(tolerance), chebyshev_weights(mu, error))


class DiffusedLists(NamedTuple):
    """For each item the items of the largest F, itself first, and F along them: (n, k) int32 and float32."""

    nearest: NDArray[np.int32]
    similar: NDArray[np.float32]


def compute_resolvent_values(
    spread: Spread, rows: NDArray[np.int64], pattern: Pattern
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return (values, bounds): rows of F on the items of a sparse pattern with one row per requested row.

    Mass of 1 starts at item i. Wherever more than `tolerance` waits, (1 - a) of it is settled and a S of it is passed
    on, at all such places at once. The mass r that still waits at the end is the error: F_i - f = (1-a)(I-aS)^-1 r,
    whose norm is at most |r|, because the norm of the resolvent is at most 1. The bounds are these |r|.
    """
    values, bounds = np.zeros(len(pattern.indices), np.float32), np.zeros(len(rows), np.float32)
    outputs = Output(values, pattern.indptr), Output(bounds)
    THREAD_RUNNER(write_resolvent_values, len(rows), (rows, spread, pattern), outputs, "diffusion")
    return values, bounds


def compute_resolvent_block(spread: Spread, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return a dense (rows, columns) block of F, for rankings by F; 0 where nothing above the tolerance arrived."""
    indptr = np.arange(len(rows) + 1, dtype=np.int64) * len(columns)
    everywhere = Pattern(indptr, np.tile(columns.astype(np.int32), len(rows)))
    return compute_resolvent_values(spread, rows, everywhere)[0].reshape(len(rows), len(columns))


def fit_graph_weights(
    layers: GraphLayers, mu: float, lam: float, cycles: int, tolerance: float, run: Runner = THREAD_RUNNER
) -> GraphWeights:
    """Return beta after `cycles` rounds of Algorithm 1 with E = I: F for fixed beta, then beta for fixed F.

    `lam` is lambda / n, because H grows like n. H_v is a sum over rows of F; SAMPLE_ROWS of them suffice for the few
    digits that beta needs.
    """
    n = len(layers.indptr) - 1
    beta = np.full(layers.count, 1.0 / layers.count)
    for _ in range(cycles if layers.count > 1 else 0):
        spread = Spread.over(build_diffusion_graph(layers, beta, mu), mu, WEIGHING_FACTOR * tolerance)
        total = _estimate_energies(layers, spread, run)
        beta = weigh_graphs(total, lam * n)
    return beta


def _estimate_energies(layers: GraphLayers, spread: Spread, run: Runner) -> GraphWeights:
    """Return (m,) H_v = <F, F> - <F, S_v F>, estimated from SAMPLE_ROWS of its rows."""
    n = len(layers.indptr) - 1
    rows = sample_evenly(n, choose_sample_size(n))
    few = n <= MAX_BLOCK_ITEMS
    parts = -(-len(rows) // BLOCK_COLUMNS) if few else len(rows)
    energies = run.empty((parts, layers.count), np.float32)
    kernel, runner = (block_energies, THREAD_RUNNER) if few else (row_energies, run)
    runner(kernel, parts, (rows, spread, layers.values), (Output(energies),), "graphs")
    return np.asarray(energies.sum(axis=0, dtype=np.float64) * (n / len(rows)))


def weigh_graphs(energies: NDArray[Any], lam: float) -> GraphWeights:
    """Return the beta that minimises sum beta_v H_v + lam/2 |beta|^2 on the simplex: the projection of -H/lam onto it.

    Equal to the paper's valid set and its weights, Eq. 11 and 13. Adding a constant to every H changes nothing. A lam
    below the rounding of H is treated as 0.
    """
    if lam <= ENERGY_ROUNDING * float(np.abs(energies).max()):
        least = energies == np.min(energies)
        return np.asarray(least, np.float64) / np.count_nonzero(least)
    return project_to_simplex(-np.asarray(energies, np.float64) / lam)


def project_to_simplex(point: GraphWeights) -> GraphWeights:
    """Return the nearest point of the simplex {x >= 0, sum x = 1}."""
    ordered = np.sort(point)[::-1]
    excess = (np.cumsum(ordered) - 1.0) / np.arange(1, len(point) + 1)
    last = np.flatnonzero(ordered > excess)[-1]
    return np.asarray(np.maximum(point - excess[last], 0.0))


def list_nearest_by_diffusion(
    spread: Spread,
    lists: NDArray[np.int32],
    width: int,
    run: Runner = THREAD_RUNNER,
    order: NDArray[np.int64] | None = None,
) -> DiffusedLists:
    """Return (n, width) the items of the largest F, each item first in its own list, and F along them.

    If F reaches too few items, the neighbour lists (n, >= 1) fill up, at F = 0; if those end too, the item itself does.
    `order`: all items in the order of their computation.
    """
    n = len(lists)
    diffused = DiffusedLists(run.empty((n, width), np.int32), run.empty((n, width), np.float32))
    update_nearest_rows(np.arange(n) if order is None else order, spread, lists, diffused, run)
    return diffused


def update_nearest_rows(
    rows: NDArray[np.int64],
    spread: Spread,
    lists: NDArray[np.int32],
    diffused: DiffusedLists,
    run: Runner = THREAD_RUNNER,
) -> None:
    """Compute some rows of `list_nearest_by_diffusion` in place."""
    inputs, outputs = (rows, spread, lists), (Output(diffused.nearest), Output(diffused.similar))
    if len(lists) <= MAX_BLOCK_ITEMS:
        THREAD_RUNNER(block_nearest_rows, -(-len(rows) // BLOCK_COLUMNS), inputs, outputs, "diffusion")
    else:
        run(nearest_rows, len(rows), inputs, outputs, "diffusion")


class SpreadScratch(NamedTuple):
    """Work arrays for one row of F, one entry per item; clean between rows, see `clean_scratch`.

    f: the row so far. left: mass that was not passed on yet, -1 for items not met. mass, front, upcoming: the items
    above the tolerance and their mass. touched: the items met, in order. The last three have room for one more.
    """

    f: Any
    left: Any
    mass: Any
    touched: Any
    front: Any
    upcoming: Any


@compile_inner
def new_spread_scratch(n: Any) -> Any:
    """Allocate the work arrays for rows of n items."""
    f, left, mass = np.zeros(n, np.float32), np.empty(n, np.float32), np.empty(n, np.float32)
    touched, front, upcoming = np.empty(n + 1, np.int32), np.empty(n + 1, np.int32), np.empty(n + 1, np.int32)
    for item in range(n):
        left[item] = -1.0
    return SpreadScratch(f, left, mass, touched, front, upcoming)


@compile_inner
def spread_row(source: Any, spread: Any, scratch: Any) -> Any:
    """Fill scratch.f with row `source` and scratch.left with the mass not passed on; return the number of items met.

    Invariant after every sweep: row = f + restart * (I - graph)^-1 left, with left >= 0. All entries above the
    tolerance are passed on together, so that the result does not depend on the numbering of the items.
    """
    f, left, mass, touched = scratch.f, scratch.left, scratch.mass, scratch.touched
    indptr, indices, data = spread.graph
    restart, tolerance = spread.restart, spread.tolerance
    front, upcoming = scratch.front, scratch.upcoming
    count = 1
    touched[0] = source
    left[source] = 1.0
    size = 1
    front[0] = source
    while size > 0:
        for position in range(np.uint64(size)):
            node = np.uint32(front[position])
            mass[position] = left[node]
            left[node] = 0.0
            f[node] += restart * mass[position]
        waiting = 0
        for position in range(np.uint64(size)):
            node = np.int64(front[position])
            amount = mass[position]
            for entry in range(np.uint64(indptr[node]), np.uint64(indptr[node + 1])):
                other = np.uint32(indices[entry])
                # written always, counted conditionally: unpredictable branches would take twice the time
                known = left[other]
                touched[np.uint64(count)] = other
                count += np.int64(known < 0.0)
                before = max(known, np.float32(0.0))
                after = before + amount * data[entry]
                left[other] = after
                upcoming[np.uint64(waiting)] = other
                waiting += np.int64(before <= tolerance) & np.int64(after > tolerance)
        front, upcoming = upcoming, front
        size = waiting
    return count


@compile_inner
def settle_rest(count: Any, scratch: Any) -> None:
    """Settle REST_SHARE of the mass that still waits at the first `count` touched items.

    This is nearer to F than settling nothing: most of the waiting mass would settle at the item or close to it.
    """
    for position in range(np.uint64(count)):
        node = np.uint32(scratch.touched[position])
        scratch.f[node] += REST_SHARE * scratch.left[node]


@compile_inner
def clean_scratch(count: Any, scratch: Any) -> None:
    """Reset the entries of the first `count` touched items."""
    for position in range(np.uint64(count)):
        node = np.uint32(scratch.touched[position])
        scratch.f[node] = 0.0
        scratch.left[node] = -1.0


@compile_kernel
def write_resolvent_values(
    start: Any, stop: Any, rows: Any, spread: Any, pattern: Any, values: Any, bounds: Any
) -> None:
    """Write row rows[p] on the items of row p of the pattern and the norm of the mass left; p in start..stop.

    rows (m,) int64; pattern: Pattern of m rows -> values (entries,) float32, bounds (m,) float32.
    """
    scratch = new_spread_scratch(len(spread.graph.indptr) - 1)
    for row in range(start, stop):
        count = spread_row(rows[row], spread, scratch)
        for entry in range(pattern.indptr[row], pattern.indptr[row + 1]):
            values[entry] = scratch.f[pattern.indices[entry]]
        squares = np.float32(0.0)
        for position in range(count):
            squares += scratch.left[scratch.touched[position]] ** 2
        bounds[row] = np.sqrt(squares)
        clean_scratch(count, scratch)


@compile_kernel
def row_energies(start: Any, stop: Any, rows: Any, spread: Any, layers: Any, energies: Any) -> None:
    """Write energies[p, v] = <f, f> - <f, S_v f> of row f = rows[p] and every layer v; p from start to stop.

    rows (m,) int64, layers (entries, v) float32 on the pattern of the graph, energies (m, v) float32.
    """
    graph = spread.graph
    scratch = new_spread_scratch(len(graph.indptr) - 1)
    f = scratch.f
    for row in range(start, stop):
        count = spread_row(rows[row], spread, scratch)
        for layer in range(energies.shape[1]):
            energies[row, layer] = 0.0
        square = np.float32(0.0)
        for position in range(count):
            node = scratch.touched[position]
            if f[node] == 0.0:
                continue
            square += f[node] * f[node]
            for entry in range(graph.indptr[node], graph.indptr[node + 1]):
                product = f[node] * f[graph.indices[entry]]
                for layer in range(energies.shape[1]):
                    energies[row, layer] -= product * layers[entry, layer]
        for layer in range(energies.shape[1]):
            energies[row, layer] += square
        clean_scratch(count, scratch)


class SelectionScratch(NamedTuple):
    """Work arrays for selecting the largest entries of a row, (n + 1,): values, best float32, items, chosen int32."""

    values: Any
    best: Any
    items: Any
    chosen: Any
    counting: Any


@compile_inner
def new_selection(n: Any) -> Any:
    """Allocate the work arrays for rows of n items."""
    items, chosen = np.empty(n + 1, np.int32), np.empty(n + 1, np.int32)
    values, best = np.empty(n + 1, np.float32), np.empty(n + 1, np.float32)
    return SelectionScratch(values, best, items, chosen, new_top_k_scratch(n))


@compile_inner
def _write_largest(row: Any, f: Any, touched: Any, lists: Any, nearest: Any, similar: Any, selection: Any) -> None:
    """Write row `row` of nearest and similar: the touched items of the largest f, and f; see `nearest_rows`."""
    values, items = selection.values, selection.items
    reached = 0 * len(touched)  # a literal has another type, for which Numba would compile the callees again
    for place in range(np.uint64(len(touched))):
        value = f[np.uint32(touched[place])]
        items[np.uint64(reached)] = touched[place]
        values[np.uint64(reached)] = value
        reached += np.int64(value > 0.0) & np.int64(touched[place] != row)
    size = nearest.shape[1] - 1
    found = select_largest(values, items, reached, size, selection.counting, selection.chosen)
    nearest[row, 0] = row
    similar[row, 0] = f[row]
    numbers, similarities = nearest[row, 1:], similar[row, 1:]
    for entry in range(np.uint64(found)):
        place = np.uint32(selection.chosen[entry])
        selection.best[entry] = values[place]
        selection.chosen[entry] = items[place]
    sort_by_counting(selection.best, selection.chosen, similarities[:found], numbers[:found])
    filled = found
    for place in range(filled, size):
        similarities[place] = 0.0
        numbers[place] = row
    for place in range(lists.shape[1]):
        item = lists[row, place]
        if filled >= size or item < 0:
            break
        if item != row and not f[item] > 0.0:  # negates the test above: such an item is not listed yet
            numbers[filled] = item
            filled += 1


@compile_kernel
def nearest_rows(start: Any, stop: Any, rows: Any, spread: Any, lists: Any, nearest: Any, similar: Any) -> None:
    """Write for i in rows[start..stop] the items of the largest F_i and F_i itself; i first, ties to the lower number.

    rows (m,) int64, lists (n, >= 1) int32 -> nearest (n, k) int32, similar (n, k) float32. If F reaches too few items,
    `lists` fills up at similarity 0; where that ends (-1), the item itself.
    """
    n = len(spread.graph.indptr) - 1
    scratch, selection = new_spread_scratch(n), new_selection(n)
    for position in range(start, stop):
        count = spread_row(rows[position], spread, scratch)
        settle_rest(count, scratch)
        _write_largest(rows[position], scratch.f, scratch.touched[:count], lists, nearest, similar, selection)
        clean_scratch(count, scratch)


@compile_inner
def new_block_scratch(n: Any) -> Any:
    """Allocate four blocks of BLOCK_COLUMNS columns, each (n, BLOCK_COLUMNS) float32: four cache lines per item.

    They start where a cache line does: otherwise every access takes two, and an iteration half as long again.
    """
    size = n * BLOCK_COLUMNS
    numbers = np.empty(4 * size + LINE_COLUMNS, np.float32)
    first = -(numbers.ctypes.data // 4) % LINE_COLUMNS
    blocks = numbers[first : first + 4 * size].reshape((4, n, BLOCK_COLUMNS))
    return blocks[0], blocks[1], blocks[2], blocks[3]


@compile_inner
def diffuse_items(rows: Any, spread: Any, scratch: Any) -> Any:
    """Compute (n, BLOCK_COLUMNS) F of at most BLOCK_COLUMNS rows, one column each."""
    b = scratch[0]
    for item in range(len(b)):
        for column in range(b.shape[1]):
            b[item, column] = 0.0
    for column in range(len(rows)):
        b[rows[column], column] = 1.0
    return diffuse_block(spread, scratch)


@compile_inner
def diffuse_block(spread: Any, scratch: Any) -> Any:
    """Compute (n, BLOCK_COLUMNS) F b of the first block b of the scratch, by Chebyshev's iteration.

    x <- w (G x + b - y) + y, y the x before, w from `spread.weights`. What no path reaches stays exactly 0.
    """
    indptr, indices, data = spread.graph
    weights = spread.weights
    b, x, y, z = scratch
    width = x.shape[1]  # not the constant: the compiler unrolls loops of known length instead of vectorising them
    for item in range(len(x)):
        for column in range(width):
            b[item, column] *= spread.restart
            x[item, column] = b[item, column]
            y[item, column] = 0.0
    for sweep in range(len(weights)):
        weight = weights[sweep]
        for item in range(len(x)):
            line, before, base = z[item], y[item], b[item]
            for column in range(width):
                line[column] = base[column] - before[column]
            entry, end = np.uint64(indptr[item]), np.uint64(indptr[item + 1])
            while entry + np.uint64(4) <= end:  # four edges at once: a third less time, because sums stay in registers
                second, third, fourth = entry + np.uint64(1), entry + np.uint64(2), entry + np.uint64(3)
                x0, x1 = x[np.uint32(indices[entry])], x[np.uint32(indices[second])]
                x2, x3 = x[np.uint32(indices[third])], x[np.uint32(indices[fourth])]
                s0, s1, s2, s3 = data[entry], data[second], data[third], data[fourth]
                for column in range(width):
                    line[column] += s0 * x0[column] + s1 * x1[column] + s2 * x2[column] + s3 * x3[column]
                entry += np.uint64(4)
            while entry < end:
                other, share = x[np.uint32(indices[entry])], data[entry]
                for column in range(width):
                    line[column] += share * other[column]
                entry += np.uint64(1)
            for column in range(width):
                line[column] = weight * line[column] + before[column]
        x, y, z = z, x, y
    return x


@compile_kernel
def block_energies(start: Any, stop: Any, rows: Any, spread: Any, layers: Any, energies: Any) -> None:
    """Write the sums of `row_energies` over blocks start..stop of BLOCK_COLUMNS rows, each from all items.

    energies (blocks, v) float32. An edge counts twice, once for either item.
    """
    graph = spread.graph
    scratch = new_block_scratch(len(graph.indptr) - 1)
    sums = np.empty(energies.shape[1], np.float64)
    for block in range(start, stop):
        f = diffuse_items(rows[block * BLOCK_COLUMNS : (block + 1) * BLOCK_COLUMNS], spread, scratch)
        sums[:] = 0.0
        for item in range(len(f)):
            square = _multiply_lines(f[item], f[item])
            for layer in range(len(sums)):
                sums[layer] += square
            for entry in range(np.uint64(graph.indptr[item]), np.uint64(graph.indptr[item + 1])):
                other = np.int64(graph.indices[entry])
                if other <= item:
                    product = _multiply_lines(f[item], f[other]) * (2.0 if other < item else 1.0)
                    for layer in range(len(sums)):
                        sums[layer] -= layers[entry, layer] * product
        energies[block] = sums


@compile_inner
def _multiply_lines(mine: Any, other: Any) -> Any:
    """Return the inner product of two rows of a block."""
    total = np.float32(0.0)
    for column in range(len(mine)):
        total += mine[column] * other[column]
    return np.float64(total)


@compile_kernel
def block_nearest_rows(start: Any, stop: Any, rows: Any, spread: Any, lists: Any, nearest: Any, similar: Any) -> None:
    """Write lists like `nearest_rows`, BLOCK_COLUMNS rows at once, from all items; blocks start..stop of rows."""
    n = len(spread.graph.indptr) - 1
    scratch, selection = new_block_scratch(n), new_selection(n)
    everyone, lines = new_range(n), np.empty((LINE_COLUMNS, n), np.float32)
    for block in range(start, stop):
        first, last = block * BLOCK_COLUMNS, min((block + 1) * BLOCK_COLUMNS, len(rows))
        found = diffuse_items(rows[first:last], spread, scratch)
        for begin in range(first, last, LINE_COLUMNS):
            for item in range(n):
                for column in range(LINE_COLUMNS):
                    lines[column, item] = max(found[item, begin - first + column], np.float32(0.0))
            for row in range(begin, min(begin + LINE_COLUMNS, last)):
                _write_largest(rows[row], lines[row - begin], everyone, lists, nearest, similar, selection)
