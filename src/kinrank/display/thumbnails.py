"""Thumbnails of the pictures in a folder or zip, cached in a folder that several processes share."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import mimetypes
import os
from pathlib import Path
from time import monotonic

from kinrank.errors import InputError
from kinrank.files.atomic import atomic_write
from kinrank.pictures.archives import Archive, index_short_names, open_archive
from kinrank.pictures.images import JPEG, PNG, check_pillow, make_thumbnail

THUMBNAIL_SIZES = (96, 192, 384, 1024)  # pixels on the longest side
ORIGINAL_SIZE = 0  # stands for the unchanged file
MAX_BROKEN_PICTURES = 10_000  # remembered, so that they are not read again
MAX_ABSENT_NAMES = 100_000  # remembered, so that the disk is not checked again
RECHECK_SECONDS = 3.0  # for which an absent name is remembered
MAX_CACHE_BYTES = 2 * 2**30
RECOUNT_FILES = 1000  # written files after which the size of the cache is measured, because other processes write too
MEDIA_TYPES = {".jpg": JPEG, ".png": PNG}

log = logging.getLogger(__name__)


class ThumbnailCache:
    """Folder of thumbnails by the stamp of their picture; stores nothing without a folder or if it is full."""

    def __init__(self, folder: str | os.PathLike[str] | None, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._folder = None if folder is None else Path(folder)
        self._max_bytes, self._written = max_bytes, 0
        if self._folder is not None:
            self._free_bytes = max_bytes - self._sweep(self._folder)

    def get(self, stamp: str, size: int) -> tuple[bytes, str] | None:
        """Return the thumbnail of a picture and its media type; None if it is not cached."""
        if self._folder is None:
            return None
        path = self._make_path(self._folder, stamp, size)
        for ending, media_type in MEDIA_TYPES.items():
            with contextlib.suppress(OSError):
                return path.with_suffix(ending).read_bytes(), media_type
        return None

    def put(self, stamp: str, size: int, content: bytes, media_type: str) -> None:
        """Store a thumbnail, if there is space."""
        if self._folder is None or self._free_bytes < len(content):
            return
        ending = next(ending for ending, known in MEDIA_TYPES.items() if known == media_type)
        path = self._make_path(self._folder, stamp, size).with_suffix(ending)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as file:
                file.write(content)
        except OSError as error:
            log.warning("thumbnails are no longer cached: %s", error)
            self._folder = None
            return
        self._free_bytes, self._written = self._free_bytes - len(content), self._written + 1
        if self._written % RECOUNT_FILES == 0:
            self._free_bytes = self._max_bytes - sum(size for _, size, _ in _list_thumbnails(self._folder))

    def _make_path(self, folder: Path, stamp: str, size: int) -> Path:
        key = hashlib.sha256(f"{size}\n{stamp}".encode("utf-8", "surrogateescape")).hexdigest()
        return folder / key[:2] / key[2:]

    def _sweep(self, folder: Path) -> int:
        """Return the bytes in use; if the cache is full, delete the older half first."""
        files = sorted(_list_thumbnails(folder))
        used = sum(size for _, size, _ in files)
        if used >= self._max_bytes:
            for _, size, path in files:
                if used <= self._max_bytes // 2:
                    break
                with contextlib.suppress(OSError):  # deleted by another process
                    os.unlink(path)
                used -= size
        return used


def _list_thumbnails(folder: Path) -> list[tuple[float, int, str]]:
    """Return modification time, bytes and path of each thumbnail, and of no other files."""
    files = []
    for path in folder.glob("[0-9a-f][0-9a-f]/*"):
        if path.suffix in MEDIA_TYPES and len(path.stem) == 62:
            with contextlib.suppress(OSError):
                status = path.stat()
                files.append((status.st_mtime, status.st_size, str(path)))
    return files


class Pictures:
    """Pictures of a folder or a zip. Thread-safe.

    Attributes:
        names: names of all pictures, sorted, with suffix and "/" between folders.
        skipped: number of files that are not pictures, by reason.

    Example:
        >>> pictures = Pictures.open("photos.zip", cache)
        >>> content, media_type = pictures.thumbnail(pictures.find("all_souls_000013"), 192)
    """

    def __init__(self, archive: Archive, cache: ThumbnailCache) -> None:
        """Create the pictures. Use `open` instead."""
        self._archive, self._cache = archive, cache
        self.names, self.skipped = archive.names, dict(archive.skipped)
        self._known = set(self.names)
        self._by_short_name = index_short_names(self.names)
        self._broken: dict[tuple[str, int], str] = {}
        self._absent_until: dict[str, float] = {}
        self._fresh_until = monotonic() + RECHECK_SECONDS  # until then the list is up to date

    @classmethod
    def open(cls, path: str | os.PathLike[str], cache: str | os.PathLike[str] | None) -> Pictures:
        """List the pictures at a path.

        Args:
            path: folder, including its subfolders, or zip, which is read in place.
            cache: folder for thumbnails, which processes can share; None for none.
        """
        check_pillow()
        pictures = cls(open_archive(Path(path)), ThumbnailCache(cache))
        for reason, count in pictures.skipped.items():
            log.warning("%s: not shown: %d times %s", path, count, reason)
        return pictures

    def find(self, name: str) -> str | None:
        """Find a picture by its name, with or without suffix; without folders if only one picture has this name.

        A picture that was added to the folder later is found by its full name.

        Example:
            >>> pictures.find("x")
            'sub/x.jpg'
        """
        return name if name in self._known or self._check_added(name) else self._by_short_name.get(name)

    def _check_added(self, name: str) -> bool:
        """Return True if there is a picture of exactly this name now; the disk is checked only every few seconds."""
        now = monotonic()
        if now < self._absent_until.get(name, self._fresh_until):
            return False
        if self._archive.again(name):
            self._known.add(name)
            return True
        if len(self._absent_until) >= MAX_ABSENT_NAMES:
            self._absent_until = {}
        self._absent_until[name] = now + RECHECK_SECONDS
        return False

    def thumbnail(self, entry: str, size: int) -> tuple[bytes, str]:
        """Return a picture with at most `size` pixels on its longest side, and its media type.

        An InputError if the picture is broken.

        Args:
            entry: one of `names`.
            size: one of THUMBNAIL_SIZES, or ORIGINAL_SIZE for the file itself.
        """
        if size not in (ORIGINAL_SIZE, *THUMBNAIL_SIZES):
            sizes = ", ".join(map(str, THUMBNAIL_SIZES))
            raise InputError(parameter="size", given=size, allowed=f"{sizes}, or {ORIGINAL_SIZE} for the file itself")
        if entry not in self._known:
            raise InputError(f"there is no picture {entry!r:.80}")
        if size == ORIGINAL_SIZE:
            return self._archive.read(entry), mimetypes.guess_type(entry)[0] or "application/octet-stream"
        try:
            stamp = f"{self._archive.identity}\n{entry}\n{self._archive.stamp(entry)}"
            cached = self._cache.get(stamp, size)
            if cached is not None:
                return cached
            if (stamp, size) in self._broken:
                raise InputError(self._broken[stamp, size])
            thumbnail = self._make_thumbnail(entry, stamp, size)
        except InputError as error:
            raise InputError(f"the picture {entry!r:.80} cannot be shown: {error}") from None
        self._cache.put(stamp, size, *thumbnail)
        return thumbnail

    def _make_thumbnail(self, entry: str, stamp: str, size: int) -> tuple[bytes, str]:
        try:
            return make_thumbnail(self._archive.read(entry), size)
        except InputError as error:
            if len(self._broken) < MAX_BROKEN_PICTURES:
                self._broken[stamp, size] = str(error)
            raise
