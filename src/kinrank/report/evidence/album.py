"""Album: the pictures of a report, embedded in its page, and cards of items."""

from __future__ import annotations

import base64
from html import escape

from kinrank.display.display import MAX_NAME_CHARACTERS, Display
from kinrank.files.text_columns import shorten_text

MEDIA_TYPES = ("image/jpeg", "image/png")
MAX_PICTURE_BYTES = 5 * 2**20  # of all pictures of a page, before base64, which adds a third
MAX_PICTURE_PIXELS = 192  # of the longest side


def breakable_html(name: str) -> str:
    """Return a name as HTML that may break after underscores and slashes."""
    return escape(name).replace("_", "_<wbr>").replace("/", "/<wbr>")


class Album:
    """The pictures of a page: each is fetched once, their total size is limited, missing ones are counted.

    Attributes:
        spent: bytes of the pictures in the page.
        broken: name of the item -> reason, for pictures that could not be read.
        left_out: number of pictures left out to keep the page small.
    """

    def __init__(self, most: int = MAX_PICTURE_BYTES) -> None:
        self._most = most
        self._known: dict[tuple[int, int], str | None] = {}
        self.spent, self.left_out = 0, 0
        self.broken: dict[str, str] = {}

    def address(self, display: Display, number: int) -> str | None:
        """Return a data URL with the picture, or None if there is nothing to show."""
        if not display.has_pictures:
            return None
        key = id(display), number
        if key not in self._known:
            self._known[key] = self._fetch(display, number)
        address = self._known[key]
        if address is not None:
            if self.spent + len(address) > self._most * 4 // 3:
                self.left_out += 1
                return None
            self.spent += len(address)
        return address

    def _fetch(self, display: Display, number: int) -> str | None:
        try:
            picture = display.picture(number, MAX_PICTURE_PIXELS)
        except ValueError as error:
            self.broken[display.name(number)] = str(error)
            return None
        if picture is None:
            return None
        content, media = picture
        if media not in MEDIA_TYPES:
            self.broken[display.name(number)] = f"it is {media}, but a page can show only {' or '.join(MEDIA_TYPES)}"
            return None
        return f"data:{media};base64,{base64.b64encode(content).decode('ascii')}"

    def card(self, display: Display, number: int, mark: str, spoken: str = "") -> str:
        """Return the item as picture, text or name, framed by `mark`; `spoken` is read aloud by screen readers."""
        name, text = display.name(number), display.texts.get(number)
        alternative = f"{spoken}: {name}" if spoken else name
        address = self.address(display, number)
        if address is not None:
            return f'<img class="{escape(mark)}" alt="{escape(alternative)}" title="{escape(name)}" src="{address}">'
        hidden = f'<span class="heard">{escape(spoken)}: </span>' if spoken else ""
        label = "" if display.has_pictures else shorten_text(display.labels.get(number, ""), MAX_NAME_CHARACTERS)
        caption = text or label
        body = f"<b>{breakable_html(name)}</b>" + (f"<span>{escape(caption)}</span>" if caption else "")
        kind = "words" if text else "words short"
        return f'<div class="{kind} {escape(mark)}" title="{escape(text or name)}">{hidden}{body}</div>'

    @property
    def notes(self) -> list[str]:
        """Sentences about pictures that are not shown."""
        sentences = []
        if self.broken:
            name, reason = next(iter(self.broken.items()))
            sentences.append(f"{len(self.broken)} pictures could not be read, such as that of {name}: {reason}.")
        if self.left_out:
            sentences.append(f"{self.left_out} pictures were left out, to keep this file small.")
        return sentences
