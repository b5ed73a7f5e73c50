"""Steps with their prices -> d', the cost of the cheapest chain from items of the graph (TMT: Sec. 4.3).

With gamma = 1 and an unrestricted region the direct step is the cheapest, because W1 obeys the triangle inequality;
gamma > 1 makes many small steps cheaper than one large one. Queries outside the graph: stages/attach.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinrank.stages.csr import Rows
from kinrank.stages.kernels.chains import cheapest_chains
from kinrank.stages.kernels.compiled import in_chunks, threads


def chains_from(
    sources: NDArray[np.int64], steps: Rows, parents: bool = False
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """(totals, parents): (sources, n) cost of the cheapest chain, inf where none leads; the item before each."""
    n = len(steps.indptr) - 1
    totals = np.empty((len(sources), n), np.float32)
    before = np.full((len(sources) if parents else 0, n), -1, np.int32)
    chunk = max(1, min(16, len(sources) // (2 * threads())))
    in_chunks(cheapest_chains, len(sources), sources, steps, totals, before, chunk=chunk)
    return totals, before


def chain_to(parents: NDArray[np.int32], item: int) -> list[int]:
    """The items of one chain, from its source to `item`; only `item` itself where none leads there."""
    chain = [item]
    while parents[chain[-1]] >= 0:
        chain.append(int(parents[chain[-1]]))
    return chain[::-1]
