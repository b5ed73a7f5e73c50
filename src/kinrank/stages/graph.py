"""Neighbour lists -> Gaussian graphs at several scales, symmetric, normalised, in one sparse pattern."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.neighbors import Neighbors

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

    def blended(self, weights: NDArray[np.float64]) -> NDArray[np.float32]:
        """(entries,) sum_v weights_v S_v; the same bits wherever it is computed, which BLAS does not promise."""
        from kinrank.stages.kernels.compiled import in_chunks
        from kinrank.stages.kernels.diffusion import blend

        entries = np.empty(len(self.values), np.float32)
        in_chunks(blend, len(entries), self.values, np.asarray(weights, np.float64), entries, chunk=2**18)
        return entries

    def mixed(self, beta: NDArray[np.float64]) -> Any:
        """S_beta = sum_v beta_v S_v as a scipy csr_array."""
        from scipy import sparse

        n = len(self.indptr) - 1
        return sparse.csr_array((self.blended(beta), self.indices, self.indptr), shape=(n, n))

    def layer(self, v: int) -> Any:
        """S_v alone."""
        return self.mixed(np.eye(self.count)[v])


def kernel_scale(
    neighbors: Neighbors, kind: str, k: int, farthest: NDArray[np.float32] | None = None
) -> NDArray[np.float64]:
    """The length l_i in the Gaussian exp(-d^2(i, j) / (sigma^2 l_i l_j)).

    `local`: the distance of i's k-th neighbour, so that sigma means the same in dense and in thin places and for
    every data set. `row`: the distance of the farthest item, l_i l_j read as l_i^2 (the authors' earlier code,
    kernel not symmetric before W is). `global`: the largest distance of all. `raw`: 1, Eq. 2 as printed.
    """
    n = len(neighbors.indices)
    if kind == "raw":
        return np.ones(n)
    if kind in ("row", "global"):
        if farthest is None:
            raise ValueError(f"scale={kind!r} needs the distance of every item's farthest item")
        length = farthest.astype(np.float64)
        if kind == "global":
            length[:] = length.max(initial=0.0)
    else:
        column = min(k, neighbors.k - 1)
        length = neighbors.distances[:, column].astype(np.float64)
    positive = length[length > 0]
    # an item whose whole neighbourhood are its duplicates borrows the typical length
    return np.where(length > 0, length, np.median(positive) if positive.size else 1.0)


def gaussian_weights(neighbors: Neighbors, sigma: float, length: NDArray[np.float64], kind: str) -> NDArray[np.float64]:
    """(n, k) weights of the listed neighbours, Eq. 2 with the kernel length of `kernel_scale`."""
    squared = neighbors.distances.astype(np.float64) ** 2
    unit = length[:, None] ** 2 if kind == "row" else length[:, None] * length[neighbors.indices]
    # an edge stays an edge, however far
    return np.maximum(np.exp(-squared / (sigma**2 * unit)), 1e-30)


def symmetric_graph(neighbors: Neighbors, weights: NDArray[np.float64]) -> Any:
    """W <- (W + W')/2 of the directed weights to the k nearest others, as csr; k is the width of `weights`."""
    from scipy import sparse

    n, k = weights.shape
    columns = neighbors.indices[:, 1 : k + 1]
    directed = sparse.csr_array((weights.ravel(), columns.ravel(), np.arange(n + 1) * k), shape=(n, n))
    return sparse.csr_array((directed + directed.T) * 0.5)


def normalised(graph: Any) -> Any:
    """S = D^-1/2 W D^-1/2 with the degrees of the symmetric W; an item without edges keeps an empty row."""
    from scipy import sparse

    degrees = np.asarray(graph.sum(axis=1)).ravel()
    half = np.zeros_like(degrees)
    np.divide(1.0, np.sqrt(degrees), out=half, where=degrees > 0)
    scaling = sparse.diags_array(half)
    return sparse.csr_array(scaling @ graph @ scaling)


def layered_graphs(
    neighbors: Neighbors,
    k: int,
    sigma: float,
    kind: str = "local",
    scales: tuple[float, ...] = SCALES,
    farthest: NDArray[np.float32] | None = None,
    loops: bool = False,
) -> Layers:
    """S_v for k_v = round(k * scale): 7, 10 and 14 neighbours for k = 10 and the paper's scales.

    Shapes: neighbour lists (n, >= 1 + max k_v) -> Layers over n items. `loops` lets every item neighbour itself.
    """
    from scipy import sparse

    n = len(neighbors.indices)
    length = kernel_scale(neighbors, kind, k, farthest)
    sizes = [min(max(1, round(k * scale)), neighbors.k - 1) for scale in scales]
    near = neighbors.first(max(sizes) + 1)
    weights = gaussian_weights(near, sigma, length, kind)
    own = sparse.eye_array(n) if loops else sparse.csr_array((n, n))  # exp(0) = 1 to itself
    matrices = [normalised(symmetric_graph(near, weights[:, 1 : size + 1]) + own) for size in sizes]
    pattern = matrices[int(np.argmax(sizes))]
    pattern.sort_indices()
    values = np.zeros((pattern.nnz, len(sizes)), np.float32)
    rows = np.repeat(np.arange(n, dtype=np.int64), np.diff(pattern.indptr))
    keys = rows * n + pattern.indices
    for v, matrix in enumerate(matrices):
        entries = sparse.coo_array(matrix)
        at = np.searchsorted(keys, entries.row.astype(np.int64) * n + entries.col)
        values[at, v] = entries.data
    return Layers(pattern.indptr.astype(np.int64), pattern.indices.astype(np.int32), values)
