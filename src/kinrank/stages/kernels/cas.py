"""Sparse graphs -> diffusion on regions, smoothing by sure neighbours, the largest entries of a walk."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages.kernels.compiled import compiled
from kinrank.stages.kernels.context import gather
from kinrank.stages.kernels.search import comes_after as after
from kinrank.stages.kernels.search import sift_down as sift_down

STEPS = 10  # of the diffusion


@compiled
def _levels(seeds: Any, starts: Any, columns: Any, limit: Any, level: Any, order: Any, ends: Any) -> Any:
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
            for edge in range(starts[item], starts[item + 1]):
                other = columns[edge]
                if level[other] > depth:
                    level[other] = depth
                    order[size] = other
                    size += 1
        first = last
        ends[depth] = size
    return size


@compiled
def diffuse(
    start: Any,
    stop: Any,
    rows: Any,
    graph: Any,
    alpha: Any,
    region: Any,
    binomials: Any,
    width: Any,
    out: Any,
) -> None:
    """Entries of F on the region of each row, exactly, blocks of `width` rows at a time (start..stop count
    blocks).

    F = (1 - a) sum_(t<10) a^t S^t + (a/2)^10 sum_t C(10, t) S^t W S^(10-t): ten steps of F <- a/2 (FS + SF)
    + (1-a) I from F = W, written out. With u_t = e' S^t the second sum is z <- z S + C(10, t) u_t W. An
    item takes part in a step only while the rows have reached it and it can still reach a region. The graph
    and the members of regions number the items by their place in `rows`; regions are found, and written,
    under the number rows[place].
    """
    starts, columns = graph[0], graph[1]
    where, members = region
    items = len(starts) - 1
    level = np.empty(items, np.int32)
    back = np.empty(items, np.int32)
    order = np.empty(items, np.int32)
    scratch = np.empty(items, np.int32)
    ends = np.empty(STEPS + 2, np.int64)
    ends_back = np.empty(STEPS + 2, np.int64)
    u = np.zeros((2, items, width), np.float32)
    z = np.zeros((2, items, width), np.float32)
    for block in range(start, stop):
        first = block * width
        mine = rows[first : first + width]
        size = _levels(np.arange(first, first + len(mine)), starts, columns, STEPS + 1, level, order, ends)
        _levels(_joined(mine, where, members), starts, columns, STEPS + 1, back, scratch, ends_back)
        for place in range(size):
            u[:, order[place]] = 0.0
            z[:, order[place]] = 0.0
        for r in range(len(mine)):
            u[0, first + r, r] = 1.0
        power = 1.0 - alpha
        for step in range(STEPS + 1):
            old, new = step % 2, (step + 1) % 2
            if step < STEPS:
                for r in range(len(mine)):
                    for entry in range(where[mine[r]], where[mine[r] + 1]):
                        if level[members[entry]] <= step:  # further items hold what an earlier block left
                            out[entry] += power * u[old, members[entry], r]
                power *= alpha
            active = order[: ends[step + 1]]
            _step(active, level, back, step, graph, binomials[step], u[old], z[old], u[new], z[new])
        last = z[(STEPS + 1) % 2]
        for r in range(len(mine)):
            for entry in range(where[mine[r]], where[mine[r] + 1]):
                if level[members[entry]] <= STEPS + 1:
                    out[entry] += (0.5 * alpha) ** STEPS * last[members[entry], r]


@compiled
def _joined(rows: Any, where: Any, members: Any) -> Any:
    """The members of the regions of some rows, one after the other."""
    size = 0
    for row in rows:
        size += where[row + 1] - where[row]
    joined = np.empty(size, np.int32)
    size = 0
    for row in rows:
        count = where[row + 1] - where[row]
        joined[size : size + count] = members[where[row] : where[row + 1]]
        size += count
    return joined


@compiled
def _step(
    active: Any,
    level: Any,
    back: Any,
    step: Any,
    graph: Any,
    c: Any,
    old_u: Any,
    old_z: Any,
    new_u: Any,
    new_z: Any,
) -> None:
    """u <- u S and z <- z S + c u W on the active items that are within reach of a region."""
    starts, columns, smooth, affinity = graph
    width = old_u.shape[1]  # not a constant: the loop below is vectorised only if it is not unrolled first
    for item in active:
        if back[item] > STEPS - step:
            continue
        u = new_u[item]
        z = new_z[item]
        u[:] = 0.0
        z[:] = 0.0
        for edge in range(starts[item], starts[item + 1]):
            if level[columns[edge]] > step:  # not reached yet: 0
                continue
            source_u = old_u[columns[edge]]
            source_z = old_z[columns[edge]]
            s = smooth[edge]
            w = np.float32(c * affinity[edge])
            for r in range(width):
                u[r] += s * source_u[r]
                z[r] += s * source_z[r] + w * source_u[r]


@compiled
def smooth(
    start: Any,
    stop: Any,
    sure: Any,
    steps: Any,
    transposed: Any,
    diagonal: Any,
    beta: Any,
    where: Any,
    members: Any,
    values: Any,
) -> None:
    """Neighbour-guided smoothing of the values on each region, in place, then divided by the row's sum.

    transition[i, t]: probability of stepping from i to lists[i, t]; only its square is asked for: the mean
    over the sure items c of the probability to reach c from j in two steps, through a dense scratch of
    steps into them.
    """
    core, sizes = sure
    lists, transition = steps
    back, sources, chances = transposed
    into = np.zeros(len(where) - 1, np.float64)
    is_sure = np.full(len(where) - 1, -1, np.int32)
    for row in range(start, stop):
        size = sizes[row]
        first, last = where[row], where[row + 1]
        inside = 0
        for place in range(size):
            is_sure[core[row, place]] = row
        for entry in range(first, last):
            inside += is_sure[members[entry]] == row
        a = 0.0
        for place in range(size):
            a += diagonal[core[row, place]] / size
        if size > 1 and last - first - inside > 1 and a * a + 2 * beta > 0:
            for place in range(size):
                c = core[row, place]
                for entry in range(back[c], back[c + 1]):
                    into[sources[entry]] += chances[entry] / size
            weights = np.empty(last - first, np.float64)
            mean, weighted = 0.0, 0.0
            for entry in range(first, last):
                other = members[entry]
                weight = a
                if is_sure[other] != row:
                    weight = 0.0
                    for place in range(lists.shape[1]):
                        weight += transition[other, place] * into[lists[other, place]]
                    weight = min(weight, a)
                weights[entry - first] = weight
                mean += values[entry] / (last - first)
                weighted += values[entry] * weight / (last - first)
            shift = max(a * a * mean - a * weighted, 0.0)  # below 0 by rounding only, as no weight exceeds a
            for entry in range(first, last):
                kept = values[entry] * (a * weights[entry - first] + 2 * beta)
                values[entry] = (kept + shift) / (a * a + 2 * beta)
            for place in range(size):
                c = core[row, place]
                for entry in range(back[c], back[c + 1]):
                    into[sources[entry]] = 0.0
        total = 0.0
        for entry in range(first, last):
            total += values[entry]
        for entry in range(first, last):
            values[entry] /= total


@compiled
def walk(start: Any, stop: Any, lists: Any, weights: Any, matrix: Any, columns: Any, values: Any) -> None:
    """The k largest entries of each row of m m, m = (weights on lists) times the matrix, summing to one.

    All weights and entries must be >= 0: a sum of 0 marks an item as not reached. Ties go to the lower
    number; a row with fewer entries is filled up with its own number and value 0.
    """
    starts, numbers, entries = matrix
    items = len(columns)
    total = np.zeros(items, np.float32)
    spread = np.zeros(items, np.float32)
    final = np.zeros(items, np.float32)
    seen = np.full(items, -1, np.int32)
    touched, passed, reached = np.empty(items, np.int32), np.empty(items, np.int32), np.empty(items, np.int32)
    for row in range(start, stop):
        middle = 0
        for entry in range(gather(row, lists, weights, matrix, total, seen, touched)):
            column = touched[entry]
            for place in range(lists.shape[1]):
                other = lists[column, place]
                if spread[other] == 0.0:
                    passed[middle] = other
                    middle += weights[column, place] * total[column] > 0
                spread[other] += total[column] * weights[column, place]
        size = 0
        for entry in range(middle):
            column = passed[entry]
            mass = spread[column]
            spread[column] = 0.0
            for step in range(starts[column], starts[column + 1]):
                other = numbers[step]
                if final[other] == 0.0:
                    reached[size] = other
                    size += mass * entries[step] > 0
                final[other] += mass * entries[step]
        _largest(row, reached[:size], final, columns[row], values[row])
        for entry in range(size):
            final[reached[entry]] = 0.0


@compiled
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
            if value >= values[0] and after(values[0], columns[0], value, reached[entry]):
                values[0] = value
                columns[0] = reached[entry]
                sift_down(values, columns, 0, k)
    total = 0.0
    for entry in range(kept):
        total += values[entry]
    for entry in range(kept):
        values[entry] /= total
    columns[kept:] = row
    values[kept:] = 0.0
