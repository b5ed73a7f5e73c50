"""Explore-exploit walks over a graph of neighbours, and the order in which they take items."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinrank.neighbors import Neighbors
from kinrank.stages.affinity import similarity
from kinrank.stages.csr import matrix_from_lists, rows_from_matrix
from kinrank.stages.gaussian_graph import find_mutual
from kinrank.stages.kernels.compiler import compile_inner, compile_kernel, run_in_chunks
from kinrank.stages.kernels.data_structures import pop_first, sift_up


def build_union_graph(neighbors: Neighbors) -> csr_array:
    """Return (n, n) similarities if either item is in the other's list, without the diagonal; columns ascend.

    `neighbors` start with the item itself. Similarities of zero or below are edges like any other.
    """
    count = len(neighbors.indices)
    others = neighbors.indices[:, 1:]
    weights = similarity(neighbors.distances[:, 1:]).astype(np.float32)
    one_way = ~find_mutual(neighbors.indices)[:, 1:]  # their reverse edge is missing
    sources = np.broadcast_to(np.arange(count, dtype=np.int32)[:, None], others.shape)
    rows = np.concatenate([sources.ravel(), others[one_way]])
    columns = np.concatenate([others.ravel(), sources[one_way]])
    values = np.concatenate([weights.ravel(), weights[one_way]])
    graph = csr_array((values, (rows, columns)), shape=(count, count))
    graph.sort_indices()
    return graph


def build_published_graph(neighbors: Neighbors) -> csr_array:
    """Return (n, n) the graph of the published program: lists, rounded to 3 decimals, and at most one reverse edge.

    In that program reverse edges overwrite each other under the key of the receiving item, so that only the one from
    the largest item number is left.
    """
    count = len(neighbors.indices)
    others = neighbors.indices[:, 1:]
    weights = round_similarities(neighbors.distances[:, 1:])
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
    return matrix_from_lists(columns, values, count, keep)


def round_similarities(distances: NDArray[Any]) -> NDArray[np.float32]:
    """Return similarities as the published program's files hold them."""
    return np.round(similarity(distances), 3).astype(np.float32)


def descending_keys(weights: NDArray[Any]) -> NDArray[np.int32]:
    """Return integer keys of similarities, of the same shape, that fall as the similarity rises and are equal if it is.

    Positive floats sort like their bits, negative ones in reverse.
    """
    bits = (np.asarray(weights, np.float32) + np.float32(0)).view(np.int32)  # + 0 turns -0 into 0
    rising = np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits)
    return np.asarray(np.invert(rising), np.int32)


def walk_graph(
    graph: csr_array,
    entries: NDArray[np.int32],
    weights: NDArray[np.float32],
    own: NDArray[np.int64],
    tau: float,
    limit: int,
) -> NDArray[np.int32]:
    """Return (q, n) the time, from 0, at which each query's walk takes each item; -1 if never, or after `limit` items.

    entries, weights (q, k): the gallery items through which a query enters and its similarity to them; own (q,): the
    item that the query itself is, or -1.
    """
    position = np.full((len(entries), graph.shape[0]), -1, np.int32)
    edges = rows_from_matrix(graph)._replace(data=descending_keys(graph.data))
    threshold = int(descending_keys(np.array(tau)))
    # 8 queries per chunk: walks differ in length, and a chunk allocates only a few arrays of n
    arguments = (EntryPoints(entries, descending_keys(weights), own), edges, threshold, limit, position)
    run_in_chunks(traverse_graph, len(entries), *arguments, chunk=8)
    return position


NO_EDGE_LABEL = np.iinfo(np.int64).max  # label of an item to which no edge was seen


class EntryPoints(NamedTuple):
    """Entries of queries into the graph: items (q, k) int32, and keys (q, k) int32 of the similarities to them.

    own (q,) int64: the item that a query itself is, never taken, or -1.
    """

    items: NDArray[np.int32]
    keys: NDArray[np.int32]
    own: NDArray[np.int64]


@compile_inner
def _offer_item(item: Any, key: Any, clock: Any, size: Any, heap: Any, place: Any, label: Any) -> Any:
    """Push an item, or raise one that now has a stronger edge; return the new size of the heap.

    Labels put the stronger edge first and, among equal ones, the one pushed earlier. One entry per item represents its
    newest push. A heap that keeps outdated entries would pop and skip them later, with the same order of items.
    """
    label[item] = (np.int64(key) << 32) | clock
    at = place[item]
    if at < 0:
        at = size
        size += 1
    sift_up(heap, place, label, item, at)
    return size


@compile_kernel
def traverse_graph(start: Any, stop: Any, entries: Any, graph: Any, tau: Any, limit: Any, position: Any) -> None:
    """Write position[row, item] = time at which the walk of query `row` took the item, -1 if never.

    For queries start..stop.

    * entries: EntryPoints;
    * graph: Rows (n, n) of the gallery, its data the int32 keys of the similarities;
    * tau: key of the similarity above which items are taken without exploring first;
    * limit: largest number of items that a walk takes; position (q, n) int32, -1 on entry.

    A key is an integer that falls as the similarity rises, see `descending_keys`.
    """
    count = len(graph.indptr) - 1
    heap = np.empty(count, np.int32)
    fresh = np.empty(count, np.int32)  # items taken since the last exploration
    place = np.empty(count, np.int32)
    label = np.empty(count, np.int64)
    closed = np.empty(count, np.bool_)
    for row in range(start, stop):
        place[:] = -1
        label[:] = NO_EDGE_LABEL
        closed[:] = False
        size, clock, taken = 0, 0, 0
        if entries.own[row] >= 0:
            closed[entries.own[row]] = True
        for entry in range(entries.items.shape[1]):
            item, key = entries.items[row, entry], entries.keys[row, entry]
            if not closed[item] and key < label[item] >> 32:
                size = _offer_item(item, key, clock, size, heap, place, label)
                clock += 1
        while size > 0 and taken < limit:
            found = 0
            while True:  # exploit: the best item and all others above tau
                item = pop_first(heap, place, label, size)
                size -= 1
                closed[item] = True
                position[row, item] = taken
                taken += 1
                fresh[found] = item
                found += 1
                if not (taken < limit and size > 0 and label[heap[0]] >> 32 < tau):
                    break
            if taken >= limit:
                break
            for newest in range(found):  # explore
                for edge in range(graph.indptr[fresh[newest]], graph.indptr[fresh[newest] + 1]):
                    item, key = graph.indices[edge], graph.data[edge]
                    if not closed[item] and key < label[item] >> 32:
                        size = _offer_item(item, key, clock, size, heap, place, label)
                        clock += 1
