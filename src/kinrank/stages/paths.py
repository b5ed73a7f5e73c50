"""Local transitions -> d', the cost of the cheapest chain of states from each query (TMT: Sec. 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.neighbors import Neighbors


@dataclass(frozen=True, eq=False)
class Steps:
    """Which states may follow which: an undirected graph.

    `links`, `ends`: for every item its possible next items, as csr; `mirror`: for every entry the one that is the same
    step seen from its other end.
    """

    links: NDArray[np.int64]
    ends: NDArray[np.int32]
    mirror: NDArray[np.int64]

    @property
    def origins(self) -> NDArray[np.int32]:
        """The item each entry starts from."""
        return np.repeat(np.arange(len(self.links) - 1, dtype=np.int32), np.diff(self.links))


def local_steps(neighbors: Neighbors, k: int, kind: str = "union") -> Steps:
    """Steps between items of which one (`union`) or each (`reciprocal`) has the other among its k nearest."""
    from scipy import sparse

    n = len(neighbors.indices)
    near = neighbors.indices[:, 1 : k + 1]
    width = near.shape[1]
    directed = sparse.csr_array(
        (np.ones(near.size, np.int8), near.ravel().copy(), np.arange(n + 1, dtype=np.int64) * width),
        shape=(n, n),
    )
    both = directed.multiply(directed.T) if kind == "reciprocal" else directed.maximum(directed.T)
    both = sparse.csr_array(both)
    both.sort_indices()
    rows = np.repeat(np.arange(n), np.diff(both.indptr))
    # entries sorted by (column, row) are the mirror images of entries sorted by (row, column)
    mirror = np.empty(len(rows), np.int64)
    mirror[np.lexsort((rows, both.indices))] = np.arange(len(rows))
    return Steps(both.indptr.astype(np.int64), both.indices.astype(np.int32), mirror)


class Chains:
    """Cheapest chains over local steps whose costs are solved when they are needed, and then kept.

    iterations = 0 stands for exact transport, whose steps are all solved in advance.

    The cost of a step is W(p_i, p_j; d^rho)^gamma. With gamma = 1 and an unrestricted region the direct step is the
    cheapest (W1 obeys the triangle inequality); gamma > 1 makes many small steps cheaper than one large one.
    """

    def __init__(
        self,
        steps: Steps,
        states: Any,
        vectors: Vectors,
        rho: float,
        gamma: float,
        epsilon: float,
        iterations: int,
    ) -> None:
        self.steps = steps
        self.states = states
        self._arrays = (
            states.indptr.astype(np.int64),
            states.indices.astype(np.int32),
            states.data.astype(np.float32),
        )
        self._vectors = vectors
        self._centres = np.ascontiguousarray(states @ vectors, dtype=np.float32)
        self._numbers = (float(rho), np.float32(gamma), float(epsilon), int(iterations))
        self.costs = np.full(len(steps.ends), -1.0, np.float32)  # per entry of steps; -1: not solved yet
        self._bounds = np.full(len(steps.ends), -1.0, np.float32)
        if iterations == 0:
            self._solve_all(rho, gamma)

    def _solve_all(self, rho: float, gamma: float) -> None:
        """Exact costs of all steps at once: the search itself only knows Sinkhorn, to keep its compilation short."""
        from kinrank.stages.transport import transition_costs

        forward = np.flatnonzero(self.steps.origins < self.steps.ends)
        pairs = np.stack([self.steps.origins[forward], self.steps.ends[forward]], axis=1)
        costs = transition_costs(pairs, self.states, self._vectors, rho, 0.0, 0) ** np.float32(gamma)
        self.costs[forward] = self.costs[self.steps.mirror[forward]] = costs

    @property
    def solved(self) -> int:
        """How many steps had to be solved so far."""
        return int((self.costs >= 0).sum()) // 2

    def from_items(
        self, sources: NDArray[np.int64], parents: bool = False
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """(reach, parents): (sources, n) cost of the cheapest chain, inf where none leads; the item before each."""
        from kinrank.stages.kernels.compiled import in_chunks, one_blas_thread, threads
        from kinrank.stages.kernels.paths import chains

        n = len(self.steps.links) - 1
        reach = np.empty((len(sources), n), np.float32)
        before = np.full((len(sources) if parents else 0, n), -1, np.int32)
        chunk = max(1, min(16, len(sources) // (2 * threads()) or 1))
        with one_blas_thread():
            in_chunks(
                chains, len(sources), sources, self.steps.links, self.steps.ends, self.steps.mirror, self.costs,
                self._bounds, *self._arrays, self._vectors, self._centres, *self._numbers, reach, before, chunk=chunk,
            )  # fmt: skip
        return reach, before


def chain_to(parents: NDArray[np.int32], item: int) -> list[int]:
    """The items of one chain, from its source to `item`; only `item` itself where none leads there."""
    chain = [item]
    while parents[chain[-1]] >= 0:
        chain.append(int(parents[chain[-1]]))
    return chain[::-1]
