"""Rows of a graph's items -> their embeddings through a few layers, and back: the derivative by what is learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from kinrank.stages.gss import Network, Rows, elu, to_length_one
from kinrank.stages.kernels.compiled import Span, chunks, over_threads

ROWS = 256  # rows computed together, always the same ones: the bits do not depend on the number of threads


def over_blocks(task: Callable[[int, int], None], spans: list[Span]) -> None:
    """task(start, stop) for all spans, each by one thread; numbers may overflow without a word.

    Whoever calls sees to it that BLAS does not start more threads: `train` does.
    """

    def quietly(start: int, stop: int) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # who trains looks at the end
            task(start, stop)

    over_threads(quietly, spans)


@dataclass(frozen=True, eq=False)
class Pass:
    """The items of a graph on their way through the layers; its arrays are filled anew each time.

    Layer l of L: P_l = A^ H_(l-1) W_l + b_l with H_0 the rows; H_1 = elu(P_1), later H_l = P_(l-1) + decay elu(P_l).
    The embedding is H_L at length one.

    Attributes:
        parts: the rows of A^, ROWS of them each.
        rows: (n, d) what goes in.
        inputs: per layer (n, d) A^ H_(l-1). That of the first never changes.
        sums: per layer (n, d) P_l.
        embeddings: (n, d); what is between the layers before that.
        lengths: (n,) of H_L, 0 where it vanished.
        decay: see above.
    """

    parts: list[csr_array]
    rows: Rows
    inputs: list[Rows]
    sums: list[Rows]
    embeddings: Rows
    lengths: Rows
    decay: float

    @classmethod
    def over(cls, adjacency: csr_array, rows: Rows, layers: int, decay: float) -> Pass:
        """Arrays for rows (n, d) and A^ (n, n): 2 layers + 1 of the shape of the rows."""
        parts = [csr_array(adjacency[start:stop]).astype(rows.dtype) for start, stop in chunks(len(rows), ROWS)]
        inputs, sums = ([np.empty_like(rows) for _ in range(layers)] for _ in range(2))
        made = cls(parts, rows, inputs, sums, np.empty_like(rows), np.empty(len(rows), rows.dtype), decay)
        made._spread(rows, inputs[0])
        return made

    def forward(self, network: Network) -> None:
        """From the rows to the embeddings."""
        for level in range(len(self.sums)):
            if level:
                self._spread(self.embeddings, self.inputs[level])
            self._by_rows(partial(self._layer, network, level))
        self._by_rows(self._shorten)

    def backward(self, network: Network, derivative: Rows) -> Network:
        """The derivative by weights and biases from that by the embeddings (n, d); it and what `forward` left are lost.

        dH_L = (dE - e (e.dE)) / |H_L|; dP_l = c elu'(P_l) dH_l + dH_(l+1), c = 1 for the first layer, decay for others,
        without the second term for the last; dW_l = (A^ H_(l-1))' dP_l, db_l = column sums of dP_l;
        dH_(l-1) = A^ dP_l W_l'. Each is written over what is not needed any more.
        """
        made = Network(np.empty_like(network.weights), np.empty_like(network.biases))
        self._by_rows(partial(self._to_output, derivative))
        here, above = derivative, None  # dH of this layer, and of the next
        for level in reversed(range(len(self.sums))):
            self._by_rows(partial(self._to_sums, level, here, above))
            over_blocks(partial(self._to_weights, level, made.weights[level]), chunks(self.rows.shape[1], ROWS))
            np.sum(self.sums[level], axis=0, out=made.biases[level])
            if level:
                self._by_rows(partial(self._to_input, level, network.weights[level]))
                self._spread(self.embeddings, self.inputs[level])
                here, above = self.inputs[level], here
        return made

    def hidden(self) -> list[Rows]:
        """H_1 .. H_(L-1), (n, d) each: what queries need of the items. What `forward` left in `sums` is lost."""
        for level in reversed(range(len(self.sums) - 1)):
            spare = self.inputs[level]
            self._leave(level, slice(None), spare)
            self.sums[level][:] = spare
        return self.sums[:-1]

    def _by_rows(self, task: Callable[[int, int], None]) -> None:
        over_blocks(task, chunks(len(self.rows), ROWS))

    def _spread(self, values: Rows, out: Rows) -> None:
        """A^ values, (n, d), into `out`."""

        def some(start: int, stop: int) -> None:
            out[start:stop] = self.parts[start // ROWS] @ values

        self._by_rows(some)

    def _layer(self, network: Network, level: int, start: int, stop: int) -> None:
        some = slice(start, stop)
        sums = self.sums[level][some]
        np.matmul(self.inputs[level][some], network.weights[level], out=sums)
        sums += network.biases[level]
        self._leave(level, some, self.embeddings[some])

    def _leave(self, level: int, some: slice, out: Rows) -> None:
        """H of a layer from its sums and those of the layer before."""
        elu(self.sums[level][some], out)
        if level:
            out *= self.decay
            out += self.sums[level - 1][some]

    def _shorten(self, start: int, stop: int) -> None:
        self.lengths[start:stop] = to_length_one(self.embeddings[start:stop], self.rows[start:stop])

    def _to_output(self, derivative: Rows, start: int, stop: int) -> None:
        """dE -> dH_L: what is left of it across e, divided by the length; 0 where that vanished."""
        found, embeddings = derivative[start:stop], self.embeddings[start:stop]
        found -= embeddings * np.einsum("ij,ij->i", found, embeddings)[:, None]
        inverse = np.zeros_like(self.lengths[start:stop])
        np.divide(1, self.lengths[start:stop], out=inverse, where=self.lengths[start:stop] != 0)
        found *= inverse[:, None]

    def _to_sums(self, level: int, here: Rows, above: Rows | None, start: int, stop: int) -> None:
        found = self.sums[level][start:stop]
        np.minimum(found, 0, out=found)
        np.exp(found, out=found)  # elu'
        found *= here[start:stop]
        if level:
            found *= self.decay
        if above is not None:
            found += above[start:stop]

    def _to_weights(self, level: int, out: Rows, start: int, stop: int) -> None:
        np.matmul(self.inputs[level][:, start:stop].T, self.sums[level], out=out[start:stop])

    def _to_input(self, level: int, weights: Rows, start: int, stop: int) -> None:
        np.matmul(self.sums[level][start:stop], weights.T, out=self.embeddings[start:stop])
