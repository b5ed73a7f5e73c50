"""Changes that are in the log -> the gallery that is searched, and its folder, which says how far in the log it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from kinrank.manifold import Manifold
from kinrank.manifold.beside import log_of
from kinrank.manifold.changes import Synced
from kinrank.manifold.exchange import exchanged
from kinrank.manifold.names import Names
from kinrank.stores import Store
from kinrank.web.lasting.changes import Change, merged
from kinrank.web.lasting.log import Log, said

FOLD = 2**20  # bytes of the log that are not needed any more, from which on it is begun anew
AGAIN = 1.0  # seconds until a save that failed is tried again


class Applied:
    """The gallery of a folder that this process has locked, and its log. Changed by one thread at a time.

    Attributes:
        manifold: what is searched.
        log: what was acknowledged; changes that it held at the start are in `manifold`.
        version: of the last change in `manifold`.
        unsaved: why the folder could not be saved the last time; empty if it could.
    """

    def __init__(self, folder: Path, store: Store | None, fold: int = FOLD) -> None:
        self.folder, self.unsaved, self._fold = folder, "", fold
        self.manifold = Manifold._opened(folder, store=store)
        self._journal = self.manifold._journal
        self._journal.held = folder
        self.log = Log(log_of(folder), self._journal.folded)
        try:
            self.apply(self.log.left)
        except (ValueError, KeyError) as error:
            self.log.close()
            raise ValueError(
                f"what {self.log.path} holds cannot be applied to {folder} ({error}); it belongs to another gallery: "
                "move it away, which gives up its changes"
            ) from error
        self.log.left.clear()
        self.version = self.log.version

    @property
    def saved(self) -> bool:
        """Whether the folder holds everything that is applied."""
        return self._journal.folded == self.version

    def apply(self, changes: list[Change]) -> None:
        """Apply these changes to the manifold: all puts and removals as one change, then all queries as another."""
        names, columns = self.manifold._snapshot.names, self.manifold._snapshot.vectors.shape[1]
        one = merged(changes, columns, _following(names, changes))
        self.manifold._change(lambda snapshot: exchanged(snapshot, one.vectors, one.ids, one.gone))
        if len(one.queries):
            self.manifold.observe(one.queries)

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
            self.unsaved = str(error)
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


def _following(names: Names, changes: list[Change]) -> int | None:
    """The number that the next item gets; None where items have names. In a gallery that never had any, they decide."""
    if names.ids is not None:
        return names.following
    numbered = any(change.vectors is not None and change.ids is None for change in changes)
    return names.count if names.count or numbered else None
