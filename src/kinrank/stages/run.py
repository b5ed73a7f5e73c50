"""Who runs the loops: the threads of this process, or, with the same calls, a cluster.

A loop is `kernel(start, stop, *inputs, *outputs)`; it fills its outputs for the rows start to stop and nothing else.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kinrank.stages.kernels.compiled import in_chunks, threads


class Output(NamedTuple):
    """An array that a loop fills. With `indptr`, row i owns the entries indptr[i]..indptr[i + 1]; without, row i."""

    array: NDArray[Any]
    indptr: NDArray[np.int64] | None = None


class Run(Protocol):
    """One way to run loops. `together`: how many rows are worth one call, where results are gathered block by block."""

    together: int

    def empty(self, shape: tuple[int, ...], kind: DTypeLike) -> NDArray[Any]:
        """An array to be filled by a loop, not initialised."""

    def __call__(
        self, kernel: Any, count: int, inputs: tuple[Any, ...], outputs: tuple[Output, ...], label: str = ""
    ) -> None:
        """kernel(start, stop, *inputs, *outputs) over the rows 0 to count, in ranges, in any order.

        `label` names the work in progress bars; a loop without one does little, and is not worth a second thread.
        """


class Threads:
    """The loops of this process, on all of its cores (KINRANK_THREADS)."""

    together = 16384

    def empty(self, shape: tuple[int, ...], kind: DTypeLike) -> NDArray[Any]:
        return np.empty(shape, kind)

    def __call__(
        self, kernel: Any, count: int, inputs: tuple[Any, ...], outputs: tuple[Output, ...], label: str = ""
    ) -> None:
        chunk = LIGHT if not label else chunk_of(count)
        in_chunks(kernel, count, *inputs, *(output.array for output in outputs), chunk=chunk)


LIGHT = (
    4096  # rows per call of a loop that does little for each of them: waking a thread costs a tenth of a millisecond
)
THREADS = Threads()


def chunk_of(rows: int, least: int = 1) -> int:
    """Rows per call of a loop: few calls, because each one clears arrays, but enough to keep every thread busy."""
    return max(least, rows // ((16 if rows > 4096 else 6) * threads()))
