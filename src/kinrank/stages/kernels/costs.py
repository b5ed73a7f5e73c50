"""States and the steps between them -> the price of every step, each solved once, from its lower item."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages.kernels.compiled import compiled, inner
from kinrank.stages.kernels.ground import ground_costs
from kinrank.stages.kernels.transport import longest_row, price, scratch_for

TOGETHER = 16  # steps of one item whose ground costs are computed at once
BLOCK = 128  # rows and columns of the table of ground costs that one matrix product makes


@compiled
def ground_table(start: Any, stop: Any, vectors: Any, rho: Any, unit: Any, table: Any) -> None:
    """Blocks start..stop of the ground costs d^rho between all items: vectors (n, d) float32 -> table (n, n) float32.

    A block is BLOCK rows and all columns from its first row on, and their mirror image. In products of a fixed size,
    because those of other shapes may round differently.
    """
    for block in range(start, stop):
        first, last = block * BLOCK, min((block + 1) * BLOCK, len(vectors))
        rows = vectors[first:last]
        for left in range(first, len(vectors), BLOCK):
            columns = vectors[left : min(left + BLOCK, len(vectors))]
            costs = np.dot(rows, columns.T)
            ground_costs(costs, rows, columns, rho, unit)
            for row in range(len(rows)):
                line = table[first + row]
                for column in range(len(columns)):
                    line[left + column] = costs[row, column]
            for column in range(len(columns)):
                line = table[left + column]
                for row in range(len(rows)):
                    line[first + row] = costs[row, column]


@inner
def _copy(source: Any, target: Any) -> None:
    """One row into another; an assignment of slices would compile a message about shapes for several seconds."""
    for column in range(len(source)):
        target[column] = source[column]


@inner
def _ground_block(i: Any, others: Any, states: Any, vectors: Any, settings: Any, scratch: Any) -> Any:
    """Ground costs from the items of p_i to those of all `others`, whose columns `scratch.slots` tells.

    The states of neighbours overlap: together their items are far fewer than one after the other.
    """
    begin, end = states.indptr[i], states.indptr[i + 1]
    for entry in range(begin, end):
        _copy(vectors[states.indices[entry]], scratch.rows[entry - begin])
    used = 0
    for j in others:
        for entry in range(states.indptr[j], states.indptr[j + 1]):
            item = states.indices[entry]
            if scratch.slots[item] < 0:
                scratch.slots[item] = used
                _copy(vectors[item], scratch.columns[used])
                used += 1
    products = np.dot(scratch.rows[: end - begin], scratch.columns[:used].T)
    ground_costs(products, scratch.rows, scratch.columns, settings.rho, settings.unit)
    return products


@inner
def release(others: Any, states: Any, slots: Any) -> None:
    """Forget the columns of the items of `others`."""
    for j in others:
        for entry in range(states.indptr[j], states.indptr[j + 1]):
            slots[states.indices[entry]] = -1


@inner
def _workspace(states: Any, dimensions: Any) -> Any:
    n, longest = len(states.indptr) - 1, longest_row(states.indptr)
    rows = np.empty((longest, dimensions), np.float32)
    columns = np.empty((min(n, TOGETHER * longest), dimensions), np.float32)
    slots = np.empty(n, np.int32)
    for item in range(n):
        slots[item] = -1
    return scratch_for(longest, rows, columns, slots)


@compiled
def step_costs(
    start: Any, stop: Any, firsts: Any, indptr: Any, indices: Any, states: Any, vectors: Any, table: Any,
    settings: Any, costs: Any,
) -> None:  # fmt: skip
    """costs[e] of the steps e from firsts[i] to indptr[i + 1], of items i from start to stop.

    firsts (n,), indptr (n + 1,) int64; indices (steps,) int32; states csr.Rows; vectors (n, d) float32; table (n, n)
    float32, or (0, 0) where ground costs are computed from the vectors; settings Transport; costs (steps,) float32.
    Steps are priced in groups that do not depend on who asks, so that a step has the same bits whoever runs this.
    """
    whole = len(table) > 0
    scratch = _workspace(states, 0 if whole else vectors.shape[1])
    for low in range(start, stop):
        begin = firsts[low]
        while begin < indptr[low + 1]:
            group = indices[begin : min(begin + TOGETHER, indptr[low + 1])]
            ground = table if whole else _ground_block(low, group, states, vectors, settings, scratch)
            for position in range(len(group)):
                costs[begin + position] = price(low, group[position], states, ground, whole, scratch, settings)
            if not whole:
                release(group, states, scratch.slots)
            begin += len(group)


@compiled
def first_higher(start: Any, stop: Any, indptr: Any, indices: Any, firsts: Any) -> None:
    """firsts[i] (int64) = the first entry of row i, which ascends, that leads to a higher item; rows start..stop."""
    for low in range(start, stop):
        begin = indptr[low + 1]
        while begin > indptr[low] and indices[begin - 1] > low:
            begin -= 1
        firsts[low] = begin


@compiled
def mirror_costs(start: Any, stop: Any, indptr: Any, indices: Any, costs: Any) -> None:
    """Steps of items start..stop to lower items cost what they cost from there; costs (steps,) float32, in place."""
    for high in range(start, stop):
        for entry in range(indptr[high], indptr[high + 1]):
            low = indices[entry]
            if low >= high:
                break
            first, last = indptr[low], indptr[low + 1]
            while first < last:
                middle = (first + last) // 2
                if indices[middle] < high:
                    first = middle + 1
                else:
                    last = middle
            costs[entry] = costs[first]
