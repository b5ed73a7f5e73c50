"""Neighbour lists -> the pieces of CAS: diffusion on regions, smoothing, walk, graph of divergences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.special import comb

from kinrank.stages.context import Floats, Lists, inverted, list_rows, members, parts, row_sums
from kinrank.stages.kernels import cas as kernels
from kinrank.stages.kernels import divergence
from kinrank.stages.kernels.compiled import in_chunks

WIDTH = 64  # rows diffused together: four cache lines of float32 per item


def affinity(lists: Lists, similarity: Floats, k1: int) -> csr_array:
    """(n, n) sparse, symmetric: similarities to the k1 - 1 nearest others, doubled where these are mutual."""
    others = np.ascontiguousarray(lists[:, 1:k1])
    values = similarity[:, 1:k1] * (1 + is_mutual(lists, k1)[:, 1:])
    directed = list_rows(others, np.ascontiguousarray(values, dtype=np.float32))
    return csr_array((directed + directed.T) * np.float32(0.5))


def is_mutual(lists: Lists, k: int) -> NDArray[np.bool_]:
    """(n, k) whether each entry of the first k has the item among its own first k."""
    found, sizes = members(lists, k)
    k = found.shape[1]
    mutual = np.zeros((len(lists), k), bool)
    place = np.zeros(len(lists), np.int64)
    for column in range(k):  # members keep the order of the list, so one walk along both suffices
        current = found[np.arange(len(lists)), np.minimum(place, k - 1)]
        mutual[:, column] = (place < sizes) & (lists[:, column] == current)
        place += mutual[:, column]
    return mutual


def diffused(weights: csr_array, regions: csr_array, mu: float) -> csr_array:
    """Ten steps of F <- a/2 (F S + S F) + (1 - a) I from F = W, a = 1 / (1 + mu), known on the regions only.

    S is W divided by the roots of its row sums on both sides. Exact; cost n^2 times about 8 k1
    multiplications in the worst case, less where the graph falls apart; memory 1 kB per item and thread.
    """
    rows = np.asarray(reverse_cuthill_mckee(weights, symmetric_mode=True), np.int32)  # near items share blocks
    place = np.empty_like(rows)
    place[rows] = np.arange(len(rows), dtype=np.int32)
    starts, columns, values = parts(csr_array(weights[rows][:, rows]))
    degrees = np.asarray(weights.sum(axis=1), np.float64).ravel()[rows]
    root = 1 / np.sqrt(np.where(degrees > 0, degrees, 1))
    smooth = (values * np.repeat(root, np.diff(starts)) * root[columns]).astype(np.float32)
    where, inside, _ = parts(regions)
    out = np.zeros(len(inside), np.float32)
    binomials = comb(kernels.STEPS, np.arange(kernels.STEPS + 1)).astype(np.float32)
    blocks = -(-len(rows) // WIDTH)
    graph = (starts, columns, smooth, values)
    region = (where, place[inside])
    in_chunks(kernels.diffuse, blocks, rows, graph, 1 / (1 + mu), region, binomials, WIDTH, out, chunk=4)
    return csr_array((out, inside, where), shape=regions.shape)


def smoothed(
    states: csr_array,
    lists: Lists,
    similarity: Floats,
    sure: tuple[Lists, NDArray[np.int32]],
    k3: int,
    beta: float,
) -> csr_array:
    """The states, guided by the sure neighbours of each item (see the kernel), each row summing to one."""
    others = np.ascontiguousarray(lists[:, 1:k3])
    chances = similarity[:, 1:k3]
    total = chances.sum(axis=1, keepdims=True)
    chances = np.ascontiguousarray(chances / np.where(total > 0, total, np.float32(1)))
    steps = list_rows(others, chances)
    back = inverted(steps, np.arange(len(lists)))
    diagonal = np.asarray(steps.multiply(back).sum(axis=1), np.float64).ravel()
    where, inside, values = parts(states)
    in_chunks(
        kernels.smooth,
        len(lists),
        sure,
        (others, chances),
        parts(back),
        diagonal,
        beta,
        where,
        inside,
        values,
    )
    return csr_array((values, inside, where), shape=states.shape)


def expanded_walk(
    states: csr_array,
    lists: Lists,
    sure: tuple[Lists, NDArray[np.int32]],
    k1: int,
    k4: int,
    k5: int,
    lv: float,
) -> csr_array:
    """Rows p = M M, M the k5 largest of m m, m the states averaged over the k4 nearest and the sure ones."""
    k4 = min(k4, lists.shape[1])
    wide = np.ascontiguousarray(lists[:, : max(k1, k4)])
    weights = np.zeros(wide.shape, np.float32)
    weights[:, :k4] = 1 / k4
    mutual = is_mutual(lists, k1)
    weights[:, : mutual.shape[1]] += lv * mutual / sure[1][:, None]
    weights /= np.float32(1 + lv)
    count = len(lists)
    columns = np.empty((count, min(k5, count)), np.int32)
    values = np.empty(columns.shape, np.float32)
    in_chunks(kernels.walk, count, wide, weights, parts(states), columns, values, chunk=64)
    return row_sums(columns, values, list_rows(columns, values))


def divergences(lists: Lists, rows: csr_array) -> Floats:
    """(n, k) Jensen-Shannon divergence, in bits, of the rows of every item and each one in its list."""
    lengths = np.empty(lists.shape, np.float32)
    sums = np.empty(len(lists), np.float64)
    in_chunks(divergence.sums_of_logs, len(lists), parts(rows), sums, chunk=256)
    in_chunks(divergence.divergences, len(lists), lists, parts(rows), sums, lengths, chunk=64)
    in_chunks(divergence.fill_mutual, len(lists), lists, lengths, chunk=512)
    return lengths


def both_ways(lists: Lists, lengths: Floats) -> csr_array:
    """(n, n) sparse: an edge from each item to everyone in its list and one back; mutual pairs have it twice.

    Side by side, as adding the two directions would lose edges of length 0 and double those of mutual pairs.
    """
    there = list_rows(lists, lengths)
    back = inverted(there, np.arange(len(lists)))
    starts = parts(there)[0] + parts(back)[0]
    columns, values = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32)
    place = 0
    for piece in (there, back):
        first, numbers, weights = parts(piece)
        target = np.arange(len(numbers)) + np.repeat(starts[:-1] - first[:-1] + place, np.diff(first))
        columns[target], values[target] = numbers, weights
        place = lists.shape[1]  # every row holds that many edges there before those back
    return csr_array((values, columns, starts), shape=(len(lists), len(lists)))


def path_lengths(graph: csr_array, sources: NDArray[np.int64], gallery: NDArray[np.int64], never: float) -> Floats:
    """(len(sources), g) lengths of shortest paths, `never` where there is none."""
    out = np.empty((len(sources), len(gallery)), np.float32)
    first = int(gallery[0]) if len(gallery) else 0
    in_chunks(divergence.shortest, len(sources), sources, parts(graph), np.float32(never), first, out, chunk=2)
    return out
