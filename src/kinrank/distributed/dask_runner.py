"""Dask cluster as an execution backend of the loops; results do not depend on lost workers."""

from __future__ import annotations

import numbers
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kinrank.distributed import worker_tasks
from kinrank.distributed.worker_tasks import ArrayFile, OutputArray, create_array, remove_arrays, write_array
from kinrank.errors import InputError
from kinrank.lazy_import import import_extra
from kinrank.progress import Progress
from kinrank.stages.kernels.compiler import Output

MAX_RETRIES = 3  # of a failed task; Dask itself moves tasks of a lost worker
WORKER_TIMEOUT_SECONDS = 60.0  # without any worker until the work is abandoned
POLL_SECONDS = 1.0  # between checks for workers while no task completes
RESULT_TIMEOUT_SECONDS = 10.0  # for a result to arrive before the same check
TASKS_PER_THREAD = 2  # submitted at a time, so that results do not pile up

Task = Callable[..., tuple[NDArray[Any], ...]]
ArrayKey = tuple[int, int, str, tuple[Any, ...]]


@contextmanager
def connect_client(client: Any) -> Iterator[Any]:
    """Yield the given client, the current one, or one of a local cluster that lives as long as the call."""
    distributed = _import_dask()
    if client is None:
        with suppress(ValueError):  # there is none
            client = distributed.default_client()
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


def _import_dask() -> Any:
    return import_extra("distributed", "kinrank.distributed", "dask")


class Cluster:
    """Execution backend that runs the loops of the stages on workers, as `ThreadRunner` does locally.

    Arrays are files in a folder that every worker sees. An output array is created as a file at once; others are
    written when a loop first reads them, and removed when they are no longer needed.
    """

    together = 2**62  # gather all results at once: each step of the pipeline waits for all workers

    def __init__(
        self, client: Any, folder: Path, block: int, report: Progress, wait: float = WORKER_TIMEOUT_SECONDS
    ) -> None:
        self.client, self.folder, self.block, self.report = client, folder, block, report
        self.wait = wait
        self._files: dict[ArrayKey, str] = {}  # views of an array share its file

    def empty(self, shape: tuple[int, ...], kind: DTypeLike) -> NDArray[Any]:
        name = uuid.uuid4().hex
        array = create_array(self.folder, name, shape, kind)
        self.register_file(array, name)
        return array

    def register_file(self, array: NDArray[Any], name: str) -> None:
        """Register the file of an array; it is removed together with the array."""
        key = _make_array_key(array)
        self._files[key] = name
        weakref.finalize(array, self._forget, key, name)

    def _forget(self, key: ArrayKey, name: str) -> None:
        if self._files.get(key) == name:
            del self._files[key]
        remove_arrays(self.folder, name)

    def _to_file(self, given: Any) -> Any:
        """Replace an array by the name of its file, also inside named tuples."""
        if isinstance(given, tuple) and hasattr(given, "_fields"):
            return type(given)(*(self._to_file(part) for part in given))
        if not isinstance(given, np.ndarray) or not given.size:
            return given
        key = _make_array_key(given)
        if isinstance(given, np.memmap):
            given.flush()  # it may have been changed in this process
        if key not in self._files:
            name = uuid.uuid4().hex
            write_array(self.folder, name, given)
            self.register_file(given, name)
            return ArrayFile(name, given.shape)
        return ArrayFile(self._files[key], given.shape)

    def __call__(
        self, kernel: Any, count: int, inputs: tuple[Any, ...], outputs: tuple[Output, ...], label: str = ""
    ) -> None:
        """Run kernel(start, stop, *inputs, *outputs) over the rows 0 to count, `block` of them per task."""
        function = kernel.py_func
        filled = tuple(
            OutputArray(output.array.shape, output.array.dtype.str, self._to_file(output.indptr)) for output in outputs
        )
        sent = tuple(self._to_file(given) for given in inputs)
        self.fill(label, worker_tasks.run_kernel, count, outputs, function.__module__, function.__name__, sent, filled)

    def fill(self, label: str, task: Task, count: int, outputs: Sequence[Output], *arguments: Any) -> None:
        """Merge task(folder, span, *arguments) of all blocks of `count` rows into the outputs."""
        spans = [(start, min(start + self.block, count)) for start in range(0, count, self.block)]
        calls = self.calls(task, [(str(self.folder), span, *arguments) for span in spans])
        for number, parts in self.report.each(label, calls, len(spans)):
            for output, part in zip(outputs, parts, strict=True):
                output.array[worker_tasks.locate_entries(spans[number], output.indptr)] = part

    def calls(self, task: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """Yield (number, task(*call)) of every call in the order of completion; a few run at a time."""
        waiting, under_way = iter(enumerate(calls)), {}
        done: SimpleQueue[Any] = SimpleQueue()

        def hand_out() -> None:
            for number, call in waiting:
                future = self.client.submit(task, *call, retries=MAX_RETRIES, pure=False)
                under_way[future.key] = number
                future.add_done_callback(done.put)
                return

        for _ in range(TASKS_PER_THREAD * max(1, sum(self.client.nthreads().values()))):
            hand_out()
        while under_way:
            future = self._next(done)
            result = self._result(future)
            number = under_way.pop(future.key)
            future.release()
            hand_out()
            yield number, result

    def _next(self, done: SimpleQueue[Any]) -> Any:
        """Return the next completed task; raise a TimeoutError if there was no worker for too long."""
        seen = time.monotonic()
        while True:
            try:
                return done.get(timeout=min(POLL_SECONDS, self.wait))
            except Empty:
                seen = self._last_seen(seen)

    def _result(self, future: Any) -> Any:
        """Return the result of a task. If its worker is gone, Dask computes it again on another one."""
        seen, late = time.monotonic(), _import_dask().TimeoutError
        while True:
            try:
                return future.result(timeout=RESULT_TIMEOUT_SECONDS)
            except late:
                if future.status == "error":  # the error of the task itself
                    raise
                seen = self._last_seen(seen)

    def _last_seen(self, seen: float) -> float:
        """Return when a worker was last present: now, or `seen`; raise a TimeoutError if that is too long ago."""
        now = time.monotonic()
        if self.client.nthreads():
            return now
        if now - seen >= self.wait:
            raise TimeoutError(
                f"the cluster had no worker for {self.wait:g} seconds; start workers for its scheduler, or pass a "
                "longer wait="
            )
        return seen


def check_wait(wait: Any) -> float:
    """Convert the value to a number of seconds > 0, or raise an InputError; inf waits forever."""
    if isinstance(wait, numbers.Real) and not isinstance(wait, bool) and float(wait) > 0:
        return float(wait)
    raise InputError(parameter="wait", given=wait, allowed="seconds > 0, or inf to wait forever")


def _make_array_key(array: NDArray[Any]) -> ArrayKey:
    """Return address, size and dtype of an array; for views in another order than memory also shape and strides."""
    order = () if array.flags.c_contiguous else (array.shape, array.strides)
    return int(array.__array_interface__["data"][0]), array.nbytes, array.dtype.str, order
