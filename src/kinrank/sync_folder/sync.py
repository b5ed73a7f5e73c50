"""Synchronisation of a gallery with the current files of a source, once or repeatedly."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path

from kinrank.encoders import Encoder, Recipe
from kinrank.encoders.embed_checkpoint import EncodeCheckpoint, count_cores, encode_missing
from kinrank.encoders.embeddings import OPENING_STAGE
from kinrank.encoders.item_sources import Source, check_names
from kinrank.errors import EXPECTED_ERRORS, EncoderMismatchError, InputError
from kinrank.pictures.archives import ItemMissingError
from kinrank.progress import Progress, ProgressOption
from kinrank.sync_folder.ledger import Ledger
from kinrank.sync_folder.setup import SyncSetup
from kinrank.sync_folder.targets import Target

MAX_VECTORS_PER_CHANGE = 20_000  # held in memory and put into an existing gallery at a time

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SyncResult:
    """Names of the items that one synchronisation changed, and the number of items afterwards."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    items: int = 0

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed or self.skipped)

    def __str__(self) -> str:
        parts = {"added": self.added, "changed": self.changed, "removed": self.removed, "skipped": self.skipped}
        words = [f"{len(names)} {what}" for what, names in parts.items() if names]
        return f"{', '.join(words) or 'nothing changed'}; {self.items} items"


def sync_source(
    ledger: Ledger,
    place: Path,
    target: Target,
    encoder: Encoder | Recipe,
    progress: ProgressOption = None,
    workers: int | None = None,
) -> SyncResult:
    """Synchronise a gallery with a source: encode new and changed items, remove those that no longer exist.

    Args:
        ledger: record of the last synchronisation; the new one is saved at `place`. After a crash, the next call does
            the rest and encodes nothing twice.
        place: file of the ledger; vectors encoded so far are stored next to it.
        target: the gallery.
        encoder: must be the one that made the existing vectors. A Recipe is opened only if there is something to
            encode.
        progress: True for a progress bar, or a callable `f(label, done, total)`.
        workers: threads that encode. Default: the number of cores.

    Example:
        >>> ledger = Ledger("photos", "pictures", recipe, encoder.facts)
        >>> sync_source(ledger, Path("photos.json"), FolderTarget(Path("photos.manifold")), encoder)
    """
    is_new, after = not target.exists, deepcopy(ledger)
    if is_new:
        after.items, after.skipped, after.pending = {}, {}, []
    elif isinstance(encoder, Encoder):
        _check_encoder(after, encoder)
    target.check()
    source = after.opened()
    stamps = _read_stamps(source, after)
    existing = target.ids()
    if existing is not None:  # items removed from the gallery by others are new again
        after.items = {name: stamp for name, stamp in after.items.items() if name in existing}
    gone = [name for name in dict.fromkeys((*after.items, *after.skipped, *after.pending)) if name not in stamps]
    fresh = {name: stamp for name, stamp in stamps.items() if not after.knows(name, stamp)}
    if not fresh and not gone:
        return SyncResult(items=len(after.items))
    report = Progress(progress)
    opened = report.run(OPENING_STAGE, encoder.open) if isinstance(encoder, Recipe) else encoder
    if is_new:
        after.facts = opened.facts
    _check_encoder(after, opened)
    with EncodeCheckpoint.open_folder(
        place.with_name(f"{place.name}.part"), opened.facts, opened.dimensions, source.identity
    ) as part:
        encode_missing(source, list(fresh), opened, part, 1, count_cores() if workers is None else workers, report)
        result, rows = _record_outcomes(after, part, fresh, gone)
        if is_new and not rows:
            reasons = "; ".join(f"{name!r:.80}: {reason}" for name, reason in list(result.skipped.items())[:3])
            raise InputError(f"nothing in {after.source} could be encoded: {reasons}")
        ledger.pending = list(rows)  # if this process is killed now, they may or may not be in the gallery
        ledger.save(place)
        _update_gallery(target, result.removed, part, rows, is_new, progress)
        after.pending = []
        after.save(place)
    return result


def _check_encoder(ledger: Ledger, encoder: Encoder) -> None:
    """Refuse another encoder than the one that made the existing vectors."""
    if ledger.facts != encoder.facts:
        raise EncoderMismatchError(
            f"the existing vectors were made by {_describe_encoder(ledger.facts)}, but this encoder is "
            f"{_describe_encoder(encoder.facts)}",
            remedy="give the same encoder and options, or start again at another path",
        )


def _record_outcomes(
    ledger: Ledger, part: EncodeCheckpoint, fresh: dict[str, str], gone: list[str]
) -> tuple[SyncResult, dict[str, int]]:
    """Enter the outcomes into the ledger. Return the changes, and the rows of items that have a vector."""
    result, rows = SyncResult(), dict[str, int]()
    for name in gone:
        if ledger.skipped.pop(name, None) is None or name in ledger.pending:
            ledger.items.pop(name, None)
            result.removed.append(name)
    for name, stamp in fresh.items():
        outcome = part.lookup(name, stamp)
        if outcome is None:  # it changed while it was encoded: the next synchronisation encodes it
            continue
        before = ledger.items.pop(name, None)
        ledger.skipped.pop(name, None)
        if outcome.row is not None:
            (result.added if before is None else result.changed).append(name)
            ledger.items[name], rows[name] = stamp, outcome.row
            continue
        result.skipped[name] = str(outcome.why)
        ledger.skipped[name] = stamp, str(outcome.why)
        if before is not None:  # it can no longer be read
            result.removed.append(name)
    return replace(result, items=len(ledger.items)), rows


def _update_gallery(
    target: Target,
    leaving: list[str],
    part: EncodeCheckpoint,
    rows: dict[str, int],
    is_new: bool,
    progress: ProgressOption,
) -> None:
    """Change the gallery: all at once if it is new, in pieces if it exists."""
    names, numbers = list(rows), list(rows.values())
    step = len(names) if is_new else MAX_VECTORS_PER_CHANGE
    for start in range(0, max(len(names), 1), step):
        chosen = slice(start, start + step)
        target.apply(leaving if start == 0 else [], part.vectors(numbers[chosen]), names[chosen], progress)


def _read_stamps(source: Source, ledger: Ledger) -> dict[str, str]:
    """Return name -> stamp of the existing items; an item that cannot be examined now keeps its stamp."""
    check_names(source.names)
    stamps = {}
    for name in source.names:
        try:
            stamps[name] = source.stamp(name)
        except ItemMissingError:
            continue
        except InputError:
            stamps |= ledger.stamps_for([name])
    if not stamps and ledger.items:
        raise InputError(f"{ledger.source} is empty, so nothing was removed", remedy="check that it is complete")
    unread = source.unread
    hidden = [name for name in ledger.items if any(not part or name.startswith(f"{part}/") for part in unread)]
    return {**ledger.stamps_for(hidden), **stamps}


def _describe_encoder(facts: dict[str, object]) -> str:
    """Describe the facts that distinguish encoders, short enough for a sentence."""
    words = ", ".join(f"{name} {value}" for name, value in facts.items())
    return words if len(words) <= 200 else f"{words[:197]}..."


def watch_source(
    watched: SyncSetup,
    every: float = 2.0,
    looks: int | None = None,
    tell: Callable[[SyncResult], None] | None = None,
    trouble: Callable[[str], None] | None = None,
    progress: ProgressOption = None,
) -> None:
    """Synchronise repeatedly. A folder is listed every few seconds, which also works for remote file systems.

    Args:
        watched: what to synchronise, see `prepare_sync`.
        every: seconds before each synchronisation.
        looks: number of synchronisations; None for no end.
        tell: called with the result if something changed.
        trouble: called with a message if a synchronisation failed, for example because a disk is missing. Nothing is
            removed then, and the next one tries again. The same message is reported once.
        progress: True for a progress bar, or a callable `f(label, done, total)`.
    """
    message, done = "", 0
    while looks is None or done < looks:
        time.sleep(every)
        done += 1
        try:
            ledger = Ledger.load(watched.place) or watched.ledger  # a failed synchronisation may have modified it
            result = sync_source(ledger, watched.place, watched.target, watched.encoder, progress)
            message = ""
            if result and tell is not None:
                tell(result)
        except Exception as error:  # an encoder, a disk or a service can fail in any way: try again later
            if str(error) == message:
                continue
            message = str(error)
            if not isinstance(error, EXPECTED_ERRORS):
                log.exception("the synchronisation failed")
            if trouble is not None:
                trouble(message)
