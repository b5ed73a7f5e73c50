"""The network of GSS: its graph, layers, loss and training, and the embeddings of queries that enter the graph.

loss = mean over all pairs, each item with itself included, of -(alpha / 2) (relu(e_i.e_j) - beta)^2, minimised, so that
similar pairs become more similar and all others less. Pairs are handled in blocks, without n x n arrays. Blocks and the
order of sums are fixed, so that the bits do not depend on the number of threads.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.neighbors import Neighbors
from kinrank.progress import Progress

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from kinrank.stages.kernels.compiler import Span

FloatRows = NDArray[Any]  # float32 or float64; results have the type of the rows
MIN_LENGTH = 1e-6  # a shorter sum has no direction: that of the row it came from is used
ROWS_PER_BLOCK = 256  # rows computed together, always the same ones: the bits do not depend on the number of threads
MAX_SORTED_ITEMS = 2048  # up to here all pairs are sorted for a percentile; beyond, they are counted in bins
SIMILARITY_BINS = 1 << 16  # bins of similarities from -1 to 1
MEAN_DECAY, SQUARE_DECAY = 0.9, 0.999  # Adam: share of the running means that stays at each step
ADAM_EPSILON = 1e-8


class Network(NamedTuple):
    """Learned parameters: weights (layers, d, d) and biases (layers, d)."""

    weights: FloatRows
    biases: FloatRows


def identity_network(dimensions: int, layers: int, kind: Any = np.float32) -> Network:
    """Return layers that only apply ELU: W = I, b = 0. Training starts here, without random numbers."""
    weights = np.repeat(np.eye(dimensions, dtype=kind)[None], layers, axis=0)
    return Network(weights, np.zeros((layers, dimensions), kind))


def apply_elu(values: FloatRows, out: FloatRows) -> FloatRows:
    """Compute x for x > 0, else exp(x) - 1, into `out`, which must not be `values`."""
    np.minimum(values, 0, out=out)
    np.expm1(out, out=out)
    return np.maximum(values, out, out=out)


def scale_to_unit_length(values: FloatRows, rows: FloatRows) -> FloatRows:
    """Divide `values` (n, d) by their lengths, in place, and return the lengths (n,); 0 if a row vanished.

    A vanished row takes the direction of `rows`; if that is zero as well, all coordinates become equal.
    """
    lengths: FloatRows = np.sqrt(np.einsum("ij,ij->i", values, values))
    for row in np.flatnonzero(lengths < MIN_LENGTH):
        longest = np.abs(rows[row]).max()
        values[row] = rows[row] / longest if longest > 0 else 1.0
        values[row] /= np.linalg.norm(values[row])
        lengths[row] = 0.0
    values /= np.where(lengths == 0, 1, lengths)[:, None]
    return lengths


def embed_queries(
    queries: FloatRows,
    nearest: Neighbors,
    before: Sequence[FloatRows],
    degrees: FloatRows,
    network: Network,
    decay: float,
) -> FloatRows:
    """Return (q, d) embeddings of queries outside the graph; neither items nor other queries are affected by a query.

    P_l = (B^ H_(l-1) + c h_(l-1)) W_l + b_l with h of the query itself and H of the items; B_qj = max(s_qj, 0) for its
    nearest items (q, kq), D_q = 1 + row sum of B, B^ = D_q^-1/2 B D^-1/2, c = 1 / D_q. The rest is as in `LayerPass`.
    `before`: the input (n, d) of each layer, that is, the rows of the items and then H_1 .. H_(L-1).

    Example:
        >>> embed_queries(queries, items.query_neighbors(5), [gallery, *hidden], degrees, network, decay=0.3)
    """
    weights = np.maximum(stages.affinity.similarity(nearest.distances), 0.0)
    own = 1.0 + weights.sum(axis=1, keepdims=True)
    weights /= np.sqrt(own * degrees[nearest.indices])
    joined = stages.csr.matrix_from_lists(nearest.indices, weights.astype(queries.dtype), len(degrees))
    share = (1.0 / own).astype(queries.dtype)
    values, sums = queries, None
    for level, items in enumerate(before):
        below, sums = sums, (joined @ items + share * values) @ network.weights[level] + network.biases[level]
        values = apply_elu(sums, np.empty_like(sums))
        if below is not None:
            values *= decay
            values += below
    scale_to_unit_length(values, queries)
    return values


def run_blocks(task: Callable[[int, int], None], spans: list[Span]) -> None:
    """Call task(start, stop) for all spans, each on one thread, without overflow warnings.

    The caller must keep BLAS from starting more threads, as `train_network` does.
    """

    def quietly(start: int, stop: int) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # training checks its result at the end
            task(start, stop)

    stages.kernels.compiler.run_on_threads(quietly, spans)


@dataclass(frozen=True, eq=False)
class LayerPass:
    """Forward and backward pass of the items through the layers. The arrays are reused by every pass.

    Layer l of L: P_l = A^ H_(l-1) W_l + b_l with H_0 the rows; H_1 = elu(P_1), later H_l = P_(l-1) + decay elu(P_l).
    The embedding is H_L scaled to length one.

    Attributes:
        parts: the rows of A^ in blocks of ROWS_PER_BLOCK.
        rows: (n, d) input.
        inputs: per layer (n, d) A^ H_(l-1). The first one never changes.
        sums: per layer (n, d) P_l.
        embeddings: (n, d); holds the values between layers until the end.
        lengths: (n,) lengths of H_L, 0 if it vanished.
        decay: see above.
    """

    parts: list[csr_array]
    rows: FloatRows
    inputs: list[FloatRows]
    sums: list[FloatRows]
    embeddings: FloatRows
    lengths: FloatRows
    decay: float

    @classmethod
    def over(cls, adjacency: csr_array, rows: FloatRows, layers: int, decay: float) -> LayerPass:
        """Allocate arrays for rows (n, d) and A^ (n, n): 2 layers + 1 arrays of the shape of the rows."""
        spans = stages.kernels.compiler.split_rows(len(rows), ROWS_PER_BLOCK)
        parts = [adjacency[start:stop].astype(rows.dtype) for start, stop in spans]
        inputs, sums = ([np.empty_like(rows) for _ in range(layers)] for _ in range(2))
        layer_pass = cls(parts, rows, inputs, sums, np.empty_like(rows), np.empty(len(rows), rows.dtype), decay)
        layer_pass._spread(rows, inputs[0])
        return layer_pass

    def forward(self, network: Network) -> None:
        """Compute the embeddings from the rows."""
        for level in range(len(self.sums)):
            if level:
                self._spread(self.embeddings, self.inputs[level])
            self._by_rows(partial(self._layer, network, level))
        self._by_rows(self._shorten)

    def backward(self, network: Network, derivative: FloatRows) -> Network:
        """Return the derivative by weights and biases, given that by the embeddings (n, d).

        dH_L = (dE - e (e.dE)) / |H_L|; dP_l = c elu'(P_l) dH_l + dH_(l+1), c = 1 for the first layer, decay for others,
        without the second term for the last; dW_l = (A^ H_(l-1))' dP_l, db_l = column sums of dP_l;
        dH_(l-1) = A^ dP_l W_l'. Overwrites `derivative` and the results of `forward`.
        """
        gradient = Network(np.empty_like(network.weights), np.empty_like(network.biases))
        self._by_rows(partial(self._to_output, derivative))
        current, above = derivative, None  # dH of this layer, and of the next
        for level in reversed(range(len(self.sums))):
            self._by_rows(partial(self._to_sums, level, current, above))
            run_blocks(
                partial(self._to_weights, level, gradient.weights[level]),
                stages.kernels.compiler.split_rows(self.rows.shape[1], ROWS_PER_BLOCK),
            )
            np.sum(self.sums[level], axis=0, out=gradient.biases[level])
            if level:
                self._by_rows(partial(self._to_input, level, network.weights[level]))
                self._spread(self.embeddings, self.inputs[level])
                current, above = self.inputs[level], current
        return gradient

    def hidden(self) -> list[FloatRows]:
        """Return H_1 .. H_(L-1), (n, d) each, which queries need of the items. Overwrites `sums`."""
        for level in reversed(range(len(self.sums) - 1)):
            spare = self.inputs[level]
            self._leave(level, slice(None), spare)
            self.sums[level][:] = spare
        return self.sums[:-1]

    def _by_rows(self, task: Callable[[int, int], None]) -> None:
        """Call the task for blocks of rows."""
        run_blocks(task, stages.kernels.compiler.split_rows(len(self.rows), ROWS_PER_BLOCK))

    def _spread(self, values: FloatRows, out: FloatRows) -> None:
        """Compute A^ values, (n, d), into `out`."""

        def multiply(start: int, stop: int) -> None:
            out[start:stop] = self.parts[start // ROWS_PER_BLOCK] @ values

        self._by_rows(multiply)

    def _layer(self, network: Network, level: int, start: int, stop: int) -> None:
        block = slice(start, stop)
        sums = self.sums[level][block]
        np.matmul(self.inputs[level][block], network.weights[level], out=sums)
        sums += network.biases[level]
        self._leave(level, block, self.embeddings[block])

    def _leave(self, level: int, block: slice, out: FloatRows) -> None:
        """Compute H of a layer from its sums and those of the layer before."""
        apply_elu(self.sums[level][block], out)
        if level:
            out *= self.decay
            out += self.sums[level - 1][block]

    def _shorten(self, start: int, stop: int) -> None:
        self.lengths[start:stop] = scale_to_unit_length(self.embeddings[start:stop], self.rows[start:stop])

    def _to_output(self, derivative: FloatRows, start: int, stop: int) -> None:
        """Turn dE into dH_L: its part orthogonal to e, divided by the length; 0 if the row vanished."""
        part, embeddings = derivative[start:stop], self.embeddings[start:stop]
        part -= embeddings * np.einsum("ij,ij->i", part, embeddings)[:, None]
        inverse = np.zeros_like(self.lengths[start:stop])
        np.divide(1, self.lengths[start:stop], out=inverse, where=self.lengths[start:stop] != 0)
        part *= inverse[:, None]

    def _to_sums(self, level: int, current: FloatRows, above: FloatRows | None, start: int, stop: int) -> None:
        part = self.sums[level][start:stop]
        np.minimum(part, 0, out=part)
        np.exp(part, out=part)  # elu'
        part *= current[start:stop]
        if level:
            part *= self.decay
        if above is not None:
            part += above[start:stop]

    def _to_weights(self, level: int, out: FloatRows, start: int, stop: int) -> None:
        np.matmul(self.inputs[level][:, start:stop].T, self.sums[level], out=out[start:stop])

    def _to_input(self, level: int, weights: FloatRows, start: int, stop: int) -> None:
        np.matmul(self.sums[level][start:stop], weights.T, out=self.embeddings[start:stop])


def similarity_percentile(embeddings: FloatRows, percent: float) -> float:
    """Return the similarity e_i.e_j that `percent` of all pairs do not exceed, pairs i = i included.

    embeddings (n, d), n > 0. For more than MAX_SORTED_ITEMS items it is exact to 3e-5, the width of a bin.
    """
    if len(embeddings) <= MAX_SORTED_ITEMS:
        return float(np.percentile(embeddings @ embeddings.T, percent, overwrite_input=True))
    counts, lock = np.zeros(SIMILARITY_BINS, np.int64), threading.Lock()

    def count(start: int, stop: int) -> None:
        part = np.zeros(SIMILARITY_BINS, np.int64)
        for first, last in stages.kernels.compiler.split_rows(len(embeddings), MAX_SORTED_ITEMS):
            places = embeddings[start:stop] @ embeddings[first:last].T
            places += 1
            places *= SIMILARITY_BINS / 2
            np.clip(places, 0, SIMILARITY_BINS - 1, out=places)
            part += np.bincount(places.ravel().astype(np.int64), minlength=SIMILARITY_BINS)
        with lock:
            np.add(counts, part, out=counts)

    run_blocks(count, stages.kernels.compiler.split_rows(len(embeddings), ROWS_PER_BLOCK))
    up_to = np.cumsum(counts)
    wanted = percent / 100.0 * (int(up_to[-1]) - 1)
    place = int(np.searchsorted(up_to, wanted, side="right"))
    inside = (wanted - int(up_to[place] - counts[place])) / int(counts[place])
    return (place + inside) * 2.0 / SIMILARITY_BINS - 1.0


def estimate_pair_bytes(items: int, dimensions: int, kind: int = 4) -> int:
    """Return the memory that `similarity_percentile` and `separation_loss` need for pairs, without the derivative.

    `kind`: bytes per number.
    """
    blocks = min(stages.kernels.compiler.thread_count(), -(-items // ROWS_PER_BLOCK))
    per_block = (
        ROWS_PER_BLOCK * (3 * ROWS_PER_BLOCK + dimensions) * kind
        + ROWS_PER_BLOCK * min(items, MAX_SORTED_ITEMS) * (kind + 8)
        + 2 * SIMILARITY_BINS * 8
    )
    return max(min(items, MAX_SORTED_ITEMS) ** 2 * kind, blocks * per_block)


def schedule_block_pairs(blocks: int) -> list[list[tuple[int, int]]]:
    """Return every pair of blocks once, in rounds in which no block occurs twice; the first pairs each with itself.

    Example:
        >>> schedule_block_pairs(3)
        [[(0, 0), (1, 1), (2, 2)], [(1, 2)], [(2, 0)], [(0, 1)]]
    """
    others = blocks - 1 + blocks % 2  # odd; the partner of the missing block rests
    schedule = [[(block, block) for block in range(blocks)]]
    for turn in range(others if blocks > 1 else 0):
        pairs = [((turn + step) % others, (turn - step) % others) for step in range(1, others // 2 + 1)]
        schedule.append([pair for pair in [(turn, others), *pairs] if max(pair) < blocks])
    return schedule


def separation_loss(embeddings: FloatRows, alpha: float, beta: float, out: FloatRows) -> float:
    """Return the loss; write its derivative by the embeddings (n, d), dE = -(2 alpha / n^2) R E, into `out` (n, d).

    R_ij = e_i.e_j - beta if e_i.e_j > 0, else 0. R is symmetric: each block is computed once and used twice.
    """
    count, dimensions = embeddings.shape
    spans = [slice(*span) for span in stages.kernels.compiler.split_rows(count, ROWS_PER_BLOCK)]
    squares = np.zeros((len(spans), len(spans)))
    spare = threading.local()

    def meet(left: int, right: int) -> None:
        if not hasattr(spare, "arrays"):
            kinds = (
                (ROWS_PER_BLOCK, embeddings.dtype),
                (ROWS_PER_BLOCK, embeddings.dtype),
                (ROWS_PER_BLOCK, np.bool_),
                (dimensions, embeddings.dtype),
            )
            spare.arrays = [np.empty((ROWS_PER_BLOCK, width), kind) for width, kind in kinds]
        own, other = embeddings[spans[left]], embeddings[spans[right]]
        products, taken, positive = (array[: len(own), : len(other)] for array in spare.arrays[:3])
        np.matmul(own, other.T, out=products)
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
        out[spans[left]] += np.matmul(products, other, out=moved[: len(own)])
        out[spans[right]] += np.matmul(products.T, own, out=moved[: len(other)])

    for pairs in schedule_block_pairs(len(spans)):
        run_blocks(lambda start, _, pairs=pairs: meet(*pairs[start]), stages.kernels.compiler.split_rows(len(pairs), 1))  # type: ignore[misc]
    out *= -2.0 * alpha / count**2
    return float(-0.5 * alpha / count**2 * squares.sum())


def train_network(
    way: LayerPass, network: Network, epochs: int, lr: float, alpha: float, percent: float, progress: Progress
) -> list[float]:
    """Train a network, in place, by full-batch epochs of Adam; return the loss before each. beta keeps its first value.

    Afterwards `way` holds the embeddings of the trained network. Cost: 1.5 n^2 d multiplications per epoch.

    Example:
        >>> way = LayerPass.over(stages.affinity.build_item_graph(lists).adjacency, rows, layers=2, decay=0.3)
        >>> losses = train_network(way, identity_network(rows.shape[1], 2), 200, 1e-4, 1.0, 98.0, SILENT)
    """
    losses: list[float] = []
    with stages.kernels.compiler.single_blas_thread():
        way.forward(network)
        if not epochs or not len(way.rows):
            return losses
        adam, derivative, beta = (
            Adam(network, lr),
            np.empty_like(way.rows),
            similarity_percentile(way.embeddings, percent),
        )
        for _ in progress.each("training", range(epochs), epochs):
            losses.append(separation_loss(way.embeddings, alpha, beta, derivative))
            with np.errstate(over="ignore", invalid="ignore"):
                adam.step(network, way.backward(network, derivative))
            way.forward(network)
    return losses


class Adam:
    """Optimiser: w -= lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + 1e-8), m and v running means of g and g^2.

    The 1e-8 is added to the plain sqrt(v). If it is added after v is corrected for t, as in torch, scores of GSS
    move by 2e-4 in 50 steps, because entries of its gradient are tiny.

    Example:
        >>> Adam([weights], lr=1e-4).step([weights], [gradient])
    """

    def __init__(self, like: Sequence[FloatRows], lr: float) -> None:
        self._lr, self._steps = lr, 0
        self._means = [(np.zeros_like(array), np.zeros_like(array)) for array in like]

    def step(self, arrays: Sequence[FloatRows], gradients: Sequence[FloatRows]) -> None:
        """Move arrays against their gradients, in place. Overwrites the gradients."""
        self._steps += 1
        rate = self._lr * math.sqrt(1.0 - SQUARE_DECAY**self._steps) / (1.0 - MEAN_DECAY**self._steps)
        for array, gradient, (mean, square) in zip(arrays, gradients, self._means, strict=True):
            mean *= MEAN_DECAY
            mean += (1.0 - MEAN_DECAY) * gradient
            gradient *= gradient
            gradient *= 1.0 - SQUARE_DECAY
            square *= SQUARE_DECAY
            square += gradient
            np.sqrt(square, out=gradient)
            gradient += ADAM_EPSILON
            np.divide(mean, gradient, out=gradient)
            gradient *= rate
            array -= gradient
