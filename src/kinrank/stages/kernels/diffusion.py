"""Sparse graph -> rows of the resolvent (1 - a)(I - a S)^-1, one row at a time, read off where they are needed.

`graph` is csr.Rows with the entries of a S_beta; `restart` is 1 - a.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinrank.stages.kernels.arrays import numbered
from kinrank.stages.kernels.compiled import compiled, inner
from kinrank.stages.kernels.largest import counting, largest
from kinrank.stages.kernels.order import comes_after

COLUMNS = 64  # rows of F computed together in small graphs


class Spread(NamedTuple):
    """What one row is computed in, one entry per item; clean before a row, and cleaned by `_clean` behind it.

    f: the row so far. left: mass that was not passed on yet, -1 for items not met. mass, front, upcoming: the items
    above the tolerance and their mass. touched: the items met, in order. The last three have room for one more.
    """

    f: Any
    left: Any
    mass: Any
    touched: Any
    front: Any
    upcoming: Any


@inner
def _spread_scratch(n: Any) -> Any:
    f, left, mass = np.zeros(n, np.float32), np.empty(n, np.float32), np.empty(n, np.float32)
    touched, front, upcoming = np.empty(n + 1, np.int32), np.empty(n + 1, np.int32), np.empty(n + 1, np.int32)
    for item in range(n):
        left[item] = -1.0
    return Spread(f, left, mass, touched, front, upcoming)


@inner
def _spread(source: Any, graph: Any, restart: Any, tolerance: Any, scratch: Any) -> Any:
    """Fill scratch.f with row `source`; scratch.left keeps what was not passed on. Returns how many items were met.

    Invariant after every sweep: row = f + restart * (I - graph)^-1 left, with left >= 0. All entries above the
    tolerance are passed on together, so that the result does not depend on how the items are numbered.
    """
    f, left, mass, touched = scratch.f, scratch.left, scratch.mass, scratch.touched
    indptr, indices, data = graph.indptr, graph.indices, graph.data
    front, upcoming = scratch.front, scratch.upcoming
    count = 1
    touched[0] = source
    left[source] = 1.0
    size = 1
    front[0] = source
    while size > 0:
        for position in range(size):
            node = front[position]
            mass[position] = left[node]
            left[node] = 0.0
            f[node] += restart * mass[position]
        waiting = 0
        for position in range(size):
            node = front[position]
            amount = mass[position]
            for entry in range(indptr[node], indptr[node + 1]):
                other = indices[entry]
                # written always, counted where it is so: branches that nobody can foresee would take twice the time
                touched[count] = other
                count += np.int64(left[other] < 0.0)
                before = max(left[other], np.float32(0.0))
                after = before + amount * data[entry]
                left[other] = after
                upcoming[waiting] = other
                waiting += np.int64(before <= tolerance) & np.int64(after > tolerance)
        front, upcoming = upcoming, front
        size = waiting
    return count


@inner
def _clean(count: Any, scratch: Any) -> None:
    for position in range(count):
        node = scratch.touched[position]
        scratch.f[node] = 0.0
        scratch.left[node] = -1.0


@compiled
def resolvent_values(
    start: Any, stop: Any, rows: Any, graph: Any, restart: Any, tolerance: Any, indptr: Any, indices: Any, values: Any,
    bounds: Any,
) -> None:  # fmt: skip
    """Row rows[p] on the items indices[indptr[p]..indptr[p + 1]], and the norm of what was left; p from start to stop.

    rows (m,) int64; indptr (m + 1,) int64, indices (entries,) int32 -> values (entries,) float32, bounds (m,) float32.
    """
    scratch = _spread_scratch(len(graph.indptr) - 1)
    for row in range(start, stop):
        count = _spread(rows[row], graph, restart, tolerance, scratch)
        for entry in range(indptr[row], indptr[row + 1]):
            values[entry] = scratch.f[indices[entry]]
        squares = np.float32(0.0)
        for position in range(count):
            squares += scratch.left[scratch.touched[position]] ** 2
        bounds[row] = np.sqrt(squares)
        _clean(count, scratch)


@compiled
def row_energies(
    start: Any, stop: Any, rows: Any, graph: Any, restart: Any, tolerance: Any, layers: Any, energies: Any
) -> None:
    """energies[p, v] = <f, f> - <f, S_v f> of row f = rows[p] and every layer v; p from start to stop.

    rows (m,) int64, layers (entries, v) float32 on the pattern of the graph, energies (m, v) float32.
    """
    scratch = _spread_scratch(len(graph.indptr) - 1)
    f = scratch.f
    for row in range(start, stop):
        count = _spread(rows[row], graph, restart, tolerance, scratch)
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
        _clean(count, scratch)


class Selection(NamedTuple):
    """What the largest entries of a row are chosen in; values float32, items and chosen int32, all (n + 1,)."""

    values: Any
    items: Any
    chosen: Any
    counting: Any


@inner
def _selection(n: Any) -> Any:
    items, chosen = np.empty(n + 1, np.int32), np.empty(n + 1, np.int32)
    return Selection(np.empty(n + 1, np.float32), items, chosen, counting(n))


@inner
def _list_largest(
    row: Any, f: Any, touched: Any, count: Any, lists: Any, nearest: Any, similar: Any, selection: Any
) -> None:
    """Row `row` of nearest and similar: the items of the largest f among those touched, and f; see `nearest_rows`."""
    values, items = selection.values, selection.items
    reached = 0 * count  # a number that is written out would be compiled once more
    for place in range(count):
        items[reached] = touched[place]
        values[reached] = f[touched[place]]
        reached += np.int64(f[touched[place]] > 0.0) & np.int64(touched[place] != row)
    size = nearest.shape[1] - 1
    found = largest(values, items, reached, size, selection.counting, selection.chosen)
    nearest[row, 0] = row
    similar[row, 0] = f[row]
    numbers, similarities = nearest[row, 1:], similar[row, 1:]
    filled = 0
    for entry in range(found):
        value, item = values[selection.chosen[entry]], items[selection.chosen[entry]]
        at = filled
        while at > 0 and comes_after(similarities[at - 1], numbers[at - 1], value, item):
            similarities[at] = similarities[at - 1]
            numbers[at] = numbers[at - 1]
            at -= 1
        similarities[at] = value
        numbers[at] = item
        filled += 1
    for place in range(filled, size):
        similarities[place] = 0.0
        numbers[place] = row
    for place in range(lists.shape[1]):
        item = lists[row, place]
        if filled >= size or item < 0:
            break
        if item != row and not f[item] > 0.0:  # the opposite of the test above: such an item is not listed yet
            numbers[filled] = item
            filled += 1


@compiled
def nearest_rows(
    start: Any, stop: Any, rows: Any, graph: Any, restart: Any, tolerance: Any, lists: Any, nearest: Any, similar: Any
) -> None:
    """For i in rows[start..stop]: the items of the largest F_i and F_i itself; i first, ties to the lower number.

    rows (m,) int64, lists (n, >= 1) int32 -> nearest (n, k) int32, similar (n, k) float32. Where F reaches too few
    items, `lists` fills up, at similarity 0; where that ends (-1), the item itself.
    """
    n = len(graph.indptr) - 1
    scratch, selection = _spread_scratch(n), _selection(n)
    for position in range(start, stop):
        count = _spread(rows[position], graph, restart, tolerance, scratch)
        _list_largest(rows[position], scratch.f, scratch.touched, count, lists, nearest, similar, selection)
        _clean(count, scratch)


@inner
def _block_scratch(n: Any) -> Any:
    """Three blocks of COLUMNS rows of F, each (n, COLUMNS) float32: four lines of the cache per item."""
    shape = (n, COLUMNS)
    return np.empty(shape, np.float32), np.empty(shape, np.float32), np.empty(shape, np.float32)


@inner
def _block(rows: Any, graph: Any, restart: Any, weights: Any, scratch: Any) -> Any:
    """(n, COLUMNS) F of at most COLUMNS rows, one column each, by Chebyshev's iteration; see stages/diffusion.py.

    x <- w (G x + b - y) + y, y the x before, w from `weights` (sweeps,) float32. What no path reaches stays exactly 0.
    """
    x, y, z = scratch
    width = x.shape[1]  # not the constant: loops of a known length are unrolled, and then done one by one
    for item in range(len(x)):
        for column in range(width):
            x[item, column] = 0.0
            y[item, column] = 0.0
    for column in range(len(rows)):
        x[rows[column], column] = restart
    for sweep in range(len(weights)):
        weight = weights[sweep]
        for item in range(len(x)):
            line, before = z[item], y[item]
            for column in range(width):
                line[column] = -before[column]
            for entry in range(graph.indptr[item], graph.indptr[item + 1]):
                other, share = x[graph.indices[entry]], graph.data[entry]
                for column in range(width):
                    line[column] += share * other[column]
            for column in range(width):
                line[column] = weight * line[column] + before[column]
        for column in range(len(rows)):
            z[rows[column], column] += weight * restart
        x, y, z = z, x, y
    return x


@compiled
def block_energies(
    start: Any, stop: Any, rows: Any, graph: Any, restart: Any, weights: Any, layers: Any, energies: Any
) -> None:
    """As `row_energies`, COLUMNS rows at once, from all items; blocks of rows from start to stop."""
    scratch = _block_scratch(len(graph.indptr) - 1)
    sums = np.empty((energies.shape[1], COLUMNS), np.float32)
    product = np.empty(COLUMNS, np.float32)
    for block in range(start, stop):
        first, last = block * COLUMNS, min((block + 1) * COLUMNS, len(rows))
        f = _block(rows[first:last], graph, restart, weights, scratch)
        width = f.shape[1]
        for layer in range(len(sums)):
            for column in range(width):
                sums[layer, column] = 0.0
        for item in range(len(f)):
            mine = f[item]
            for entry in range(graph.indptr[item], graph.indptr[item + 1]):
                other = f[graph.indices[entry]]
                for column in range(width):
                    product[column] = mine[column] * other[column]
                for layer in range(len(sums)):
                    line, share = sums[layer], layers[entry, layer]
                    for column in range(width):
                        line[column] -= share * product[column]
            for layer in range(len(sums)):
                line = sums[layer]
                for column in range(width):
                    line[column] += mine[column] * mine[column]
        for row in range(first, last):
            for layer in range(len(sums)):
                energies[row, layer] = sums[layer, row - first]


@compiled
def block_nearest_rows(
    start: Any, stop: Any, rows: Any, graph: Any, restart: Any, weights: Any, lists: Any, nearest: Any, similar: Any
) -> None:
    """As `nearest_rows`, COLUMNS rows at once, from all items; blocks of rows from start to stop."""
    n = len(graph.indptr) - 1
    scratch, selection = _block_scratch(n), _selection(n)
    everyone, f = numbered(n), np.empty(n, np.float32)
    for block in range(start, stop):
        first, last = block * COLUMNS, min((block + 1) * COLUMNS, len(rows))
        found = _block(rows[first:last], graph, restart, weights, scratch)
        for row in range(first, last):
            for item in range(n):
                f[item] = max(found[item, row - first], np.float32(0.0))
            _list_largest(rows[row], f, everyone, n, lists, nearest, similar, selection)
