"""A folder or a zip -> the names of the files of some kind in it, and their bytes, bounded; nothing outside is reached.

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
from kinrank.given import CONTROL
from kinrank.pictures.images import ENDINGS

Endings = tuple[str, ...]
MOST_ENTRIES = 2_000_000
UNREADABLE = "it cannot be read"  # how sentences begin about what may be readable the next time
MOST_BYTES = 64 * 2**20
RATIO = 100  # to which a large entry of a zip may unpack; pictures are packed already
DRIVE = re.compile("[A-Za-z]:")  # how a path on another system begins


class Gone(ValueError):
    """A file that was listed and is not there any more."""


class Archive(Protocol):
    """Where files are: pictures, unless other endings were asked for.

    Attributes:
        names: of the files, sorted, "/" between folders.
        skipped: why others are not among them -> how many.
        identity: a text that tells this archive from others.
        unread: folders that could not be read: what is in them is not known to be gone.
    """

    names: list[str]
    skipped: Counter[str]
    identity: str
    unread: list[str]

    def stamp(self, name: str) -> str:
        """A text that changes when the file does; a Gone if it is not there, another ValueError if nobody can say."""
        ...

    def read(self, name: str) -> bytes:
        """The bytes of a file; a ValueError where it cannot be read or is too large."""
        ...

    def again(self, name: str) -> bool:
        """Whether a file of this name is there now, though it was not when the archive was opened."""
        ...


def opened(path: Path, endings: Endings = ENDINGS, most: int = MOST_ENTRIES) -> Archive:
    """The files with these endings at a path; a ValueError where there are none, or too many."""
    archive: Archive = Folder(path, endings, most) if path.is_dir() else Zip(path, endings, most)
    if not archive.names:
        why = "".join(f"; {count} left out: {reason}" for reason, count in archive.skipped.items())
        raise ValueError(f"{path} holds no {_what(endings)} that can be read ({', '.join(endings)}){why}")
    return archive


def has_any(path: Path, endings: Endings) -> bool:
    """Whether a folder holds a file with one of these endings, anywhere below it."""
    for _, folders, files in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith(".")]
        if any(name.lower().endswith(endings) and not name.startswith(".") for name in files):
            return True
    return False


def by_name(names: list[str]) -> dict[str, str]:
    """Shorter names -> the file: without suffix, and without folders where only one is called so.

    Example:
        >>> by_name(["sub/x.jpg"])["x"]
        'sub/x.jpg'
    """
    found: dict[str, str] = {}
    for name in names:
        found.setdefault(os.path.splitext(name)[0], name)  # of x.jpg and x.png the first
    plain: dict[str, str | None] = {}
    for name in names:
        base = name.rpartition("/")[2]
        if base == name:
            continue
        for short in {base, os.path.splitext(base)[0]}:
            plain[short] = None if short in plain else name
    for short, entry in plain.items():
        if entry is not None:
            found.setdefault(short, entry)
    return found


class Folder:
    """A folder with everything below it, but for hidden files and links that lead out of it."""

    def __init__(self, path: Path, endings: Endings = ENDINGS, most: int = MOST_ENTRIES) -> None:
        self._root, self._endings = os.path.realpath(path), endings
        self.identity = self._root
        self.skipped: Counter[str] = Counter()
        self.unread: list[str] = []
        self.names: list[str] = []
        folders = [""]
        while folders:
            for name, is_folder in self._inside(folders.pop()):
                (folders if is_folder else self.names).append(name)
            if len(self.names) > most:
                raise ValueError(f"{path} holds more than {most} {_what(endings)}s; give a folder with fewer")
        self.names.sort()

    def _inside(self, folder: str) -> Iterator[tuple[str, bool]]:
        """The folders and files right in a folder, and which they are; links to folders are not followed."""
        try:
            entries = list(os.scandir(os.path.join(self._root, folder)))
        except FileNotFoundError:  # removed just now
            return
        except OSError:
            self.skipped["a folder that cannot be read"] += 1
            self.unread.append(folder)
            return
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield name, True
            elif name.lower().endswith(self._endings):
                problem = self._problem(entry, name)
                if problem is None:
                    yield name, False
                else:
                    self.skipped[problem] += 1

    def _problem(self, entry: os.DirEntry[str], name: str) -> str | None:
        """Why an entry of a folder is left out; None if it is not."""
        try:
            if entry.is_symlink() and not self._is_inside(entry.path):
                return "a link that leads out of the folder"
            return None if _is_text(name) and entry.is_file() else "no file, or a name that is no line of text"
        except OSError:  # a link that leads to itself
            return "a link that leads nowhere"

    def _is_inside(self, path: str) -> bool:
        return os.path.commonpath([os.path.realpath(path), self._root]) == self._root

    def stamp(self, name: str) -> str:
        try:
            return stamp_of(os.path.join(self._root, name))
        except (FileNotFoundError, NotADirectoryError):
            raise Gone("it is not there any more") from None
        except OSError as error:
            raise ValueError(f"{UNREADABLE} ({error.strerror})") from None

    def again(self, name: str) -> bool:
        parts = name.split("/")
        if not name.lower().endswith(self._endings) or not _is_text(name) or "\0" in name:
            return False
        if any(part.startswith(".") or not part for part in parts):  # hidden, or a way out
            return False
        folder = self._root
        for part in parts[:-1]:  # links to folders are not followed
            folder = os.path.join(folder, part)
            if os.path.islink(folder):
                return False
        path = os.path.join(folder, parts[-1])
        return os.path.isfile(path) and self._is_inside(path)

    def read(self, name: str) -> bytes:
        path = os.path.realpath(os.path.join(self._root, name))
        if not self._is_inside(path):  # it was replaced by a link meanwhile
            raise ValueError("it is a link that leads out of the folder")
        return bounded_file(path, os.O_NOFOLLOW)


def stamp_of(path: str) -> str:
    """A text that changes when the file does."""
    found = os.stat(path)
    return f"{found.st_size} {found.st_mtime_ns}"


def bounded_file(path: str, flags: int = 0) -> bytes:
    """The bytes of a regular file; a ValueError for anything else, and for more than MOST_BYTES."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
        with os.fdopen(number, "rb") as file:
            if not stat.S_ISREG(os.fstat(number).st_mode):
                raise ValueError("it is no regular file")
            return _bounded(file.read(MOST_BYTES + 1))
    except OSError as error:
        raise ValueError(f"{UNREADABLE} ({error.strerror})") from None


class Zip:
    """A zip, read in place: its entries are never written anywhere."""

    def __init__(self, path: Path, endings: Endings = ENDINGS, most: int = MOST_ENTRIES) -> None:
        self.skipped: Counter[str] = Counter()
        self.unread: list[str] = []
        self._reading = threading.Lock()
        try:
            self._archive = zipfile.ZipFile(regular(path))
            entries = self._archive.infolist()
        except (zipfile.BadZipFile, UnicodeDecodeError, NotImplementedError) as error:
            raise ValueError(
                f"{path} is neither a folder nor a zip of {_what(endings)}s ({error}); check the path"
            ) from None
        if len(entries) > most:
            raise ValueError(f"{path} has {len(entries)} entries, more than {most}; give a smaller zip")
        self._entries: dict[str, zipfile.ZipInfo] = {}
        for entry in entries:
            name = entry.filename
            if name.endswith("/") or not name.lower().endswith(endings) or _is_hidden(name):
                continue
            problem = _problem(entry)
            if problem is None:
                self._entries[entry.filename] = entry
            else:
                self.skipped[problem] += 1
        self.names = sorted(self._entries)
        known = hashlib.sha256()  # by content, so that a copy of the zip finds the same thumbnails
        for name in self.names:
            known.update(f"{name}\n{self.stamp(name)}\n".encode())
        self.identity = known.hexdigest()

    def stamp(self, name: str) -> str:
        entry = self._entries[name]
        return f"{entry.CRC:08x} {entry.file_size} {entry.compress_size}"

    def again(self, name: str) -> bool:
        return False

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


def _what(endings: Endings) -> str:
    return "picture" if endings == ENDINGS else "file"


def _is_hidden(name: str) -> bool:
    """Such as `._x.jpg` and `__MACOSX/x.jpg`, which a Mac adds; a part `..` is something else."""
    return any(part == "__MACOSX" or (part.startswith(".") and part not in ("..", ".")) for part in name.split("/"))


def _is_text(name: str) -> bool:
    """Whether it is one line and can be sent as UTF-8: names on a disk are bytes."""
    return CONTROL.search(name) is None
