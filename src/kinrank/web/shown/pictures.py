"""Pictures: a folder or a zip -> thumbnails of what is in it, whatever that may be."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from time import monotonic

from kinrank.pictures.archives import Archive, by_name, opened
from kinrank.pictures.images import check_installed, shrunk
from kinrank.web.shown.thumbnails import Thumbnails

SIZES = (96, 192, 384, 1024)
MOST_BROKEN = 10_000  # pictures of which it is remembered that they cannot be shown
MOST_ABSENT = 100_000  # names of which it is remembered that there is no such picture
PAUSE = 3.0  # seconds for which that is believed

log = logging.getLogger("kinrank")


class Pictures:
    """The pictures of a folder or a zip; many threads may ask at the same time.

    Attributes:
        names: of all pictures, sorted; with suffix, "/" between folders.
        skipped: why others are not among them -> how many.

    Example:
        >>> pictures = Pictures.open("photos.zip", cache)
        >>> content, media = pictures.thumbnail(pictures.find("all_souls_000013"), 192)
    """

    def __init__(self, archive: Archive, cache: Thumbnails) -> None:
        """Not called by users: see `open`."""
        self._archive, self._cache = archive, cache
        self.names, self.skipped = archive.names, dict(archive.skipped)
        self._known = set(self.names)
        self._found = by_name(self.names)
        self._broken: dict[tuple[str, int], str] = {}
        self._absent: dict[str, float] = {}  # until when
        self._fresh = monotonic() + PAUSE  # until then the list is believed

    @classmethod
    def open(cls, path: str | os.PathLike[str], cache: str | os.PathLike[str] | None) -> Pictures:
        """The pictures at a path.

        Args:
            path: a folder, with everything below it, or a zip, which is read in place.
            cache: a folder for thumbnails, which processes may share; None keeps none.
        """
        check_installed()
        pictures = cls(opened(Path(path)), Thumbnails(cache))
        for reason, count in pictures.skipped.items():
            log.warning("%s: not shown: %d times %s", path, count, reason)
        return pictures

    def find(self, name: str) -> str | None:
        """The picture that a name means: its own, or that without suffix, or without folders if only one is called so.

        A picture that came into the folder later is found by its whole name.

        Example:
            >>> pictures.find("x")
            'sub/x.jpg'
        """
        return name if name in self._known or self._came(name) else self._found.get(name)

    def _came(self, name: str) -> bool:
        """Whether there is a picture of exactly this name now; the disk is asked now and then only."""
        now = monotonic()
        if now < self._absent.get(name, self._fresh):
            return False
        if self._archive.again(name):
            self._known.add(name)
            return True
        if len(self._absent) >= MOST_ABSENT:
            self._absent = {}
        self._absent[name] = now + PAUSE
        return False

    def thumbnail(self, entry: str, size: int) -> tuple[bytes, str]:
        """The picture with at most `size` pixels on its longest side, and its media type; a ValueError if it is broken.

        Args:
            entry: one of `names`.
            size: one of SIZES.
        """
        if size not in SIZES:
            raise ValueError(f"size={size!r} is not allowed; give one of {', '.join(map(str, SIZES))}")
        if entry not in self._known:
            raise ValueError(f"there is no picture {entry!r:.80}")
        try:
            stamp = f"{self._archive.identity}\n{entry}\n{self._archive.stamp(entry)}"
            kept = self._cache.get(stamp, size)
            if kept is not None:
                return kept
            if (stamp, size) in self._broken:
                raise ValueError(self._broken[stamp, size])
            made = self._made(entry, stamp, size)
        except ValueError as error:
            raise ValueError(f"the picture {entry!r:.80} cannot be shown: {error}") from None
        self._cache.put(stamp, size, *made)
        return made

    def _made(self, entry: str, stamp: str, size: int) -> tuple[bytes, str]:
        try:
            return shrunk(self._archive.read(entry), size)
        except ValueError as error:
            if len(self._broken) < MOST_BROKEN:
                self._broken[stamp, size] = str(error)
            raise
