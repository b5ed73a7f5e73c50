"""Neighbour lists -> the pieces of CAS: diffusion on regions, smoothing, walk, graph of divergences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from kinrank.stages.affinity import normalised
from kinrank.stages.chains import chains_from
from kinrank.stages.context import Floats, Lists, inverted, row_sums
from kinrank.stages.csr import Rows, from_lists, matrix_of, plus_transpose, rows_of
from kinrank.stages.kernels import cas as kernels
from kinrank.stages.kernels import divergence
from kinrank.stages.kernels.compiled import in_chunks
from kinrank.stages.kernels.context import Mixture
from kinrank.stages.mutual import mutual

WIDTH = 64  # rows diffused together: four cache lines of float32 per item


def affinity(lists: Lists, similarity: Floats, k1: int) -> csr_array:
    """(n, n) sparse, symmetric: similarities to the k1 - 1 nearest others, doubled where these are mutual."""
    values = similarity[:, 1:k1] * (1 + mutual(lists, k1)[:, 1:])
    directed = from_lists(lists[:, 1:k1], values.astype(np.float32, copy=False), len(lists))
    return csr_array(plus_transpose(directed) * np.float32(0.5))


def diffused(weights: csr_array, regions: csr_array, mu: float) -> csr_array:
    """Ten steps of F <- a/2 (F S + S F) + (1 - a) I from F = W, a = 1 / (1 + mu), known on the regions only.

    S is W divided by the roots of its row sums on both sides. Exact; cost n^2 times about 8 k1
    multiplications in the worst case, less where the graph falls apart; memory 1 kB per item and thread.
    """
    numbers = np.asarray(reverse_cuthill_mckee(weights, symmetric_mode=True), np.int32)  # near items share blocks
    place = np.empty_like(numbers)
    place[numbers] = np.arange(len(numbers), dtype=np.int32)
    edges = rows_of(csr_array(weights[numbers][:, numbers]))
    smooth = rows_of(csr_array(normalised(weights)[numbers][:, numbers])).data
    inside = rows_of(regions)
    found = Rows(inside.indptr, place[inside.indices], np.zeros(len(inside.indices), np.float32))
    blocks = -(-len(numbers) // WIDTH)
    graph = kernels.Graph(*edges, smooth)
    in_chunks(kernels.diffuse, blocks, numbers, graph, found, 1 / (1 + mu), WIDTH, chunk=4)
    return matrix_of(Rows(inside.indptr, inside.indices, found.data), len(numbers))


def smoothed(states: csr_array, lists: Lists, similarity: Floats, sure: csr_array, k3: int, beta: float) -> csr_array:
    """The states, guided by the sure neighbours of each item (see the kernel), each row summing to one."""
    others = np.ascontiguousarray(lists[:, 1:k3])
    chances = similarity[:, 1:k3]
    total = chances.sum(axis=1, keepdims=True)
    chances = np.ascontiguousarray(chances / np.where(total > 0, total, np.float32(1)))
    forward = from_lists(others, chances, len(lists))
    back = inverted(forward, np.arange(len(lists)))
    returns = np.asarray(forward.multiply(back).sum(axis=1), np.float64).ravel()
    steps = kernels.Steps(others, chances, rows_of(back), returns)
    rows = rows_of(states)
    in_chunks(kernels.smooth, len(lists), rows, rows_of(sure), steps, beta)
    return matrix_of(rows, len(lists))


def expanded_walk(states: csr_array, lists: Lists, k1: int, k4: int, k5: int, lv: float) -> csr_array:
    """Rows p = M M, M the k5 largest of m m, m the states averaged over the k4 nearest and the sure ones."""
    k4 = min(k4, lists.shape[1])
    wide = np.ascontiguousarray(lists[:, : max(k1, k4)])
    weights = np.zeros(wide.shape, np.float32)
    weights[:, :k4] = 1 / k4
    sure = mutual(lists, k1)
    weights[:, : sure.shape[1]] += lv * sure / sure.sum(axis=1, keepdims=True)
    weights /= np.float32(1 + lv)
    count = len(lists)
    columns = np.empty((count, min(k5, count)), np.int32)
    values = np.empty(columns.shape, np.float32)
    in_chunks(kernels.walk, count, Mixture(wide, weights), rows_of(states), columns, values, chunk=64)
    return row_sums(columns, values, from_lists(columns, values, count))


def divergences(lists: Lists, rows: csr_array) -> Floats:
    """(n, k) Jensen-Shannon divergence, in bits, of the rows of every item and each one in its list."""
    lengths = np.empty(lists.shape, np.float32)
    sums = np.empty(len(lists), np.float64)
    states = rows_of(rows)
    in_chunks(divergence.sums_of_logs, len(lists), states, sums, chunk=256)
    in_chunks(divergence.divergences, len(lists), lists, states, sums, lengths, chunk=64)
    in_chunks(divergence.fill_mutual, len(lists), lists, lengths, chunk=512)
    return lengths


def both_ways(lists: Lists, lengths: Floats) -> csr_array:
    """(n, n) sparse: an edge from each item to everyone in its list and one back; mutual pairs have it twice.

    Side by side, as adding the two directions would lose edges of length 0 and double those of mutual pairs.
    """
    there = from_lists(lists, lengths, len(lists))
    pieces = rows_of(there), rows_of(inverted(there, np.arange(len(lists))))
    indptr = pieces[0].indptr + pieces[1].indptr
    edges = Rows(indptr, np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32))
    before = 0  # edges of the same row that stand before those of the piece
    for piece in pieces:
        shift = np.repeat(indptr[:-1] - piece.indptr[:-1] + before, np.diff(piece.indptr))
        target = np.arange(len(piece.indices)) + shift
        edges.indices[target], edges.data[target] = piece.indices, piece.data
        before = lists.shape[1]
    return matrix_of(edges, len(lists))


def path_lengths(graph: csr_array, sources: NDArray[np.int64], gallery: NDArray[np.int64], never: float) -> Floats:
    """(len(sources), g) lengths of shortest paths, `never` where there is none, and at most that."""
    totals, _ = chains_from(sources, rows_of(graph))
    return np.asarray(np.minimum(totals[:, gallery], np.float32(never)))
