"""A source as it is now, and what was taken from it before -> a gallery in step with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kinrank.encoders import Encoder, Recipe
from kinrank.encoders.embedding import OPENING
from kinrank.encoders.part import Part, forget
from kinrank.encoders.running import cores, encode_missing
from kinrank.encoders.sources import Source
from kinrank.progress import Progress, Show
from kinrank.watching.ledger import Ledger
from kinrank.watching.targets import Target

AT_ONCE = 20_000  # vectors that are held in memory and put into a gallery that is there at a time


class OtherEncoder(ValueError):
    """What is there was made by another encoder, so that new vectors cannot stand beside old ones."""


@dataclass(frozen=True)
class Followed:
    """What one look at a source has changed: names of items."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    items: int = 0

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed or self.skipped)

    def __str__(self) -> str:
        words = [f"{len(names)} {what}" for what, names in self._parts() if names]
        return f"{', '.join(words) or 'nothing changed'}; {self.items} items"

    def _parts(self) -> Iterator[tuple[str, list[str]]]:
        yield from (("added", self.added), ("changed", self.changed), ("removed", self.removed))
        yield "skipped", list(self.skipped)


def follow(
    ledger: Ledger,
    place: Path,
    target: Target,
    encoder: Encoder | Recipe,
    progress: Show = None,
    workers: int | None = None,
) -> Followed:
    """Bring a gallery in step with a source: encode what is new or changed, take out what is gone.

    Args:
        ledger: what was taken from the source before; it is changed, and saved at `place` at the end. A process killed
            in between does the rest when it is called again, and encodes nothing twice.
        place: the file of the ledger; vectors made so far stand beside it.
        target: the gallery.
        encoder: must be the one that made what is there. A Recipe is opened when there is something to encode.
        progress: True for a bar, or a callable `f(label, done, total)`.
        workers: threads that encode; as many as there are cores unless given.

    Example:
        >>> ledger = Ledger("photos", "pictures", recipe, encoder.facts)
        >>> follow(ledger, Path("photos.json"), FolderTarget(Path("photos.manifold")), encoder)
    """
    _check(ledger, encoder)
    source = ledger.opened()
    stamps, anew = _stamps(source), not target.is_there
    if anew:
        ledger.items, ledger.skipped = {}, {}
    gone = [name for name in (*ledger.items, *ledger.skipped) if name not in stamps]
    fresh = [name for name, stamp in stamps.items() if not _is_known(ledger, name, stamp)]
    if not fresh and not gone:
        return Followed(items=len(ledger.items))
    report = Progress(progress)
    opened = _check(ledger, report.one(OPENING, encoder.open) if isinstance(encoder, Recipe) else encoder)
    folder = place.with_name(f"{place.name}.part")
    with Part.opened(folder, opened.facts, opened.dimensions) as part:
        encode_missing(source, fresh, opened, part, 1, cores() if workers is None else workers, report)
        found, rows = _taken(ledger, part, {name: stamps[name] for name in fresh}, gone)
        _put(target, found.removed, part, rows, anew, progress)
    ledger.save(place)
    forget(folder)
    return found


def _check(ledger: Ledger, encoder: Any) -> Any:
    """The encoder, if it is the one that made what is there."""
    if isinstance(encoder, Encoder) and ledger.facts != encoder.facts:
        raise OtherEncoder(
            f"what is there was made by {_called(ledger.facts)}, and this is {_called(encoder.facts)}; give the same "
            "encoder and options, or begin anew at another place"
        )
    return encoder


def _taken(ledger: Ledger, part: Part, fresh: dict[str, str], gone: list[str]) -> tuple[Followed, dict[str, int]]:
    """Enter into the ledger what became of items: what that changes, and the rows of those that have a vector."""
    found, rows = Followed(), dict[str, int]()
    for name in gone:
        ledger.skipped.pop(name, None)
        if ledger.items.pop(name, None) is not None:
            found.removed.append(name)
    for name, stamp in fresh.items():
        outcome = part.known(name, stamp)
        if outcome is None:  # it changed while it was encoded: the next look takes it
            continue
        before = ledger.items.pop(name, None)
        ledger.skipped.pop(name, None)
        if outcome.row is not None:
            (found.added if before is None else found.changed).append(name)
            ledger.items[name], rows[name] = stamp, outcome.row
            continue
        found.skipped[name] = str(outcome.why)
        ledger.skipped[name] = stamp, str(outcome.why)
        if before is not None:  # it cannot be read any more
            found.removed.append(name)
    return replace(found, items=len(ledger.items)), rows


def _put(target: Target, leaving: list[str], part: Part, rows: dict[str, int], anew: bool, progress: Show) -> None:
    """Change the gallery: at once where it is to be built, in pieces where it is there."""
    names, numbers = list(rows), list(rows.values())
    if anew and not names:
        raise ValueError(
            "there is nothing that could be encoded; look at why items were skipped, or give another source"
        )
    step = len(names) if anew else AT_ONCE
    for start in range(0, max(len(names), 1), max(step, 1)):
        chosen = slice(start, start + max(step, 1))
        target.apply(leaving if start == 0 else [], part.vectors(numbers[chosen]), names[chosen], progress)


def _stamps(source: Source) -> dict[str, str]:
    """name -> stamp of what is there; what has gone since it was listed is left out."""
    found = {}
    for name in source.names:
        try:
            found[name] = source.stamp(name)
        except ValueError:
            continue
    return found


def _is_known(ledger: Ledger, name: str, stamp: str) -> bool:
    skipped = ledger.skipped.get(name)
    return ledger.items.get(name) == stamp or (skipped is not None and skipped[0] == stamp)


def _called(facts: dict[str, object]) -> str:
    """What tells encoders apart, short enough for a sentence."""
    words = ", ".join(f"{name} {value}" for name, value in facts.items())
    return words if len(words) <= 200 else f"{words[:197]}..."
