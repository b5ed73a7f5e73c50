"""Changes that are in the log -> the gallery that is searched, and its folder, which says how far in the log it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from kinrank.manifold import Manifold
from kinrank.manifold.beside import log_of
from kinrank.manifold.changes import Synced
from kinrank.manifold.log import Log, said
from kinrank.manifold.log_records import Change
from kinrank.manifold.replay import replayed, replayed_log
from kinrank.stores import Store
from kinrank.web.lasting.receipts import reason

FOLD = 2**20  # bytes of the log that are not needed any more, from which on it is begun anew
AGAIN = 1.0  # seconds until a save that failed is tried again


class Applied:
    """The gallery of a folder that this process has locked, and its log. Changed by one thread at a time.

    Attributes:
        manifold: what is searched.
        log: what was acknowledged; changes that it held at the start are in `manifold`.
        version: of the last change in `manifold`.
        unsaved: why the folder could not be saved the last time, without its path, for clients; empty if it could.
    """

    def __init__(self, folder: Path, store: Store | None, fold: int = FOLD) -> None:
        self.folder, self.unsaved, self._fold = folder, "", fold
        self.manifold = Manifold._opened(folder, store=store)
        self._journal = self.manifold._journal
        self._journal.held = folder
        self.log = Log(log_of(folder), self._journal.folded)
        try:
            self.manifold._change(lambda snapshot: replayed_log(snapshot, self.log, folder))
        except ValueError:
            self.log.close()
            raise
        self.log.left.clear()
        self.version = self.log.version

    @property
    def saved(self) -> bool:
        """Whether the folder holds everything that is applied."""
        return self._journal.folded == self.version

    def apply(self, changes: list[Change]) -> None:
        """One change of the manifold that has the effect of all of these."""
        self.manifold._change(lambda snapshot: replayed(snapshot, changes))

    def follow(self) -> Synced:
        """Take over what changed in the vector database."""
        return self.manifold.sync()

    def save(self, alone: Callable[[], AbstractContextManager[object]]) -> None:
        """Fold everything that is applied into the folder; where the disk does not let us, the log keeps it.

        In a block of `alone()` nobody else writes to the log.
        """
        self._journal.position = self.version
        try:
            self.manifold.save(self.folder)
        except OSError as error:
            if not self.unsaved:
                said.error("%s; it is tried again every %g seconds", error, AGAIN)
            self.unsaved = f"the gallery could not be saved ({reason(error)}); the log keeps its changes"
            return
        self.unsaved = ""
        with alone():
            if self.log.folded(self.version) >= self._fold or self.log.version < self.version:
                try:
                    self.log.restart(self.version)
                except OSError as error:  # it is only longer than it need be
                    said.warning("%s could not be begun anew (%s)", self.log.path, error)

    def close(self) -> None:
        """Close the log, and remove it if it holds nothing that the folder does not hold."""
        self.log.close(remove=self.saved and self.log.version <= self.version)
        self._journal.held = self._journal.position = None
