"""Graphs of neighbours: mutual neighbours, and Gaussian graphs at several scales in one sparse pattern."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinrank.neighbors import Neighbors
from kinrank.stages.csr import Rows, matrix_from_lists, matrix_from_rows
from kinrank.stages.kernels.compiler import (
    LIGHT_CHUNK_ROWS,
    THREAD_RUNNER,
    Output,
    Runner,
    compile_inner,
    compile_kernel,
    run_in_chunks,
)
from kinrank.stages.sparse_rows import Pattern

SCALES = (2**-0.5, 1.0, 2**0.5)  # Sec. 5.3 of the paper: three graphs from one reference k


@dataclass(frozen=True, eq=False)
class GraphLayers:
    """Several (m) graphs over the same n items in one sparse pattern (rows sorted by item).

    Attributes:
        indptr, indices: the pattern of the densest graph, as in scipy's csr.
        values: (entries, m): entry e of S_v is `values[e, v]`, 0 if graph v has no such edge.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float32]

    @property
    def count(self) -> int:
        """Number of graphs."""
        return int(self.values.shape[1])

    def mix(self, weights: NDArray[np.float64]) -> Rows:
        """Return sum_v weights_v S_v, with the same bits on every machine, which BLAS does not guarantee."""
        data = np.empty(len(self.values), np.float32)
        run_in_chunks(blend_layers, len(data), self.values, np.asarray(weights, np.float64), data, chunk=2**18)
        return Rows(self.indptr, self.indices, data)

    def layer(self, v: int) -> Any:
        """Return S_v alone as a scipy csr_array."""
        return matrix_from_rows(self.mix(np.eye(self.count)[v]), len(self.indptr) - 1)


def find_mutual(lists: NDArray[np.int32], k: int | None = None) -> NDArray[np.bool_]:
    """Return (n, k) True for each of the first k of an item that has the item among its own first k; default: all.

    An item in its own list is mutual there.

    Example:
        >>> find_mutual(np.array([[0, 1], [1, 2], [2, 1]], np.int32))
        array([[ True, False],
               [ True,  True],
               [ True,  True]])
    """
    k = lists.shape[1] if k is None else min(k, lists.shape[1])
    marks = np.empty((len(lists), k), np.bool_)
    run_in_chunks(mark_mutual, len(lists), lists, marks, chunk=LIGHT_CHUNK_ROWS)
    return marks


def count_shared_neighbors(near: NDArray[np.int32], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return (3,) sums over some rows of lists (n, k), without the item itself, padded with -1.

    They count the neighbours, those that list the item too, and their neighbours that are also neighbours of the item.
    """
    counts = np.zeros((len(rows), 3), np.int64)
    run_in_chunks(count_neighbors_of_rows, len(rows), near, rows, counts, chunk=LIGHT_CHUNK_ROWS)
    return np.asarray(counts.sum(axis=0))


def reciprocal_matrix(lists: NDArray[np.int32], k: int) -> csr_array:
    """Return an (n, n) sparse symmetric matrix of ones: j in row i if each is among the other's first k, nearest first.

    k counts the item itself, which is always in its own row, as the first entry.

    Example:
        >>> reciprocal_matrix(np.array([[0, 1], [1, 0]], np.int32), 2).toarray()
        array([[1., 1.],
               [1., 1.]], dtype=float32)
    """
    keep = find_mutual(lists, k)
    return matrix_from_lists(lists[:, : keep.shape[1]], np.ones(keep.shape, np.float32), len(lists), keep)


def neighbors_per_layer(k: int, scales: tuple[float, ...] = SCALES) -> list[int]:
    """Return the number of neighbours of an item in each graph: 7, 10 and 14 for k = 10 and the paper's scales."""
    return [max(1, round(k * scale)) for scale in scales]


def kernel_lengths(
    neighbors: Neighbors, k: int, kind: str = "local", farthest: NDArray[np.float32] | None = None
) -> NDArray[np.float64]:
    """Return the lengths l_i in the Gaussian exp(-d^2(i, j) / (sigma^2 l_i l_j)).

    `local`: the distance of i's k-th neighbour, so that sigma means the same in dense and in sparse regions and for
    every data set. `row`: the distance of the farthest item, l_i l_j read as l_i^2 (the authors' earlier code, in which
    the kernel is not symmetric before W is). `global`: the largest distance of all. `raw`: 1, Eq. 2 as printed.
    """
    n = len(neighbors.indices)
    if kind == "raw":
        return np.ones(n)
    if kind in ("row", "global"):
        if farthest is None:
            raise RuntimeError(f"scale={kind!r} needs the distance of every item's farthest item")
        lengths = farthest.astype(np.float64)
        if kind == "global":
            lengths[:] = lengths.max(initial=0.0)
    else:
        lengths = neighbors.distances[:, min(k, neighbors.k - 1)].astype(np.float64)
    positive = lengths[lengths > 0]
    # an item whose neighbours are all duplicates gets the typical length
    return np.where(lengths > 0, lengths, np.median(positive) if positive.size else 1.0)


def gaussian_weights(
    neighbors: Neighbors, lengths: NDArray[np.float64], sigma: float, own_scale: bool = False
) -> NDArray[np.float32]:
    """Return (n, k) the weights of Eq. 2 along the lists, without a graph."""
    squared = neighbors.distances.astype(np.float64) ** 2
    unit = lengths[:, None] ** 2 if own_scale else lengths[:, None] * lengths[neighbors.indices]
    return np.maximum(np.exp(-squared / (sigma**2 * unit)), 1e-30).astype(np.float32)


def union_pattern(lists: NDArray[np.int32]) -> Pattern:
    """Return the graph in which either item lists the other; rows ascend. lists (n, k)."""
    n = len(lists)
    both, indptr = find_mutual(lists), np.zeros(n + 1, np.int64)
    union_indptr(lists, both, indptr)
    unordered, indices = np.empty(int(indptr[-1]), np.int32), np.empty(int(indptr[-1]), np.int32)
    union_indices(lists, both, indptr, unordered)
    transpose_rows(indptr, unordered, indices)
    return Pattern(indptr, indices)


class LayerSettings(NamedTuple):
    """Settings of Gaussian graphs.

    Attributes:
        k: reference number of neighbours, see `neighbors_per_layer`.
        sigma: width of the Gaussian, in units of the kernel lengths.
        scales: factors of k, one per graph.
        own_scale: read l_i l_j as l_i^2.
        loops: make every item a neighbour of itself.
    """

    k: int
    sigma: float
    scales: tuple[float, ...] = SCALES
    own_scale: bool = False
    loops: bool = False


def build_layers(
    neighbors: Neighbors, lengths: NDArray[np.float64], settings: LayerSettings, run: Runner = THREAD_RUNNER
) -> GraphLayers:
    """Build S_v = D^-1/2 (W + W')/2 D^-1/2 for the `neighbors_per_layer` of k, with the Gaussian weights of Eq. 2.

    Shapes: neighbour lists (n, >= 1 + widest), lengths (n,) from `kernel_lengths` -> GraphLayers over n items.
    """
    k, sigma, scales, own_scale, loops = settings
    n, first = len(neighbors.indices), 0 if loops else 1
    sizes = np.array([min(size, neighbors.k - 1) for size in neighbors_per_layer(k, scales)])
    wide = slice(first, int(sizes.max()) + 1)
    lists = np.ascontiguousarray(neighbors.indices[:, wide])
    pattern = union_pattern(lists)
    shape = len(pattern.indices), len(sizes)
    weights, degrees = run.empty(shape, np.float32), run.empty((n, len(sizes)), np.float64)
    near = GaussianLists(lists, np.ascontiguousarray(neighbors.distances[:, wide]), lengths)
    inputs = near, GaussianKernel(float(sigma), bool(own_scale), sizes + loops), pattern
    run(layer_weights, n, inputs, (Output(weights, pattern.indptr), Output(degrees)), "graphs")
    values = run.empty(shape, np.float32)
    run(normalize_layers, n, (pattern, degrees, weights), (Output(values, pattern.indptr),), "graphs")
    return GraphLayers(*pattern, values)


class GaussianLists(NamedTuple):
    """Neighbours without the item itself: items (n, k) int32, distances (n, k) float32, lengths l_i (n,) float64."""

    items: Any
    distances: Any
    lengths: Any


class GaussianKernel(NamedTuple):
    """Weights exp(-d^2 / (sigma^2 l_i l_j)), or with l_i^2 for `own_scale`; sizes (layers,): neighbours per layer."""

    sigma: float
    own_scale: bool
    sizes: NDArray[np.int64]


@compile_inner
def find_position(row: Any, item: Any) -> Any:
    """Return the first position of an item in a row, or the length of the row.

    Always reads to the end, which the compiler vectorises.
    """
    at = np.int32(len(row))
    for column in range(len(row)):
        at = min(at, np.int32(column) if row[column] == item else np.int32(len(row)))
    return at


@compile_kernel
def union_indptr(lists: Any, mutual: Any, indptr: Any) -> None:
    """Write the row pointers of the graph in which either item lists the other.

    lists (n, k) int32 and mutual (n, k) bool -> indptr (n + 1,) int64, zeros before.
    """
    n, k = lists.shape
    for i in range(n):
        indptr[i + 1] += k
        for column in range(k):
            if not mutual[i, column]:
                indptr[lists[i, column] + 1] += 1
    for i in range(n):
        indptr[i + 1] += indptr[i]


@compile_kernel
def union_indices(lists: Any, mutual: Any, indptr: Any, indices: Any) -> None:
    """Write the items of that graph, (indptr[n],) int32, unordered within a row."""
    n, k = lists.shape
    filled = indptr[:-1].copy()
    for i in range(n):
        for column in range(k):
            other = lists[i, column]
            indices[filled[i]] = other
            filled[i] += 1
            if not mutual[i, column]:
                indices[filled[other]] = i
                filled[other] += 1


@compile_kernel
def transpose_rows(indptr: Any, unordered: Any, indices: Any) -> None:
    """Write the items of a symmetric pattern, whose rows ascend because items are written in ascending order."""
    filled = indptr[:-1].copy()
    for i in range(len(filled)):
        for entry in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            other = np.uint32(unordered[entry])
            indices[np.uint64(filled[other])] = i
            filled[other] += 1


@compile_kernel
def layer_weights(start: Any, stop: Any, near: Any, kernel: Any, pattern: Any, weights: Any, degrees: Any) -> None:
    """Write W = (W + W')/2 of every layer on the entries of rows start..stop, and their sums.

    near: GaussianLists; kernel: GaussianKernel; pattern: Pattern -> weights (entries, layers) float32, degrees
    (n, layers) float64. W_ij is 0 unless i lists j. Three passes over each row, because lookups, exponentials and sums
    are each faster on their own.
    """
    lists, distances, lengths = near
    indptr, indices = pattern
    sigma, sizes = kernel.sigma, kernel.sizes
    k = lists.shape[1]
    longest = 1
    for i in range(start, stop):
        longest = max(longest, indptr[i + 1] - indptr[i])
    mine, theirs = np.empty(longest, np.int32), np.empty(longest, np.int32)
    forth, back = np.empty(longest, np.float64), np.empty(longest, np.float64)
    for i in range(start, stop):
        begin = indptr[i]
        size = indptr[i + 1] - begin
        for entry in range(size):
            mine[entry] = find_position(lists[i], indices[begin + entry])
            theirs[entry] = find_position(lists[indices[begin + entry]], i)
        for entry in range(size):
            j = indices[begin + entry]
            distance = distances[i, mine[entry]] if mine[entry] < k else distances[j, theirs[entry]]
            squared = np.float64(distance) * np.float64(distance) / (sigma * sigma)
            # the floor keeps an edge between items far apart
            if kernel.own_scale:
                forth[entry] = 0.5 * max(np.exp(-squared / (lengths[i] * lengths[i])), 1e-30)
                back[entry] = 0.5 * max(np.exp(-squared / (lengths[j] * lengths[j])), 1e-30)
            else:
                forth[entry] = 0.5 * max(np.exp(-squared / (lengths[i] * lengths[j])), 1e-30)
                back[entry] = forth[entry]
        for layer in range(len(sizes)):
            degrees[i, layer] = 0.0
            for entry in range(size):
                weight = 0.0
                if mine[entry] < sizes[layer]:
                    weight += forth[entry]
                if theirs[entry] < sizes[layer]:
                    weight += back[entry]
                weights[begin + entry, layer] = np.float32(weight)
                degrees[i, layer] += weight


@compile_kernel
def normalize_layers(start: Any, stop: Any, pattern: Any, degrees: Any, weights: Any, values: Any) -> None:
    """Write S = D^-1/2 W D^-1/2 of every layer on rows start..stop; weights and values (entries, layers) float32."""
    for i in range(start, stop):
        for entry in range(pattern.indptr[i], pattern.indptr[i + 1]):
            for layer in range(values.shape[1]):
                product = degrees[i, layer] * degrees[pattern.indices[entry], layer]
                scale = np.sqrt(product) if product > 0.0 else 1.0
                values[entry, layer] = np.float32(weights[entry, layer] / scale)


@compile_kernel
def blend_layers(start: Any, stop: Any, values: Any, weights: Any, blended: Any) -> None:
    """Write blended[e] = sum_v weights[v] values[e, v]; values (entries, layers) float32, weights (layers,) float64."""
    for entry in range(start, stop):
        total = 0.0
        for layer in range(len(weights)):
            total += weights[layer] * values[entry, layer]
        blended[entry] = np.float32(total)


@compile_kernel
def mark_mutual(start: Any, stop: Any, lists: Any, mutual: Any) -> None:
    """Write mutual[i, a] = True if i is among the first k of lists[i, a] as well, for rows start..stop.

    lists (n, k or more) int32 item numbers; mutual (n, k) bool, written.
    """
    k = mutual.shape[1]
    for row in range(start, stop):
        for entry in range(k):
            other = lists[row, entry]
            found = 0
            for back in range(k):  # always to the end, which the compiler vectorises
                found += lists[other, back] == row
            mutual[row, entry] = found > 0


@compile_kernel
def count_neighbors_of_rows(start: Any, stop: Any, near: Any, rows: Any, counts: Any) -> None:
    """Write the counts of `count_shared_neighbors` for rows[start..stop]; counts (rows, 3) int64, zeros before."""
    for place in range(start, stop):
        item = rows[place]
        for column in range(near.shape[1]):
            other = near[item, column]
            if other < 0:
                continue
            counts[place, 0] += 1
            for entry in range(near.shape[1]):
                third = near[other, entry]
                if third == item:
                    counts[place, 1] += 1
                elif third >= 0 and find_position(near[item], third) < near.shape[1]:
                    counts[place, 2] += 1
