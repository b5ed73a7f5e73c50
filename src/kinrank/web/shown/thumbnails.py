"""Small pictures -> files in a folder that several processes share, so that each is made once."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from pathlib import Path

from kinrank.files.atomic import replacing
from kinrank.pictures.images import JPEG, PNG

MOST_BYTES = 2 * 2**30  # of all files together
RECOUNT = 1000  # files after which the folder is looked at again: other processes write, too
KINDS = {".jpg": JPEG, ".png": PNG}

log = logging.getLogger("kinrank")


class Thumbnails:
    """A folder of thumbnails by what they were made of; without a folder, or when it is full, nothing is kept."""

    def __init__(self, folder: str | os.PathLike[str] | None, most: int = MOST_BYTES) -> None:
        self._folder = None if folder is None else Path(folder)
        self._most, self._written = most, 0
        if self._folder is not None:
            self._left = most - self._swept(self._folder)

    def get(self, stamp: str, size: int) -> tuple[bytes, str] | None:
        """The thumbnail of that size of the picture with this stamp, and its media type; None if it is not there."""
        if self._folder is None:
            return None
        path = self._path(self._folder, stamp, size)
        for ending, media in KINDS.items():
            with contextlib.suppress(OSError):
                return path.with_suffix(ending).read_bytes(), media
        return None

    def put(self, stamp: str, size: int, content: bytes, media: str) -> None:
        """Keep one, if there is room."""
        if self._folder is None or self._left < len(content):
            return
        ending = next(ending for ending, kind in KINDS.items() if kind == media)
        path = self._path(self._folder, stamp, size).with_suffix(ending)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                file.write(content)
        except OSError as error:
            log.warning("thumbnails are not kept any more: %s", error)
            self._folder = None
            return
        self._left, self._written = self._left - len(content), self._written + 1
        if self._written % RECOUNT == 0:
            self._left = self._most - sum(size for _, size, _ in _files(self._folder))

    def _path(self, folder: Path, stamp: str, size: int) -> Path:
        key = hashlib.sha256(f"{size}\n{stamp}".encode("utf-8", "surrogateescape")).hexdigest()
        return folder / key[:2] / key[2:]

    def _swept(self, folder: Path) -> int:
        """Bytes that are there; where nothing more would fit, after the older half was deleted."""
        files = sorted(_files(folder))
        used = sum(size for _, size, _ in files)
        if used >= self._most:
            for _, size, path in files:
                if used <= self._most // 2:
                    break
                with contextlib.suppress(OSError):  # another process was first
                    os.unlink(path)
                used -= size
        return used


def _files(folder: Path) -> list[tuple[float, int, str]]:
    """When each thumbnail was written, its bytes, its path; nothing else that may lie there."""
    found = []
    for path in folder.glob("[0-9a-f][0-9a-f]/*"):
        if path.suffix in KINDS and len(path.stem) == 62:
            with contextlib.suppress(OSError):
                facts = path.stat()
                found.append((facts.st_mtime, facts.st_size, str(path)))
    return found
