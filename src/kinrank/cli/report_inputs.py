"""Input of `kinrank report`: images, texts and labels of items and queries, from files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from kinrank.display import Display
from kinrank.display.display import PLURALS, PictureBytes
from kinrank.display.thumbnails import Pictures
from kinrank.errors import InputError
from kinrank.evaluation.id_lookup import IdTable
from kinrank.files.text_columns import read_texts
from kinrank.report.evidence.album import MAX_PICTURE_PIXELS


class DisplaySources(NamedTuple):
    """Sources of the display of items or queries.

    Attributes:
        ids: ids that the user gave.
        naming: ids that the truth knows.
        images: images that must match, by name or by order.
        texts: file of texts.
        labels: label of each.
        fallback: images that are used if their names match.
    """

    ids: Sequence[str] | None = None
    naming: IdTable | None = None
    images: Path | None = None
    texts: Path | None = None
    labels: NDArray[Any] | None = None
    fallback: Path | None = None


def build_display(kind: str, count: int, sources: DisplaySources) -> Display:
    """Collect images, texts and labels of items or queries."""
    ids, naming, labels = sources.ids, sources.naming, sources.labels
    names = None if ids is None else list(ids)
    if names is not None and len(names) != count:
        raise InputError(
            f"{_name_flag(kind)} has {len(names)} ids but there are {count} {PLURALS[kind]}; give one for each"
        )
    if names is None and naming is not None and naming.in_order and len(naming.ids) == count:
        names = [str(name) for name in naming.ids.tolist()]
    draw, matching = None, ""
    if sources.images is not None:
        draw, matching = _match_pictures(sources.images, kind, count, names, ids is not None)
    elif sources.fallback is not None and names is not None:
        pictures = Pictures.open(sources.fallback, None)
        entries = [pictures.find(name) for name in names]
        draw = _draw_entries(pictures, entries) if any(entries) else None
    return Display.of(
        kind,
        names=names,
        texts=None if sources.texts is None else _read_texts(sources.texts, kind, count, names),
        labels=None if labels is None or len(labels) != count else labels.tolist(),
        draw=draw,
        matching=matching,
    )


def _name_flag(kind: str) -> str:
    return {"item": "--item-ids", "query": "--query-ids"}[kind]


def _read_texts(path: Path, kind: str, count: int, names: list[str] | None) -> list[str | None]:
    column = read_texts(path)
    if column.ids is None and len(column.values) != count:
        raise InputError(
            f"{path} has {len(column.values)} texts but there are {count} {PLURALS[kind]}; give one for each"
        )
    order = names or [str(number) for number in range(count)]
    found = column.by_id(order, path, "text")
    return [found.get(name) for name in order]


def _match_pictures(
    path: Path, kind: str, count: int, names: list[str] | None, given: bool
) -> tuple[Callable[[int], PictureBytes | None], str]:
    """Match images to items by name, or else by order, with a note about it. `given`: the user gave the ids."""
    pictures = Pictures.open(path, None)
    entries: list[str | None] = [] if names is None else [pictures.find(name) for name in names]
    matching = ""
    if not any(entries):
        contents = f"{path} has {len(pictures.names)} images"
        if given and names is not None and pictures.names:
            raise InputError(
                f"{contents}, such as {pictures.names[0]}, and none has a name of {_name_flag(kind)}, such as "
                f"{names[0]}; rename one of the two"
            )
        if len(pictures.names) != count:
            raise InputError(f"{contents} but there are {count} {PLURALS[kind]}; match them with {_name_flag(kind)}")
        entries = [*pictures.names]
        matching = f"Images of {PLURALS[kind]} were matched by their order, not by name: {entries[0]} is {kind} 0."
    return _draw_entries(pictures, entries), matching


def _draw_entries(pictures: Pictures, entries: Sequence[str | None]) -> Callable[[int], PictureBytes | None]:
    """Return a function that returns the picture of an item."""
    return lambda number: None if (entry := entries[number]) is None else pictures.thumbnail(entry, MAX_PICTURE_PIXELS)
