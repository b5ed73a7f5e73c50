"""Names, texts, classes and pictures of items -> how each of them is shown on a page."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

Seen = tuple[bytes, str]  # the bytes of a picture and its media type
MEDIA = ("image/jpeg", "image/png")
MOST_BYTES = 5 * 2**20  # of all pictures of a page, before base64 makes them a third larger
LONGEST, NAMED = 240, 100  # characters of a text, and of a name, that are shown


@dataclass(frozen=True, eq=False)
class Looks:
    """What is shown of the items, or of the queries; what is not given is not shown.

    Attributes:
        kind: "item" or "query", for those without a name.
        names: one per item.
        texts: one per item, None where one has none.
        classes: one per item, for the colours of the map.
        picture: item number -> the bytes of a small JPEG or PNG and its media type; None where it has none. It may
            raise a ValueError for a picture that is broken.
        matching: a sentence about how pictures and items were brought together, where that can be wrong.

    Example:
        >>> Looks(names=["a", "b"]).name(1)
        'b'
    """

    kind: str = "item"
    names: Sequence[str] | None = None
    texts: Sequence[str | None] | None = None
    classes: Sequence[str] | None = None
    picture: Callable[[int], Seen | None] | None = None
    matching: str = ""

    def check(self, count: int) -> None:
        """A ValueError unless everything is there once for each of so many."""
        many = {"item": "items", "query": "queries"}[self.kind]
        for what, given in (("names", self.names), ("texts", self.texts), ("classes", self.classes)):
            if given is not None and len(given) != count:
                raise ValueError(f"there are {len(given)} {what} of {many} but {count} {many}; give one for each")

    def name(self, number: int) -> str:
        """What it is called, cut where it is long."""
        return f"{self.kind} {number}" if self.names is None else cut(str(self.names[number]), NAMED)

    def text(self, number: int) -> str | None:
        """What is written of it, cut where it is long; None where nothing is."""
        text = None if self.texts is None else self.texts[number]
        if not text:
            return None
        return cut(text, LONGEST)


def cut(text: str, longest: int) -> str:
    """A text of at most so many characters; the last one shows that there was more."""
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def breakable(name: str) -> str:
    """A name as HTML that may go on in the next line behind its underscores and slashes."""
    return escape(name).replace("_", "_<wbr>").replace("/", "/<wbr>")


class Album:
    """The pictures that a page holds: each fetched once, all together bounded; what could not be shown is counted.

    Attributes:
        spent: bytes of the pictures that were put into the page.
        broken: pictures that could not be read, by name of the item, with the reason.
        left_out: how many were left out because the page would become too large.
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._known: dict[tuple[int, int], str | None] = {}
        self.spent, self.left_out = 0, 0
        self.broken: dict[str, str] = {}

    def address(self, looks: Looks, number: int) -> str | None:
        """A data: address with the picture in it; None where there is nothing to show."""
        if looks.picture is None:
            return None
        key = id(looks), number
        if key not in self._known:
            self._known[key] = self._fetched(looks, number)
        address = self._known[key]
        if address is not None:
            if self.spent + len(address) > self._most * 4 // 3:
                self.left_out += 1
                return None
            self.spent += len(address)
        return address

    def _fetched(self, looks: Looks, number: int) -> str | None:
        assert looks.picture is not None
        try:
            found = looks.picture(number)
        except ValueError as error:
            self.broken[looks.name(number)] = str(error)
            return None
        if found is None:
            return None
        content, media = found
        if media not in MEDIA:
            self.broken[looks.name(number)] = f"it is {media}, and a page shows {' or '.join(MEDIA)}"
            return None
        return f"data:{media};base64,{base64.b64encode(content).decode('ascii')}"

    def card(self, looks: Looks, number: int, mark: str, said: str = "") -> str:
        """The item as a picture, as a text, or as its name, framed by `mark`; `said` for those who do not see it."""
        name, text = looks.name(number), looks.text(number)
        spoken = f"{said}: {name}" if said else name
        address = self.address(looks, number)
        if address is not None:
            return f'<img class="{escape(mark)}" alt="{escape(spoken)}" title="{escape(name)}" src="{address}">'
        heard = f'<span class="heard">{escape(said)}: </span>' if said else ""
        more = text or (None if looks.picture or looks.classes is None else cut(str(looks.classes[number]), NAMED))
        body = f"<b>{breakable(name)}</b>" + (f"<span>{escape(more)}</span>" if more else "")
        kind = "words" if text else "words short"
        return f'<div class="{kind} {escape(mark)}" title="{escape(text or name)}">{heard}{body}</div>'

    @property
    def notes(self) -> list[str]:
        """Sentences about pictures that are not shown."""
        said = []
        if self.broken:
            name, why = next(iter(self.broken.items()))
            said.append(f"{len(self.broken)} pictures could not be read, such as that of {name}: {why}.")
        if self.left_out:
            said.append(f"{self.left_out} pictures were left out, so that this file stays small.")
        return said
