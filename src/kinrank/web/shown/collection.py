"""Collection: files beside the vectors -> what is shown of an item, what can be asked, and what is right."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from kinrank import features
from kinrank.files.columns import keyed, labels_of
from kinrank.files.names import read_names
from kinrank.web.settings import Files
from kinrank.web.shown.grid import Grid, folded
from kinrank.web.shown.ground import LABELS, ground_of
from kinrank.web.shown.pictures import Pictures
from kinrank.web.shown.texts import Texts
from kinrank.web.shown.verdicts import Verdicts

Query = tuple[str, Any]  # ("item", id) | ("query", number) | ("vector", array): who asks
Card = dict[str, Any]


class Collection:
    """What is known of items and queries beside their vectors; many threads may ask at the same time.

    Items go by their ids. Of an item that was added later nothing is known, but for a picture of its name.

    Attributes:
        queries: (q, d) vectors that can be picked; None if there are none.
        levels: what truth there is: "easy", "medium", "hard", "class", ...; empty without truth and labels.
        has: whether there are pictures, texts, labels, truth, queries.

    Example:
        >>> collection = Collection.open(Files(images="photos", labels="labels.txt"), manifold.ids, cache)
        >>> collection.card("beach_17")["label"]
        'beach'
    """

    def __init__(
        self, files: Files, order: Sequence[str], numbered: bool, cache: str | os.PathLike[str] | None
    ) -> None:
        """Not called by users: see `open`."""
        labels, truth = _labels_and_truth(files)
        self._texts = Texts(files.texts, order)
        self._labels = {} if labels is None else labels_of(*keyed(labels)).by_id(order, labels, "label")
        self.queries = (
            None if files.queries is None else features.check(features.load(*keyed(files.queries)), "queries")
        )
        count = 0 if self.queries is None else len(self.queries)
        names = _query_names(files, count)
        ground = None if truth is None else ground_of(Path(truth), order, count, names)
        self._query_names = names or (ground and ground.query_names) or [f"query {number}" for number in range(count)]
        self._query_labels = _query_labels(files, count)
        self._verdicts = Verdicts(order, self._labels, self._query_labels, ground)
        self.levels = self._verdicts.levels
        called = ground.item_names if ground is not None and numbered else None
        self._names = {} if called is None else dict(zip(order, called, strict=True))
        self._pictures = None if files.images is None else Pictures.open(files.images, cache)
        self._in_order: dict[str, str] = {}
        if self._pictures is not None and numbered and not self._names:
            self._in_order = _in_order(self._pictures, order)
        self.has = {
            "pictures": self._pictures is not None, "texts": self._texts.any, "labels": bool(self._labels),
            "truth": bool(self.levels), "queries": count > 0,
        }  # fmt: skip
        self._building = threading.Lock()
        self._grid: tuple[NDArray[Any], Grid] | None = None
        self._written: dict[str, str] = {name: self._writing(self.card(name)) for name in order}
        self._query_grid = Grid(list(range(count)), [self._writing(self.query_card(place)) for place in range(count)])

    @classmethod
    def open(cls, files: Files, ids: NDArray[Any], cache: str | os.PathLike[str] | None) -> Collection:
        """What the files say of the items.

        Args:
            files: see `Files`; what has no ids is in the order of `files.ids`, or of `ids` where these are not given.
            ids: of the items, as `manifold.ids`.
            cache: a folder for thumbnails, None for none.
        """
        order = [str(name) for name in ids.tolist()]
        if files.ids is not None:
            order = [str(name) for name in json.loads(Path(files.ids).read_bytes())]
        return cls(files, order, ids.dtype.kind != "O", cache)

    def card(self, item: Any) -> Card:
        """What is shown of an item: id, name, label, text, and the address of its picture; None for what is unknown."""
        name = str(item)
        called = self._names.get(name) or self._in_order.get(name) or name
        seen = name not in (".", "..") and self._entry(name) is not None  # a browser would not ask for these two
        return {
            "id": item,
            "name": called,
            "label": self._labels.get(name),
            "text": self._texts.get(name),
            "picture": f"pictures/item/{quote(name, safe='')}" if seen else None,
        }

    def query_card(self, number: int) -> Card:
        """The same of a query, with its number instead of an id."""
        name = self._query_names[self._numbered(number)]
        seen = self._pictures is not None and self._pictures.find(name) is not None
        return {
            "number": number,
            "name": name,
            "label": None if self._query_labels is None else self._query_labels[number],
            "text": None,
            "picture": f"pictures/query/{number}" if seen else None,
        }

    def items(self, ids: NDArray[Any], words: str, offset: int, limit: int, seed: int | None) -> tuple[list[Card], int]:
        """Cards of some items, and how many there are in all.

        Args:
            ids: of the items there are now, as `manifold.ids`.
            words: all of them stand in the name, the label or the text; large and small letters are the same.
            offset, limit: which of them.
            seed: of a random order; None for that of `ids`.
        """
        entries, total = self._grid_of(ids).page(words, offset, limit, seed)
        return [self.card(item) for item in entries], total

    def query_items(self, words: str, offset: int, limit: int, seed: int | None) -> tuple[list[Card], int]:
        """The same of queries."""
        numbers, total = self._query_grid.page(words, offset, limit, seed)
        return [self.query_card(number) for number in numbers], total

    def verdicts(self, asked: Query, level: str | None, items: Sequence[Any]) -> list[bool | None] | None:
        """True right, False wrong, None neither, of each item; None where nothing is known of this query.

        A query is judged by the truth of that level, or by its label; an item that asks by its label.
        """
        return self._verdicts.of(asked, level, items)

    def known_right(self, asked: Query, level: str | None) -> int | None:
        """How many items are right for a query, wherever they stand; None where nothing is known of it."""
        return self._verdicts.known_right(asked, level)

    def picture(self, item: Any, size: int) -> tuple[bytes, str] | None:
        """The picture of an item and its media type; None if it has none, a ValueError if it is broken."""
        return self._seen(self._entry(str(item)), size)

    def query_picture(self, number: int, size: int) -> tuple[bytes, str] | None:
        """The same of a query."""
        if self._pictures is None or not 0 <= number < len(self._query_names):
            return None
        return self._seen(self._pictures.find(self._query_names[number]), size)

    def _entry(self, name: str) -> str | None:
        if self._pictures is None:
            return None
        return self._in_order.get(name) or self._pictures.find(self._names.get(name, name))

    def _seen(self, entry: str | None, size: int) -> tuple[bytes, str] | None:
        return None if entry is None or self._pictures is None else self._pictures.thumbnail(entry, size)

    def _numbered(self, number: int) -> int:
        if not 0 <= number < len(self._query_names):
            raise ValueError(f"query {number!r} does not exist; there are {len(self._query_names)}, counted from 0")
        return number

    def _grid_of(self, ids: NDArray[Any]) -> Grid:
        """The grid of these items; made anew only where they are others than last time."""
        known = self._grid  # read once: another thread may put another one there
        if known is not None and _same(known[0], ids):
            return known[1]
        with self._building:
            known = self._grid
            if known is None or not _same(known[0], ids):
                entries = ids.tolist()
                found = (self._written.get(str(item)) for item in entries)
                written = [folded(str(entries[place])) if text is None else text for place, text in enumerate(found)]
                known = ids, Grid(entries, written)
                self._grid = known
        return known[1]

    @staticmethod
    def _writing(card: Card) -> str:
        return folded("\n".join(card[part] for part in ("name", "label", "text") if card[part]))


def _same(known: NDArray[Any], ids: NDArray[Any]) -> bool:
    return known is ids or (known.dtype == ids.dtype and np.array_equal(known, ids))


def _labels_and_truth(files: Files) -> tuple[str | None, str | None]:
    """The files of labels and of truth: labels that were given as truth are labels."""
    if files.truth is None or keyed(files.truth)[0].suffix.lower() not in LABELS:
        return files.labels, files.truth
    if files.labels is not None:
        raise ValueError(f"{files.truth} and {files.labels} are both labels of the items; give one of them")
    return files.truth, None


def _query_names(files: Files, count: int) -> list[str] | None:
    if files.query_names is None:
        return None
    names = read_names(Path(files.query_names))
    if len(names) != count:
        raise ValueError(f"{files.query_names} has {len(names)} names but there are {count} queries; give one for each")
    return names


def _query_labels(files: Files, count: int) -> list[str] | None:
    if files.query_labels is None:
        return None
    labels = labels_of(*keyed(files.query_labels)).values
    if len(labels) != count:
        raise ValueError(
            f"{files.query_labels} has {len(labels)} labels but there are {count} queries; give one for each"
        )
    return labels


def _in_order(pictures: Pictures, order: Sequence[str]) -> dict[str, str]:
    """Numbers have no pictures by name: where there are as many pictures as items they belong together in order."""
    if len(pictures.names) != len(order) or all(pictures.find(name) is not None for name in order):
        return {}
    return dict(zip(order, pictures.names, strict=True))
