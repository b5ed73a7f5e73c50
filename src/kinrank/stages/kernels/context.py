"""Neighbour lists and sparse rows -> reciprocal sets expanded, weighted sums of rows, what two rows share.

n items; `Rows` are sparse rows (see kernels/rows.py); every loop does the rows, or the queries, start..stop.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.stages.kernels.arrays import nobody
from kinrank.stages.kernels.compiled import compiled, inner


class Mixture(NamedTuple):
    """Which rows are added up for every item, lists (n, k) int32, and with which weights (n, k) float32."""

    lists: NDArray[np.int32]
    weights: NDArray[np.float32]


class Families(NamedTuple):
    """Lists (n, k) int32, an item first in its own, and what ECN does with them.

    Entry number p of a list weighs lead - p, at least 0; the family of an item are its t nearest and the q nearest of
    each of these.
    """

    lists: NDArray[np.int32]
    lead: int
    t: int
    q: int


class Scratch(NamedTuple):
    """A sum of sparse rows while it grows.

    total (n,) float32; seen (n,) int32: the last row in whose sum each column was; touched (n,) int32: the columns of
    the present sum, in the order in which they came.
    """

    total: NDArray[np.float32]
    seen: NDArray[np.int32]
    touched: NDArray[np.int32]


@inner
def scratch(width: Any) -> Any:
    """An empty Scratch for rows of `width` columns."""
    return Scratch(np.zeros(width, np.float32), nobody(width), np.empty(width, np.int32))


@inner
def _expand_row(row: Any, wide: Any, half: Any, inside: Any, taken: Any, out: Any) -> Any:
    """Number of members of the expanded set of one row, written to `out`; `inside` and `taken` are marks."""
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


@compiled
def expand(start: Any, stop: Any, wide: Any, half: Any, result: Any) -> None:
    """Each set of `wide` with the sets of `half` that it nearly contains: more than two thirds of their members.

    wide, half: Rows of reciprocal sets, whose data is not read; result: Rows, the sizes go to its indptr[row + 1] while
    its indices are empty, else the members to its indices.
    """
    items = len(wide.indptr) - 1
    inside = nobody(items)
    taken = nobody(items)
    out = np.empty(items, np.int32)
    for row in range(start, stop):
        size = _expand_row(row, wide, half, inside, taken, out)
        if len(result.indices) == 0:
            result.indptr[row + 1] = size
        else:
            for place in range(size):  # one by one: a slice would compile a message about shapes for seconds
                result.indices[result.indptr[row] + place] = out[place]


@compiled
def kernel_weights(start: Any, stop: Any, vectors: Any, farthest: Any, power: Any, rows: Any) -> None:
    """rows.data = exp(-(squared distance / farthest)^power) of each entry, divided by the sum of its row.

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


@inner
def gather(row: Any, mixture: Any, matrix: Any, work: Any) -> Any:
    """work.total = sum_t weights[row, t] * matrix[lists[row, t]], dense; gives how many columns were touched.

    mixture: Mixture; matrix: Rows; work: Scratch, whose `seen` holds `row` nowhere. Columns that were not touched
    keep what an earlier row left in `total`.
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


@compiled
def row_sums(start: Any, stop: Any, mixture: Any, matrix: Any, width: Any, result: Any) -> None:
    """Weighted sums of sparse rows; sizes into result.indptr[row + 1] while its indices are empty, else the rows.

    mixture: Mixture; matrix, result: Rows with `width` columns.
    """
    work = scratch(width)
    for row in range(start, stop):
        size = gather(row, mixture, matrix, work)
        if len(result.indices) == 0:
            result.indptr[row + 1] = size
            continue
        first = result.indptr[row]
        for entry in range(size):
            result.indices[first + entry] = work.touched[entry]
            result.data[first + entry] = work.total[work.touched[entry]]


@compiled
def row_norms(start: Any, stop: Any, mixture: Any, matrix: Any, width: Any, norms: Any) -> None:
    """norms (n,) float32: Euclidean norms of the sums that `row_sums` would write, not keeping them."""
    work = scratch(width)
    for row in range(start, stop):
        squared = 0.0
        for entry in range(gather(row, mixture, matrix, work)):
            squared += work.total[work.touched[entry]] ** 2
        norms[row] = np.sqrt(squared)


@compiled
def shared_mass(start: Any, stop: Any, queries: Any, rows: Any, postings: Any, out: Any) -> None:
    """out[a, g] = sum_c min(rows[queries[a], c], value of g at c), (q, g) float32, 0 on entry.

    queries (q,) int64; rows: Rows (n, columns); postings: Rows (columns, g), for every column who holds it.
    """
    for a in range(start, stop):
        query = queries[a]
        mine = out[a]
        for entry in range(rows.indptr[query], rows.indptr[query + 1]):
            column = rows.indices[entry]
            value = rows.data[entry]
            for posting in range(postings.indptr[column], postings.indptr[column + 1]):
                mine[postings.indices[posting]] += min(value, postings.data[posting])


@compiled
def smoothed_products(
    start: Any, stop: Any, queries: Any, mixture: Any, matrix: Any, norms: Any, first: Any, out: Any
) -> None:
    """out[a, x] = <row of queries[a], row of item first + x>, rows = unit(weighted sums of the symmetric matrix).

    The rows of all items are never built: with y = row_q times the matrix, <row_q, row_x> = sum_t w_xt y_(x_t) /
    norm_x. queries (q,) int64; mixture: Mixture; matrix: Rows (n, n); norms (n,) float32; out (q, g) float32.
    """
    lists, weights = mixture
    items = len(norms)
    work = scratch(items)
    passed = np.empty(items, np.float32)
    for a in range(start, stop):
        query = queries[a]
        passed[:] = 0.0
        for entry in range(gather(query, mixture, matrix, work)):
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


@compiled
def shared_context(
    start: Any, stop: Any, queries: Any, lists: Any, counts: Any, sizes: Any, first: Any, out: Any
) -> None:
    """out[a, x] = (C2 + C2')[queries[a], first + x] / 2, C2 = mean of the rows of C over each list.

    C_ij = counts_ij / sizes_i with symmetric counts, so a column of C is a row of counts over all sizes. queries (q,)
    int64; lists (n, k) int32; counts: Rows (n, n); sizes (n,) float32; out (q, g) float32.
    """
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


@compiled
def family_products(start: Any, stop: Any, queries: Any, families: Any, postings: Any, first: Any, out: Any) -> None:
    """Sum of list products of a query's family with each item, and of each item's family with the query.

    Product of i and j: sum_c F_ic F_jc, F_ic = lead - place of c in the list of i, at least 0. Families are those of
    `Families`; an item is left out of its own list only. queries (q,) int64; families: Families; postings: Rows (n, n),
    row c: who lists c, and F there; out[a, x] (q, g) float64, for item first + x.
    """
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


@compiled
def rank_scores(start: Any, stop: Any, queries: Any, lists: Any, slots: Any, ranks: Any, first: Any, out: Any) -> None:
    """Add 1 / ((t + 1 + r_m(i)) r_m(x)) to out[a, x] for every neighbour m = lists[i, t] of i = queries[a].

    r_m(x) is the 1-based rank of x in the list of m: ranks[slots[m], x]; neighbours with slot -1 are left out. queries
    (q,) int64; lists (n, k) int32; slots (n,) int32; ranks (slots, n) int32; out (q, g) float32, for item first + x.
    """
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
