"""Compilation of kernels with Numba, the cache of their machine code, and what runs them: threads or a Dask cluster.

Kernels (`compile_kernel`) are called from Python: compiled on first use, cached on disk, run without the interpreter
lock, in chunks of rows on several threads. Inner functions (`compile_inner`) are called by kernels only. A `Runner`
calls `kernel(start, stop, *inputs, *outputs)`, which fills its outputs for the rows start to stop only.

Machine code is stored next to the source if that folder is writable, otherwise where Numba finds a place. `kinrank
warmup` compiles everything once, when an image is built or a package is installed. A process that may not write there
later, and has no home to write to, still reads code next to the source and compiles missing kernels for itself only.
Whenever a process compiles, one line is logged when it starts and one when it has finished, with the seconds; child
processes leave it to their parent. Code that came with a wheel is read first: see `shipped_code`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import parent_process
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numba
import numpy as np
from numba.core import caching as _numba_caching
from numba.core import codegen, compiler, compiler_machinery, typed_passes
from numpy.typing import DTypeLike, NDArray

from kinrank import deadline
from kinrank.errors import InputError, MissingExtraError
from kinrank.stages.kernels import shipped_code

if getattr(numba.config, "DISABLE_JIT", 0):
    raise MissingExtraError(
        "the environment variable NUMBA_DISABLE_JIT switches off numba's compiler, which kinrank needs; unset it, or "
        "set it to 0"
    )

log = logging.getLogger(__name__)
MAX_THREADS = 1024
COMPILING_MESSAGE = (
    "kinrank: compiling kernels that are not stored on this computer; `kinrank warmup` compiles all of them beforehand"
)
COMPILED_MESSAGE = "kinrank: compiled {kernels} of {stages} in {seconds:.1f} s"
NOT_CACHED_MESSAGE = (
    "kinrank: compiling kernels for this process only, because their machine code cannot be stored; "
    "set NUMBA_CACHE_DIR to a writable folder"
)
NUMBA_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "forceinline": True,
    "fastmath": {"contract", "reassoc", "nsz", "arcp"},
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}
Span = tuple[int, int]

# Numba has no type annotations
caching: Any = _numba_caching
register_pass: Any = compiler_machinery.register_pass
Library: Any = codegen.JITCodeLibrary
Lowering: Any = typed_passes.NativeLowering
Compiler: Any = compiler.CompilerBase
DefaultPasses: Any = compiler.DefaultPassBuilder
_InTreeLocator: Any = getattr(caching, "InTreeCacheLocator", None) or caching._InTreeCacheLocator

NO_CACHE = caching.NullCache()

_pools: dict[tuple[int, int, str], ThreadPoolExecutor] = {}
_pools_lock = threading.Lock()
_blas_lock = threading.Lock()
_blas_users: list[object] = []
_blas_limits: list[Any] = []


SOURCE_DIGEST = shipped_code.digest_sources()


def compile_kernel(function: Callable[..., Any]) -> Any:
    """Decorate a function that Python calls: compiled on first use, cached on disk, without the interpreter lock.

    Numba stores machine code under the function's name and checks only its own source file for changes, although inner
    functions of other files are compiled into it. The digest in the name makes every change count.
    """
    function.__qualname__ = f"{function.__name__}_{SOURCE_DIGEST}"
    kernel: Any = numba.njit(**NUMBA_OPTIONS)(function)
    kernel._cache = KernelCache(function)
    return kernel


def compile_inner(function: Callable[..., Any]) -> Any:
    """Decorate a function that only kernels call: it gets neither a Python entry nor machine code of its own.

    It is always compiled into its callers. Otherwise there would be two versions that round differently, and the
    process that compiled would get other last bits than those that read the code from disk.
    """
    return numba.njit(**NUMBA_OPTIONS, pipeline_class=InnerCompiler)(function)


def thread_count() -> int:
    """Return the number of threads for kernels: KINRANK_THREADS, or every core that this process may use."""
    setting = os.environ.get("KINRANK_THREADS", "")
    if not setting:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    if setting.isascii() and setting.isdecimal() and 1 <= int(setting) <= MAX_THREADS:
        return int(setting)
    raise InputError(
        f"the environment variable KINRANK_THREADS={setting!r} is not allowed",
        remedy=f"set it to a whole number from 1 to {MAX_THREADS}, or unset it to use every core",
    )


def run_in_chunks(kernel: Any, rows: int, *arguments: Any, chunk: int = 64) -> None:
    """Call kernel(start, stop, *arguments) over all rows, in chunks, on several threads.

    Each row writes only its own outputs, so the result does not depend on the number of threads. A single thread takes
    all rows in one call, unless there is a deadline, which is checked between chunks.
    """
    spans = split_rows(rows, chunk)
    if not spans:
        return
    if len(spans) > 1 and thread_count() == 1 and deadline.CURRENT.get() is None:
        spans = [(0, rows)]
    run_on_threads(lambda start, stop: kernel(start, stop, *arguments), spans)


def split_rows(rows: int, size: int) -> list[Span]:
    """Split the rows into ranges of at most `size`."""
    return [(start, min(start + size, rows)) for start in range(0, rows, size)]


def run_on_threads(task: Callable[[int, int], None], spans: Sequence[Span]) -> None:
    """Call task(start, stop) for all spans, on as many threads as kernels may use.

    The deadline of the caller, if any, is checked before every span and also applies inside the tasks.
    """
    limit, threads = deadline.CURRENT.get(), thread_count()
    if threads == 1 or len(spans) == 1:
        for start, stop in spans:
            if limit is not None:
                limit.check()
            task(start, stop)
        return
    upcoming = iter(spans)  # shared: a free thread takes the next one

    def work() -> None:
        for start, stop in upcoming:
            if limit is not None:
                limit.check()
            task(start, stop)

    def help_out() -> None:  # context variables do not follow work into another thread
        with contextlib.nullcontext() if limit is None else limit.activate():
            work()

    helpers = [_get_pool(threads - 1).submit(help_out) for _ in range(min(threads, len(spans)) - 1)]
    try:
        work()
    finally:
        for helper in helpers:
            if not helper.cancel():  # a busy pool may not have started it: nothing is left to do then
                helper.result()


def _get_pool(count: int, what: str = "loops") -> ThreadPoolExecutor:
    """Return the pool of waiting threads, one per process, so that a kernel of a millisecond need not start its own."""
    key = os.getpid(), count, what  # threads do not survive a fork
    with _pools_lock:
        if key not in _pools:
            _pools[key] = ThreadPoolExecutor(count, thread_name_prefix=f"kinrank-{what}")
        return _pools[key]


class Output(NamedTuple):
    """An array that a kernel fills. With `indptr`, row i owns the entries indptr[i]..indptr[i + 1]; without, row i."""

    array: NDArray[Any]
    indptr: NDArray[np.int64] | None = None


class Runner(Protocol):
    """A way to run kernels. `together`: rows per call when results are gathered block by block."""

    together: int

    def empty(self, shape: tuple[int, ...], kind: DTypeLike) -> NDArray[Any]:
        """Return an uninitialised array for a kernel to fill."""

    def __call__(
        self, kernel: Any, count: int, inputs: tuple[Any, ...], outputs: tuple[Output, ...], label: str = ""
    ) -> None:
        """Call kernel(start, stop, *inputs, *outputs) over the rows 0 to count, in ranges, in any order.

        `label` names the work in progress bars. A kernel without a label does little and does not deserve a second
        thread.
        """


class ThreadRunner:
    """Runs kernels in this process, on all cores (KINRANK_THREADS)."""

    together = 16384

    def empty(self, shape: tuple[int, ...], kind: DTypeLike) -> NDArray[Any]:
        return np.empty(shape, kind)

    def __call__(
        self, kernel: Any, count: int, inputs: tuple[Any, ...], outputs: tuple[Output, ...], label: str = ""
    ) -> None:
        chunk = LIGHT_CHUNK_ROWS if not label else choose_chunk_rows(count)
        run_in_chunks(kernel, count, *inputs, *(output.array for output in outputs), chunk=chunk)


LIGHT_CHUNK_ROWS = 4096  # per call of a kernel that does little per row: waking a thread costs 0.1 ms
THREAD_RUNNER = ThreadRunner()


def choose_chunk_rows(rows: int, least: int = 1) -> int:
    """Return the rows per call: few calls, because each one clears arrays, but enough to keep every thread busy."""
    return max(least, rows // ((16 if rows > 4096 else 6) * thread_count()))


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread while our own threads are at work.

    The setting belongs to the process: the first user makes it, and the last one reverts it, both through one thread of
    ours, because threadpoolctl lets only the thread that made a setting revert it. If the caller is inside a limit of
    its own, no other thread can change it, so the caller makes our setting as well.
    """
    user = object()
    with _blas_lock:
        if not _blas_users:
            _blas_limits.append(_get_pool(1, "blas").submit(_limit_blas).result())
        _blas_users.append(user)
    own = None if _is_blas_limited() else _limit_blas()
    try:
        yield
    finally:
        if own is not None:
            own.__exit__(None, None, None)
        with _blas_lock:
            _blas_users.remove(user)
            if not _blas_users:
                _get_pool(1, "blas").submit(_blas_limits.pop().__exit__, None, None, None).result()


def _limit_blas() -> Any:
    """Limit BLAS to one thread and return the context to leave later."""
    return _find_blas_libraries().limit(limits=1, user_api="blas").__enter__()


def _is_blas_limited() -> bool:
    """Return True if the libraries with a process-wide setting use one thread."""
    libraries = _find_blas_libraries().info()
    return all(info["num_threads"] == 1 for info in libraries if info.get("threading_layer") == "pthreads")


@functools.cache
def _find_blas_libraries() -> Any:
    """Find the libraries whose threads can be limited, once, because the search takes a millisecond."""
    import scipy.linalg.cython_blas  # noqa: F401 - kernels call it, so it must be loaded to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class _InnerLibrary(Library):  # type: ignore[misc]
    """Code that is linked into its callers and optimised there; it never runs on its own."""

    def _optimize_final_module(self) -> None:
        """Do nothing: the callers optimise it."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerInner(Lowering):  # type: ignore[misc]
    """Numba's lowering to LLVM IR without the generation of machine code."""

    _name = "kinrank_lower_part"

    def run_pass(self, state: Any) -> bool:
        state.library = _InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        state.flags.no_cpython_wrapper = True
        Lowering.run_pass(self, state)
        never: Any = {}.__getitem__  # Numba requires a new built-in function each time; this one only raises
        state.targetctx.insert_user_function(never, state["cr"].fndesc, [state.library])
        state["cr"] = state["cr"]._replace(cfunc=never)
        return True


class InnerCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler with another last step."""

    def define_pipelines(self) -> list[Any]:
        manager = DefaultPasses.define_nopython_pipeline(self.state)
        manager.passes = [(_LowerInner if step is Lowering else step, label) for step, label in manager.passes]
        manager.finalize()
        return [manager]


class CompilationLog:
    """Logs what this process compiles: that it starts, and, after a pause, how many kernels of which stages it was."""

    PAUSE_SECONDS = 2.0

    def __init__(self) -> None:
        self.announces = True  # False in a process whose parent says that it compiles
        self._lock = threading.Lock()
        self._stages: list[str] = []  # one entry per compiled kernel
        self._seconds = 0.0
        self._starts: list[float] = []  # of kernels in progress: one may need another
        self._timer = threading.Timer(0.0, self.report)
        atexit.register(self.report)

    def start(self, message: str) -> None:
        """Note that a kernel is being compiled; log the message if it is the first one after a pause."""
        with self._lock:
            self._timer.cancel()
            if self.announces and not self._seconds and not self._starts:
                log_in_parent(message)
            self._starts.append(time.perf_counter())

    def finish(self, stage: str) -> None:
        """Note that this kernel is compiled."""
        with self._lock:
            self._stages.append(stage)
            started = self._starts.pop()
            self._seconds += 0.0 if self._starts else time.perf_counter() - started
            self._timer = threading.Timer(self.PAUSE_SECONDS, self.report)
            self._timer.daemon = True
            self._timer.start()

    def report(self) -> None:
        """Log what was compiled since the last report, if anything."""
        with self._lock:
            self._timer.cancel()
            if self._starts:
                return
            stages, seconds = self._stages, self._seconds
            self._stages, self._seconds = [], 0.0
        if stages:
            names = ", ".join(sorted(set(stages)))
            kernels = "1 kernel" if len(stages) == 1 else f"{len(stages)} kernels"
            log_in_parent(COMPILED_MESSAGE.format(kernels=kernels, stages=names, seconds=seconds))


def log_in_parent(message: str) -> None:
    """Log the message unless this is a child process: its parent has logged the same."""
    if parent_process() is None:
        log.warning(message)


COMPILATION_LOG = CompilationLog()


class _SourceFolderLocator(_InTreeLocator):  # type: ignore[misc]
    """Finds code next to the source even if that folder is read-only."""

    def ensure_cache_path(self) -> None:
        """Do nothing: this locator never writes."""


class _ReadOnlyCacheImpl(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_SourceFolderLocator,)


class _ReadOnlyCache(caching.FunctionCache):  # type: ignore[misc]
    _impl_class = _ReadOnlyCacheImpl

    def save_overload(self, sig: Any, data: Any) -> None:
        """Do nothing: this cache never writes."""


class _ShippedLocator(_SourceFolderLocator):
    """Finds the code that came with the package, and compares it by content: installing a file changes its time."""

    def get_cache_path(self) -> str:
        return str(shipped_code.FOLDER)

    def get_source_stamp(self) -> str:
        return SOURCE_DIGEST


class _ShippedFile(caching.IndexDataCacheFile):  # type: ignore[misc]
    """Numba's two files of a kernel; a damaged one counts as missing before anything in it is used."""

    def _load_index(self) -> Any:
        return super()._load_index() if shipped_code.is_intact(Path(self._index_path)) else {}

    def _load_data(self, name: str) -> Any:
        if not shipped_code.is_intact(Path(self._data_path(name))):
            raise OSError(f"{name} is damaged")  # Numba takes this as missing
        return super()._load_data(name)


class _ShippedCacheImpl(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_ShippedLocator,)

    def reduce(self, cres: Any) -> Any:
        """Return what is stored, without the listing of types: it is long, and names folders of this computer."""
        code, *rest = super().reduce(cres)
        return code, *("" if isinstance(part, str) else part for part in rest)


class _ShippedCache(caching.FunctionCache):  # type: ignore[misc]
    """Code for the baseline processor, whichever processor this computer has."""

    _impl_class = _ShippedCacheImpl

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._cache_file = _ShippedFile(self._cache_path, self._impl.filename_base, SOURCE_DIGEST)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return sig  # the manifest has compared everything else


class KernelCache(caching.NullCache):  # type: ignore[misc]
    """Numba's cache of one kernel: reads code of the wheel, next to the source, and from a writable folder, if any."""

    def __init__(self, function: Any) -> None:
        self._stage = function.__module__.rpartition(".")[2]
        self._shipped = _ShippedCache(function) if shipped_code.read_checksums(shipped_code.FOLDER) else NO_CACHE
        if shipped_code.is_writing():
            self._source_folder, self._writable = NO_CACHE, _ShippedCache(function)
            return
        # NUMBA_CACHE_DIR replaces the folder of the source and Numba's own
        self._source_folder = NO_CACHE if os.environ.get("NUMBA_CACHE_DIR") else _ReadOnlyCache(function)
        try:
            self._writable = caching.FunctionCache(function)
        except RuntimeError:  # Numba found no writable folder
            self._writable = NO_CACHE

    @property
    def cache_path(self) -> Any:
        return self._writable.cache_path or self._source_folder.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for these types, or None, and then Numba compiles it."""
        for cache in (self._shipped, self._source_folder, self._writable):
            try:
                code = cache.load_overload(sig, target_context)
            except Exception:  # unreadable or damaged: treated as missing
                continue
            if code is not None:
                return code
        COMPILATION_LOG.start(NOT_CACHED_MESSAGE if self._writable is NO_CACHE else COMPILING_MESSAGE)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store compiled code; after a failure store nothing any more."""
        COMPILATION_LOG.finish(self._stage)
        try:
            self._writable.save_overload(sig, data)
        except Exception:  # a full disk or a removed folder
            self._writable = NO_CACHE
            log_in_parent(NOT_CACHED_MESSAGE)

    def flush(self) -> None:
        self._writable.flush()
