"""Neighbour lists -> the graph that GSS passes rows along, and the embeddings of queries that enter it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array

from kinrank.neighbors import Neighbors
from kinrank.stages.affinity import normalised, similarity
from kinrank.stages.csr import from_lists

Rows = NDArray[Any]  # float32, or float64: what is computed from rows has their kind
VANISHED = 1e-6  # a sum shorter than this has no direction left: the row it came from gives one


class Graph(NamedTuple):
    """adjacency: (n, n) A^, symmetric, in float64; degrees: (n,) row sums of A + I, at least 1."""

    adjacency: csr_array
    degrees: NDArray[np.float64]


class Network(NamedTuple):
    """What is learned: weights (layers, d, d) and biases (layers, d)."""

    weights: Rows
    biases: Rows


def graph(lists: Neighbors) -> Graph:
    """A_ij = max(s_ij, 0) where i lists j or j lists i, A_ii = 0; A^ = D^-1/2 (A + I) D^-1/2, D = 1 + row sums of A.

    lists (n, k), each item first in its own. Without others in the lists A^ is the identity.

    Example:
        >>> graph(items.gallery_neighbors(5)).adjacency.shape
    """
    count = len(lists.indices)
    weights = np.maximum(similarity(lists.distances), 0.0)
    others = lists.indices != np.arange(count, dtype=np.int32)[:, None]
    listed = from_lists(lists.indices, weights, count, others & (weights > 0))
    joined = csr_array(listed.maximum(listed.T) + eye_array(count, format="csr"))
    return Graph(normalised(joined), np.asarray(joined.sum(axis=1), np.float64).ravel())


def identity(dimensions: int, layers: int, kind: Any = np.float32) -> Network:
    """Layers that change nothing but what ELU does: W = I, b = 0. Training starts here, without a random number."""
    weights = np.repeat(np.eye(dimensions, dtype=kind)[None], layers, axis=0)
    return Network(weights, np.zeros((layers, dimensions), kind))


def elu(values: Rows, out: Rows) -> Rows:
    """x where x > 0, else exp(x) - 1; into `out`, which may not be `values`."""
    np.minimum(values, 0, out=out)
    np.expm1(out, out=out)
    return np.maximum(values, out, out=out)


def to_length_one(values: Rows, rows: Rows) -> Rows:
    """(n,) lengths of `values` (n, d), which are divided by them; 0 where they vanished and `rows` give the direction.

    Where these are zero, too, all coordinates become equal.
    """
    lengths: Rows = np.sqrt(np.einsum("ij,ij->i", values, values))
    for row in np.flatnonzero(lengths < VANISHED):
        longest = np.abs(rows[row]).max()
        values[row] = rows[row] / longest if longest > 0 else 1.0
        values[row] /= np.linalg.norm(values[row])
        lengths[row] = 0.0
    values /= np.where(lengths == 0, 1, lengths)[:, None]
    return lengths


def entered(
    queries: Rows, nearest: Neighbors, before: Sequence[Rows], degrees: Rows, network: Network, decay: float
) -> Rows:
    """(q, d) embeddings of queries that enter a graph from outside: its items do not notice them, nor do other queries.

    P_l = (B^ H_(l-1) + c h_(l-1)) W_l + b_l with h of the query itself and H of the items; B_qj = max(s_qj, 0) for its
    nearest items (q, kq), D_q = 1 + row sum of B, B^ = D_q^-1/2 B D^-1/2, c = 1 / D_q. From there as in `Pass`.
    `before`: per layer (n, d) what goes into it, the items' rows and then H_1 .. H_(L-1).

    Example:
        >>> entered(queries, items.query_neighbors(5), [gallery, *hidden], degrees, network, decay=0.3)
    """
    weights = np.maximum(similarity(nearest.distances), 0.0)
    own = 1.0 + weights.sum(axis=1, keepdims=True)
    weights /= np.sqrt(own * degrees[nearest.indices])
    joined = from_lists(nearest.indices, weights.astype(queries.dtype), len(degrees))
    share = (1.0 / own).astype(queries.dtype)
    values, sums = queries, None
    for level, items in enumerate(before):
        below, sums = sums, (joined @ items + share * values) @ network.weights[level] + network.biases[level]
        values = elu(sums, np.empty_like(sums))
        if below is not None:
            values *= decay
            values += below
    to_length_one(values, queries)
    return values
