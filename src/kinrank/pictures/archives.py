"""Files of some kinds in a folder, a zip or a list of paths. Sizes are limited, and no other file is reached."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import threading
import zipfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from kinrank.errors import InputError
from kinrank.files.path_checks import check_regular_file
from kinrank.ids import CONTROL_CHARACTERS
from kinrank.pictures.images import PICTURE_ENDINGS

Endings = tuple[str, ...]
MAX_ENTRIES = 2_000_000
UNREADABLE = "it cannot be read"  # start of messages about files that may be readable the next time
MAX_FILE_BYTES = 64 * 2**20
MAX_COMPRESSION_RATIO = 100  # of a large entry of a zip; pictures are compressed already
DRIVE_PATTERN = re.compile("[A-Za-z]:")  # start of a Windows path


class ItemMissingError(InputError):
    """A file that was listed no longer exists."""


class Archive(ABC):
    """A collection of files: pictures, or files with the given endings.

    Attributes:
        names: names of the files, sorted, with "/" between folders.
        skipped: reason -> number of files that were left out.
        identity: a text that distinguishes this archive from others.
        unread: folders that could not be read, so that their files may still exist.
    """

    names: list[str]
    identity: str

    def __init__(self) -> None:
        self.skipped: Counter[str] = Counter()
        self.unread: list[str] = []

    @abstractmethod
    def stamp(self, name: str) -> str:
        """Return a text that changes with the file.

        Raises an ItemMissingError if it does not exist, and another InputError if it cannot be examined.
        """

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return the bytes of a file. Raises an InputError if it cannot be read or is too large."""

    def again(self, name: str) -> bool:
        """True if a file with this name exists now, although it did not when the archive was opened."""
        return False


def open_archive(path: Path, endings: Endings = PICTURE_ENDINGS, most: int = MAX_ENTRIES) -> Archive:
    """Open the files with these endings at a path. Raises an InputError if there are none, or too many."""
    archive: Archive = FolderArchive(path, endings, most) if path.is_dir() else ZipArchive(path, endings, most)
    if not archive.names:
        left_out = "".join(f"; {count} left out: {reason}" for reason, count in archive.skipped.items())
        raise InputError(f"{path} contains no readable {_describe_kind(endings)} ({', '.join(endings)}){left_out}")
    return archive


def contains_files(path: Path, endings: Endings) -> bool:
    """True if a folder contains a file with one of these endings, at any depth."""
    for _, folders, files in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith(".")]
        if any(name.lower().endswith(endings) and not name.startswith(".") for name in files):
            return True
    return False


def index_short_names(names: list[str]) -> dict[str, str]:
    """Map shorter names to files: without suffix, and without folders if the name is unique.

    Example:
        >>> index_short_names(["sub/x.jpg"])["x"]
        'sub/x.jpg'
    """
    index: dict[str, str] = {}
    for name in names:
        index.setdefault(os.path.splitext(name)[0], name)  # of x.jpg and x.png, the first one
    plain: dict[str, str | None] = {}
    for name in names:
        base = name.rpartition("/")[2]
        if base == name:
            continue
        for short in {base, os.path.splitext(base)[0]}:
            plain[short] = None if short in plain else name
    for short, entry in plain.items():
        if entry is not None:
            index.setdefault(short, entry)
    return index


class FolderArchive(Archive):
    """Files below a folder, without hidden files and links that lead out of it."""

    def __init__(self, path: Path, endings: Endings = PICTURE_ENDINGS, most: int = MAX_ENTRIES) -> None:
        super().__init__()
        self._root, self._endings = os.path.realpath(path), endings
        self.identity, self.names = self._root, []
        folders = [""]
        while folders:
            for name, is_folder in self._inside(folders.pop()):
                (folders if is_folder else self.names).append(name)
            if len(self.names) > most:
                raise InputError(
                    f"{path} contains more than {most} {_describe_kind(endings)}s", allowed="a folder with fewer"
                )
        self.names.sort()

    def _inside(self, folder: str) -> Iterator[tuple[str, bool]]:
        """Yield the folders (True) and files (False) in a folder; links to folders are not followed."""
        try:
            entries = list(os.scandir(os.path.join(self._root, folder)))
        except FileNotFoundError:  # removed in the meantime
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
        """Return the reason why an entry is left out; None if it is not."""
        try:
            if entry.is_symlink() and not self._is_inside(entry.path):
                return "a link that leads out of the folder"
            return None if _is_text(name) and entry.is_file() else "not a file, or a name that is not a line of text"
        except OSError:  # a link to itself
            return "a broken link"

    def _is_inside(self, path: str) -> bool:
        return os.path.commonpath([os.path.realpath(path), self._root]) == self._root

    def stamp(self, name: str) -> str:
        return stamp_file(os.path.join(self._root, name), "it no longer exists")

    def again(self, name: str) -> bool:
        parts = name.split("/")
        if not name.lower().endswith(self._endings) or not _is_text(name) or "\0" in name:
            return False
        if any(part.startswith(".") or not part for part in parts):  # hidden, or leads out of the folder
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
        if not self._is_inside(path):  # replaced by a link in the meantime
            raise InputError("it is a link that leads out of the folder")
        return read_bounded_file(path, os.O_NOFOLLOW)


def stamp_file(path: str, missing: str = "it does not exist") -> str:
    """Return a text that changes with the file; an ItemMissingError with a message if it does not exist."""
    try:
        return make_stamp(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a name that no file can have
        raise ItemMissingError(missing) from None
    except OSError as error:
        raise InputError(f"{UNREADABLE} ({error.strerror})") from None


def make_stamp(path: str) -> str:
    """Return a text that changes with the file."""
    status = os.stat(path)
    return f"{status.st_size} {status.st_mtime_ns}"


def read_bounded_file(path: str, flags: int = 0) -> bytes:
    """Return the bytes of a regular file. Raises an InputError for anything else, and for more than MAX_FILE_BYTES."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
        with os.fdopen(number, "rb") as file:
            if not stat.S_ISREG(os.fstat(number).st_mode):
                raise InputError("it is not a regular file")
            return _check_size(file.read(MAX_FILE_BYTES + 1))
    except OSError as error:
        raise InputError(f"{UNREADABLE} ({error.strerror})") from None


class ZipArchive(Archive):
    """Files in a zip, which is read in place: entries are never written to the disk."""

    def __init__(self, path: Path, endings: Endings = PICTURE_ENDINGS, most: int = MAX_ENTRIES) -> None:
        super().__init__()
        self._reading = threading.Lock()
        try:
            self._archive = zipfile.ZipFile(check_regular_file(path))
            entries = self._archive.infolist()
        except (zipfile.BadZipFile, UnicodeDecodeError, NotImplementedError) as error:
            raise InputError(
                f"{path} is neither a folder nor a zip of {_describe_kind(endings)}s ({error})", remedy="check the path"
            ) from None
        if len(entries) > most:
            raise InputError(f"{path} has {len(entries)} entries, more than {most}", allowed="a smaller zip")
        self._entries: dict[str, zipfile.ZipInfo] = {}
        for entry in entries:
            name = entry.filename
            if name.endswith("/") or not name.lower().endswith(endings) or _is_hidden(name):
                continue
            problem = _find_zip_problem(entry)
            if problem is None:
                self._entries[entry.filename] = entry
            else:
                self.skipped[problem] += 1
        self.names = sorted(self._entries)
        known = hashlib.sha256()  # by content, so that a copy of the zip has the same thumbnails
        for name in self.names:
            known.update(f"{name}\n{self.stamp(name)}\n".encode())
        self.identity = known.hexdigest()

    def stamp(self, name: str) -> str:
        entry = self._entries[name]
        return f"{entry.CRC:08x} {entry.file_size} {entry.compress_size}"

    def read(self, name: str) -> bytes:
        entry = self._entries[name]
        try:
            with self._reading, self._archive.open(entry) as file:
                content = file.read(MAX_FILE_BYTES + 1)  # the size that the entry claims is not trusted
        except Exception as error:  # zlib, checksums and headers have their own errors
            raise InputError(f"it cannot be unpacked ({error})") from None
        if len(content) != entry.file_size:
            raise InputError(f"it unpacks to {len(content)} bytes but claims {entry.file_size}")
        return _check_size(content)


def _find_zip_problem(entry: zipfile.ZipInfo) -> str | None:
    """Return the reason why an entry of a zip is left out; None if it is not."""
    name = PurePosixPath(entry.filename)
    strange = "\\" in entry.filename or "\0" in entry.orig_filename
    if (
        strange
        or DRIVE_PATTERN.match(entry.filename)
        or name.is_absolute()
        or ".." in name.parts
        or not _is_text(entry.filename)
    ):
        return "a name that leads out of the zip"
    if entry.flag_bits & 0x1:
        return "encrypted"
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others cannot be unpacked in pieces
        return "compressed by another method than deflate"
    if entry.file_size > MAX_FILE_BYTES:
        return f"larger than {MAX_FILE_BYTES // 2**20} MB"
    if entry.file_size > max(2**20, MAX_COMPRESSION_RATIO * entry.compress_size):
        return f"unpacks to more than {MAX_COMPRESSION_RATIO} times its size"
    return None


def _check_size(content: bytes) -> bytes:
    """Return the content if it is not too large."""
    if len(content) > MAX_FILE_BYTES:
        raise InputError(f"it is larger than {MAX_FILE_BYTES // 2**20} MB")
    return content


def _describe_kind(endings: Endings) -> str:
    """Return a word for the kind of files."""
    return "picture" if endings == PICTURE_ENDINGS else "file"


def _is_hidden(name: str) -> bool:
    """True for names such as `._x.jpg` and `__MACOSX/x.jpg`, which macOS adds; a part `..` is handled elsewhere."""
    return any(part == "__MACOSX" or (part.startswith(".") and part not in ("..", ".")) for part in name.split("/"))


def _is_text(name: str) -> bool:
    """True if the name is one line and can be sent as UTF-8; names on a disk are bytes."""
    return CONTROL_CHARACTERS.search(name) is None


class PathListArchive(Archive):
    """Files given by a list of paths, relative to a folder or absolute; the author of the list may name any file."""

    def __init__(self, paths: Sequence[str], folder: Path) -> None:
        super().__init__()
        self._paths = {path: os.path.join(folder, path) for path in paths}
        if len(self._paths) < len(paths):
            repeated = next(path for path, count in Counter(paths).items() if count > 1)
            raise InputError(f"the list contains {repeated!r:.100} more than once", remedy="list every file once")
        self.names, self.identity = list(paths), os.path.realpath(folder)

    def stamp(self, name: str) -> str:
        return stamp_file(self._paths[name])

    def read(self, name: str) -> bytes:
        return read_bounded_file(self._paths[name])
