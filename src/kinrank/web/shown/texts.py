"""A file of texts -> the text of each item; read again when it was written anew."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from kinrank.files.columns import cut, texts_of

PAUSE = 1.0  # seconds between two looks at the file


class Texts:
    """The texts of items by their ids; none without a file. Many threads may ask at the same time."""

    def __init__(self, path: str | None, order: Sequence[str]) -> None:
        self._path, self._order = None if path is None else Path(path), order
        self._looked, self._written = 0.0, 0
        self._known: dict[str, str] = {}
        if self._path is not None:
            self._written = os.stat(self._path).st_mtime_ns
            self._known = self._read(self._path)

    @property
    def any(self) -> bool:
        return bool(self._known)

    def get(self, name: str) -> str | None:
        """The text of an item, as much of it as is shown; None if there is none."""
        if self._path is not None and time.monotonic() - self._looked > PAUSE:
            self._looked = time.monotonic()
            with contextlib.suppress(OSError, ValueError):  # it is gone, or of other items: what was there stays
                written = os.stat(self._path).st_mtime_ns
                if written != self._written:
                    self._known, self._written = self._read(self._path), written
        return self._known.get(name)

    def _read(self, path: Path) -> dict[str, str]:
        return {name: cut(text) for name, text in texts_of(path).by_id(self._order, path, "text").items()}
