"""Following: a folder that another process changes -> the same gallery here, a moment later; changes go to it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from numpy.typing import ArrayLike

from kinrank.manifold import Manifold
from kinrank.manifold.log import said
from kinrank.manifold.manifest import MANIFEST, POSITION
from kinrank.manifold.reading import Held, opened, read
from kinrank.stores import Store
from kinrank.web.lasting.receipts import Receipt, Refused, reason
from kinrank.web.lasting.remote import Remote, serve_writer

__all__ = ["Following", "serve_writer"]

EVERY = 0.05  # seconds between two looks at the folder
HURRY = 0.005  # the same while somebody waits for a change
ASKED = 1.0  # seconds between two questions whether the writer is well
AGAIN = 1.0  # the same after it could not be read


class Following:
    """The gallery of a folder, as a process sees it that only searches. The same words as `Writer`.

    Arrays are mapped from their files, which all processes share; what changed since is read from the files of changes
    only. Searches under way finish on the state they began with.

    Attributes:
        manifold: what is searched; it changes under the hands of whoever holds it, from one whole state to the next.
        version: of the last change that `manifold` contains.
    """

    def __init__(self, folder: str | os.PathLike[str], store: Store | None = None, socket: str | None = None) -> None:
        """Load a folder, and follow it from then on.

        Args:
            folder: of a saved manifold.
            store: a vector database that is searched.
            socket: where `serve_writer` listens; None where nothing can be changed.
        """
        self.folder, self._store = Path(folder), store
        self._remote = None if socket is None else Remote(socket)
        self._state, self._look = threading.Condition(), threading.Event()
        self._waiting, self._ended = 0, False
        self._seen = self._stamp()
        self._held: Held = read(self.folder, mmap=True)
        self.manifold = Manifold(opened(self.folder, self._held, store))
        self.version = self._held.position
        self.trouble, self._asked_at = "", time.monotonic()
        self._thread = threading.Thread(target=self._watch, name="kinrank-following", daemon=True)
        self._thread.start()

    @property
    def logged(self) -> int:
        """The version of the last change that was acknowledged, as the writer says; `version` where there is none."""
        return self.version if self._remote is None else self._remote.logged()

    def put(self, vectors: ArrayLike, ids: Any = None, replace: bool = False) -> Receipt:
        """As `Writer.put`: acknowledged when it would survive `kill -9`."""
        return self._writing().put(vectors, ids, replace)

    def remove(self, ids: Any) -> Receipt:
        """As `Writer.remove`."""
        return self._writing().remove(ids)

    def observe(self, queries: ArrayLike) -> Receipt:
        """Send queries to `Writer.observe`; acknowledged when they would survive `kill -9`."""
        return self._writing().observe(queries)

    def sync(self) -> Receipt:
        """As `Writer.sync`."""
        return self._writing().sync()

    def wait(self, version: int, seconds: float) -> bool:
        """Whether `manifold` contains the change of this version, at the latest after so many seconds."""
        with self._state:
            self._waiting += 1
            self._look.set()
            try:
                self._state.wait_for(lambda: self.version >= version or self._ended, max(0.0, seconds))
            finally:
                self._waiting -= 1
            return self.version >= version

    def close(self) -> None:
        """Follow no longer; `manifold` stays what it is."""
        with self._state:
            self._ended = True
            self._state.notify_all()
        self._look.set()
        self._thread.join()
        if self._remote is not None:
            self._remote.close()

    def __enter__(self) -> Following:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _writing(self) -> Remote:
        if self._remote is None:
            raise Refused("this service only reads; items cannot be changed")
        return self._remote

    def _watch(self) -> None:
        """Look at the folder again and again, and take over what is new in it."""
        while not self._ended:
            try:
                self._catch_up()
                self.trouble = self._of_the_writer()
            except Exception as error:  # damaged, deleted, or too large: what was there before is searched on
                if not self.trouble:
                    said.error("%s cannot be followed (%s: %s)", self.folder, type(error).__name__, error)
                self.trouble = f"the gallery cannot be read ({reason(error)}); searches use what was read before"
            self._look.wait(AGAIN if self.trouble else HURRY if self._waiting else EVERY)
            self._look.clear()

    def _of_the_writer(self) -> str:
        """Why changes cannot be made, as the writer says, who is asked every now and then."""
        if self._remote is None or time.monotonic() - self._asked_at < ASKED:
            return "" if self._remote is None else self.trouble
        self._asked_at = time.monotonic()
        return self._remote.trouble()

    def _stamp(self) -> tuple[int, int, int]:
        """What differs when the manifest is another one; asking takes a microsecond."""
        found = os.stat(self.folder / MANIFEST)
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _catch_up(self) -> None:
        stamp = self._stamp()  # before it is read: what comes meanwhile is seen the next time
        if stamp == self._seen:
            return
        held = read(self.folder, mmap=True, known=self._held)
        if not _same(held, self._held):
            snapshot = opened(self.folder, held, self._store)
            self.manifold._change(lambda _: snapshot)
        self._held, self._seen = held, stamp
        with self._state:
            self.version = held.position
            self._state.notify_all()


def _same(held: Held, before: Held) -> bool:
    """Whether nothing changed but the version."""
    facts = [{**one.manifest["facts"], POSITION: 0} for one in (held, before)]
    return held.arrays is before.arrays and facts[0] == facts[1]
