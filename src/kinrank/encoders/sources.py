"""What is to be encoded: pictures of a folder, zip or list, files of text, rows of a table -> items with names."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from kinrank.encoders.base import PICTURES, TEXTS, Encoder
from kinrank.given import CONTROL
from kinrank.pictures.archives import Archive, by_name
from kinrank.pictures.images import decoded

Box = tuple[float, float, float, float]  # left, top, right, bottom, in pixels of the picture as it is seen
NOT_UTF8 = "it is not text in UTF-8; save it again in that encoding"


class Source(Protocol):
    """Items that can be encoded, each by its name.

    Attributes:
        content: what they are: PICTURES or TEXTS.
        names: of the items, no two alike.
        skipped: why further ones are not among them -> how many.
        identity: a text that tells this source from others.
        unread: folders that could not be read: what is in them is not known to be gone.
    """

    content: str
    names: list[str]
    skipped: Counter[str]
    identity: str
    unread: list[str]

    def stamp(self, name: str) -> str:
        """A text that changes when the item does; a Gone if it is not there, another ValueError if nobody can say."""
        ...

    def load(self, name: str, encoder: Encoder | None = None) -> Any:
        """The picture, as the encoder wants it, or the text; a ValueError that says why it cannot be had."""
        ...


class PictureFiles:
    """Pictures of an archive, all of them or those that were named, whole or cut out by boxes.

    Args:
        archive: where they are.
        names: which of them and in which order, also by shorter names (see `by_name`); all unless given.
        boxes: name -> the part of that picture to encode.
        drawn_on: the longest side in pixels of the pictures that the boxes were drawn on, where these are copies of
            another size.
    """

    content = PICTURES

    def __init__(
        self,
        archive: Archive,
        names: Sequence[str] | None = None,
        boxes: Mapping[str, Box] | None = None,
        drawn_on: int | None = None,
    ) -> None:
        self._archive, self._boxes, self._drawn_on = archive, dict(boxes or {}), drawn_on
        self.skipped, self.identity, self.unread = archive.skipped, archive.identity, archive.unread
        self.names = list(archive.names if names is None else names)
        self._entries = {name: name for name in self.names} if names is None else found(archive.names, self.names)
        for name, box in self._boxes.items():
            if not (box[0] < box[2] and box[1] < box[3]) or min(box) < 0:
                raise ValueError(f"the box {box} of {name!r:.80} is empty; give left < right and top < bottom, from 0")

    def stamp(self, name: str) -> str:
        box = f" {self._boxes[name]} of {self._drawn_on}" if name in self._boxes else ""
        return f"{self._archive.stamp(self._entries[name])}{box}"

    def load(self, name: str, encoder: Encoder | None = None) -> Any:
        content, box = self._archive.read(self._entries[name]), self._boxes.get(name)
        image = decoded(content, encoder.reads if box is None and encoder is not None else None)
        if box is None:
            return image
        if self._drawn_on is not None:
            factor = max(image.size) / self._drawn_on
            box = (box[0] * factor, box[1] * factor, box[2] * factor, box[3] * factor)
        if box[0] >= image.width or box[1] >= image.height:
            raise ValueError(f"its box {box} lies outside of its {image.width} x {image.height} pixels")
        inside = (box[0], box[1], min(box[2], image.width), min(box[3], image.height))
        return (encoder or Encoder()).cropped(image, inside)


class Pictures:
    """Pictures of Pillow that are in memory already, named by their numbers unless names are given."""

    content = PICTURES

    def __init__(self, images: Sequence[Any], names: Sequence[str] | None = None) -> None:
        self.names = _named(len(images), names)
        self._images = dict(zip(self.names, images, strict=True))
        self.skipped: Counter[str] = Counter()
        self.identity, self.unread = "pictures in memory", list[str]()

    def stamp(self, name: str) -> str:
        image = self._images[name]
        return hashlib.sha256(f"{image.mode} {image.size}".encode() + image.tobytes()).hexdigest()[:32]

    def load(self, name: str, encoder: Encoder | None = None) -> Any:
        return self._images[name].convert("RGB")


class TextFiles:
    """Files of text, each of them one item."""

    content = TEXTS

    def __init__(self, archive: Archive, names: Sequence[str] | None = None) -> None:
        self._archive, self.skipped, self.unread = archive, archive.skipped, archive.unread
        self.identity = archive.identity
        self.names = list(archive.names if names is None else names)
        self._entries = {name: name for name in self.names} if names is None else found(archive.names, self.names)

    def stamp(self, name: str) -> str:
        return self._archive.stamp(self._entries[name])

    def load(self, name: str, encoder: Encoder | None = None) -> Any:
        try:
            return _with_words(self._archive.read(self._entries[name]).decode("utf-8-sig"))
        except UnicodeDecodeError:
            raise ValueError(NOT_UTF8) from None


class Texts:
    """Texts that are in memory already, named by their numbers unless names are given."""

    content = TEXTS

    def __init__(self, texts: Sequence[str], names: Sequence[str] | None = None) -> None:
        self.names = _named(len(texts), names)
        self._texts = dict(zip(self.names, texts, strict=True))
        self.skipped: Counter[str] = Counter()
        self.identity, self.unread = "texts in memory", list[str]()

    def stamp(self, name: str) -> str:
        return hashlib.sha256(self._texts[name].encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def load(self, name: str, encoder: Encoder | None = None) -> Any:
        return _with_words(self._texts[name])


def _named(count: int, names: Sequence[str] | None) -> list[str]:
    """The names of so many items, their numbers unless given; each its own, one line, and not blank."""
    if names is None:
        return [str(number) for number in range(count)]
    if len(names) != count:
        raise ValueError(f"there are {len(names)} names for {count} items; give one for each")
    check_names(names)
    return list(names)


def check_names(names: Sequence[str]) -> None:
    """A ValueError for names that stand there twice, are blank, or are no line of text."""
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise ValueError(f"the id {twice!r:.100} stands there more than once; every item needs one of its own")
    for name in names:
        if not name.strip() or CONTROL.search(name):
            raise ValueError(f"{name!r:.100} cannot be an id; give a line of text for every item")


def _with_words(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return text


def found(entries: list[str], names: Sequence[str]) -> dict[str, str]:
    """name -> the file that it means; a ValueError for names that mean none, or that stand there twice."""
    known, short = set(entries), by_name(entries)
    meant = {name: name if name in known else short.get(name) for name in names}
    if len(meant) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise ValueError(f"names= has {twice!r:.100} more than once; name every item once")
    missing = [name for name, entry in meant.items() if entry is None]
    if missing:
        raise ValueError(
            f"there is no file for {len(missing)} of {len(names)} names, such as {missing[0]!r:.100}; give the names "
            "of files, with or without folders and endings"
        )
    return {name: str(entry) for name, entry in meant.items()}
