"""A task and its blocks -> results as they are done, whatever happens to workers meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kinrank.distributed.files import create, read
from kinrank.progress import Progress

RETRIES = 3  # times a task that failed is tried again; those of a lost worker are moved by Dask itself
AHEAD = 2  # tasks handed out per thread of the cluster, so that results do not pile up

Span = tuple[int, int]
Task = Callable[..., tuple[NDArray[Any], ...]]


@contextmanager
def connected(client: Any) -> Iterator[Any]:
    """The client given, or the one in force, or one of a cluster on this machine that lives as long as the call."""
    distributed = _distributed()
    client = _in_force(distributed) if client is None else client
    if client is not None:
        yield client
        return
    with (
        distributed.LocalCluster(
            processes=True,
            threads_per_worker=1,
            dashboard_address=None,
            host="127.0.0.1",
            env={"KINRANK_THREADS": "1"},
        ) as cluster,
        distributed.Client(cluster) as own,
    ):
        yield own


def _in_force(distributed: Any) -> Any:
    try:
        return distributed.default_client()
    except ValueError:
        return None


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError("kinrank.distributed needs Dask; install it with: pip install 'kinrank[dask]'") from error
    return distributed


@dataclass(frozen=True)
class Output:
    """A file that the results of a task are merged into.

    With `starts`, row i of the gallery owns the entries starts[i]..starts[i + 1]; without, entry i.
    """

    name: str
    shape: tuple[int, ...]
    kind: DTypeLike
    starts: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Run:
    """Where tasks are run, what they read, and how many rows each of them gets."""

    client: Any
    folder: Path
    block: int
    report: Progress

    def each(
        self, label: str, task: Task, count: int, *arguments: Any
    ) -> Iterator[tuple[Span, tuple[NDArray[Any], ...]]]:
        """(span, task(folder, span, *arguments)) for all blocks of `count` rows, in the order they are done."""
        spans = [(start, min(start + self.block, count)) for start in range(0, count, self.block)]
        calls = [(str(self.folder), span, *arguments) for span in spans]
        for number, result in self.report.each(label, self.calls(task, calls), len(calls)):
            yield spans[number], result

    def calls(self, task: Task, calls: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """(number, task(*call)) of every call, in the order they are done; a few are under way at a time."""
        waiting, under_way = iter(enumerate(calls)), {}
        pool = _distributed().as_completed(loop=self.client.loop)

        def hand_out() -> None:
            for number, call in waiting:
                future = self.client.submit(task, *call, retries=RETRIES, pure=False)
                under_way[future.key] = number
                pool.add(future)
                return

        for _ in range(AHEAD * max(1, sum(self.client.nthreads().values()))):
            hand_out()
        for future in pool:
            result = future.result()  # where its worker is gone by now, Dask computes it again
            number = under_way.pop(future.key)
            future.release()
            hand_out()
            yield number, result

    def fill(
        self, label: str, task: Task, count: int, outputs: Sequence[Output], *arguments: Any
    ) -> list[NDArray[Any]]:
        """The results of all blocks merged into files, one per output, as they are read back."""
        targets = [create(self.folder, output.name, output.shape, output.kind) for output in outputs]
        for (start, stop), parts in self.each(label, task, count, *arguments):
            for output, target, part in zip(outputs, targets, parts, strict=True):
                starts = output.starts
                span = slice(start, stop) if starts is None else slice(int(starts[start]), int(starts[stop]))
                target[span] = part
        for target in targets:
            target.flush()  # type: ignore[attr-defined]
        return [read(self.folder, output.name) for output in outputs]

    def lpmt(self, method: Any, count: int, lists: Any) -> tuple[dict[str, NDArray[Any]], dict[str, float]]:
        """What LPMT keeps of a gallery of `count` items, made in blocks."""
        from kinrank.distributed.lpmt import prepared_parts

        return prepared_parts(method, count, lists, self)
