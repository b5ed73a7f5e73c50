"""A folder or a zip -> the names of the pictures in it, and their bytes, bounded; nothing outside can be reached.

Names come from a list that is made once. What is asked for by another name is not there, whatever it looks like, so no
path is ever made of a name from outside.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import threading
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Protocol

from kinrank.files.opening import regular
from kinrank.pictures.images import ENDINGS

MOST_ENTRIES = 300_000
MOST_BYTES = 64 * 2**20
RATIO = 100  # to which a large entry of a zip may unpack; pictures are packed already
DRIVE = re.compile("[A-Za-z]:")  # how a path on another system begins


class Archive(Protocol):
    """Where pictures are.

    Attributes:
        names: of the pictures, sorted, "/" between folders.
        skipped: why others are not among them -> how many.
    """

    names: list[str]
    skipped: Counter[str]

    def stamp(self, name: str) -> str:
        """A text that changes when the picture does."""
        ...

    def read(self, name: str) -> bytes:
        """The bytes of a picture; a ValueError where it cannot be read or is too large."""
        ...


def opened(path: Path) -> Archive:
    """The pictures at a path; a ValueError where there are none, or too many."""
    archive: Archive = Folder(path) if path.is_dir() else Zip(path)
    if not archive.names:
        why = "".join(f"; {count} left out: {reason}" for reason, count in archive.skipped.items())
        raise ValueError(f"{path} holds no picture that can be shown ({', '.join(ENDINGS)}){why}")
    return archive


class Folder:
    """A folder with everything below it, but for hidden files and links that lead out of it."""

    def __init__(self, path: Path) -> None:
        self._root = os.path.realpath(path)
        self.skipped: Counter[str] = Counter()
        self.names: list[str] = []
        folders = [""]
        while folders:
            for name, is_folder in self._inside(folders.pop()):
                (folders if is_folder else self.names).append(name)
            if len(self.names) > MOST_ENTRIES:
                raise ValueError(f"{path} holds more than {MOST_ENTRIES} pictures; give a folder with fewer")
        self.names.sort()

    def _inside(self, folder: str) -> Iterator[tuple[str, bool]]:
        """The folders and pictures right in a folder, and which they are; links to folders are not followed."""
        try:
            entries = list(os.scandir(os.path.join(self._root, folder)))
        except OSError:
            self.skipped["a folder that cannot be read"] += 1
            return
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield name, True
            elif _is_picture(name):
                if entry.is_symlink() and not self._is_inside(entry.path):
                    self.skipped["a link that leads out of the folder"] += 1
                elif not _is_text(name) or not entry.is_file():
                    self.skipped["no file, or a name that is no text"] += 1
                else:
                    yield name, False

    def _is_inside(self, path: str) -> bool:
        return os.path.commonpath([os.path.realpath(path), self._root]) == self._root

    def stamp(self, name: str) -> str:
        path = os.path.join(self._root, name)
        try:
            found = os.stat(path)
        except OSError:
            raise ValueError("it is not there any more") from None
        return f"{path}\n{found.st_size}\n{found.st_mtime_ns}"

    def read(self, name: str) -> bytes:
        path = os.path.realpath(os.path.join(self._root, name))
        try:
            if not self._is_inside(path):  # it was replaced by a link meanwhile
                raise ValueError("it is a link that leads out of the folder")
            number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(number, "rb") as file:
                if not stat.S_ISREG(os.fstat(number).st_mode):
                    raise ValueError("it is no regular file")
                return _bounded(file.read(MOST_BYTES + 1))
        except OSError as error:
            raise ValueError(f"it cannot be read ({error.strerror})") from None


class Zip:
    """A zip, read in place: its entries are never written anywhere."""

    def __init__(self, path: Path) -> None:
        self.skipped: Counter[str] = Counter()
        self._reading = threading.Lock()
        try:
            self._archive = zipfile.ZipFile(regular(path))
            entries = self._archive.infolist()
        except (zipfile.BadZipFile, UnicodeDecodeError, NotImplementedError) as error:
            raise ValueError(f"{path} is neither a folder nor a zip of pictures ({error}); check the path") from None
        if len(entries) > MOST_ENTRIES:
            raise ValueError(f"{path} has {len(entries)} entries, more than {MOST_ENTRIES}; give a smaller zip")
        self._entries: dict[str, zipfile.ZipInfo] = {}
        for entry in entries:
            if entry.is_dir() or not _is_picture(entry.filename) or _is_hidden(entry.filename):
                continue
            problem = _problem(entry)
            if problem is None:
                self._entries[entry.filename] = entry
            else:
                self.skipped[problem] += 1
        self.names = sorted(self._entries)
        known = hashlib.sha256()  # by content, so that a copy of the zip finds the same thumbnails
        for name in self.names:
            known.update(f"{name}\n{self._crc(name)}\n".encode())
        self._identity = known.hexdigest()

    def _crc(self, name: str) -> str:
        entry = self._entries[name]
        return f"{entry.CRC:08x} {entry.file_size} {entry.compress_size}"

    def stamp(self, name: str) -> str:
        return f"{self._identity}\n{name}\n{self._crc(name)}"

    def read(self, name: str) -> bytes:
        entry = self._entries[name]
        try:
            with self._reading, self._archive.open(entry) as file:
                content = file.read(MOST_BYTES + 1)  # what the entry says of its size is not believed
        except Exception as error:  # zlib, a checksum, a header: each has errors of its own
            raise ValueError(f"it cannot be unpacked ({error})") from None
        if len(content) != entry.file_size:
            raise ValueError(f"it unpacks to {len(content)} bytes but says {entry.file_size}")
        return _bounded(content)


def _problem(entry: zipfile.ZipInfo) -> str | None:
    """Why an entry of a zip is not shown; None if it is."""
    name = PurePosixPath(entry.filename)
    strange = "\\" in entry.filename or "\0" in entry.orig_filename
    if (
        strange
        or DRIVE.match(entry.filename)
        or name.is_absolute()
        or ".." in name.parts
        or not _is_text(entry.filename)
    ):
        return "a name that leads out of the zip"
    if entry.flag_bits & 0x1:
        return "encrypted"
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others are not unpacked piece by piece
        return "packed in another way than deflate"
    if entry.file_size > MOST_BYTES:
        return f"larger than {MOST_BYTES // 2**20} MB"
    if entry.file_size > max(2**20, RATIO * entry.compress_size):
        return f"unpacks to more than {RATIO} times its size"
    return None


def _bounded(content: bytes) -> bytes:
    if len(content) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES // 2**20} MB")
    return content


def _is_picture(name: str) -> bool:
    return name.lower().endswith(ENDINGS)


def _is_hidden(name: str) -> bool:
    """Such as `._x.jpg` and `__MACOSX/x.jpg`, which a Mac adds; a part `..` is something else."""
    return any(part == "__MACOSX" or (part.startswith(".") and part not in ("..", ".")) for part in name.split("/"))


def _is_text(name: str) -> bool:
    """Whether it can be sent as UTF-8: names on a disk are bytes."""
    return not any("\ud800" <= sign <= "\udfff" for sign in name)
