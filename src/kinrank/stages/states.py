"""Similarity on local regions -> one sparse probability distribution per item (LSE: Sec. 4.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.neighbors import Neighbors


def nearest_pattern(neighbors: Neighbors, k: int) -> Any:
    """N(i, k) as csr of ones, rows sorted: i itself and its k - 1 nearest others."""
    from scipy import sparse

    lists = neighbors.indices[:, :k]
    n, width = lists.shape
    ordered = np.sort(lists, axis=1)
    indptr = np.arange(n + 1, dtype=np.int64) * width
    return sparse.csr_array((np.ones(ordered.size, np.float32), ordered.ravel(), indptr), shape=(n, n))


def reciprocal_pattern(neighbors: Neighbors, k: int) -> Any:
    """R(i, k) = {j in N(i, k) with i in N(j, k)} as csr of ones, rows sorted, i itself included (Eq. 13)."""
    from scipy import sparse

    pattern = nearest_pattern(neighbors, k)
    mutual = sparse.csr_array(pattern.multiply(pattern.T))
    mutual.sort_indices()
    return mutual


def region_pattern(neighbors: Neighbors, k1: int, kind: str) -> Any:
    """The local region of every item: `reciprocal` R(i, k1), or plainly `knn` N(i, k1)."""
    return reciprocal_pattern(neighbors, k1) if kind == "reciprocal" else nearest_pattern(neighbors, k1)


def similarity_on(region: Any, neighbors: Neighbors, weights: NDArray[Any]) -> Any:
    """A weight per neighbour-list entry, (n, k) -> csr on the region's pattern."""
    from scipy import sparse

    n, k = weights.shape
    order = np.argsort(neighbors.indices[:, :k], axis=1, kind="stable")
    columns = np.take_along_axis(neighbors.indices[:, :k], order, axis=1)
    data = np.take_along_axis(weights, order, axis=1)
    listed = sparse.csr_array((data.ravel(), columns.ravel(), np.arange(n + 1, dtype=np.int64) * k), shape=(n, n))
    picked = sparse.csr_array(listed.multiply(region))
    picked.sort_indices()
    return picked


def mutual(similarity: Any) -> Any:
    """Without the entries whose mirror is 0 or not there: items that listed the other only to fill up their lists."""
    from scipy import sparse

    similarity.eliminate_zeros()
    return sparse.csr_array(similarity.multiply((similarity.T > 0).astype(np.float32)))


def confidence(neighbors: Neighbors, k2: int, kappa: float) -> Any:
    """Rows of Eq. 15's weights, csr: (kappa [j in R(i, k2)] + 1) / (kappa |R(i, k2)| + k2) for j in N(i, k2)."""
    from scipy import sparse

    nearest = nearest_pattern(neighbors, k2)
    if kappa:
        nearest = sparse.csr_array(nearest + np.float32(kappa) * reciprocal_pattern(neighbors, k2))
    return _rows_to_one(nearest)


def locality_states(similarity: Any, weights: Any, support: int) -> Any:
    """p_i, rows of a csr, each summing to 1, sorted by item, at most `support` entries.

    p^_i = F_i on its region, divided by its sum; then p_i = sum_j weights_ij p^_j, with the weights of `confidence`.
    Only the `support` largest entries are kept and scaled to 1 again: the tail holds little mass, and the transport
    of it costs most of the time (support = 0 keeps all).
    """
    from scipy import sparse

    mixed = sparse.csr_array(weights @ _rows_to_one(similarity))
    mixed.sort_indices()
    return _rows_to_one(strongest(mixed, support)) if support else mixed.astype(np.float32)


def strongest(states: Any, support: int) -> Any:
    """The `support` largest entries of every row, ties to the lower item number; rows stay sorted by item."""
    from scipy import sparse

    from kinrank.stages.kernels.compiled import in_chunks
    from kinrank.stages.kernels.states import keep_strongest

    keep = np.zeros(states.nnz, np.bool_)
    n = states.shape[0]
    in_chunks(
        keep_strongest,
        n,
        states.indptr.astype(np.int64),
        states.data.astype(np.float32),
        support,
        keep,
        chunk=512,
    )
    counts = np.add.reduceat(np.append(keep, False), states.indptr[:-1]) * (np.diff(states.indptr) > 0)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return sparse.csr_array((states.data[keep], states.indices[keep], indptr), shape=states.shape)


def state_distances(
    states: Any, queries: NDArray[np.int64], gallery: NDArray[np.int64], kind: str
) -> NDArray[np.float32]:
    """(queries, gallery) distance of the distributions themselves (Table 5); inf where two share nothing.

    total_variation 1 - m and jaccard 1 - m / (2 - m), with m = sum_c min(p_c, q_c); cosine 1 - <p, q> / |p||q|;
    euclidean |p - q|. Without anything shared these are constant or know only the lengths: the caller orders such
    items by the distance of the search.
    """
    from kinrank.stages.context import inverted, jaccard

    if kind in ("total_variation", "jaccard"):
        distances = jaccard(states, inverted(states, gallery), queries)
        nothing = distances >= 1.0
        if kind == "total_variation":
            distances = distances / (2.0 - distances)
    else:
        inner = (states[queries] @ states[gallery].T).toarray()
        squares = np.asarray(states.multiply(states).sum(axis=1)).ravel()
        nothing = inner <= 0
        if kind == "cosine":
            distances = 1.0 - inner / np.sqrt(np.outer(squares[queries], squares[gallery]))
        else:
            distances = np.sqrt(np.maximum(squares[queries][:, None] + squares[gallery][None, :] - 2.0 * inner, 0.0))
    distances = np.maximum(distances, 0.0).astype(np.float32)
    distances[nothing] = np.inf
    return distances


def _rows_to_one(matrix: Any) -> Any:
    """Rows divided by their sum, float32."""
    from scipy import sparse

    totals = np.asarray(matrix.sum(axis=1, dtype=np.float64)).ravel()
    inverse = np.zeros_like(totals)
    np.divide(1.0, totals, out=inverse, where=totals > 0)
    data = matrix.data * np.repeat(inverse, np.diff(matrix.indptr))
    return sparse.csr_array((data.astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape)
