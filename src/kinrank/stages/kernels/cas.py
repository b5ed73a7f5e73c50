"""Sparse graphs -> diffusion on regions, smoothing by sure neighbours, the largest entries of a walk.

n items; `Rows` are sparse rows (see kernels/rows.py).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.stages.kernels.arrays import UNTOUCHED, nobody, numbered, untouched
from kinrank.stages.kernels.compiled import compiled, inner
from kinrank.stages.kernels.context import gather, scratch
from kinrank.stages.kernels.order import comes_after, sift_down

STEPS = 10  # of the diffusion
BINOMIALS = np.array([math.comb(STEPS, t) for t in range(STEPS + 1)], np.float32)


class Graph(NamedTuple):
    """The graph that is diffused over, as sparse rows with two values an entry: W and its normalisation S, float32."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    affinity: NDArray[np.float32]
    smooth: NDArray[np.float32]


class Steps(NamedTuple):
    """A random step: from i to lists[i, t] with chances[i, t], (n, k) int32 and float32.

    back: Rows (n, n), the same transposed: who steps to an item, with which chance; returns (n,) float64: the chance
    to be back at an item after two steps.
    """

    lists: NDArray[np.int32]
    chances: NDArray[np.float32]
    back: Any
    returns: NDArray[np.float64]


@inner
def _levels(seeds: Any, graph: Any, limit: Any, level: Any, order: Any, ends: Any) -> Any:
    """Breadth first from the seeds: level[v] (limit + 1 beyond), items as visited, ends[l] of each level."""
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


@compiled
def diffuse(start: Any, stop: Any, numbers: Any, graph: Any, regions: Any, alpha: Any, width: Any) -> None:
    """regions.data += the entries of F on the region of each item, exactly, in blocks of `width` items.

    F = (1 - a) sum_(t<10) a^t S^t + (a/2)^10 sum_t C(10, t) S^t W S^(10-t): ten steps of F <- a/2 (FS + SF)
    + (1-a) I from F = W, written out. With u_t = e' S^t the second sum is z <- z S + C(10, t) u_t W. An
    item takes part in a step only while the block has reached it and a region is still near enough to it.

    * start, stop count blocks; numbers (n,) int32: the item at each place of the graph;
    * graph: Graph (n, n) over places; alpha: a;
    * regions: Rows (n, n), row i the region of item i, its members as places of the graph; data 0 on entry.
    """
    items = len(numbers)
    places = numbered(items)
    level = np.empty(items, np.int32)
    back = np.empty(items, np.int32)
    order = np.empty(items, np.int32)
    order_back = np.empty(items, np.int32)
    ends = np.empty(STEPS + 2, np.int64)
    ends_back = np.empty(STEPS + 2, np.int64)
    u = np.zeros((2, items, width), np.float32)
    z = np.zeros((2, items, width), np.float32)
    for block in range(start, stop):
        first = block * width
        mine = numbers[first : first + width]
        size = _levels(places[first : first + len(mine)], graph, STEPS + 1, level, order, ends)
        _levels(_joined(mine, regions), graph, STEPS + 1, back, order_back, ends_back)
        for place in range(size):
            u[:, order[place]] = 0.0
            z[:, order[place]] = 0.0
        for r in range(len(mine)):
            u[0, first + r, r] = 1.0
        power = 1.0 - alpha
        for step in range(STEPS + 1):
            old = step % 2
            if step < STEPS:
                for r in range(len(mine)):
                    for entry in range(regions.indptr[mine[r]], regions.indptr[mine[r] + 1]):
                        member = regions.indices[entry]
                        if level[member] <= step:  # further items hold what an earlier block left
                            regions.data[entry] += power * u[old, member, r]
                power *= alpha
            _step(step, order[: ends[step + 1]], (level, back), graph, u, z)
        last = z[(STEPS + 1) % 2]
        for r in range(len(mine)):
            for entry in range(regions.indptr[mine[r]], regions.indptr[mine[r] + 1]):
                member = regions.indices[entry]
                if level[member] <= STEPS + 1:
                    regions.data[entry] += (0.5 * alpha) ** STEPS * last[member, r]


@inner
def _joined(items: Any, regions: Any) -> Any:
    """The members of the regions of several items, one after the other."""
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


@inner
def _step(step: Any, active: Any, levels: Any, graph: Any, u: Any, z: Any) -> None:
    """u <- u S and z <- z S + C(10, step) u W on the active items that are near enough to a region.

    u, z (2, n, width) float32: read at step % 2, written at the other; levels: how far each item is from the block,
    and from its regions, both (n,) int32.
    """
    level, back = levels
    old_u, new_u = u[step % 2], u[(step + 1) % 2]
    old_z, new_z = z[step % 2], z[(step + 1) % 2]
    width = old_u.shape[1]  # not a constant: the loop below is vectorised only if it is not unrolled first
    for item in active:
        if back[item] > STEPS - step:
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


@compiled
def smooth(start: Any, stop: Any, states: Any, sure: Any, steps: Any, beta: Any) -> None:
    """Neighbour-guided smoothing of the states, rows start..stop, in place; each row then sums to one.

    Only the square of the random step is asked for: the mean over the sure items c of the probability to get from j to
    c in two steps, through a dense array of the steps into them. states: Rows (n, n), changed; sure: Rows (n, n),
    whose data is not read; steps: Steps.
    """
    into = np.zeros(len(states.indptr) - 1, np.float64)
    is_sure = nobody(len(states.indptr) - 1)
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


@compiled
def walk(start: Any, stop: Any, mixture: Any, matrix: Any, columns: Any, values: Any) -> None:
    """The k largest entries of each row of m m, m = mixture times the matrix, summing to one; rows start..stop.

    mixture: Mixture; matrix: Rows (n, n); columns, values (n, k) int32 and float32, written. All weights and entries
    must be >= 0; products that underflow to 0 reach no item. Ties go to the lower number; a row with fewer entries is
    filled up with its own number and value 0.
    """
    lists, weights = mixture
    items = len(columns)
    work = scratch(items)
    spread, final = untouched(items), untouched(items)
    passed, reached = np.empty(items, np.int32), np.empty(items, np.int32)
    for row in range(start, stop):
        middle = 0
        for entry in range(gather(row, mixture, matrix, work)):
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
        _largest(row, reached[:size], final, columns[row], values[row])
        for entry in range(size):
            final[reached[entry]] = UNTOUCHED


@inner
def _largest(row: Any, reached: Any, final: Any, columns: Any, values: Any) -> None:
    """The len(columns) largest of final[reached], ties to the lower number, divided by their sum."""
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
