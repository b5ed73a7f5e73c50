"""A source as it is now, and what was taken from it before -> a gallery in step with it."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path

from kinrank.encoders import Encoder, Recipe
from kinrank.encoders.embedding import OPENING
from kinrank.encoders.part import Part
from kinrank.encoders.running import cores, encode_missing
from kinrank.encoders.sources import Source, check_names
from kinrank.pictures.archives import Gone
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
        ledger: what was taken from the source before; the one after this is saved at `place`. A process killed in
            between does the rest when it is called again, and encodes nothing twice.
        place: the file of the ledger; vectors made so far stand beside it.
        target: the gallery.
        encoder: must be the one that made what is there. A Recipe is opened when there is something to encode.
        progress: True for a bar, or a callable `f(label, done, total)`.
        workers: threads that encode; as many as there are cores unless given.

    Example:
        >>> ledger = Ledger("photos", "pictures", recipe, encoder.facts)
        >>> follow(ledger, Path("photos.json"), FolderTarget(Path("photos.manifold")), encoder)
    """
    anew, after = not target.is_there, deepcopy(ledger)
    if anew:
        after.items, after.skipped, after.pending = {}, {}, []
    elif isinstance(encoder, Encoder):
        _check(after, encoder)
    target.check()
    source = after.opened()
    stamps = _stamps(source, after)
    there = target.ids()
    if there is not None:  # what somebody else took out of the gallery is new again
        after.items = {name: stamp for name, stamp in after.items.items() if name in there}
    gone = [name for name in dict.fromkeys((*after.items, *after.skipped, *after.pending)) if name not in stamps]
    fresh = {name: stamp for name, stamp in stamps.items() if not after.knows(name, stamp)}
    if not fresh and not gone:
        return Followed(items=len(after.items))
    report = Progress(progress)
    opened = report.one(OPENING, encoder.open) if isinstance(encoder, Recipe) else encoder
    if anew:
        after.facts = opened.facts
    _check(after, opened)
    with Part.opened(place.with_name(f"{place.name}.part"), opened.facts, opened.dimensions, source.identity) as part:
        encode_missing(source, list(fresh), opened, part, 1, cores() if workers is None else workers, report)
        found, rows = _taken(after, part, fresh, gone)
        if anew and not rows:
            why = "; ".join(f"{name!r:.80}: {why}" for name, why in list(found.skipped.items())[:3])
            raise ValueError(f"there is nothing that could be encoded in {after.source}: {why}")
        ledger.pending = list(rows)  # if this process is killed now, they may be in the gallery or not
        ledger.save(place)
        _put(target, found.removed, part, rows, anew, progress)
        after.pending = []
        after.save(place)
    return found


def _check(ledger: Ledger, encoder: Encoder) -> None:
    if ledger.facts != encoder.facts:
        raise OtherEncoder(
            f"what is there was made by {_called(ledger.facts)}, and this is {_called(encoder.facts)}; give the same "
            "encoder and options, or begin anew at another place"
        )


def _taken(ledger: Ledger, part: Part, fresh: dict[str, str], gone: list[str]) -> tuple[Followed, dict[str, int]]:
    """Enter into the ledger what became of items: what that changes, and the rows of those that have a vector."""
    found, rows = Followed(), dict[str, int]()
    for name in gone:
        if ledger.skipped.pop(name, None) is None or name in ledger.pending:
            ledger.items.pop(name, None)
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
    step = len(names) if anew else AT_ONCE
    for start in range(0, max(len(names), 1), step):
        chosen = slice(start, start + step)
        target.apply(leaving if start == 0 else [], part.vectors(numbers[chosen]), names[chosen], progress)


def _stamps(source: Source, ledger: Ledger) -> dict[str, str]:
    """name -> stamp of what is there; of what cannot be looked at now, the stamp it had."""
    check_names(source.names)
    found = {}
    for name in source.names:
        try:
            found[name] = source.stamp(name)
        except Gone:
            continue
        except ValueError:
            found |= ledger.stamps_of([name])
    if not found and ledger.items:
        raise ValueError(f"{ledger.source} is empty; is it whole? Nothing was removed")
    hidden = [name for name in ledger.items if any(not one or name.startswith(f"{one}/") for one in source.unread)]
    return {**ledger.stamps_of(hidden), **found}


def _called(facts: dict[str, object]) -> str:
    """What tells encoders apart, short enough for a sentence."""
    words = ", ".join(f"{name} {value}" for name, value in facts.items())
    return words if len(words) <= 200 else f"{words[:197]}..."
