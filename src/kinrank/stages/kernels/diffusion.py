"""Sparse graph -> rows of the resolvent (1 - a)(I - a S)^-1, one row at a time, read off where they are needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages.kernels.compiled import compiled
from kinrank.stages.kernels.search import comes_after, sift_down


@compiled
def blend(start: Any, stop: Any, values: Any, weights: Any, entries: Any) -> None:
    """entries[e] = sum_v weights[v] values[e, v] for e in start..stop."""
    for entry in range(start, stop):
        total = 0.0
        for layer in range(len(weights)):
            total += weights[layer] * values[entry, layer]
        entries[entry] = np.float32(total)


@compiled
def _spread(
    source: Any,
    indptr: Any,
    indices: Any,
    step: Any,
    restart: Any,
    tolerance: Any,
    f: Any,
    r: Any,
    touched: Any,
    seen: Any,
    front: Any,
    upcoming: Any,
    mass: Any,
) -> Any:
    """Fill f with row `source`; r keeps what was not pushed. Returns how many nodes were touched.

    Invariant after every sweep: row = f + restart * (I - step)^-1 r, with r >= 0. All entries above the tolerance
    are pushed together, so that the result does not depend on how the items are numbered.
    """
    count = 1
    touched[0] = source
    seen[source] = True
    r[source] = 1.0
    size = 1
    front[0] = source
    while size > 0:
        for position in range(size):
            node = front[position]
            mass[position] = r[node]
            r[node] = 0.0
            f[node] += restart * mass[position]
        waiting = 0
        for position in range(size):
            node = front[position]
            amount = mass[position]
            for entry in range(indptr[node], indptr[node + 1]):
                other = indices[entry]
                if not seen[other]:
                    seen[other] = True
                    touched[count] = other
                    count += 1
                before = r[other]
                r[other] = before + amount * step[entry]
                if before <= tolerance and r[other] > tolerance:
                    upcoming[waiting] = other
                    waiting += 1
        front, upcoming = upcoming, front
        size = waiting
    return count


@compiled
def _room(n: Any) -> Any:
    """What `_spread` works in, one entry per item: clean before a row, cleaned by `_tidy` behind it."""
    f, r, mass = np.zeros(n, np.float32), np.zeros(n, np.float32), np.empty(n, np.float32)
    touched, front, upcoming = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    return f, r, mass, touched, front, upcoming, np.zeros(n, np.bool_)


@compiled
def _tidy(count: Any, touched: Any, f: Any, r: Any, seen: Any) -> None:
    for position in range(count):
        node = touched[position]
        f[node] = 0.0
        r[node] = 0.0
        seen[node] = False


@compiled
def resolvent_rows(
    start: Any,
    stop: Any,
    rows: Any,
    indptr: Any,
    indices: Any,
    step: Any,
    restart: Any,
    tolerance: Any,
    region_indptr: Any,
    region_indices: Any,
    values: Any,
    bounds: Any,
    layers: Any,
    energies: Any,
) -> None:
    """For rows start..stop: F on its region, the bound of its error, and <f, f> - <f, S_v f> for every layer v."""
    n = len(indptr) - 1
    f, r, mass, touched, front, upcoming, seen = _room(n)
    for row in range(start, stop):
        count = _spread(
            rows[row],
            indptr,
            indices,
            step,
            restart,
            np.float32(tolerance),
            f,
            r,
            touched,
            seen,
            front,
            upcoming,
            mass,
        )
        for entry in range(region_indptr[row], region_indptr[row + 1]):
            values[entry] = f[region_indices[entry]]
        left = np.float32(0.0)
        for position in range(count):
            left += r[touched[position]] ** 2
        bounds[row] = np.sqrt(left)
        if energies.shape[1] > 0:
            for layer in range(energies.shape[1]):
                energies[row, layer] = 0.0
            square = np.float32(0.0)
            for position in range(count):
                node = touched[position]
                if f[node] == 0.0:
                    continue
                square += f[node] * f[node]
                for entry in range(indptr[node], indptr[node + 1]):
                    product = f[node] * f[indices[entry]]
                    for layer in range(energies.shape[1]):
                        energies[row, layer] -= product * layers[entry, layer]
            for layer in range(energies.shape[1]):
                energies[row, layer] += square
        _tidy(count, touched, f, r, seen)


@compiled
def resolvent_nearest(
    start: Any,
    stop: Any,
    rows: Any,
    indptr: Any,
    indices: Any,
    step: Any,
    restart: Any,
    tolerance: Any,
    lists: Any,
    nearest: Any,
    similar: Any,
) -> None:
    """For rows[start..stop]: the items of the largest F and F itself; the item first, ties to the lower number.

    Where F reaches too few items, `lists` fills up, at similarity 0; where that ends (-1), the item itself.
    """
    n = len(indptr) - 1
    k = nearest.shape[1]
    f, r, mass, touched, front, upcoming, seen = _room(n)
    for position in range(start, stop):
        row = rows[position]
        count = _spread(
            row,
            indptr,
            indices,
            step,
            restart,
            np.float32(tolerance),
            f,
            r,
            touched,
            seen,
            front,
            upcoming,
            mass,
        )
        nearest[row, 0] = row
        similar[row, 0] = f[row]
        numbers, values = nearest[row, 1:], similar[row, 1:]
        size = k - 1
        for place in range(size):
            numbers[place] = n
            values[place] = 0.0
        if size > 0:
            for place in range(count):
                node = touched[place]
                if node != row and f[node] > 0.0 and comes_after(values[0], numbers[0], f[node], node):
                    values[0] = f[node]
                    numbers[0] = node
                    sift_down(values, numbers, 0, size)
            for last in range(size - 1, 0, -1):
                values[0], values[last] = values[last], values[0]
                numbers[0], numbers[last] = numbers[last], numbers[0]
                sift_down(values, numbers, 0, last)
        filled = 0
        while filled < size and values[filled] > 0.0:
            filled += 1
        for place in range(lists.shape[1]):
            node = lists[row, place]
            if filled >= size or node < 0:
                break
            if node != row and f[node] == 0.0:
                numbers[filled] = node
                filled += 1
        for place in range(filled, size):
            numbers[place] = row
        _tidy(count, touched, f, r, seen)
