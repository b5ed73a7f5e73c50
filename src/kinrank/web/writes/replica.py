"""Replica: a read-only copy of a folder that another process changes. It forwards changes to that process."""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from kinrank.client import Receipt
from kinrank.errors import InputError
from kinrank.ids import to_json_id, to_list
from kinrank.manifold import Manifold
from kinrank.manifold.folder_reader import FolderContents, open_snapshot, read_folder
from kinrank.manifold.saved_folder import LOG_POSITION_KEY, MANIFEST
from kinrank.stores import Store
from kinrank.vector_input import check_vectors
from kinrank.web.writes.write_errors import UnavailableError, describe_error
from kinrank.web.writes.writer_socket import RemoteWriter

POLL_SECONDS = 0.05  # between two checks of the folder
FAST_POLL_SECONDS = 0.005  # while a thread waits for a change
WRITER_CHECK_SECONDS = 1.0  # between two checks of the writer
RETRY_SECONDS = 1.0  # between two checks after the folder could not be read

log = logging.getLogger(__name__)


class Replica:
    """Gallery of a folder in a process that only searches. Has the same methods as `Writer`.

    Arrays are memory-mapped from files that all processes share; updates read only the files of changes. Running
    searches finish on the state with which they started.

    Attributes:
        manifold: the gallery that is searched. It changes at any time, from one complete state to the next.
        version: version of the last change in `manifold`.
        trouble: why changes are not visible or not possible; empty if all is well.
    """

    def __init__(self, folder: str | os.PathLike[str], store: Store | None = None, socket: str | None = None) -> None:
        """Load a folder and follow its changes.

        Args:
            folder: folder of a saved manifold.
            store: vector database to search.
            socket: path of a `WriterSocket`; None for a read-only service.
        """
        self.folder, self._store = Path(folder), store
        self._remote = None if socket is None else RemoteWriter(socket)
        self._state, self._wake = threading.Condition(), threading.Event()
        self._waiting, self._closed = 0, False
        self._seen = self._stamp()
        self._held: FolderContents = read_folder(self.folder, mmap=True)
        self.manifold = Manifold(open_snapshot(self.folder, self._held, store))
        self.version = self._held.position
        self.trouble, self._writer_checked_at = "", time.monotonic()
        self._thread = threading.Thread(target=self._watch, name="kinrank-replica", daemon=True)
        self._thread.start()

    @property
    def logged(self) -> int:
        """Version of the last acknowledged change, as reported by the writer; `version` if there is no writer."""
        return self.version if self._remote is None else int(self._remote.request_status()["logged"])

    def put(self, vectors: ArrayLike, ids: Any = None, replace: bool = False) -> Receipt:
        """Forward to `Writer.put`; the acknowledged change survives `kill -9`."""
        names = None if ids is None else _to_json_ids(ids)
        rows = check_vectors(vectors, "vectors")
        return self._get_writer().request_change("put", rows, ids=names, replace=replace)

    def remove(self, ids: Any) -> Receipt:
        """Forward to `Writer.remove`."""
        return self._get_writer().request_change("remove", ids=_to_json_ids(ids))

    def observe(self, queries: ArrayLike) -> Receipt:
        """Forward to `Writer.observe`; the acknowledged queries survive `kill -9`."""
        return self._get_writer().request_change("observe", check_vectors(queries, "queries"))

    def sync(self) -> Receipt:
        """Forward to `Writer.sync`."""
        return self._get_writer().request_change("sync")

    def wait(self, version: int, seconds: float) -> bool:
        """Wait for a version; return True if `manifold` contains it, at the latest after so many seconds."""
        with self._state:
            self._waiting += 1
            self._wake.set()
            try:
                self._state.wait_for(lambda: self.version >= version or self._closed, max(0.0, seconds))
            finally:
                self._waiting -= 1
            return self.version >= version

    def close(self) -> None:
        """Stop following the folder; `manifold` keeps its state."""
        with self._state:
            self._closed = True
            self._state.notify_all()
        self._wake.set()
        self._thread.join()
        if self._remote is not None:
            self._remote.close()

    def __enter__(self) -> Replica:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _get_writer(self) -> RemoteWriter:
        if self._remote is None:
            raise InputError("this service is read-only; items cannot be changed")
        return self._remote

    def _watch(self) -> None:
        """Poll the folder and load new states, in a thread of its own."""
        while not self._closed:
            try:
                self._catch_up()
                self.trouble = self._check_writer()
            except Exception as error:  # damaged, deleted or too large: searches use the previous state
                if not self.trouble:
                    log.exception("%s cannot be followed", self.folder)
                reason = describe_error(error)
                self.trouble = f"the gallery cannot be read ({reason}); searches use the previous state"
            self._wake.wait(RETRY_SECONDS if self.trouble else FAST_POLL_SECONDS if self._waiting else POLL_SECONDS)
            self._wake.clear()

    def _check_writer(self) -> str:
        """Return why the writer cannot make changes; it is polled every WRITER_CHECK_SECONDS."""
        if self._remote is None or time.monotonic() - self._writer_checked_at < WRITER_CHECK_SECONDS:
            return "" if self._remote is None else self.trouble
        self._writer_checked_at = time.monotonic()
        try:
            return str(self._remote.request_status()["trouble"])
        except UnavailableError as error:
            return str(error)

    def _stamp(self) -> tuple[int, int, int]:
        """Return what identifies a version of the manifest; reading it takes a microsecond."""
        status = os.stat(self.folder / MANIFEST)
        return status.st_mtime_ns, status.st_ino, status.st_size

    def _catch_up(self) -> None:
        stamp = self._stamp()  # before reading: later changes are seen at the next poll
        if stamp == self._seen:
            return
        held = read_folder(self.folder, mmap=True, known=self._held)
        if not _is_same_content(held, self._held):
            snapshot = open_snapshot(self.folder, held, self._store)
            self.manifold.replace_snapshot(lambda _: snapshot)
        self._held, self._seen = held, stamp
        with self._state:
            self.version = held.position
            self._state.notify_all()


def _is_same_content(held: FolderContents, before: FolderContents) -> bool:
    """Return True if only the version differs."""
    facts = [{**contents.manifest["facts"], LOG_POSITION_KEY: 0} for contents in (held, before)]
    return held.arrays is before.arrays and facts[0] == facts[1]


def _to_json_ids(ids: Any) -> list[Any]:
    return [to_json_id(name) for name in to_list(ids, "ids")]
