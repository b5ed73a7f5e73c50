"""Checkpointer: applies logged changes to the gallery and saves its folder, which records its position in the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from kinrank.manifold import Manifold
from kinrank.manifold.changes import replay_changes, replay_log
from kinrank.manifold.saved_folder import log_path
from kinrank.manifold.service_log import Change, ChangeLog
from kinrank.stores import Store
from kinrank.web.writes.write_errors import describe_error

MAX_OBSOLETE_LOG_BYTES = 2**20  # saved changes in the log; with more, the log is rewritten
SAVE_RETRY_SECONDS = 1.0  # pause after a failed save

log = logging.getLogger(__name__)


class Checkpointer:
    """Gallery and log of a folder that this process has locked. Only one thread may change it at a time.

    Attributes:
        manifold: the gallery that is searched.
        log: acknowledged changes. Those it held at the start are in `manifold`.
        version: version of the last change in `manifold`.
        unsaved: why the last save failed, without paths, for clients; empty if it succeeded.
    """

    def __init__(self, folder: Path, store: Store | None, max_obsolete_bytes: int = MAX_OBSOLETE_LOG_BYTES) -> None:
        self.folder, self.unsaved, self._max_obsolete_bytes = folder, "", max_obsolete_bytes
        self.manifold = Manifold.open(folder, store=store)
        self._journal = self.manifold.journal
        self._journal.held = folder
        self.log = ChangeLog(log_path(folder), self._journal.folded)
        try:
            self.manifold.replace_snapshot(lambda snapshot: replay_log(snapshot, self.log, folder))
        except BaseException:
            self.log.close()
            raise
        self.log.left.clear()
        self.version = self.log.version

    @property
    def is_saved(self) -> bool:
        """True if the folder holds all applied changes."""
        return self._journal.folded == self.version

    def apply(self, changes: list[Change]) -> None:
        """Apply all changes to the gallery in one step."""
        self.manifold.replace_snapshot(lambda snapshot: replay_changes(snapshot, changes))

    def save(self, exclusive: Callable[[], AbstractContextManager[object]]) -> None:
        """Save all applied changes to the folder. If that fails, the log still holds them.

        `exclusive()` returns a context in which no other thread writes to the log.
        """
        self._journal.position = self.version
        try:
            self.manifold.save(self.folder)
        except OSError as error:
            if not self.unsaved:
                log.error("%s; retrying every %g seconds", error, SAVE_RETRY_SECONDS)
            self.unsaved = f"the gallery could not be saved ({describe_error(error)}); the log keeps its changes"
            return
        self.unsaved = ""
        with exclusive():
            if self.log.folded(self.version) >= self._max_obsolete_bytes or self.log.version < self.version:
                try:
                    self.log.restart(self.version)
                except OSError as error:  # the log is only longer than necessary
                    log.warning("%s could not be rewritten (%s)", self.log.path, error)

    def close(self) -> None:
        """Close the log, and remove it if the folder holds all of its changes."""
        self.log.close(remove=self.is_saved and self.log.version <= self.version)
        self._journal.held = self._journal.position = None
