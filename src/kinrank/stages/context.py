"""Neighbour lists -> contexts: expanded reciprocal sets, sparse rows over them, and what the rows of two items share.

Sparse rows travel as `csr_array`; no function here builds an n x n array. Lists are (n, k) item numbers, each
item first in its own list.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinrank.features import Vectors
from kinrank.items import Items
from kinrank.neighbors import first_equal, half_squares, pairwise, share_equal
from kinrank.stages.csr import Rows, matrix_of, rows_of
from kinrank.stages.kernels import context as kernels
from kinrank.stages.kernels.compiled import in_chunks
from kinrank.stages.kernels.search import Products
from kinrank.stages.mutual import reciprocal

Lists = NDArray[np.int32]
Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
VOTES = 2**22  # ranks held at once
SIDE = 1024  # rows and columns of one block of inner products: 4 MB


def farthest(vectors: Vectors, unit: bool = True) -> Floats:
    """(n,) squared Euclidean distance of each row to the row farthest from it; never zero.

    Blocks of inner products, each used for its rows and its columns, so half the products of a full pass:
    n^2 d / 2 multiplications, 4 MB. Where all rows coincide the answer is the smallest positive float, so
    that a distance of 0 divided by it is 0. `unit`: all rows have length one.
    """
    products = Products(vectors, vectors, unit)
    lowest = np.full(len(vectors), products.top, np.float32)
    for first in range(0, len(vectors), SIDE):
        rows = slice(first, first + SIDE)
        for second in range(first, len(vectors), SIDE):
            columns = slice(second, second + SIDE)
            block = products.block(rows, columns)
            np.minimum(lowest[rows], block.min(axis=1), out=lowest[rows])
            if second > first:
                np.minimum(lowest[columns], block.min(axis=0), out=lowest[columns])
    squared = 2 * products.top - 2 * lowest
    lengths = 1.0 if unit else 2.0 * half_squares(vectors).max(initial=0.0)
    close = np.flatnonzero(squared < 1e-2 * lengths)  # inner products lose the digits here: sum differences instead
    for start in range(0, len(close), SIDE):
        again = close[start : start + SIDE]
        squared[again] = pairwise(vectors[again], vectors, unit).max(axis=1) ** 2
    return np.asarray(np.maximum(squared, np.finfo(np.float32).tiny), np.float32)


def scaled_distances(items: Items, queries: Numbers, far: Floats, power: int = 1) -> NDArray[np.float64]:
    """(len(queries), g): (d^2 / largest d^2 of the query)^power, in [0, 1] up to rounding.

    In float64, so that distances that differ still differ when they are added to something larger.
    """
    scaled = items.query_distances(queries).astype(np.float64)
    scaled *= scaled
    scaled /= far[items.queries[queries]][:, None]
    if power != 1:
        scaled **= power
    return scaled


def expanded(lists: Lists, wide: int, half: int) -> csr_array:
    """(n, n) sparse pattern: reciprocal sets of the first `wide`, with the sets of the first `half` they nearly hold.

    The set of i takes in the smaller set of a member j when more than two thirds of it lie inside already.
    """
    sets = rows_of(reciprocal(lists, wide)), rows_of(reciprocal(lists, half))
    return matrix_of(_counted_then_filled(kernels.expand, len(lists), *sets), len(lists))


def overlaps(sets: csr_array, members_only: bool = False) -> csr_array:
    """(n, n) how many members the sets of i and j share, where any; with `members_only`, where j is in the set of i.

    `sets` is symmetric, of ones.
    """
    shared = sets @ sets
    return csr_array(shared.multiply(sets) if members_only else shared)


def kernel_rows(sets: csr_array, vectors: Vectors, far: Floats, power: int = 1) -> csr_array:
    """The same pattern with rows exp(-(d^2 / farthest)^power), each divided by its sum."""
    rows = rows_of(sets)
    in_chunks(kernels.kernel_weights, len(vectors), vectors, far, power, rows, chunk=128)
    return matrix_of(rows, len(vectors))


def row_sums(lists: Lists, weights: Floats, matrix: csr_array) -> csr_array:
    """Rows sum_t weights[i, t] * matrix[lists[i, t]], sparse."""
    width = int(matrix.shape[1])
    mixture = kernels.Mixture(lists, weights)
    return matrix_of(_counted_then_filled(kernels.row_sums, len(lists), mixture, rows_of(matrix), width), width)


def _counted_then_filled(kernel: Any, count: int, *arguments: Any) -> Rows:
    """The `count` rows that a kernel makes: called once for their sizes, and again to write them."""
    indptr = np.zeros(count + 1, np.int64)
    empty = Rows(indptr, np.empty(0, np.int32), np.empty(0, np.float32))
    in_chunks(kernel, count, *arguments, empty, chunk=256)
    np.cumsum(indptr, out=indptr)
    rows = Rows(indptr, np.empty(indptr[-1], np.int32), np.zeros(indptr[-1], np.float32))
    if indptr[-1]:
        in_chunks(kernel, count, *arguments, rows, chunk=256)
    return rows


def row_means(lists: Lists, matrix: csr_array) -> csr_array:
    """Rows mean_t matrix[lists[i, t]], sparse: each row averaged over the item's neighbours."""
    return row_sums(lists, np.full(lists.shape, 1 / max(lists.shape[1], 1), np.float32), matrix)


def inverted(matrix: csr_array, rows: Numbers) -> csr_array:
    """(columns, len(rows)): for every column of the matrix, which of the rows hold it, and how much."""
    chosen = matrix if len(rows) == matrix.shape[0] else matrix[int(rows[0]) :]  # the gallery always comes last
    return csr_array(chosen.T.tocsr())


def jaccard(rows: csr_array, postings: csr_array, queries: Numbers) -> Floats:
    """(len(queries), g) generalised Jaccard distance 1 - m / (2 - m), m = sum_c min(V_qc, V_gc).

    `rows` sum to one each, `postings` are the gallery's rows inverted; only shared columns are visited.
    """
    shared = np.zeros((len(queries), postings.shape[1]), np.float32)
    in_chunks(kernels.shared_mass, len(queries), queries, rows_of(rows), rows_of(postings), shared, chunk=1)
    distances: Floats = 1 - shared / (2 - shared)
    return np.maximum(distances, 0)


def unit_rows(matrix: csr_array) -> csr_array:
    """Rows divided by their Euclidean norm; an empty row stays empty."""
    indptr, indices, data = rows_of(matrix)
    squares = np.concatenate([[0.0], np.cumsum(data.astype(np.float64) ** 2)])
    norms = np.sqrt(squares[indptr[1:]] - squares[indptr[:-1]])
    scale = 1 / np.where(norms > 0, norms, 1.0)
    data = (data * np.repeat(scale, np.diff(indptr))).astype(np.float32)
    return matrix_of(Rows(indptr, indices, data), int(matrix.shape[1]))


def row_norms(lists: Lists, weights: Floats, matrix: csr_array) -> Floats:
    """(n,) Euclidean norms of the rows that `row_sums` would give, not keeping them; 1 for an empty row."""
    norms = np.empty(len(lists), np.float32)
    mixture = kernels.Mixture(lists, weights)
    in_chunks(kernels.row_norms, len(lists), mixture, rows_of(matrix), int(matrix.shape[1]), norms, chunk=256)
    return np.where(norms > 0, norms, np.float32(1))


def smoothed_products(
    queries: Numbers, lists: Lists, weights: Floats, matrix: csr_array, norms: Floats, gallery: Numbers
) -> Floats:
    """(len(queries), g) cosines of the rows that `row_sums` would give; symmetric matrix."""
    out = np.empty((len(queries), len(gallery)), np.float32)
    arguments = (queries, kernels.Mixture(lists, weights), rows_of(matrix), norms, _first(gallery), out)
    in_chunks(kernels.smoothed_products, len(queries), *arguments, chunk=4)
    return out


def shared_context(queries: Numbers, lists: Lists, counts: csr_array, sizes: Floats, gallery: Numbers) -> Floats:
    """(len(queries), g) entries of (C2 + C2') / 2, C2 = rows of counts / sizes averaged over each list."""
    out = np.empty((len(queries), len(gallery)), np.float32)
    arguments = (queries, lists, rows_of(counts), sizes, _first(gallery), out)
    in_chunks(kernels.shared_context, len(queries), *arguments, chunk=4)
    return out


def family_products(
    queries: Numbers, lists: Lists, postings: csr_array, lead: int, t: int, q: int, gallery: Numbers
) -> NDArray[np.float64]:
    """(len(queries), g) products of lists, summed over the families of both sides (see the kernel)."""
    out = np.empty((len(queries), len(gallery)), np.float64)
    arguments = (queries, kernels.Families(lists, lead, t, q), rows_of(postings), _first(gallery), out)
    in_chunks(kernels.family_products, len(queries), *arguments, chunk=4)
    return out


def rank_votes(vectors: Vectors, queries: Numbers, lists: Lists, gallery: Numbers, unit: bool = True) -> Floats:
    """(len(queries), g) votes sum_t 1 / ((t + 1 + r_m(q)) r_m(x)), m = lists[q, t], r the 1-based ranks."""
    out = np.zeros((len(queries), len(gallery)), np.float32)
    voters = np.unique(lists[queries])
    equal = first_equal(vectors)
    slots = np.full(len(vectors), -1, np.int32)
    at_once = max(1, VOTES // max(len(vectors), 1))
    for start in range(0, len(voters), at_once):
        block = voters[start : start + at_once]
        slots[block] = np.arange(len(block), dtype=np.int32)
        ranks = ranks_of(vectors, block, equal, unit)
        in_chunks(kernels.rank_scores, len(queries), queries, lists, slots, ranks, _first(gallery), out, chunk=4)
        slots[block] = -1
    return out


def _first(gallery: Numbers) -> int:
    """The number of the first gallery item among all items; the others follow it."""
    return int(gallery[0]) if len(gallery) else 0


def ranks_of(vectors: Vectors, voters: NDArray[np.int32], first: Numbers, unit: bool = True) -> NDArray[np.int32]:
    """(len(voters), n) 1-based rank of every item in the list of each voter: itself 1, ties by item number.

    `first[i]` is the first item equal to i, so that rounding does not order equal ones.
    """
    distances = share_equal(pairwise(vectors[voters], vectors, unit), first)
    keys = distances.view(np.uint32).astype(np.uint64)  # positive floats sort as their bits
    keys += 1
    keys[np.arange(len(voters)), voters] = 0
    keys <<= np.uint64(32)
    keys |= np.arange(len(vectors), dtype=np.uint64)
    keys.sort(axis=1)
    order = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
    ranks = np.empty(order.shape, np.int32)
    np.put_along_axis(ranks, order, np.arange(1, len(vectors) + 1, dtype=np.int32)[None, :], axis=1)
    return ranks
