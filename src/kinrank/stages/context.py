"""Neighbour lists -> contexts: reciprocal sets, sparse rows over them, and what the rows of two items share.

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
from kinrank.neighbors import first_equal, pairwise, share_equal
from kinrank.stages.kernels import context as kernels
from kinrank.stages.kernels.compiled import in_chunks

Lists = NDArray[np.int32]
Floats = NDArray[np.float32]
Parts = tuple[NDArray[np.int64], NDArray[np.int32], Floats]
VOTES = 2**22  # ranks held at once
SIDE = 1024  # rows and columns of one block of inner products: 4 MB
EMPTY = np.empty(0, np.int32)


def farthest(vectors: Vectors) -> Floats:
    """(n,) squared Euclidean distance of each unit row to the row farthest from it; never zero.

    Blocks of inner products, each used for its rows and its columns, so half the products of a full pass:
    n^2 d / 2 multiplications, 4 MB. Where all rows coincide the answer is the smallest positive float, so
    that a distance of 0 divided by it is 0.
    """
    lowest = np.full(len(vectors), 1.0, np.float32)
    for first in range(0, len(vectors), SIDE):
        rows = slice(first, first + SIDE)
        for second in range(first, len(vectors), SIDE):
            columns = slice(second, second + SIDE)
            block = vectors[rows] @ vectors[columns].T
            np.minimum(lowest[rows], block.min(axis=1), out=lowest[rows])
            if second > first:
                np.minimum(lowest[columns], block.min(axis=0), out=lowest[columns])
    squared = 2 - 2 * lowest
    close = np.flatnonzero(squared < 1e-2)  # inner products lose the digits here: sum differences instead
    for start in range(0, len(close), SIDE):
        some = close[start : start + SIDE]
        squared[some] = pairwise(vectors[some], vectors).max(axis=1) ** 2
    return np.asarray(np.maximum(squared, np.finfo(np.float32).tiny), np.float32)


def scaled_distances(items: Items, queries: NDArray[np.int64], far: Floats, power: int = 1) -> NDArray[np.float64]:
    """(len(queries), g): (d^2 / largest d^2 of the query)^power, in [0, 1] up to rounding.

    In float64, so that distances that differ still differ when they are added to something larger.
    """
    scaled = items.query_distances(queries).astype(np.float64)
    scaled *= scaled
    scaled /= far[items.queries[queries]][:, None]
    if power != 1:
        scaled **= power
    return scaled


def members(lists: Lists, k: int) -> tuple[Lists, NDArray[np.int32]]:
    """Reciprocal sets, padded: (n, k) numbers and (n,) sizes; j is in i's when each is in the other's first
    k.

    k counts the item itself, which is always a member, the first one.
    """
    k = min(k, lists.shape[1])
    found = np.empty((len(lists), k), np.int32)
    sizes = np.empty(len(lists), np.int32)
    in_chunks(kernels.mutual, len(lists), lists, k, found, sizes, chunk=512)
    return found, sizes


def reciprocal(lists: Lists, k: int) -> csr_array:
    """(n, n) sparse, symmetric, ones: reciprocal sets of the first k (the item included).

    Example:
        >>> reciprocal(np.array([[0, 1], [1, 0]], np.int32), 2).toarray()
        array([[1., 1.],
               [1., 1.]], dtype=float32)
    """
    found, sizes = members(lists, k)
    inside = np.arange(found.shape[1]) < sizes[:, None]
    starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    columns = found[inside]
    return _sparse((starts, columns, np.ones(len(columns), np.float32)), len(lists))


def expanded(lists: Lists, wide: int, half: int) -> csr_array:
    """(n, n) sparse pattern: k-reciprocal sets of the first `wide`, with the `half` sets they nearly contain.

    The set of i takes in the smaller set of a member j when more than two thirds of it lie inside already.
    """
    sets = members(lists, wide), members(lists, half)
    starts = np.zeros(len(lists) + 1, np.int64)
    in_chunks(kernels.expand, len(lists), *sets, starts, EMPTY, chunk=256)
    np.cumsum(starts, out=starts)
    columns = np.empty(starts[-1], np.int32)
    if len(columns):
        in_chunks(kernels.expand, len(lists), *sets, starts, columns, chunk=256)
    return _sparse((starts, columns, np.zeros(len(columns), np.float32)), len(lists))


def kernel_rows(sets: csr_array, vectors: Vectors, far: Floats, power: int = 1) -> csr_array:
    """The same pattern with rows exp(-(d^2 / farthest)^power), each divided by its sum."""
    starts, columns, values = parts(sets)
    in_chunks(kernels.kernel_weights, len(vectors), vectors, far, power, starts, columns, values, chunk=128)
    return _sparse((starts, columns, values), len(vectors))


def row_sums(lists: Lists, weights: Floats, matrix: csr_array) -> csr_array:
    """Rows sum_t weights[i, t] * matrix[lists[i, t]], sparse."""
    width = int(matrix.shape[1])
    source = parts(matrix)
    starts = np.zeros(len(lists) + 1, np.int64)
    nothing = np.empty(0, np.float32)
    in_chunks(kernels.row_sums, len(lists), lists, weights, source, width, starts, EMPTY, nothing, chunk=256)
    np.cumsum(starts, out=starts)
    columns, values = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32)
    if len(columns):
        in_chunks(kernels.row_sums, len(lists), lists, weights, source, width, starts, columns, values, chunk=256)
    return _sparse((starts, columns, values), width)


def row_means(lists: Lists, matrix: csr_array) -> csr_array:
    """Rows mean_t matrix[lists[i, t]], sparse: each row averaged over the item's neighbours."""
    return row_sums(lists, np.full(lists.shape, 1 / max(lists.shape[1], 1), np.float32), matrix)


def inverted(matrix: csr_array, rows: NDArray[np.int64]) -> csr_array:
    """(columns, len(rows)): for every column of the matrix, which of the rows hold it, and how much."""
    chosen = matrix if len(rows) == matrix.shape[0] else matrix[int(rows[0]) :]  # the gallery always comes last
    return csr_array(chosen.T.tocsr())


def jaccard(rows: csr_array, postings: csr_array, queries: NDArray[np.int64]) -> Floats:
    """(len(queries), g) generalised Jaccard distance 1 - m / (2 - m), m = sum_c min(V_qc, V_gc).

    `rows` sum to one each, `postings` are the gallery's rows inverted; only shared columns are visited.
    """
    shared = np.zeros((len(queries), postings.shape[1]), np.float32)
    in_chunks(kernels.shared_mass, len(queries), queries, parts(rows), parts(postings), shared, chunk=1)
    distances: Floats = 1 - shared / (2 - shared)
    return np.maximum(distances, 0)


def normalised(matrix: csr_array) -> csr_array:
    """Rows divided by their Euclidean norm; an empty row stays empty."""
    starts, columns, values = parts(matrix)
    squares = np.concatenate([[0.0], np.cumsum(values.astype(np.float64) ** 2)])
    norms = np.sqrt(squares[starts[1:]] - squares[starts[:-1]])
    scale = 1 / np.where(norms > 0, norms, 1.0)
    values = (values * np.repeat(scale, np.diff(starts))).astype(np.float32)
    return _sparse((starts, columns, values), int(matrix.shape[1]))


def row_norms(lists: Lists, weights: Floats, matrix: csr_array) -> Floats:
    """(n,) Euclidean norms of the rows that `row_sums` would give, not keeping them; 1 for an empty row."""
    norms = np.empty(len(lists), np.float32)
    width = int(matrix.shape[1])
    in_chunks(kernels.row_norms, len(lists), lists, weights, parts(matrix), width, norms, chunk=256)
    return np.where(norms > 0, norms, np.float32(1))


def smoothed_products(
    queries: NDArray[np.int64],
    lists: Lists,
    weights: Floats,
    matrix: csr_array,
    norms: Floats,
    gallery: NDArray[np.int64],
) -> Floats:
    """(len(queries), g) cosines of the rows that `row_sums` would give; symmetric matrix."""
    out = np.empty((len(queries), len(gallery)), np.float32)
    first = int(gallery[0]) if len(gallery) else 0
    in_chunks(
        kernels.smoothed_products,
        len(queries),
        queries,
        lists,
        weights,
        parts(matrix),
        norms,
        first,
        out,
        chunk=4,
    )
    return out


def shared_context(
    queries: NDArray[np.int64], lists: Lists, counts: csr_array, sizes: Floats, gallery: NDArray[np.int64]
) -> Floats:
    """(len(queries), g) entries of (C2 + C2') / 2, C2 = rows of counts / sizes averaged over each list."""
    out = np.empty((len(queries), len(gallery)), np.float32)
    first = int(gallery[0]) if len(gallery) else 0
    in_chunks(kernels.shared_context, len(queries), queries, lists, parts(counts), sizes, first, out, chunk=4)
    return out


def list_rows(lists: Lists, weights: Floats) -> csr_array:
    """(n, n) sparse rows with weights[i, t] at lists[i, t]."""
    count, k = lists.shape
    return _sparse((np.arange(count + 1, dtype=np.int64) * k, lists.ravel(), weights.ravel()), count)


def family_products(
    queries: NDArray[np.int64],
    lists: Lists,
    postings: csr_array,
    lead: int,
    t: int,
    q: int,
    gallery: NDArray[np.int64],
) -> NDArray[np.float64]:
    """(len(queries), g) products of lists, summed over the families of both sides (see the kernel)."""
    out = np.empty((len(queries), len(gallery)), np.float64)
    first = int(gallery[0]) if len(gallery) else 0
    in_chunks(
        kernels.family_products,
        len(queries),
        queries,
        lists,
        lead,
        parts(postings),
        t,
        q,
        first,
        out,
        chunk=4,
    )
    return out


def rank_votes(vectors: Vectors, queries: NDArray[np.int64], lists: Lists, gallery: NDArray[np.int64]) -> Floats:
    """(len(queries), g) votes sum_t 1 / ((t + 1 + r_m(q)) r_m(x)), m = lists[q, t], r the 1-based ranks."""
    out = np.zeros((len(queries), len(gallery)), np.float32)
    first = int(gallery[0]) if len(gallery) else 0
    voters = np.unique(lists[queries])
    equal = first_equal(vectors)
    slots = np.full(len(vectors), -1, np.int32)
    rows = max(1, VOTES // max(len(vectors), 1))
    for start in range(0, len(voters), rows):
        some = voters[start : start + rows]
        slots[some] = np.arange(len(some), dtype=np.int32)
        ranks = ranks_of(vectors, some, equal)
        in_chunks(kernels.rank_scores, len(queries), queries, lists, slots, ranks, first, out, chunk=4)
        slots[some] = -1
    return out


def ranks_of(vectors: Vectors, some: NDArray[np.int32], first: NDArray[np.int64]) -> NDArray[np.int32]:
    """(len(some), n) 1-based rank of every item in the list of some: itself 1, ties by item number.

    `first[i]` is the first item equal to i, so that rounding does not order equal ones.
    """
    gaps = share_equal(pairwise(vectors[some], vectors), first)
    keys = gaps.view(np.uint32).astype(np.uint64)  # positive floats sort as their bits
    keys += 1
    keys[np.arange(len(some)), some] = 0
    keys <<= np.uint64(32)
    keys |= np.arange(len(vectors), dtype=np.uint64)
    keys.sort(axis=1)
    order = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
    ranks = np.empty(order.shape, np.int32)
    np.put_along_axis(ranks, order, np.arange(1, len(vectors) + 1, dtype=np.int32)[None, :], axis=1)
    return ranks


def follow(distances: Floats, reached: NDArray[np.bool_], raw: NDArray[Any]) -> NDArray[np.float64]:
    """Distances, to which items out of reach add their raw distance: they come last, in its order."""
    return np.where(reached, distances, distances + raw.astype(np.float64))


def parts(matrix: csr_array) -> Parts:
    """Row starts (int64), columns (int32) and values (float32) of sparse rows, as the kernels want them."""
    return (
        matrix.indptr.astype(np.int64, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        matrix.data.astype(np.float32, copy=False),
    )


def _sparse(pieces: Parts, width: int) -> csr_array:
    starts, columns, values = pieces
    if starts[-1] < np.iinfo(np.int32).max:
        starts = starts.astype(np.int32)  # like the columns: scipy would copy both to one type otherwise
    return csr_array((values, columns, starts), shape=(len(starts) - 1, width))
