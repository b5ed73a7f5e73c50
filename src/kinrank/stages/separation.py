"""Embeddings of items -> layers trained so that similar pairs grow more similar and all others less.

loss = mean over all pairs, each item with itself included, of -(alpha / 2) (relu(e_i.e_j) - beta)^2, minimised.
In blocks: nothing n x n. They are always the same, and sums are made in one order, so that the bits do not depend on
the number of threads.
"""

from __future__ import annotations

import threading

import numpy as np

from kinrank.progress import Progress
from kinrank.stages.adam import Adam
from kinrank.stages.gss import Network, Rows
from kinrank.stages.kernels.compiled import chunks, one_blas_thread, threads
from kinrank.stages.layers import ROWS, Pass, over_blocks

EXACT = 2048  # items up to which all pairs are sorted for a percentile; of more they are counted
BINS = 1 << 16  # of similarities from -1 to 1


def percentile(embeddings: Rows, percent: float) -> float:
    """The similarity e_i.e_j that `percent` of all pairs do not exceed, i = j included; embeddings (n, d), n > 0.

    Of more than 2048 items it is exact to 3e-5, the width of a bin.
    """
    if len(embeddings) <= EXACT:
        return float(np.percentile(embeddings @ embeddings.T, percent, overwrite_input=True))
    counts, alone = np.zeros(BINS, np.int64), threading.Lock()

    def count(start: int, stop: int) -> None:
        found = np.zeros(BINS, np.int64)
        for first, last in chunks(len(embeddings), EXACT):
            places = embeddings[start:stop] @ embeddings[first:last].T
            places += 1
            places *= BINS / 2
            np.clip(places, 0, BINS - 1, out=places)
            found += np.bincount(places.ravel().astype(np.int64), minlength=BINS)
        with alone:
            np.add(counts, found, out=counts)

    over_blocks(count, chunks(len(embeddings), ROWS))
    up_to = np.cumsum(counts)
    wanted = percent / 100.0 * (int(up_to[-1]) - 1)
    place = int(np.searchsorted(up_to, wanted, side="right"))
    inside = (wanted - int(up_to[place] - counts[place])) / int(counts[place])
    return (place + inside) * 2.0 / BINS - 1.0


def working_bytes(items: int, dimensions: int, kind: int = 4) -> int:
    """What `percentile` and `pull` need for their pairs, the derivative left aside; `kind`: bytes of a number."""
    blocks = min(threads(), -(-items // ROWS))
    one = ROWS * (3 * ROWS + dimensions) * kind + ROWS * min(items, EXACT) * (kind + 8) + 2 * BINS * 8
    return max(min(items, EXACT) ** 2 * kind, blocks * one)


def rounds(blocks: int) -> list[list[tuple[int, int]]]:
    """Every pair of blocks once, in rounds in which none occurs twice; first each with itself.

    Example:
        >>> rounds(3)
        [[(0, 0), (1, 1), (2, 2)], [(1, 2)], [(2, 0)], [(0, 1)]]
    """
    others = blocks - 1 + blocks % 2  # odd; who meets the one that is not there has a rest
    made = [[(block, block) for block in range(blocks)]]
    for turn in range(others if blocks > 1 else 0):
        met = [((turn + step) % others, (turn - step) % others) for step in range(1, others // 2 + 1)]
        made.append([pair for pair in [(turn, others), *met] if max(pair) < blocks])
    return made


def pull(embeddings: Rows, alpha: float, beta: float, out: Rows) -> float:
    """The loss; into `out` (n, d) its derivative by the embeddings (n, d), dE = -(2 alpha / n^2) R E.

    R_ij = e_i.e_j - beta where e_i.e_j > 0, else 0. R is symmetric: each block is computed once and used twice.
    """
    count, dimensions = embeddings.shape
    spans = [slice(*span) for span in chunks(count, ROWS)]
    squares = np.zeros((len(spans), len(spans)))
    spare = threading.local()

    def meet(left: int, right: int) -> None:
        if not hasattr(spare, "arrays"):
            kinds = (ROWS, embeddings.dtype), (ROWS, embeddings.dtype), (ROWS, np.bool_), (dimensions, embeddings.dtype)
            spare.arrays = [np.empty((ROWS, width), kind) for width, kind in kinds]
        mine, other = embeddings[spans[left]], embeddings[spans[right]]
        products, taken, positive = (array[: len(mine), : len(other)] for array in spare.arrays[:3])
        np.matmul(mine, other.T, out=products)
        np.greater(products, 0, out=positive)
        zeros = products.size - np.count_nonzero(positive)
        np.maximum(products, 0, out=products)
        products -= np.multiply(positive, embeddings.dtype.type(beta), out=taken)  # a block of R
        both = 1 if left == right else 2
        squares[left, right] = both * (float(np.einsum("ij,ij->", products, products)) + zeros * beta**2)
        if left == right:
            np.matmul(products, other, out=out[spans[left]])
            return
        moved = spare.arrays[3]
        out[spans[left]] += np.matmul(products, other, out=moved[: len(mine)])
        out[spans[right]] += np.matmul(products.T, mine, out=moved[: len(other)])

    for pairs in rounds(len(spans)):
        over_blocks(lambda start, _, pairs=pairs: meet(*pairs[start]), chunks(len(pairs), 1))  # type: ignore[misc]
    out *= -2.0 * alpha / count**2
    return float(-0.5 * alpha / count**2 * squares.sum())


def train(
    way: Pass, network: Network, epochs: int, lr: float, alpha: float, percent: float, progress: Progress
) -> list[float]:
    """Train a network, in place, by full-batch epochs of Adam; the loss before each. beta stays as it is at first.

    Afterwards `way` holds the embeddings of the trained network. Cost: 1.5 n^2 d multiplications an epoch.

    Example:
        >>> way = Pass.over(graph(lists).adjacency, rows, layers=2, decay=0.3)
        >>> losses = train(way, identity(rows.shape[1], 2), 200, 1e-4, 1.0, 98.0, SILENT)
    """
    losses: list[float] = []
    with one_blas_thread():
        way.forward(network)
        if not epochs or not len(way.rows):
            return losses
        adam, derivative, beta = Adam(network, lr), np.empty_like(way.rows), percentile(way.embeddings, percent)
        for _ in progress.each("training", range(epochs), epochs):
            losses.append(pull(way.embeddings, alpha, beta, derivative))
            with np.errstate(over="ignore", invalid="ignore"):
                adam.step(network, way.backward(network, derivative))
            way.forward(network)
    return losses
