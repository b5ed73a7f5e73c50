"""Display: name, label, text and picture of items, or of queries, as reports and the page of a service show them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kinrank.display.thumbnails import Pictures
from kinrank.errors import InputError
from kinrank.files.text_columns import read_texts, shorten_text

PictureBytes = tuple[bytes, str]  # content and media type of a picture
PLURALS = {"item": "items", "query": "queries"}
MAX_TEXT_CHARACTERS, MAX_NAME_CHARACTERS = 240, 100  # in a report
TEXT_RECHECK_SECONDS = 1.0  # between two checks whether the file of texts has changed


class ItemTexts(Mapping[str, str]):
    """Texts of items by their ids, reloaded when the file changes; empty without a file. Thread-safe."""

    def __init__(self, path: str | None, order: Sequence[str]) -> None:
        self._path, self._order = None if path is None else Path(path), order
        self._checked_at, self._modified = 0.0, 0
        self._texts: dict[str, str] = {}
        if self._path is not None:
            self._modified = os.stat(self._path).st_mtime_ns
            self._texts = self._read(self._path)

    def __getitem__(self, name: str) -> str:
        if self._path is not None and time.monotonic() - self._checked_at > TEXT_RECHECK_SECONDS:
            self._checked_at = time.monotonic()
            with contextlib.suppress(OSError, InputError):  # deleted or invalid: keep the old texts
                modified = os.stat(self._path).st_mtime_ns
                if modified != self._modified:
                    self._texts, self._modified = self._read(self._path), modified
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def _read(self, path: Path) -> dict[str, str]:
        return {name: shorten_text(text) for name, text in read_texts(path).by_id(self._order, path, "text").items()}


@dataclass(frozen=True, eq=False)
class Display:
    """Names, texts, labels and pictures of items, or of queries; what is not given is not shown.

    A key is the id of an item as text, or the number of an item or query.

    Attributes:
        kind: "item" or "query".
        names: key -> name; others are called by their id, or by kind and number.
        texts: key -> text, or None for an item without text.
        labels: key -> label, which is also the colour on maps.
        pictures: pictures that have the names of the items.
        draw: key -> bytes of a small JPEG or PNG and its media type, or None for an item without picture. It may raise
            a ValueError for a broken picture. It replaces `pictures`.
        matching: a sentence on how pictures were assigned to items, if that can be wrong.

    Example:
        >>> Display.of(names=["a", "b"]).name(1)
        'b'
    """

    kind: str = "item"
    names: Mapping[Any, str] = field(default_factory=dict)
    texts: Mapping[Any, str | None] = field(default_factory=dict)
    labels: Mapping[Any, str] = field(default_factory=dict)
    pictures: Pictures | None = None
    draw: Callable[[Any], PictureBytes | None] | None = None
    matching: str = ""

    @classmethod
    def of(
        cls,
        kind: str = "item",
        *,
        names: Sequence[str] | None = None,
        texts: Sequence[str | None] | None = None,
        labels: Sequence[str] | None = None,
        draw: Callable[[int], PictureBytes | None] | None = None,
        matching: str = "",
    ) -> Display:
        """Build from one name, text and label per item, in their order; the keys are numbers. Long texts are cut."""
        rows: list[Any] = [() if given is None else given for given in (names, texts, labels)]
        return cls(
            kind,
            {number: shorten_text(str(name), MAX_NAME_CHARACTERS) for number, name in enumerate(rows[0])},
            {number: text and shorten_text(text, MAX_TEXT_CHARACTERS) for number, text in enumerate(rows[1])},
            {number: str(label) for number, label in enumerate(rows[2])},
            draw=draw,
            matching=matching,
        )

    def check(self, count: int) -> None:
        """Raise InputError unless names, texts and labels have `count` entries each, or none."""
        for what, given in (("names", self.names), ("texts", self.texts), ("labels", self.labels)):
            if given and len(given) != count:
                raise InputError(
                    f"there are {len(given)} {what} but {count} {PLURALS[self.kind]}", remedy="give one for each"
                )

    @property
    def has_pictures(self) -> bool:
        return self.pictures is not None or self.draw is not None

    def name(self, key: Any) -> str:
        """Return the name."""
        return self.names.get(key) or (key if isinstance(key, str) else f"{self.kind} {key}")

    def find_entry(self, key: Any) -> str | None:
        """Return the entry of `pictures` that shows the item; None if there is none."""
        return None if self.pictures is None else self.pictures.find(self.name(key))

    def picture(self, key: Any, size: int) -> PictureBytes | None:
        """Return the picture and its media type; None if it has none, an InputError if it is broken.

        `size` is the number of pixels on its longest side, one of `thumbnails.THUMBNAIL_SIZES`.
        """
        if self.draw is not None:
            return self.draw(key)
        entry = self.find_entry(key)
        return None if entry is None or self.pictures is None else self.pictures.thumbnail(entry, size)
