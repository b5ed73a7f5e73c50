"""Contexts of items: expanded reciprocal sets, sparse rows over them, and comparisons of these rows.

Sparse rows are passed as `csr_array` (to kernels as `Rows`); no function here builds an n x n array. Lists are (n, k)
item numbers, each starting with the item itself. Every kernel handles the rows, or the queries, start..stop.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinrank.neighbors import find_first_equal, half_squares, pairwise_distances, share_equal_columns
from kinrank.problem import Items
from kinrank.stages.csr import Rows, matrix_from_rows, rows_from_matrix
from kinrank.stages.gaussian_graph import reciprocal_matrix
from kinrank.stages.kernels.compiler import compile_inner, compile_kernel, run_in_chunks
from kinrank.stages.kernels.data_structures import new_missing_numbers
from kinrank.stages.kernels.nearest_search import ProductBlocks
from kinrank.vector_input import Vectors

Lists = NDArray[np.int32]
Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
MAX_BLOCK_RANKS = 2**22  # ranks held in memory
BLOCK_SIDE = 1024  # rows and columns of one block of inner products: 4 MB


def find_farthest_squared(vectors: Vectors, unit: bool = True) -> Floats:
    """Return (n,) the squared Euclidean distance from each row to the row farthest from it; never zero.

    Each block of inner products serves its rows and its columns, which halves the products of a full pass: n^2 d / 2
    multiplications, 4 MB. If all rows coincide, the result is the smallest positive float, so that a distance of 0
    divided by it is 0. `unit`: all rows have length one.
    """
    products = ProductBlocks(vectors, vectors, unit)
    lowest = np.full(len(vectors), products.top, np.float32)
    for first in range(0, len(vectors), BLOCK_SIDE):
        rows = slice(first, first + BLOCK_SIDE)
        for second in range(first, len(vectors), BLOCK_SIDE):
            columns = slice(second, second + BLOCK_SIDE)
            block = products.block(rows, columns)
            np.minimum(lowest[rows], block.min(axis=1), out=lowest[rows])
            if second > first:
                np.minimum(lowest[columns], block.min(axis=0), out=lowest[columns])
    squared = 2 * products.top - 2 * lowest
    lengths = 1.0 if unit else 2.0 * half_squares(vectors).max(initial=0.0)
    close = np.flatnonzero(squared < 1e-2 * lengths)  # inner products lose digits here: sum differences instead
    for start in range(0, len(close), BLOCK_SIDE):
        block_rows = close[start : start + BLOCK_SIDE]
        squared[block_rows] = pairwise_distances(vectors[block_rows], vectors, unit).max(axis=1) ** 2
    return np.asarray(np.maximum(squared, np.finfo(np.float32).tiny), np.float32)


def scale_distances(items: Items, queries: Numbers, far: Floats, power: int = 1) -> NDArray[np.float64]:
    """Return (len(queries), g): (d^2 / largest d^2 of the query)^power, in [0, 1] up to rounding.

    In float64, so that distances that differ still differ after something larger is added.
    """
    scaled = items.query_distances(queries).astype(np.float64)
    scaled *= scaled
    scaled /= far[items.queries[queries]][:, None]
    if power != 1:
        scaled **= power
    return scaled


def expand_reciprocal_sets(lists: Lists, wide: int, half: int) -> csr_array:
    """Return the (n, n) sparse pattern of reciprocal sets of the first `wide`, expanded by sets of the first `half`.

    The set of i includes the smaller set of a member j if more than two thirds of it already lie inside.
    """
    sets = rows_from_matrix(reciprocal_matrix(lists, wide)), rows_from_matrix(reciprocal_matrix(lists, half))
    return matrix_from_rows(_count_then_fill(expand_sets, len(lists), *sets), len(lists))


def count_overlaps(sets: csr_array, members_only: bool = False) -> csr_array:
    """Return (n, n) the number of members that the sets of i and j share; with `members_only`, for j in the set of i.

    `sets` is symmetric and consists of ones.
    """
    shared = sets @ sets
    return csr_array(shared.multiply(sets) if members_only else shared)


def build_kernel_rows(sets: csr_array, vectors: Vectors, far: Floats, power: int = 1) -> csr_array:
    """Return the pattern with rows exp(-(d^2 / farthest)^power), each divided by its sum."""
    rows = rows_from_matrix(sets)
    run_in_chunks(weigh_by_kernel, len(vectors), vectors, far, power, rows, chunk=128)
    return matrix_from_rows(rows, len(vectors))


def sum_rows(lists: Lists, weights: Floats, matrix: csr_array) -> csr_array:
    """Return the sparse rows sum_t weights[i, t] * matrix[lists[i, t]]."""
    width = int(matrix.shape[1])
    mixture = WeightedLists(lists, weights)
    return matrix_from_rows(
        _count_then_fill(write_row_sums, len(lists), mixture, rows_from_matrix(matrix), width), width
    )


def _count_then_fill(kernel: Any, count: int, *arguments: Any) -> Rows:
    """Return the `count` rows that a kernel writes: call it once for their sizes and again to fill them."""
    indptr = np.zeros(count + 1, np.int64)
    empty = Rows(indptr, np.empty(0, np.int32), np.empty(0, np.float32))
    run_in_chunks(kernel, count, *arguments, empty, chunk=256)
    np.cumsum(indptr, out=indptr)
    rows = Rows(indptr, np.empty(indptr[-1], np.int32), np.zeros(indptr[-1], np.float32))
    if indptr[-1]:
        run_in_chunks(kernel, count, *arguments, rows, chunk=256)
    return rows


def average_rows(lists: Lists, matrix: csr_array) -> csr_array:
    """Return the sparse rows mean_t matrix[lists[i, t]]: each row averaged over the item's neighbours."""
    return sum_rows(lists, np.full(lists.shape, 1 / max(lists.shape[1], 1), np.float32), matrix)


def normalize_rows(matrix: csr_array) -> csr_array:
    """Divide rows by their Euclidean norm; an empty row stays empty."""
    indptr, indices, data = rows_from_matrix(matrix)
    squares = np.concatenate([[0.0], np.cumsum(data.astype(np.float64) ** 2)])
    norms = np.sqrt(squares[indptr[1:]] - squares[indptr[:-1]])
    scale = 1 / np.where(norms > 0, norms, 1.0)
    data = (data * np.repeat(scale, np.diff(indptr))).astype(np.float32)
    return matrix_from_rows(Rows(indptr, indices, data), int(matrix.shape[1]))


def compute_row_norms(lists: Lists, weights: Floats, matrix: csr_array) -> Floats:
    """Return (n,) Euclidean norms of the rows that `sum_rows` would return, without storing them; 1 if empty."""
    norms = np.empty(len(lists), np.float32)
    mixture = WeightedLists(lists, weights)
    run_in_chunks(
        write_row_norms, len(lists), mixture, rows_from_matrix(matrix), int(matrix.shape[1]), norms, chunk=256
    )
    return np.where(norms > 0, norms, np.float32(1))


def compute_smoothed_cosines(
    queries: Numbers, lists: Lists, weights: Floats, matrix: csr_array, norms: Floats, gallery: Numbers
) -> Floats:
    """Return (len(queries), g) the cosines of the rows that `sum_rows` would return for a symmetric matrix."""
    out = np.empty((len(queries), len(gallery)), np.float32)
    mixture, block = WeightedLists(lists, weights), QueryBlock(queries, _first_item(gallery))
    run_in_chunks(write_smoothed_products, len(queries), block, mixture, rows_from_matrix(matrix), norms, out, chunk=4)
    return out


def compute_shared_context(
    queries: Numbers, lists: Lists, counts: csr_array, sizes: Floats, gallery: Numbers
) -> Floats:
    """Return (len(queries), g) entries of (C2 + C2') / 2, C2 = rows of counts / sizes averaged over each list."""
    out = np.empty((len(queries), len(gallery)), np.float32)
    block = QueryBlock(queries, _first_item(gallery))
    run_in_chunks(write_shared_context, len(queries), block, lists, rows_from_matrix(counts), sizes, out, chunk=4)
    return out


def compute_family_products(
    queries: Numbers, lists: Lists, postings: csr_array, lead: int, t: int, q: int, gallery: Numbers
) -> NDArray[np.float64]:
    """Return (len(queries), g) sums of list products over the families of both sides; see `write_family_products`."""
    out = np.empty((len(queries), len(gallery)), np.float64)
    block, families = QueryBlock(queries, _first_item(gallery)), FamilyLists(lists, lead, t, q)
    run_in_chunks(write_family_products, len(queries), block, families, rows_from_matrix(postings), out, chunk=4)
    return out


def sum_rank_votes(vectors: Vectors, queries: Numbers, lists: Lists, gallery: Numbers, unit: bool = True) -> Floats:
    """Return (len(queries), g) votes sum_t 1 / ((t + 1 + r_m(q)) r_m(x)), m = lists[q, t], r the 1-based ranks."""
    out = np.zeros((len(queries), len(gallery)), np.float32)
    voters = np.unique(lists[queries])
    equal = find_first_equal(vectors)
    slots = np.full(len(vectors), -1, np.int32)
    at_once = max(1, MAX_BLOCK_RANKS // max(len(vectors), 1))
    asked = QueryBlock(queries, _first_item(gallery))
    for start in range(0, len(voters), at_once):
        block = voters[start : start + at_once]
        slots[block] = np.arange(len(block), dtype=np.int32)
        ranks = rank_items(vectors, block, equal, unit)
        run_in_chunks(add_rank_votes, len(queries), asked, lists, slots, ranks, out, chunk=4)
        slots[block] = -1
    return out


def _first_item(gallery: Numbers) -> int:
    """Return the number of the first gallery item among all items; the others follow it."""
    return int(gallery[0]) if len(gallery) else 0


def rank_items(vectors: Vectors, voters: NDArray[np.int32], first: Numbers, unit: bool = True) -> NDArray[np.int32]:
    """Return (len(voters), n) the 1-based rank of every item in the list of each voter: itself 1, ties by item number.

    `first[i]` is the first item equal to i, so that rounding does not order equal items.
    """
    distances = share_equal_columns(pairwise_distances(vectors[voters], vectors, unit), first)
    keys = distances.view(np.uint32).astype(np.uint64)  # positive floats sort like their bits
    keys += 1
    keys[np.arange(len(voters)), voters] = 0
    keys <<= np.uint64(32)
    keys |= np.arange(len(vectors), dtype=np.uint64)
    keys.sort(axis=1)
    order = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
    ranks = np.empty(order.shape, np.int32)
    np.put_along_axis(ranks, order, np.arange(1, len(vectors) + 1, dtype=np.int32)[None, :], axis=1)
    return ranks


class QueryBlock(NamedTuple):
    """Queries (q,) int64, and the number of the first gallery item, which the others follow."""

    queries: Numbers
    first: int


class WeightedLists(NamedTuple):
    """Rows to add up for every item: lists (n, k) int32 with weights (n, k) float32."""

    lists: NDArray[np.int32]
    weights: NDArray[np.float32]


class FamilyLists(NamedTuple):
    """Lists (n, k) int32, each starting with the item itself, and the settings of ECN.

    Entry p of a list has the weight lead - p, at least 0. The family of an item are its t nearest items and the q
    nearest of each of these.
    """

    lists: NDArray[np.int32]
    lead: int
    t: int
    q: int


class RowScratch(NamedTuple):
    """Accumulator of a sum of sparse rows.

    total (n,) float32; seen (n,) int32: last row whose sum contained each column; touched (n,) int32: columns of the
    current sum, in the order of arrival.
    """

    total: NDArray[np.float32]
    seen: NDArray[np.int32]
    touched: NDArray[np.int32]


@compile_inner
def new_row_scratch(width: Any) -> Any:
    """Return an empty RowScratch for rows of `width` columns."""
    return RowScratch(np.zeros(width, np.float32), new_missing_numbers(width), np.empty(width, np.int32))


@compile_inner
def _expand_row(row: Any, wide: Any, half: Any, inside: Any, taken: Any, out: Any) -> Any:
    """Write the members of the expanded set of one row to `out`; return their number. `inside`, `taken` are marks."""
    first, last = wide.indptr[row], wide.indptr[row + 1]
    size = 0
    for entry in range(first, last):
        other = wide.indices[entry]
        inside[other] = row
        taken[other] = row
        out[size] = other
        size += 1
    for entry in range(first, last):
        other = wide.indices[entry]
        begin, end = half.indptr[other], half.indptr[other + 1]
        common = 0
        for place in range(begin, end):
            common += inside[half.indices[place]] == row
        if 3 * common > 2 * (end - begin):
            for place in range(begin, end):
                member = half.indices[place]
                if taken[member] != row:
                    taken[member] = row
                    out[size] = member
                    size += 1
    return size


@compile_kernel
def expand_sets(start: Any, stop: Any, wide: Any, half: Any, result: Any) -> None:
    """Expand each set of `wide` by the sets of `half` that it nearly contains: more than two thirds of their members.

    wide, half: Rows of reciprocal sets, of which the data are not read; result: Rows. While its indices are empty, the
    sizes go to its indptr[row + 1], otherwise the members go to its indices.
    """
    items = len(wide.indptr) - 1
    inside = new_missing_numbers(items)
    taken = new_missing_numbers(items)
    out = np.empty(items, np.int32)
    for row in range(start, stop):
        size = _expand_row(row, wide, half, inside, taken, out)
        if len(result.indices) == 0:
            result.indptr[row + 1] = size
        else:
            for place in range(size):  # a slice assignment would take seconds to compile
                result.indices[result.indptr[row] + place] = out[place]


@compile_kernel
def weigh_by_kernel(start: Any, stop: Any, vectors: Any, farthest: Any, power: Any, rows: Any) -> None:
    """Write rows.data = exp(-(squared distance / farthest)^power) of each entry, divided by the sum of its row.

    vectors (n, d) float32; farthest (n,) float32, squared; power 1 or 2; rows: Rows (n, n).
    """
    for row in range(start, stop):
        mine = vectors[row]
        total = 0.0
        for entry in range(rows.indptr[row], rows.indptr[row + 1]):
            other = vectors[rows.indices[entry]]
            squared = np.float32(0.0)
            for column in range(len(mine)):
                difference = mine[column] - other[column]
                squared += difference * difference
            scaled = squared / farthest[row]
            value = np.exp(-scaled if power == 1 else -scaled * scaled)
            rows.data[entry] = value
            total += value
        for entry in range(rows.indptr[row], rows.indptr[row + 1]):
            rows.data[entry] /= total


@compile_inner
def gather_row(row: Any, mixture: Any, matrix: Any, work: Any) -> Any:
    """Compute work.total = sum_t weights[row, t] * matrix[lists[row, t]], dense; return the number of touched columns.

    mixture: WeightedLists; matrix: Rows; work: RowScratch, whose `seen` contains `row` nowhere. Columns that were not
    touched keep the value of an earlier row in `total`.
    """
    total, seen, touched = work
    size = 0
    for place in range(mixture.lists.shape[1]):
        other = mixture.lists[row, place]
        weight = mixture.weights[row, place]
        if weight == 0.0:
            continue
        for entry in range(matrix.indptr[other], matrix.indptr[other + 1]):
            column = matrix.indices[entry]
            if seen[column] != row:
                seen[column] = row
                touched[size] = column
                size += 1
                total[column] = weight * matrix.data[entry]
            else:
                total[column] += weight * matrix.data[entry]
    return size


@compile_kernel
def write_row_sums(start: Any, stop: Any, mixture: Any, matrix: Any, width: Any, result: Any) -> None:
    """Write weighted sums of sparse rows.

    While the indices of `result` are empty, sizes go to result.indptr[row + 1], otherwise the rows are written.
    mixture: WeightedLists; matrix, result: Rows with `width` columns.
    """
    work = new_row_scratch(width)
    for row in range(start, stop):
        size = gather_row(row, mixture, matrix, work)
        if len(result.indices) == 0:
            result.indptr[row + 1] = size
            continue
        first = result.indptr[row]
        for entry in range(size):
            result.indices[first + entry] = work.touched[entry]
            result.data[first + entry] = work.total[work.touched[entry]]


@compile_kernel
def write_row_norms(start: Any, stop: Any, mixture: Any, matrix: Any, width: Any, norms: Any) -> None:
    """Write norms (n,) float32: Euclidean norms of the sums that `write_row_sums` would write."""
    work = new_row_scratch(width)
    for row in range(start, stop):
        squared = 0.0
        for entry in range(gather_row(row, mixture, matrix, work)):
            squared += work.total[work.touched[entry]] ** 2
        norms[row] = np.sqrt(squared)


@compile_kernel
def write_smoothed_products(start: Any, stop: Any, block: Any, mixture: Any, matrix: Any, norms: Any, out: Any) -> None:
    """Write out[a, x] = <row of queries[a], row of item first + x>, rows = unit(weighted sums of the symmetric matrix).

    The rows of all items are never built: with y = row_q times the matrix, <row_q, row_x> = sum_t w_xt y_(x_t) /
    norm_x. block: QueryBlock; mixture: WeightedLists; matrix: Rows (n, n); norms (n,) float32; out (q, g) float32.
    """
    queries, first = block
    lists, weights = mixture
    items = len(norms)
    work = new_row_scratch(items)
    passed = np.empty(items, np.float32)
    for a in range(start, stop):
        query = queries[a]
        passed[:] = 0.0
        for entry in range(gather_row(query, mixture, matrix, work)):
            column = work.touched[entry]
            value = work.total[column] / norms[query]
            for step in range(matrix.indptr[column], matrix.indptr[column + 1]):
                passed[matrix.indices[step]] += value * matrix.data[step]
        for x in range(out.shape[1]):
            item = first + x
            product = np.float32(0.0)
            for place in range(lists.shape[1]):
                product += weights[item, place] * passed[lists[item, place]]
            out[a, x] = product / norms[item]


@compile_kernel
def write_shared_context(start: Any, stop: Any, block: Any, lists: Any, counts: Any, sizes: Any, out: Any) -> None:
    """Write out[a, x] = (C2 + C2')[queries[a], first + x] / 2, C2 = mean of the rows of C over each list.

    C_ij = counts_ij / sizes_i with symmetric counts, so a column of C is a row of counts divided by all sizes. block:
    QueryBlock; lists (n, k) int32; counts: Rows (n, n); sizes (n,) float32; out (q, g) float32.
    """
    queries, first = block
    items, k = lists.shape
    forward = np.empty(items, np.float32)
    column = np.empty(items, np.float32)
    for a in range(start, stop):
        query = queries[a]
        forward[:] = 0.0
        column[:] = 0.0
        for place in range(k):
            other = lists[query, place]
            for entry in range(counts.indptr[other], counts.indptr[other + 1]):
                forward[counts.indices[entry]] += counts.data[entry] / sizes[other]
        for entry in range(counts.indptr[query], counts.indptr[query + 1]):
            column[counts.indices[entry]] = counts.data[entry] / sizes[counts.indices[entry]]
        for x in range(out.shape[1]):
            item = first + x
            backward = np.float32(0.0)
            for place in range(k):
                backward += column[lists[item, place]]
            out[a, x] = (forward[item] + backward) / (2 * k)


@compile_kernel
def write_family_products(start: Any, stop: Any, block: Any, families: Any, postings: Any, out: Any) -> None:
    """Write sums of list products: a query's family with each item plus each item's family with the query.

    Product of i and j: sum_c F_ic F_jc, F_ic = lead - position of c in the list of i, at least 0. `FamilyLists` defines
    families; an item is left out of its own list only. block: QueryBlock; families: FamilyLists; postings: Rows (n, n),
    row c: the items that list c, with F; out[a, x] (q, g) float64, for item first + x.
    """
    queries, first = block
    lists, lead, t, q = families
    items = lists.shape[0]
    k = min(lead, lists.shape[1])
    family = np.empty(items, np.float64)
    forward = np.empty(items, np.float64)
    alone = np.empty(items, np.float64)
    around = np.empty(items, np.float64)
    for a in range(start, stop):
        query = queries[a]
        family[:] = 0.0
        for near in range(1, t + 1):
            other = lists[query, near]
            for step in range(q + 1):  # step 0 is the neighbour itself, then its own q
                member = lists[other, step]
                for place in range(k):
                    family[lists[member, place]] += lead - place
        forward[:] = 0.0
        for c in range(items):
            if family[c] != 0.0:
                for posting in range(postings.indptr[c], postings.indptr[c + 1]):
                    forward[postings.indices[posting]] += family[c] * postings.data[posting]
        alone[:] = 0.0
        for place in range(k):
            c = lists[query, place]
            for posting in range(postings.indptr[c], postings.indptr[c + 1]):
                alone[postings.indices[posting]] += (lead - place) * postings.data[posting]
        for item in range(items):
            around[item] = 0.0
            for step in range(q + 1):
                around[item] += alone[lists[item, step]]
        for x in range(out.shape[1]):
            item = first + x
            total = forward[item]
            for near in range(1, t + 1):
                total += around[lists[item, near]]
            out[a, x] = total


@compile_kernel
def add_rank_votes(start: Any, stop: Any, block: Any, lists: Any, slots: Any, ranks: Any, out: Any) -> None:
    """Add 1 / ((t + 1 + r_m(i)) r_m(x)) to out[a, x] for every neighbour m = lists[i, t] of i = queries[a].

    r_m(x) is the 1-based rank of x in the list of m: ranks[slots[m], x]; neighbours with slot -1 are left out. block:
    QueryBlock; lists (n, k) int32; slots (n,) int32; ranks (slots, n) int32; out (q, g) float32, for item first + x.
    """
    queries, first = block
    for a in range(start, stop):
        query = queries[a]
        for place in range(lists.shape[1]):
            slot = slots[lists[query, place]]
            if slot < 0:
                continue
            row = ranks[slot]
            weight = np.float32(place + 1 + row[query])
            for x in range(out.shape[1]):
                out[a, x] += np.float32(1.0) / (weight * np.float32(row[first + x]))
