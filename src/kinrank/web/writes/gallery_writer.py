"""Writer: makes changes for many threads. They are on disk when acknowledged, and in the gallery soon afterwards.

The writer is the only one to change the folder and holds its lock. It validates each change against the gallery as all
logged changes leave it, so that the change cannot fail later; appends it to the log, together with all other waiting
changes; then acknowledges it. A background thread applies logged changes, any number of them in one step, and saves the
folder, which records its position in the log. So a killed process loses nothing, and nothing is applied twice.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinrank.client import Receipt
from kinrank.errors import InputError
from kinrank.files.atomic import LOCK_NAME, folder_lock, resolve_path
from kinrank.ids import PendingIds
from kinrank.manifold import Manifold
from kinrank.manifold.changes import check_can_observe
from kinrank.manifold.saved_folder import check_changeable
from kinrank.manifold.service_log import Change, ChangeLog
from kinrank.manifold.snapshot import Snapshot
from kinrank.stores import Store
from kinrank.vector_input import Vectors, check_vectors
from kinrank.web.writes.checkpointer import MAX_OBSOLETE_LOG_BYTES, SAVE_RETRY_SECONDS, Checkpointer
from kinrank.web.writes.write_errors import (
    OBSERVE_OVER_STORE,
    FolderInUseError,
    OutcomeUnknownError,
    UnavailableError,
    describe_error,
)

LOCK_WAIT_SECONDS = 2.0
MAX_BATCH_ITEMS = 1000  # items applied in one step, which takes some seconds
MAX_PENDING_ITEMS = 10_000  # logged items that are not applied yet; with more, changes are rejected
SHUTDOWN_MESSAGE = "the service is shutting down; try again when it is back"

log = logging.getLogger(__name__)


@dataclass(eq=False)
class PendingWrite:
    """A change that a thread waits for: rows to put or to observe, or, without rows, items to remove.

    Attributes:
        rows: (n, d) vectors as given, validated; None for a removal.
        ids: ids as given; None if new items get numbers.
        replace: True if existing items may be replaced.
        observe: True if the rows are queries to remember instead of items.
        receipt, error: the outcome; both None while the thread waits.
    """

    rows: Vectors | None
    ids: Any = None
    replace: bool = False
    observe: bool = False
    receipt: Receipt | None = None
    error: Exception | None = None

    @property
    def is_done(self) -> bool:
        return self.receipt is not None or self.error is not None


class GroupCommit:
    """Writes the changes of many threads to the log, because flushing the disk costs the same for one as for many.

    Attributes:
        closed: why no more changes are accepted; empty while they are.
    """

    def __init__(self, ids: PendingIds, change_log: ChangeLog, take: Callable[[list[Change]], None]) -> None:
        """`take` receives the logged changes in their order, before any thread gets its receipt."""
        self.closed = ""
        self._ids, self._log, self._take = ids, change_log, take
        self._waiting: list[PendingWrite] = []
        self._turn, self._busy = threading.Condition(), False  # `_busy`: a thread writes to the log

    def commit(self, write: PendingWrite) -> Receipt:
        """Log a change and return its receipt; from then on the change survives `kill -9`.

        Raises:
            InputError: the change is not allowed.
            UnavailableError: the change cannot be made now.
        """
        with self._turn:
            self._waiting.append(write)
        with self.exclusive(lambda: write.is_done) as is_writer:
            if is_writer:
                with self._turn:
                    writes, self._waiting = self._waiting, []
                self._write(writes)
        if write.receipt is None:
            raise write.error or UnavailableError("the change was interrupted and not made; try again")
        return write.receipt

    @contextlib.contextmanager
    def exclusive(self, is_needless: Callable[[], bool] = lambda: False) -> Iterator[bool]:
        """Keep other threads from writing to the log. Yields False, without the lock, once `is_needless()` is true."""
        with self._turn:
            self._turn.wait_for(lambda: is_needless() or not self._busy)
            is_writer = not is_needless()
            self._busy = self._busy or is_writer
        try:
            yield is_writer
        finally:
            if is_writer:
                with self._turn:
                    self._busy = False
                    self._turn.notify_all()

    def _write(self, writes: list[PendingWrite]) -> None:
        changes, receipts = list[Change](), dict[PendingWrite, Receipt]()
        before, broken = self._log.version, self._log.broken
        try:
            for write in writes:
                change = self._make_change(write, before + len(changes) + 1, receipts)
                changes += [] if change is None else [change]
            if changes:
                self._log.append(changes)
                self._ids.settle()
                self._take(changes)
            for write, receipt in receipts.items():
                write.receipt = receipt
        except BaseException as error:
            self._ids.undo()
            if self._log.version != before:  # logged but never applied here: the next start applies it
                self.closed = f"the service was interrupted ({type(error).__name__}); restart it"
            is_unknown = self._log.version != before or self._log.broken != broken
            for write in writes:
                write.error = write.error or self._make_error(error, is_unknown)
            if isinstance(error, OSError):
                log.error("a change could not be written to %s (%s)", self._log.path, error)
            else:
                log.exception("a change could not be logged")
            if not isinstance(error, Exception):
                raise

    def _make_change(self, write: PendingWrite, version: int, receipts: dict[PendingWrite, Receipt]) -> Change | None:
        """Return the change to log and add its receipt; None if nothing changes or the change is refused."""
        ids, rows = self._ids, write.rows
        if self.closed:
            write.error = UnavailableError(self.closed)
            return None
        if rows is not None and write.observe:
            version -= not len(rows)
            receipts[write] = Receipt(version, 0, 0, 0, len(ids), observed=len(rows))
            return Change(queries=rows, version=version) if len(rows) else None
        try:
            change = ids.remove(write.ids) if rows is None else ids.put(write.ids, len(rows), write.replace)
        except InputError as error:
            write.error = error
            return None
        is_empty = not change.new + change.existing
        version -= is_empty
        if rows is None:
            receipts[write] = Receipt(version, 0, 0, change.existing, len(ids))
        else:
            names = change.ids if change.first is None else list(range(change.first, change.first + len(rows)))
            receipts[write] = Receipt(version, change.new, change.existing, 0, len(ids), names)
        if is_empty:
            return None
        if rows is None:
            return Change(change.ids, version=version)
        return Change(vectors=rows, ids=change.ids, version=version, first=change.first)

    def _make_error(self, error: BaseException, is_unknown: bool) -> Exception:
        """Return the error for a waiting thread. Anything but a disk error before the log was changed is a bug."""
        if self._log.broken or self.closed:
            message = self._log.broken or self.closed
        else:
            reason = describe_error(error)
            message = f"the change could not be written to the log ({reason}) and was not made; try again later"
        if is_unknown:
            return OutcomeUnknownError(message)
        if isinstance(error, OSError) or not isinstance(error, Exception):
            return UnavailableError(message)
        failure = RuntimeError("a change failed and was not made")
        failure.__cause__ = error
        return failure


class Writer:
    """Gallery of a folder and all its changes.

    Example:
        >>> with Writer("gallery.manifold") as writer:
        ...     receipt = writer.put(vectors, ids=["a", "b"])
        ...     writer.wait(receipt.version, seconds=5)
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        store: Store | None = None,
        max_obsolete_bytes: int = MAX_OBSOLETE_LOG_BYTES,
    ) -> None:
        """Lock and load the folder, and apply the changes in its log.

        Args:
            folder: folder of a saved manifold. Raises FolderInUseError if another process serves or changes it.
            store: vector database to search; items are then changed there, and `sync` applies the changes here.
            max_obsolete_bytes: saved changes in the log; with more, the log is rewritten.
        """
        check_changeable(Path(folder))
        self.folder, self._store = resolve_path(folder), store
        self._state = threading.Condition()
        self._pending: list[Change] = []
        self._pending_items = 0
        self._syncs: list[Future[Receipt]] = []
        self._closing, self._broken = False, ""
        self._cleanup = contextlib.ExitStack()
        self._cleanup.enter_context(_lock_folder(self.folder))
        try:
            self._checkpointer = Checkpointer(self.folder, store, max_obsolete_bytes)
            self._cleanup.callback(self._checkpointer.close)
            self._can_change = self.manifold.snapshot.can_change  # no change alters this
            ids = PendingIds(self.manifold.snapshot.names)
            self._commits = GroupCommit(ids, self._checkpointer.log, self._take)
            if not self._checkpointer.is_saved:
                self._checkpointer.save(self._commits.exclusive)
        except BaseException:
            self._cleanup.close()
            raise
        self._thread = threading.Thread(target=self._work, name="kinrank-writer", daemon=True)
        self._thread.start()

    @property
    def manifold(self) -> Manifold:
        """Gallery that is searched. It changes at any time, from one complete state to the next."""
        return self._checkpointer.manifold

    @property
    def version(self) -> int:
        """Version of the last change in `manifold`."""
        return self._checkpointer.version

    @property
    def logged(self) -> int:
        """Version of the last acknowledged change."""
        return max(self._checkpointer.log.version, self.version)

    @property
    def trouble(self) -> str:
        """Why changes are not made, or not saved, without paths; empty if all is well."""
        return self._broken or self._checkpointer.log.broken or self._checkpointer.unsaved

    def put(self, vectors: ArrayLike, ids: Any = None, replace: bool = False) -> Receipt:
        """Add items, all or none; with `replace`, overwrite items with the same ids.

        Args:
            vectors: (n, d) rows.
            ids: one id per row; None if items have numbers, and new ones get the next.
            replace: True if items with these ids may exist.
        """
        snapshot = self._check_changeable("add items")
        return self._commits.commit(PendingWrite(_copy_rows(snapshot, vectors, "vectors"), ids, replace))

    def remove(self, ids: Any) -> Receipt:
        """Remove items by their ids, or by their numbers if they have no ids; all or none."""
        self._check_changeable("remove items")
        return self._commits.commit(PendingWrite(None, ids))

    def observe(self, queries: ArrayLike) -> Receipt:
        """Remember queries as `Manifold.observe` does; near-duplicates are dropped when the change is applied."""
        if self._store is not None:
            raise InputError(OBSERVE_OVER_STORE)
        snapshot = self._check_changeable("observe queries")
        check_can_observe(snapshot)
        return self._commits.commit(PendingWrite(_copy_rows(snapshot, queries, "queries"), observe=True))

    def sync(self) -> Receipt:
        """Apply the changes of the vector database; acknowledged when they are saved here."""
        future: Future[Receipt] = Future()
        with self._state:
            if self._closing or self._broken:
                raise UnavailableError(self._broken or SHUTDOWN_MESSAGE)
            self._syncs.append(future)
            self._state.notify_all()
        return future.result()

    def wait(self, version: int, seconds: float) -> bool:
        """Wait for a version; return True if `manifold` contains it, at the latest after so many seconds."""
        with self._state:
            self._state.wait_for(lambda: self.version >= version or self._broken, max(0.0, seconds))
            return self.version >= version

    def close(self) -> None:
        """Apply and save all changes, remove the log, which is then obsolete, and release the lock."""
        with self._commits.exclusive():
            self._commits.closed = self._commits.closed or SHUTDOWN_MESSAGE
        with self._state:
            self._closing = True
            self._state.notify_all()
        self._thread.join()
        self._cleanup.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_changeable(self, doing: str) -> Snapshot:
        """Return the snapshot, if items can be changed here."""
        if self._commits.closed:
            raise UnavailableError(self._commits.closed)
        if self._store is not None:
            raise InputError("the items of this gallery are in a vector database; change them there, then call sync")
        if self._pending_items >= MAX_PENDING_ITEMS:
            raise UnavailableError("changes arrive faster than they can be applied; try again in a few seconds")
        snapshot = self.manifold.snapshot
        if not self._can_change:
            snapshot.require_changes(doing)  # raises an error that says why
        return snapshot

    def _take(self, changes: list[Change]) -> None:
        """Queue logged changes for the background thread."""
        with self._state:
            self._pending += changes
            self._pending_items += sum(change.items for change in changes)
            self._state.notify_all()

    def _work(self) -> None:
        """Run the background thread."""
        try:
            while self._run_turn():
                pass
        except BaseException as error:
            log.exception("the changes in %s could not be applied", self._checkpointer.log.path)
            self._fail(
                f"changes cannot be applied any more ({describe_error(error)}); acknowledged changes are kept in the "
                "log: restart the service"
            )

    def _run_turn(self) -> bool:
        """Apply a batch of logged changes, sync with the database, save; False when nothing more will come."""
        with self._state:
            timeout = SAVE_RETRY_SECONDS if self._checkpointer.unsaved else None
            self._state.wait_for(lambda: self._pending or self._syncs or self._closing, timeout)
            changes, syncs, closing = _take_batch(self._pending), list(self._syncs), self._closing
            self._syncs.clear()
        try:
            if changes:
                self._checkpointer.apply(changes)
                self._set_version(changes[-1].version)
                with self._state:
                    del self._pending[: len(changes)]
                    self._pending_items -= sum(change.items for change in changes)
            if syncs:
                self._run_sync(syncs)
            if not self._checkpointer.is_saved:
                self._checkpointer.save(self._commits.exclusive)
        except BaseException as error:
            for future in syncs:  # no caller may wait forever
                if not future.done():
                    reason = describe_error(error)
                    future.set_exception(
                        OutcomeUnknownError(f"the sync may or may not have been made ({reason}); check it")
                    )
            raise
        return not closing or bool(changes)

    def _set_version(self, version: int) -> None:
        with self._state:
            self._checkpointer.version = version
            self._state.notify_all()

    def _run_sync(self, futures: list[Future[Receipt]]) -> None:
        """Sync with the vector database and answer all waiting callers."""
        try:
            added, removed, replaced = self.manifold.sync()
        except Exception as error:
            for future in futures:
                future.set_exception(_make_sync_error(error))
            return
        if added or removed or replaced:
            self._set_version(self.version + 1)
            self._checkpointer.save(self._commits.exclusive)
        for future in futures:
            if self._checkpointer.is_saved:
                future.set_result(Receipt(self.version, added, replaced, removed, len(self.manifold)))
            else:
                message = f"the changes of the database could not be saved: {self._checkpointer.unsaved}"
                future.set_exception(UnavailableError(message))

    def _fail(self, reason: str) -> None:
        self._commits.closed = reason
        with self._state:
            self._broken = reason
            waiting, self._syncs = self._syncs, []
            self._state.notify_all()
        for future in waiting:
            future.set_exception(UnavailableError(reason))


def _copy_rows(snapshot: Snapshot, vectors: ArrayLike, name: str) -> Vectors:
    """Return a copy of the vectors. Errors are raised now instead of when the change is applied."""
    rows = np.array(check_vectors(vectors, name, snapshot.vectors.shape[1]))
    snapshot.space.rows(rows, name)
    return rows


def _make_sync_error(error: Exception) -> Exception:
    """Log why a sync failed, and return the error for its caller. Errors other than these two kinds are bugs."""
    problem = "the vector database could not be followed"
    if isinstance(error, InputError):
        log.warning("%s: %s", problem, error)
        return InputError(f"{problem}: {error}")
    if isinstance(error, OSError):
        log.warning("%s (%s: %s)", problem, type(error).__name__, error)
        return UnavailableError(f"{problem}: {describe_error(error)}")
    failure = RuntimeError(problem)
    failure.__cause__ = error
    return failure


def _take_batch(changes: list[Change]) -> list[Change]:
    """Return the first changes, up to about MAX_BATCH_ITEMS items."""
    items, count = 0, 0
    while count < len(changes) and items < MAX_BATCH_ITEMS:
        items += changes[count].items
        count += 1
    return changes[:count]


@contextlib.contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder; a FolderInUseError names the process that holds the lock."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(folder_lock(folder, LOCK_WAIT_SECONDS, make=False))
        except TimeoutError:
            owner = "another process"
            with contextlib.suppress(OSError, UnicodeDecodeError):
                owner = " ".join((folder / LOCK_NAME).read_text().split())[:100] or owner
            raise FolderInUseError(
                f"{folder} is served or changed by {owner}; stop it, or serve a copy of the folder"
            ) from None
        yield
