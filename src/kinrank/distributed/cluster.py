"""Loops and their ranges -> the same arrays as on one machine, whatever happens to workers meanwhile."""

from __future__ import annotations

import numbers
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kinrank.distributed import tasks
from kinrank.distributed.files import create, remove, write
from kinrank.distributed.tasks import File, Filled
from kinrank.progress import Progress
from kinrank.stages.run import Output

RETRIES = 3  # times a task that failed is tried again; those of a lost worker are moved by Dask itself
WAIT = 60.0  # seconds without any worker after which work is given up
BEAT = 1.0  # seconds between looks at who is there, while nothing is done
PATIENCE = 10.0  # seconds that a result may take to arrive before the same look
AHEAD = 2  # tasks handed out per thread of the cluster, so that results do not pile up

Task = Callable[..., tuple[NDArray[Any], ...]]
Place = tuple[int, int, str, tuple[Any, ...]]


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


class Cluster:
    """Runs the loops of the stages on workers, as `kinrank.stages.run.Threads` runs them here.

    Arrays are files in a folder that every worker sees. One that a loop fills is made as a file at once; others are
    written when a loop first reads them, and removed when nobody needs them any more.
    """

    together = 2**62  # results are gathered at once: each step of the pipeline waits for all workers

    def __init__(self, client: Any, folder: Path, block: int, report: Progress, wait: float = WAIT) -> None:
        self.client, self.folder, self.block, self.report = client, folder, block, report
        self.wait = wait
        self._files: dict[Place, str] = {}  # views of an array share its file

    def empty(self, shape: tuple[int, ...], kind: DTypeLike) -> NDArray[Any]:
        name = uuid.uuid4().hex
        array = create(self.folder, name, shape, kind)
        self.know(array, name)
        return array

    def know(self, array: NDArray[Any], name: str) -> None:
        """Remember the file of an array; it is removed together with the array."""
        key = _place_of(array)
        self._files[key] = name
        weakref.finalize(array, self._forget, key, name)

    def _forget(self, key: Place, name: str) -> None:
        if self._files.get(key) == name:
            del self._files[key]
        remove(self.folder, name)

    def _sent(self, given: Any) -> Any:
        """What workers get instead of an array: the name of its file; inside named tuples, too."""
        if isinstance(given, tuple) and hasattr(given, "_fields"):
            return type(given)(*(self._sent(part) for part in given))
        if not isinstance(given, np.ndarray) or not given.size:
            return given
        key = _place_of(given)
        if isinstance(given, np.memmap):
            given.flush()  # it may have been changed here
        if key not in self._files:
            name = uuid.uuid4().hex
            write(self.folder, name, given)
            self.know(given, name)
            return File(name, given.shape)
        return File(self._files[key], given.shape)

    def __call__(
        self, kernel: Any, count: int, inputs: tuple[Any, ...], outputs: tuple[Output, ...], label: str = ""
    ) -> None:
        """kernel(start, stop, *inputs, *outputs) over the rows 0 to count, `block` of them a task."""
        function = kernel.py_func
        filled = tuple(
            Filled(output.array.shape, output.array.dtype.str, self._sent(output.indptr)) for output in outputs
        )
        sent = tuple(self._sent(given) for given in inputs)
        self.fill(label, tasks.loop, count, outputs, function.__module__, function.__name__, sent, filled)

    def fill(self, label: str, task: Task, count: int, outputs: Sequence[Output], *arguments: Any) -> None:
        """Merge task(folder, span, *arguments) of all blocks of `count` rows into the outputs."""
        spans = [(start, min(start + self.block, count)) for start in range(0, count, self.block)]
        calls = self.calls(task, [(str(self.folder), span, *arguments) for span in spans])
        for number, parts in self.report.each(label, calls, len(spans)):
            for output, part in zip(outputs, parts, strict=True):
                output.array[tasks.owned(spans[number], output.indptr)] = part

    def calls(self, task: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """(number, task(*call)) of every call, in the order they are done; a few are under way at a time."""
        waiting, under_way = iter(enumerate(calls)), {}
        done: SimpleQueue[Any] = SimpleQueue()

        def hand_out() -> None:
            for number, call in waiting:
                future = self.client.submit(task, *call, retries=RETRIES, pure=False)
                under_way[future.key] = number
                future.add_done_callback(done.put)
                return

        for _ in range(AHEAD * max(1, sum(self.client.nthreads().values()))):
            hand_out()
        while under_way:
            future = self._next(done)
            result = self._result(future)
            number = under_way.pop(future.key)
            future.release()
            hand_out()
            yield number, result

    def _next(self, done: SimpleQueue[Any]) -> Any:
        """The next task that is done; a TimeoutError when there was no worker to do it for too long."""
        seen = time.monotonic()
        while True:
            try:
                return done.get(timeout=min(BEAT, self.wait))
            except Empty:
                seen = self._last_seen(seen)

    def _result(self, future: Any) -> Any:
        """What a task returned. Where its worker is gone by now, Dask computes it again, if there is another one."""
        seen, late = time.monotonic(), _distributed().TimeoutError
        while True:
            try:
                return future.result(timeout=PATIENCE)
            except late:
                if future.status == "error":  # it is the task's own
                    raise
                seen = self._last_seen(seen)

    def _last_seen(self, seen: float) -> float:
        """When a worker was last there: now, or as before; a TimeoutError when that is too long ago."""
        now = time.monotonic()
        if self.client.nthreads():
            return now
        if now - seen >= self.wait:
            raise TimeoutError(
                f"the cluster had no worker for {self.wait:g} seconds; start workers for its scheduler, or pass a "
                "longer wait="
            )
        return seen


def seconds(wait: Any) -> float:
    """The value as a number of seconds > 0, or a ValueError; inf waits for ever."""
    if isinstance(wait, numbers.Real) and not isinstance(wait, bool) and float(wait) > 0:
        return float(wait)
    raise ValueError(f"wait={wait!r} is not allowed; give seconds > 0, or inf to wait for ever")


def _place_of(array: NDArray[Any]) -> Place:
    """Address, size, kind; and of views in another order than that of memory also their shape and strides."""
    order = () if array.flags.c_contiguous else (array.shape, array.strides)
    return int(array.__array_interface__["data"][0]), array.nbytes, array.dtype.str, order
