"""Neighbour lists -> a graph in both directions, and the order in which walks take its items."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinrank.neighbors import Neighbors
from kinrank.stages.affinity import similarity
from kinrank.stages.csr import from_lists, rows_of
from kinrank.stages.kernels.compiled import in_chunks
from kinrank.stages.kernels.traverse import Entries, traverse
from kinrank.stages.mutual import mutual


def union_graph(neighbors: Neighbors) -> csr_array:
    """(n, n) similarities where either item stands in the other's list, itself excluded; columns ascending.

    `neighbors` start with the item itself. Similarities of zero or below are edges like any other.
    """
    count = len(neighbors.indices)
    others = neighbors.indices[:, 1:]
    weights = similarity(neighbors.distances[:, 1:]).astype(np.float32)
    one_way = ~mutual(neighbors.indices)[:, 1:]  # their reverse is missing
    sources = np.broadcast_to(np.arange(count, dtype=np.int32)[:, None], others.shape)
    rows = np.concatenate([sources.ravel(), others[one_way]])
    columns = np.concatenate([others.ravel(), sources[one_way]])
    values = np.concatenate([weights.ravel(), weights[one_way]])
    graph = csr_array((values, (rows, columns)), shape=(count, count))
    graph.sort_indices()
    return graph


def published_graph(neighbors: Neighbors) -> csr_array:
    """(n, n) as the published program has it: the lists, rounded to 3 decimals, and one reverse edge at most.

    There, reverse edges overwrite each other under the key of the item that receives them, so that only the
    one from the largest item number is left.
    """
    count = len(neighbors.indices)
    others = neighbors.indices[:, 1:]
    weights = rounded(neighbors.distances[:, 1:])
    last = np.full(count, -1, np.int64)
    sources = np.broadcast_to(np.arange(count)[:, None], others.shape)
    np.maximum.at(last, others.ravel(), sources.ravel())
    back = np.zeros(count, np.float32)
    survives = last[others] == sources
    back[others[survives]] = weights[survives]
    columns = np.concatenate([others, np.maximum(last, 0)[:, None]], axis=1).astype(np.int32)
    values = np.concatenate([weights, back[:, None]], axis=1)
    keep = np.ones(columns.shape, np.bool_)
    keep[:, -1] = last >= 0
    return from_lists(columns, values, count, keep)


def rounded(distances: NDArray[Any]) -> NDArray[np.float32]:
    """Similarities as the published program's files hold them."""
    return np.round(similarity(distances), 3).astype(np.float32)


def falling(weights: NDArray[Any]) -> NDArray[np.int32]:
    """Keys of similarities: whole numbers, of the same shape, that fall as the similarity rises, equal where it is.

    Positive floats sort as their bits, negative ones the other way round.
    """
    bits = (np.asarray(weights, np.float32) + np.float32(0)).view(np.int32)  # + 0 turns -0 into 0
    rising = np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits)
    return np.asarray(np.invert(rising), np.int32)


def walk(
    graph: csr_array,
    entries: NDArray[np.int32],
    weights: NDArray[np.float32],
    own: NDArray[np.int64],
    tau: float,
    limit: int,
) -> NDArray[np.int32]:
    """(q, n) when each query's walk takes each item, from 0; -1 for items it does not take, or beyond `limit` of them.

    entries, weights (q, k): the gallery items where a query enters and its similarity to them; own (q,): the
    item that the query itself is, or -1.
    """
    position = np.full((len(entries), graph.shape[0]), -1, np.int32)
    edges = rows_of(graph)._replace(data=falling(graph.data))
    threshold = int(falling(np.array(tau)))
    # 8 queries per chunk: walks differ in length, and a chunk costs only a few arrays of n
    arguments = (Entries(entries, falling(weights)), own, edges, threshold, limit, position)
    in_chunks(traverse, len(entries), *arguments, chunk=8)
    return position
