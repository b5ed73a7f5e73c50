"""Steps of CAS: diffusion on regions, smoothing by sure neighbours, random walk, graph of Jensen-Shannon divergences.

n items. Kernels take sparse matrices as `Rows` (sparse_rows.py).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from kinrank.stages.affinity import normalize_affinity
from kinrank.stages.csr import Rows, add_transpose, invert_rows, matrix_from_lists, matrix_from_rows, rows_from_matrix
from kinrank.stages.gaussian_graph import find_mutual, find_position
from kinrank.stages.kernels.compiler import compile_inner, compile_kernel, run_in_chunks
from kinrank.stages.kernels.data_structures import (
    UNTOUCHED,
    comes_after,
    new_missing_numbers,
    new_range,
    new_untouched_sums,
    sift_down,
)
from kinrank.stages.kernels.fastmath import log2_32
from kinrank.stages.reciprocal_sets import Floats, Lists, WeightedLists, gather_row, new_row_scratch, sum_rows
from kinrank.stages.step_costs import find_chains

DIFFUSION_BLOCK_ROWS = 64  # rows diffused together: four cache lines of float32 per item
DIFFUSION_STEPS = 10
BINOMIALS = np.array([math.comb(DIFFUSION_STEPS, t) for t in range(DIFFUSION_STEPS + 1)], np.float32)


def build_affinity(lists: Lists, similarity: Floats, k1: int) -> csr_array:
    """Build the symmetric (n, n) matrix of similarities to the k1 - 1 nearest others, doubled for mutual neighbours."""
    values = similarity[:, 1:k1] * (1 + find_mutual(lists, k1)[:, 1:])
    directed = matrix_from_lists(lists[:, 1:k1], values.astype(np.float32, copy=False), len(lists))
    return csr_array(add_transpose(directed) * np.float32(0.5))


def diffuse_on_regions(weights: csr_array, regions: csr_array, mu: float) -> csr_array:
    """Run ten steps of F <- a/2 (F S + S F) + (1 - a) I from F = W, a = 1 / (1 + mu); return F on the regions only.

    S is W divided by the roots of its row sums on both sides. The result is exact. The cost is n^2 times about 8 k1
    multiplications in the worst case and less if the graph has several components; memory is 1 kB per item and thread.
    """
    numbers = np.asarray(reverse_cuthill_mckee(weights, symmetric_mode=True), np.int32)  # near items share blocks
    place = np.empty_like(numbers)
    place[numbers] = np.arange(len(numbers), dtype=np.int32)
    edges = rows_from_matrix(csr_array(weights[numbers][:, numbers]))
    smooth = rows_from_matrix(csr_array(normalize_affinity(weights)[numbers][:, numbers])).data
    inside = rows_from_matrix(regions)
    result = Rows(inside.indptr, place[inside.indices], np.zeros(len(inside.indices), np.float32))
    blocks = -(-len(numbers) // DIFFUSION_BLOCK_ROWS)
    graph = AffinityGraph(*edges, smooth)
    run_in_chunks(diffuse_blocks, blocks, numbers, graph, result, 1 / (1 + mu), DIFFUSION_BLOCK_ROWS, chunk=4)
    return matrix_from_rows(Rows(inside.indptr, inside.indices, result.data), len(numbers))


def smooth_states(
    states: csr_array, lists: Lists, similarity: Floats, sure: csr_array, k3: int, beta: float
) -> csr_array:
    """Smooth the states, guided by the sure neighbours of each item (see `smooth_rows`); each row sums to one."""
    others = np.ascontiguousarray(lists[:, 1:k3])
    chances = similarity[:, 1:k3]
    total = chances.sum(axis=1, keepdims=True)
    chances = np.ascontiguousarray(chances / np.where(total > 0, total, np.float32(1)))
    forward = matrix_from_lists(others, chances, len(lists))
    back = invert_rows(forward, np.arange(len(lists)))
    returns = np.asarray(forward.multiply(back).sum(axis=1), np.float64).ravel()
    steps = RandomSteps(others, chances, rows_from_matrix(back), returns)
    rows = rows_from_matrix(states)
    run_in_chunks(smooth_rows, len(lists), rows, rows_from_matrix(sure), steps, beta)
    return matrix_from_rows(rows, len(lists))


def expand_walk(states: csr_array, lists: Lists, k1: int, k4: int, k5: int, lv: float) -> csr_array:
    """Return the rows p = M M: M has the k5 largest entries of m m, m the states averaged over near and sure items.

    Near items are the k4 nearest ones.
    """
    k4 = min(k4, lists.shape[1])
    wide = np.ascontiguousarray(lists[:, : max(k1, k4)])
    weights = np.zeros(wide.shape, np.float32)
    weights[:, :k4] = 1 / k4
    sure = find_mutual(lists, k1)
    weights[:, : sure.shape[1]] += lv * sure / sure.sum(axis=1, keepdims=True)
    weights /= np.float32(1 + lv)
    count = len(lists)
    columns = np.empty((count, min(k5, count)), np.int32)
    values = np.empty(columns.shape, np.float32)
    run_in_chunks(walk_rows, count, WeightedLists(wide, weights), rows_from_matrix(states), columns, values, chunk=64)
    return sum_rows(columns, values, matrix_from_lists(columns, values, count))


def compute_divergences(lists: Lists, rows: csr_array) -> Floats:
    """Return (n, k) Jensen-Shannon divergences, in bits, of the row of every item and those of its listed items."""
    lengths = np.empty(lists.shape, np.float32)
    sums = np.empty(len(lists), np.float64)
    states = rows_from_matrix(rows)
    run_in_chunks(sum_row_logs, len(lists), states, sums, chunk=256)
    run_in_chunks(list_divergences, len(lists), lists, states, sums, lengths, chunk=64)
    run_in_chunks(copy_mutual_divergences, len(lists), lists, lengths, chunk=512)
    return lengths


def build_two_way_graph(lists: Lists, lengths: Floats) -> csr_array:
    """Build an (n, n) sparse graph with an edge from each item to every item of its list and one back.

    Mutual pairs have the edge twice. The two directions are stored side by side, because adding them would lose edges
    of length 0 and double those of mutual pairs.
    """
    forward = matrix_from_lists(lists, lengths, len(lists))
    pieces = rows_from_matrix(forward), rows_from_matrix(invert_rows(forward, np.arange(len(lists))))
    indptr = pieces[0].indptr + pieces[1].indptr
    edges = Rows(indptr, np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32))
    before = 0  # edges of the same row that precede those of the piece
    for piece in pieces:
        shift = np.repeat(indptr[:-1] - piece.indptr[:-1] + before, np.diff(piece.indptr))
        target = np.arange(len(piece.indices)) + shift
        edges.indices[target], edges.data[target] = piece.indices, piece.data
        before = lists.shape[1]
    return matrix_from_rows(edges, len(lists))


def compute_path_lengths(
    graph: csr_array, sources: NDArray[np.int64], gallery: NDArray[np.int64], never: float
) -> Floats:
    """Return (len(sources), g) the lengths of shortest paths, at most `never`, which also stands for "no path"."""
    totals, _ = find_chains(sources, rows_from_matrix(graph))
    return np.asarray(np.minimum(totals[:, gallery], np.float32(never)))


class AffinityGraph(NamedTuple):
    """Graph of the diffusion as sparse rows with two float32 values per entry: W and its normalisation S."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    affinity: NDArray[np.float32]
    smooth: NDArray[np.float32]


class RandomSteps(NamedTuple):
    """Random steps: from i to lists[i, t] with probability chances[i, t], (n, k) int32 and float32.

    back: Rows (n, n), the transpose: items that step to an item, with their probabilities. returns (n,) float64: the
    probability of being back at an item after two steps.
    """

    lists: NDArray[np.int32]
    chances: NDArray[np.float32]
    back: Any
    returns: NDArray[np.float64]


@compile_inner
def _find_levels(seeds: Any, graph: Any, limit: Any, level: Any, order: Any, ends: Any) -> Any:
    """Search breadth first from the seeds.

    Writes level[v] (limit + 1 beyond the limit), the items in the order of the visit, and ends[l] of each level.
    """
    level[:] = limit + 1
    size = 0
    for seed in seeds:
        if level[seed] != 0:
            level[seed] = 0
            order[size] = seed
            size += 1
    ends[0] = size
    first = 0
    for depth in range(1, limit + 1):
        last = size
        for place in range(first, last):
            item = order[place]
            for edge in range(graph.indptr[item], graph.indptr[item + 1]):
                other = graph.indices[edge]
                if level[other] > depth:
                    level[other] = depth
                    order[size] = other
                    size += 1
        first = last
        ends[depth] = size
    return size


@compile_kernel
def diffuse_blocks(start: Any, stop: Any, numbers: Any, graph: Any, regions: Any, alpha: Any, width: Any) -> None:
    """Add to regions.data the entries of F on the region of each item, exactly, in blocks of `width` items.

    F = (1 - a) sum_(t<10) a^t S^t + (a/2)^10 sum_t C(10, t) S^t W S^(10-t): ten steps of F <- a/2 (FS + SF)
    + (1-a) I from F = W, written out. With u_t = e' S^t the second sum is z <- z S + C(10, t) u_t W. An
    item takes part in a step only while the block has reached it and a region is still near enough to it.

    * start, stop count blocks; numbers (n,) int32: the item at each place of the graph;
    * graph: AffinityGraph (n, n) over places; alpha: a;
    * regions: Rows (n, n), row i the region of item i, its members as places of the graph; data 0 on entry.
    """
    items = len(numbers)
    places = new_range(items)
    level = np.empty(items, np.int32)
    back = np.empty(items, np.int32)
    order = np.empty(items, np.int32)
    order_back = np.empty(items, np.int32)
    ends = np.empty(DIFFUSION_STEPS + 2, np.int64)
    ends_back = np.empty(DIFFUSION_STEPS + 2, np.int64)
    u = np.zeros((2, items, width), np.float32)
    z = np.zeros((2, items, width), np.float32)
    for block in range(start, stop):
        first = block * width
        mine = numbers[first : first + width]
        size = _find_levels(places[first : first + len(mine)], graph, DIFFUSION_STEPS + 1, level, order, ends)
        _find_levels(_join_regions(mine, regions), graph, DIFFUSION_STEPS + 1, back, order_back, ends_back)
        for place in range(size):
            u[:, order[place]] = 0.0
            z[:, order[place]] = 0.0
        for r in range(len(mine)):
            u[0, first + r, r] = 1.0
        power = 1.0 - alpha
        for step in range(DIFFUSION_STEPS + 1):
            old = step % 2
            if step < DIFFUSION_STEPS:
                for r in range(len(mine)):
                    for entry in range(regions.indptr[mine[r]], regions.indptr[mine[r] + 1]):
                        member = regions.indices[entry]
                        if level[member] <= step:  # items farther away hold leftovers of an earlier block
                            regions.data[entry] += power * u[old, member, r]
                power *= alpha
            _diffuse_once(step, order[: ends[step + 1]], (level, back), graph, u, z)
        last = z[(DIFFUSION_STEPS + 1) % 2]
        for r in range(len(mine)):
            for entry in range(regions.indptr[mine[r]], regions.indptr[mine[r] + 1]):
                member = regions.indices[entry]
                if level[member] <= DIFFUSION_STEPS + 1:
                    regions.data[entry] += (0.5 * alpha) ** DIFFUSION_STEPS * last[member, r]


@compile_inner
def _join_regions(items: Any, regions: Any) -> Any:
    """Concatenate the members of the regions of several items."""
    size = 0
    for item in items:
        size += regions.indptr[item + 1] - regions.indptr[item]
    joined = np.empty(size, np.int32)
    size = 0
    for item in items:
        first, last = regions.indptr[item], regions.indptr[item + 1]
        for entry in range(first, last):
            joined[size] = regions.indices[entry]
            size += 1
    return joined


@compile_inner
def _diffuse_once(step: Any, active: Any, levels: Any, graph: Any, u: Any, z: Any) -> None:
    """Compute u <- u S and z <- z S + C(10, step) u W on the active items that are near enough to a region.

    u, z (2, n, width) float32: read at step % 2, written at the other; levels: distance of each item from the block and
    from its regions, both (n,) int32.
    """
    level, back = levels
    old_u, new_u = u[step % 2], u[(step + 1) % 2]
    old_z, new_z = z[step % 2], z[(step + 1) % 2]
    width = old_u.shape[1]  # not a constant: the loop below is vectorised only if it is not unrolled first
    for item in active:
        if back[item] > DIFFUSION_STEPS - step:
            continue
        mine_u = new_u[item]
        mine_z = new_z[item]
        mine_u[:] = 0.0
        mine_z[:] = 0.0
        for edge in range(graph.indptr[item], graph.indptr[item + 1]):
            other = graph.indices[edge]
            if level[other] > step:  # not reached yet: 0
                continue
            source_u = old_u[other]
            source_z = old_z[other]
            s = graph.smooth[edge]
            w = np.float32(BINOMIALS[step] * graph.affinity[edge])
            for r in range(width):
                mine_u[r] += s * source_u[r]
                mine_z[r] += s * source_z[r] + w * source_u[r]


@compile_kernel
def smooth_rows(start: Any, stop: Any, states: Any, sure: Any, steps: Any, beta: Any) -> None:
    """Smooth the states of rows start..stop, guided by their neighbours, in place; each row then sums to one.

    Only the square of the random step is needed: the mean over the sure items c of the probability to get from j to c
    in two steps, through a dense array of the steps into them. states: Rows (n, n), changed; sure: Rows (n, n), of
    which the data are not read; steps: RandomSteps.
    """
    into = np.zeros(len(states.indptr) - 1, np.float64)
    is_sure = new_missing_numbers(len(states.indptr) - 1)
    members, values = states.indices, states.data
    for row in range(start, stop):
        core = sure.indices[sure.indptr[row] : sure.indptr[row + 1]]
        size = len(core)
        first, last = states.indptr[row], states.indptr[row + 1]
        inside = 0
        for place in range(size):
            is_sure[core[place]] = row
        for entry in range(first, last):
            inside += is_sure[members[entry]] == row
        a = 0.0
        for place in range(size):
            a += steps.returns[core[place]] / size
        if size > 1 and last - first - inside > 1 and a * a + 2 * beta > 0:
            for place in range(size):
                c = core[place]
                for entry in range(steps.back.indptr[c], steps.back.indptr[c + 1]):
                    into[steps.back.indices[entry]] += steps.back.data[entry] / size
            weights = np.empty(last - first, np.float64)
            mean, weighted = 0.0, 0.0
            for entry in range(first, last):
                other = members[entry]
                weight = a
                if is_sure[other] != row:
                    weight = 0.0
                    for place in range(steps.lists.shape[1]):
                        weight += steps.chances[other, place] * into[steps.lists[other, place]]
                    weight = min(weight, a)
                weights[entry - first] = weight
                mean += values[entry] / (last - first)
                weighted += values[entry] * weight / (last - first)
            shift = max(a * a * mean - a * weighted, 0.0)  # below 0 by rounding only, as no weight exceeds a
            for entry in range(first, last):
                kept = values[entry] * (a * weights[entry - first] + 2 * beta)
                values[entry] = (kept + shift) / (a * a + 2 * beta)
            for place in range(size):
                c = core[place]
                for entry in range(steps.back.indptr[c], steps.back.indptr[c + 1]):
                    into[steps.back.indices[entry]] = 0.0
        total = 0.0
        for entry in range(first, last):
            total += values[entry]
        for entry in range(first, last):
            values[entry] /= total


@compile_kernel
def walk_rows(start: Any, stop: Any, mixture: Any, matrix: Any, columns: Any, values: Any) -> None:
    """Write the k largest entries of each row of m m, m = mixture times the matrix, summing to one; rows start..stop.

    mixture: WeightedLists; matrix: Rows (n, n); columns, values (n, k) int32 and float32, written. All weights and
    entries must be >= 0; products that underflow to 0 reach no item. Ties go to the lower number; a row with fewer
    entries is filled up with its own number and value 0.
    """
    lists, weights = mixture
    items = len(columns)
    work = new_row_scratch(items)
    spread, final = new_untouched_sums(items), new_untouched_sums(items)
    passed, reached = np.empty(items, np.int32), np.empty(items, np.int32)
    for row in range(start, stop):
        middle = 0
        for entry in range(gather_row(row, mixture, matrix, work)):
            column = work.touched[entry]
            mass = work.total[column]
            for place in range(lists.shape[1]):
                other, share = lists[column, place], mass * weights[column, place]
                if spread[other] < 0.0 and share > 0.0:
                    passed[middle] = other
                    middle += 1
                    spread[other] = 0.0
                spread[other] += share
        size = 0
        for entry in range(middle):
            column = passed[entry]
            mass = spread[column]
            spread[column] = UNTOUCHED
            for step in range(matrix.indptr[column], matrix.indptr[column + 1]):
                other, share = matrix.indices[step], mass * matrix.data[step]
                if final[other] < 0.0 and share > 0.0:
                    reached[size] = other
                    size += 1
                    final[other] = 0.0
                final[other] += share
        _keep_largest(row, reached[:size], final, columns[row], values[row])
        for entry in range(size):
            final[reached[entry]] = UNTOUCHED


@compile_inner
def _keep_largest(row: Any, reached: Any, final: Any, columns: Any, values: Any) -> None:
    """Keep the len(columns) largest of final[reached], ties to the lower number, divided by their sum."""
    k = len(columns)
    kept = min(k, len(reached))
    for entry in range(kept):
        columns[entry] = reached[entry]
        values[entry] = final[reached[entry]]
    if kept < len(reached):
        for entry in range(k // 2 - 1, -1, -1):
            sift_down(values, columns, entry, k)
        for entry in range(kept, len(reached)):
            value = final[reached[entry]]
            if value >= values[0] and comes_after(values[0], columns[0], value, reached[entry]):
                values[0] = value
                columns[0] = reached[entry]
                sift_down(values, columns, 0, k)
    total = 0.0
    for entry in range(kept):
        total += values[entry]
    for entry in range(kept):
        values[entry] /= total
    for entry in range(kept, k):
        columns[entry] = row
        values[entry] = 0.0


@compile_inner
def _sum_logs(values: Any) -> Any:
    """Return sum_k v_k log2(v_k) of positive float32 numbers.

    Eight at a time, which is four times faster than calling a logarithm for each.
    """
    total = np.float32(0.0)
    for k in range(len(values)):
        total += values[k] * log2_32(values[k])
    return total


@compile_inner
def _entropy_bits(value: Any) -> Any:
    """Return v log2(v), 0 at 0."""
    return value * math.log(value) / math.log(2.0) if value > 0 else 0.0


@compile_kernel
def sum_row_logs(start: Any, stop: Any, rows: Any, sums: Any) -> None:
    """Write sums[i] = sum_c v_ic log2(v_ic) for rows start..stop; rows: Rows (n, n); sums (n,) float64."""
    for row in range(start, stop):
        total = 0.0
        for entry in range(rows.indptr[row], rows.indptr[row + 1]):
            total += _entropy_bits(np.float64(rows.data[entry]))
        sums[row] = total


@compile_inner
def _add_on_columns(columns: Any, values: Any, dense: Any, both: Any) -> Any:
    """Write both = p + q on the columns of q, p being the first of each dense pair; return the sum of the second."""
    total = 0.0  # float64, because a running sum of a thousand terms would lose five digits in float32
    for k in range(len(columns)):
        column = columns[k]
        both[k] = dense[column, 0] + values[k]
        total += np.float64(dense[column, 1])
    return total


@compile_kernel
def list_divergences(start: Any, stop: Any, lists: Any, rows: Any, sums: Any, out: Any) -> None:
    """Write out[i, t] = Jensen-Shannon divergence, in bits, of rows i and j = lists[i, t]; -1 if j computes it.

    1 + 1/2 sum_c (p log2 p + q log2 q - (p + q) log2(p + q)). Columns that only one row holds add nothing, so the sum
    runs over the columns of j. A pair that lists each other is computed once, by the lower number. lists (n, k) int32;
    rows: Rows (n, n), each summing to one; sums (n,) float64 from `sum_row_logs`; out (n, k) float32, written for rows
    start..stop.
    """
    indptr, indices, data = rows
    items, k = lists.shape
    dense = np.zeros((items, 2), np.float32)  # p and p log2 p of the row, adjacent in memory
    both = np.empty(items, np.float32)
    for row in range(start, stop):
        for entry in range(indptr[row], indptr[row + 1]):
            dense[indices[entry], 0] = data[entry]
            dense[indices[entry], 1] = _entropy_bits(np.float64(data[entry]))
        for place in range(k):
            other = lists[row, place]
            if other == row:
                out[row, place] = 0.0
            elif other < row and find_position(lists[other], row) < k:
                out[row, place] = -1.0
            else:
                first, last = indptr[other], indptr[other + 1]
                alone = _add_on_columns(indices[first:last], data[first:last], dense, both)
                mixed = _sum_logs(both[: last - first])
                out[row, place] = min(max(1.0 + 0.5 * (alone + sums[other] - mixed), 0.0), 1.0)
        for entry in range(indptr[row], indptr[row + 1]):
            dense[indices[entry]] = 0.0


@compile_kernel
def copy_mutual_divergences(start: Any, stop: Any, lists: Any, out: Any) -> None:
    """Copy the divergences marked -1 from the list of the other item; lists, out (n, k) as in `list_divergences`."""
    for row in range(start, stop):
        for place in range(lists.shape[1]):
            if out[row, place] < 0:
                other = lists[row, place]
                out[row, place] = out[other, find_position(lists[other], row)]
