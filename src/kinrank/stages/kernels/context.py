"""Neighbour lists and sparse rows -> reciprocal sets, their expansion, weighted sums of rows, shared mass."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages.kernels.compiled import compiled


@compiled
def mutual(start: Any, stop: Any, lists: Any, k: Any, members: Any, sizes: Any) -> None:
    """members[i, :sizes[i]]: those of the first k of i that have i among their own first k, nearest first."""
    for row in range(start, stop):
        size = 0
        for place in range(k):
            other = lists[row, place]
            for back in range(k):
                if lists[other, back] == row:
                    members[row, size] = other
                    size += 1
                    break
        sizes[row] = size


@compiled
def _expand_row(row: Any, wide: Any, half: Any, inside: Any, taken: Any, out: Any) -> Any:
    """Number of members of the expanded set of one row, written to `out`; `inside` and `taken` are marks."""
    wide_members, wide_sizes = wide
    half_members, half_sizes = half
    size = 0
    for place in range(wide_sizes[row]):
        other = wide_members[row, place]
        inside[other] = row
        taken[other] = row
        out[size] = other
        size += 1
    for place in range(wide_sizes[row]):
        other = wide_members[row, place]
        common = 0
        for entry in range(half_sizes[other]):
            common += inside[half_members[other, entry]] == row
        if 3 * common > 2 * half_sizes[other]:
            for entry in range(half_sizes[other]):
                member = half_members[other, entry]
                if taken[member] != row:
                    taken[member] = row
                    out[size] = member
                    size += 1
    return size


@compiled
def expand(start: Any, stop: Any, wide: Any, half: Any, starts: Any, columns: Any) -> None:
    """Sizes of the expanded sets into starts[row + 1] while `columns` is empty, else the sets themselves."""
    items = len(wide[1])
    inside = np.full(items, -1, np.int32)
    taken = np.full(items, -1, np.int32)
    out = np.empty(items, np.int32)
    for row in range(start, stop):
        size = _expand_row(row, wide, half, inside, taken, out)
        if len(columns) == 0:
            starts[row + 1] = size
        else:
            columns[starts[row] : starts[row] + size] = out[:size]


@compiled
def kernel_weights(
    start: Any, stop: Any, vectors: Any, farthest: Any, power: Any, starts: Any, columns: Any, values: Any
) -> None:
    """exp(-(squared distance / farthest)^power) on the entries of each row, divided by the row's sum."""
    for row in range(start, stop):
        mine = vectors[row]
        total = 0.0
        for entry in range(starts[row], starts[row + 1]):
            other = vectors[columns[entry]]
            squared = np.float32(0.0)
            for column in range(len(mine)):
                gap = mine[column] - other[column]
                squared += gap * gap
            scaled = squared / farthest[row]
            value = np.exp(-scaled if power == 1 else -scaled * scaled)
            values[entry] = value
            total += value
        for entry in range(starts[row], starts[row + 1]):
            values[entry] /= total


@compiled
def gather(row: Any, lists: Any, weights: Any, matrix: Any, total: Any, seen: Any, touched: Any) -> Any:
    """total = sum_t weights[row, t] * matrix[lists[row, t]], dense; gives how many columns were touched.

    `seen` must hold no `row` at other columns; columns touched are listed in `touched`, others of `total`
    are stale.
    """
    starts, columns, values = matrix
    size = 0
    for place in range(lists.shape[1]):
        other = lists[row, place]
        weight = weights[row, place]
        if weight == 0.0:
            continue
        for entry in range(starts[other], starts[other + 1]):
            column = columns[entry]
            if seen[column] != row:
                seen[column] = row
                touched[size] = column
                size += 1
                total[column] = weight * values[entry]
            else:
                total[column] += weight * values[entry]
    return size


@compiled
def row_sums(
    start: Any,
    stop: Any,
    lists: Any,
    weights: Any,
    matrix: Any,
    width: Any,
    starts: Any,
    columns: Any,
    values: Any,
) -> None:
    """Weighted sums of sparse rows: sizes into starts[row + 1] while `columns` is empty, else the rows."""
    total = np.zeros(width, np.float32)
    seen = np.full(width, -1, np.int32)
    touched = np.empty(width, np.int32)
    for row in range(start, stop):
        size = gather(row, lists, weights, matrix, total, seen, touched)
        if len(columns) == 0:
            starts[row + 1] = size
            continue
        first = starts[row]
        for entry in range(size):
            columns[first + entry] = touched[entry]
            values[first + entry] = total[touched[entry]]


@compiled
def row_norms(start: Any, stop: Any, lists: Any, weights: Any, matrix: Any, width: Any, norms: Any) -> None:
    """Euclidean norms of the weighted sums of sparse rows, without keeping the sums."""
    total = np.zeros(width, np.float32)
    seen = np.full(width, -1, np.int32)
    touched = np.empty(width, np.int32)
    for row in range(start, stop):
        squared = 0.0
        for entry in range(gather(row, lists, weights, matrix, total, seen, touched)):
            squared += total[touched[entry]] ** 2
        norms[row] = np.sqrt(squared)


@compiled
def shared_mass(start: Any, stop: Any, queries: Any, rows: Any, inverted: Any, out: Any) -> None:
    """out[a, g] = sum_c min(rows[queries[a], c], value of g at c), through the inverted rows (c -> items)."""
    starts, columns, values = rows
    where, numbers, weights = inverted
    for a in range(start, stop):
        query = queries[a]
        mine = out[a]
        for entry in range(starts[query], starts[query + 1]):
            column = columns[entry]
            value = values[entry]
            for posting in range(where[column], where[column + 1]):
                mine[numbers[posting]] += min(value, weights[posting])


@compiled
def smoothed_products(
    start: Any,
    stop: Any,
    queries: Any,
    lists: Any,
    weights: Any,
    matrix: Any,
    norms: Any,
    first: Any,
    out: Any,
) -> None:
    """out[a, x] = <row of queries[a], row of item first + x>, rows = unit(weighted sums of the symmetric
    matrix).

    The rows of all items are never built: with y = row_q times the matrix, <row_q, row_x> = sum_t w_xt
    y_(x_t) / norm_x.
    """
    starts, columns, values = matrix
    items = len(norms)
    total = np.zeros(items, np.float32)
    seen = np.full(items, -1, np.int32)
    touched = np.empty(items, np.int32)
    passed = np.empty(items, np.float32)
    for a in range(start, stop):
        query = queries[a]
        passed[:] = 0.0
        for entry in range(gather(query, lists, weights, matrix, total, seen, touched)):
            column = touched[entry]
            value = total[column] / norms[query]
            for step in range(starts[column], starts[column + 1]):
                passed[columns[step]] += value * values[step]
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

    C_ij = counts_ij / sizes_i with symmetric counts, so a column of C is a row of counts over all sizes.
    """
    starts, columns, values = counts
    items, k = lists.shape
    forward = np.empty(items, np.float32)
    column = np.empty(items, np.float32)
    for a in range(start, stop):
        query = queries[a]
        forward[:] = 0.0
        column[:] = 0.0
        for place in range(k):
            other = lists[query, place]
            for entry in range(starts[other], starts[other + 1]):
                forward[columns[entry]] += values[entry] / sizes[other]
        for entry in range(starts[query], starts[query + 1]):
            column[columns[entry]] = values[entry] / sizes[columns[entry]]
        for x in range(out.shape[1]):
            item = first + x
            backward = np.float32(0.0)
            for place in range(k):
                backward += column[lists[item, place]]
            out[a, x] = (forward[item] + backward) / (2 * k)


@compiled
def family_products(
    start: Any,
    stop: Any,
    queries: Any,
    lists: Any,
    lead: Any,
    inverted: Any,
    t: Any,
    q: Any,
    first: Any,
    out: Any,
) -> None:
    """Sum of list products of a query's family with each item, and of each item's family with the query.

    Product of i and j: sum_c F_ic F_jc, F_ic = lead - place of c in the list of i, at least 0. The family
    of an item: its t nearest, and the q nearest of each of these; itself is left out of its own list only.
    """
    where, numbers, weights = inverted
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
                for posting in range(where[c], where[c + 1]):
                    forward[numbers[posting]] += family[c] * weights[posting]
        alone[:] = 0.0
        for place in range(k):
            c = lists[query, place]
            for posting in range(where[c], where[c + 1]):
                alone[numbers[posting]] += (lead - place) * weights[posting]
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

    r_m(x) is the 1-based rank of x in the list of m: ranks[slots[m], x]; neighbours with slot -1 are left
    out.
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
