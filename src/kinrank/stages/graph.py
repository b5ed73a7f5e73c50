"""Neighbour lists -> Gaussian graphs at several scales, symmetric, normalised, in one sparse pattern."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.neighbors import Neighbors
from kinrank.stages.csr import Rows, matrix_of
from kinrank.stages.kernels import graph as kernels
from kinrank.stages.kernels.compiled import in_chunks
from kinrank.stages.mutual import mutual
from kinrank.stages.run import LIGHT, THREADS, Output, Run

SCALES = (2**-0.5, 1.0, 2**0.5)  # Sec. 5.3 of the paper: one reference k becomes three graphs


@dataclass(frozen=True, eq=False)
class Layers:
    """m graphs over the same n items in one sparse pattern (rows sorted by item).

    Attributes:
        indptr, indices: the pattern of the densest graph, as in scipy's csr.
        values: (entries, m): entry e of S_v is `values[e, v]`, 0 where graph v has no such edge.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float32]

    @property
    def count(self) -> int:
        return int(self.values.shape[1])

    def mixed(self, weights: NDArray[np.float64]) -> Rows:
        """sum_v weights_v S_v; the same bits wherever it is computed, which BLAS does not promise."""
        data = np.empty(len(self.values), np.float32)
        in_chunks(kernels.blend, len(data), self.values, np.asarray(weights, np.float64), data, chunk=2**18)
        return Rows(self.indptr, self.indices, data)

    def layer(self, v: int) -> Any:
        """S_v alone, as a scipy csr_array."""
        return matrix_of(self.mixed(np.eye(self.count)[v]), len(self.indptr) - 1)


def widths(k: int, scales: tuple[float, ...] = SCALES) -> list[int]:
    """How many neighbours an item has in each graph: 7, 10 and 14 for k = 10 and the paper's scales."""
    return [max(1, round(k * scale)) for scale in scales]


def kernel_lengths(
    neighbors: Neighbors, k: int, kind: str = "local", farthest: NDArray[np.float32] | None = None
) -> NDArray[np.float64]:
    """The length l_i in the Gaussian exp(-d^2(i, j) / (sigma^2 l_i l_j)).

    `local`: the distance of i's k-th neighbour, so that sigma means the same in dense and in sparse places and for
    every data set. `row`: the distance of the farthest item, l_i l_j read as l_i^2 (the authors' earlier code,
    kernel not symmetric before W is). `global`: the largest distance of all. `raw`: 1, Eq. 2 as printed.
    """
    n = len(neighbors.indices)
    if kind == "raw":
        return np.ones(n)
    if kind in ("row", "global"):
        if farthest is None:
            raise ValueError(f"scale={kind!r} needs the distance of every item's farthest item")
        lengths = farthest.astype(np.float64)
        if kind == "global":
            lengths[:] = lengths.max(initial=0.0)
    else:
        lengths = neighbors.distances[:, min(k, neighbors.k - 1)].astype(np.float64)
    positive = lengths[lengths > 0]
    # an item whose whole neighbourhood are its duplicates borrows the typical length
    return np.where(lengths > 0, lengths, np.median(positive) if positive.size else 1.0)


def gaussian_weights(
    neighbors: Neighbors, lengths: NDArray[np.float64], sigma: float, own_scale: bool = False
) -> NDArray[np.float32]:
    """(n, k) Eq. 2 along the lists themselves, without a graph."""
    squared = neighbors.distances.astype(np.float64) ** 2
    unit = lengths[:, None] ** 2 if own_scale else lengths[:, None] * lengths[neighbors.indices]
    return np.maximum(np.exp(-squared / (sigma**2 * unit)), 1e-30).astype(np.float32)


def union(lists: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """indptr and indices of the graph in which either item lists the other; rows ascend. lists (n, k)."""
    n = len(lists)
    both, indptr = mutual(lists), np.zeros(n + 1, np.int64)
    kernels.union_indptr(lists, both, indptr)
    indices = np.empty(int(indptr[-1]), np.int32)
    kernels.union_indices(lists, both, indptr, indices)
    in_chunks(kernels.sort_rows, n, indptr, indices, chunk=LIGHT)
    return indptr, indices


def mutual_pattern(lists: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The same of the graph in which both items list each other."""
    both = mutual(lists)
    indptr = np.concatenate([[0], np.cumsum(both.sum(axis=1))]).astype(np.int64)
    indices = lists[both]
    in_chunks(kernels.sort_rows, len(lists), indptr, indices, chunk=LIGHT)
    return indptr, indices


def layered_graphs(
    neighbors: Neighbors,
    lengths: NDArray[np.float64],
    k: int,
    sigma: float,
    scales: tuple[float, ...] = SCALES,
    own_scale: bool = False,
    loops: bool = False,
    run: Run = THREADS,
) -> Layers:
    """S_v = D^-1/2 (W + W')/2 D^-1/2 for the `widths` of k, with the Gaussian weights of Eq. 2.

    Shapes: neighbour lists (n, >= 1 + widest), lengths (n,) from `kernel_lengths` -> Layers over n items. `own_scale`
    reads l_i l_j as l_i^2; `loops` lets every item neighbour itself.
    """
    n, first = len(neighbors.indices), 0 if loops else 1
    sizes = np.array([min(size, neighbors.k - 1) for size in widths(k, scales)])
    wide = slice(first, int(sizes.max()) + 1)
    lists = np.ascontiguousarray(neighbors.indices[:, wide])
    distances = np.ascontiguousarray(neighbors.distances[:, wide])
    indptr, indices = union(lists)
    shape = len(indices), len(sizes)
    weights, degrees = run.empty(shape, np.float32), run.empty((n, len(sizes)), np.float64)
    inputs = lists, distances, lengths, bool(own_scale), float(sigma), sizes + loops, indptr, indices
    run(kernels.layer_weights, n, inputs, (Output(weights, indptr), Output(degrees)), "graphs")
    values = run.empty(shape, np.float32)
    run(kernels.normalise_layers, n, (indptr, indices, degrees, weights), (Output(values, indptr),), "graphs")
    return Layers(indptr, indices, values)
