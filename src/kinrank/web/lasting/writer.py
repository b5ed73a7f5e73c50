"""Writer: changes that many threads ask for -> on the disk when they are acknowledged, in the gallery soon afterwards.

It is the only one who changes the folder, and holds its lock as long as it lives. A change is checked against what all
logged changes make of the gallery, so that nothing can be wrong with it later; it is appended to the log, together with
all others that wait; then it is acknowledged. A thread in the background applies what is logged, as one change however
many there are, and saves the folder, which says how far in the log it is: so a killed process loses nothing, and
nothing is applied twice.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinrank.features import check
from kinrank.files.lock import LOCK, alone_in
from kinrank.manifold import Manifold
from kinrank.manifold.changes import check_observes
from kinrank.manifold.files import check_saved
from kinrank.manifold.log import said
from kinrank.manifold.log_records import Change
from kinrank.stores import Store
from kinrank.web.lasting.applying import AGAIN, FOLD, Applied
from kinrank.web.lasting.commits import Commits, Wish
from kinrank.web.lasting.known import Known
from kinrank.web.lasting.receipts import OVER_STORE, InDoubt, InUse, Receipt, Refused, Unavailable, reason

__all__ = ["InDoubt", "InUse", "Receipt", "Refused", "Unavailable", "Writer"]

WAIT = 2.0  # seconds for the lock of the folder
BATCH = 1000  # items that are put or removed in one change of the gallery, if more wait: some seconds of work
WAITING = 10_000  # items whose change is logged and not applied, from which on nobody may add to them
ENDING = "the service is shutting down; try again when it is back"


class Writer:
    """The gallery of a folder, and everybody who changes it.

    Example:
        >>> with Writer("gallery.manifold") as writer:
        ...     receipt = writer.put(vectors, ids=["a", "b"])
        ...     writer.wait(receipt.version, seconds=5)
    """

    def __init__(self, folder: str | os.PathLike[str], store: Store | None = None, fold: int = FOLD) -> None:
        """Lock and load the folder, and take in what its log holds.

        Args:
            folder: of a saved manifold. InUse if somebody else serves or changes it.
            store: a vector database that is searched; then items are changed there, and `sync` follows it.
            fold: bytes of the log that are not needed any more, from which on it is begun anew.
        """
        check_saved(Path(folder))
        self.folder, self._store = Path(folder).resolve(), store
        self._state = threading.Condition()
        self._pending: list[Change] = []
        self._waiting = 0  # items in `_pending`
        self._asked: list[Future[Receipt]] = []
        self._closing, self._broken = False, ""
        self._ending = contextlib.ExitStack()
        self._ending.enter_context(_locked(self.folder))
        try:
            self._applied = Applied(self.folder, store, fold)
            self._ending.callback(self._applied.close)
            self._commits = Commits(Known(self.manifold._snapshot.names), self._applied.log, self._take)
            if not self._applied.saved:
                self._applied.save(self._commits.alone)
        except BaseException:
            self._ending.close()
            raise
        self._thread = threading.Thread(target=self._work, name="kinrank-writer", daemon=True)
        self._thread.start()

    @property
    def manifold(self) -> Manifold:
        """What is searched; it changes under the hands of whoever holds it, from one whole state to the next."""
        return self._applied.manifold

    @property
    def version(self) -> int:
        """That of the last change that `manifold` contains."""
        return self._applied.version

    @property
    def logged(self) -> int:
        """The version of the last change that was acknowledged."""
        return max(self._applied.log.version, self.version)

    @property
    def trouble(self) -> str:
        """Why changes are not made, or made and not saved, without any path; empty if all is well."""
        return self._broken or self._applied.log.broken or self._applied.unsaved

    def put(self, vectors: ArrayLike, ids: Any = None, replace: bool = False) -> Receipt:
        """Add items, and with `replace` put items in the place of those of the same names; all of them or none.

        Args:
            vectors: (n, d) rows.
            ids: one name per row; None where items have numbers, and new ones get the next.
            replace: whether items of these names may be there already.
        """
        snapshot = self._changeable("add items")
        try:
            rows = np.array(check(vectors, "vectors", snapshot.vectors.shape[1]))
            snapshot.space.rows(rows, "vectors")  # as they will be when the change is applied
        except ValueError as error:
            raise Refused(str(error)) from None
        return self._commits.made(Wish(rows, ids, replace))

    def remove(self, ids: Any) -> Receipt:
        """Remove items by their names, or by their numbers where they have none; all of them or none."""
        self._changeable("remove items")
        return self._commits.made(Wish(None, ids))

    def observe(self, queries: ArrayLike) -> Receipt:
        """Remember queries, as `Manifold.observe` does; near-copies are left out when the change is applied."""
        if self._store is not None:
            raise Refused(OVER_STORE)
        snapshot = self._changeable("observe queries")
        try:
            check_observes(snapshot)
            rows = np.array(check(queries, "queries", snapshot.vectors.shape[1]))
            snapshot.space.rows(rows, "queries")
        except ValueError as error:
            raise Refused(str(error)) from None
        return self._commits.made(Wish(rows, None, observe=True))

    def sync(self) -> Receipt:
        """Follow the vector database; acknowledged when what changed there is saved here."""
        asked: Future[Receipt] = Future()
        with self._state:
            if self._closing or self._broken:
                raise Unavailable(self._broken or ENDING)
            self._asked.append(asked)
            self._state.notify_all()
        return asked.result()

    def wait(self, version: int, seconds: float) -> bool:
        """Whether `manifold` contains the change of this version, at the latest after so many seconds."""
        with self._state:
            self._state.wait_for(lambda: self.version >= version or self._broken, max(0.0, seconds))
            return self.version >= version

    def close(self) -> None:
        """Apply and save everything, remove the log, which is not needed then, and release the lock."""
        with self._commits.alone():
            self._commits.closed = self._commits.closed or ENDING
        with self._state:
            self._closing = True
            self._state.notify_all()
        self._thread.join()
        self._ending.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _changeable(self, doing: str) -> Any:
        """The snapshot, if items can be changed here."""
        if self._commits.closed:
            raise Unavailable(self._commits.closed)
        if self._store is not None:
            raise Refused("items of this gallery are those of its vector database; change them there, then sync")
        if self._waiting >= WAITING:
            raise Unavailable("changes come faster than they can be applied; try again in a few seconds")
        snapshot = self.manifold._snapshot
        try:
            snapshot.method.check_changes(snapshot.kept, doing)
        except ValueError as error:
            raise Refused(str(error)) from None
        return snapshot

    def _take(self, changes: list[Change]) -> None:
        """Changes that are in the log, to be applied."""
        with self._state:
            self._pending += changes
            self._waiting += sum(change.items for change in changes)
            self._state.notify_all()

    def _work(self) -> None:
        """Everything that happens in the background."""
        try:
            while self._turn():
                pass
        except BaseException as error:
            said.exception("the changes in %s could not be applied", self._applied.log.path)
            self._fail(
                f"changes cannot be applied any more ({reason(error)}); those that were acknowledged are kept in the "
                "log: start the service again"
            )

    def _turn(self) -> bool:
        """Apply what is logged, or a part of it, follow the database, save; False when nothing more will come."""
        with self._state:
            patience = AGAIN if self._applied.unsaved else None
            self._state.wait_for(lambda: self._pending or self._asked or self._closing, patience)
            changes, asked, closing = _some(self._pending), list(self._asked), self._closing
            self._asked.clear()
        try:
            if changes:
                self._applied.apply(changes)
                self._reached(changes[-1].version)
                with self._state:
                    del self._pending[: len(changes)]
                    self._waiting -= sum(change.items for change in changes)
            if asked:
                self._follow(asked)
            if not self._applied.saved:
                self._applied.save(self._commits.alone)
        except BaseException as error:
            for one in asked:  # nobody waits for an answer that never comes
                if not one.done():
                    one.set_exception(
                        InDoubt(f"the vector database may be followed or not ({reason(error)}); look for it")
                    )
            raise
        return not closing or bool(changes)

    def _reached(self, version: int) -> None:
        with self._state:
            self._applied.version = version
            self._state.notify_all()

    def _follow(self, asked: list[Future[Receipt]]) -> None:
        """Answer those who asked to follow the vector database."""
        try:
            came, left, other = self._applied.follow()
        except Exception as error:
            said.warning("the vector database could not be followed (%s: %s)", type(error).__name__, error)
            kind, why = (Refused, str(error)) if isinstance(error, ValueError) else (Unavailable, reason(error))
            for one in asked:
                one.set_exception(kind(f"the vector database could not be followed: {why}"))
            return
        if came or left or other:
            self._reached(self.version + 1)
            self._applied.save(self._commits.alone)
        for one in asked:
            if self._applied.saved:
                one.set_result(Receipt(self.version, came, other, left, len(self.manifold)))
            else:
                one.set_exception(Unavailable(f"what changed there could not be saved: {self._applied.unsaved}"))

    def _fail(self, why: str) -> None:
        self._commits.closed = why
        with self._state:
            self._broken = why
            waiting, self._asked = self._asked, []
            self._state.notify_all()
        for one in waiting:
            one.set_exception(Unavailable(why))


def _some(changes: list[Change]) -> list[Change]:
    """The first of them, as many as are worth one change of the gallery."""
    items, count = 0, 0
    while count < len(changes) and items < BATCH:
        items += changes[count].items
        count += 1
    return changes[:count]


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """The lock of a folder, or who has it."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(alone_in(folder, WAIT, make=False))
        except TimeoutError:
            who = "another process"
            with contextlib.suppress(OSError, UnicodeDecodeError):
                who = " ".join((folder / LOCK).read_text().split())[:100] or who
            raise InUse(f"{folder} is served or changed by {who}; stop it, or serve a copy of the folder") from None
        yield
