"""Changes from the log of a folder -> the Snapshot after them.

The service replays its log when it starts, and so does everything else that changes the folder. The caller has locked
the folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kinrank.manifold.beside import has_log, log_of
from kinrank.manifold.changes import observed
from kinrank.manifold.exchange import exchanged
from kinrank.manifold.log import Log
from kinrank.manifold.log_records import Change, merged
from kinrank.manifold.names import Names
from kinrank.manifold.snapshot import Snapshot


class LogApplied(UserWarning):
    """Changes that a killed service had acknowledged were applied to a folder before another change."""


@contextlib.contextmanager
def leftover_log(folder: Path, position: int) -> Iterator[Log | None]:
    """The log that a killed service left next to a folder, closed at the end of the block; None where there is none.

    Args:
        folder: the resolved folder; it holds the logged changes up to `position`.
        position: of the last logged change in the folder.
    """
    if not has_log(folder):
        yield None
        return
    log = Log(log_of(folder), position)
    try:
        yield log
    finally:
        log.close()


def replayed_log(snapshot: Snapshot, log: Log, folder: Path) -> Snapshot:
    """The snapshot after all changes that the log holds and the folder does not; a ValueError if they do not fit."""
    try:
        return replayed(snapshot, log.left)
    except (ValueError, KeyError) as error:
        raise ValueError(
            f"the changes in {log.path} cannot be applied to {folder} ({error}); the log belongs to another gallery: "
            "move it away, which discards its changes"
        ) from error


def replayed(snapshot: Snapshot, changes: list[Change]) -> Snapshot:
    """The snapshot after these changes, which are applied as one; queries to remember come after all items."""
    following = _following(snapshot.names, changes)
    one = merged(changes, snapshot.vectors.shape[1], following)
    after = exchanged(snapshot, one.vectors, one.ids, one.gone)
    remembering = observed(after, one.queries) if len(one.queries) else after
    if after is snapshot or remembering is after:
        return remembering
    assert after.turnover is not None
    assert remembering.turnover is not None
    return replace(remembering, turnover=after.turnover.then(remembering.turnover))


def sentence_about(log: Log, folder: Path) -> str:
    """A sentence for the user whose change comes after those in the log."""
    count = len(log.left)
    changes = "1 change" if count == 1 else f"{count} changes"
    return f"{changes} that a service acknowledged before it was killed, in {log.path}, applied to {folder} first"


def _following(names: Names, changes: list[Change]) -> int | None:
    """The number of the next item; None where items have names. The first changes of an empty gallery decide that."""
    if names.ids is not None:
        return names.following
    numbered = any(change.vectors is not None and change.ids is None for change in changes)
    return names.count if names.count or numbered else None
