"""A path or a pipe -> something that ends and fits: devices, waiting pipes and endless input are refused at once."""

from __future__ import annotations

import stat
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from kinrank.memory import NotEnoughMemory, allowed_bytes, in_words

STANDARD_INPUT = "standard input"
IN_PLACE = "save it as .npy, which is read in place"
NPY = b"\x93NUMPY"  # how every .npy file starts
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class FileProblem(ValueError):
    """A file that cannot be read, with a sentence that says why; other errors mean that it is damaged."""


def regular(path: Path) -> Path:
    """The path, if a regular file is there: opening a pipe may wait for ever, and a device may never end."""
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except PermissionError:
        raise
    except (OSError, ValueError):  # ValueError: a name that no file can have
        raise FileNotFoundError(f"{path} is not there, or is not a file; check the path") from None
    if kind != stat.S_IFREG:
        what = KINDS.get(kind, "something else")
        raise FileProblem(f"{path} is {what} and not a file; only regular files are read: check the path")
    return path


def fits(name: object, size: int, limit: int | None = None, advice: str = IN_PLACE) -> None:
    """Refuse before allocating what this machine cannot hold: a small file can unpack to a huge array."""
    limit = allowed_bytes() if limit is None else limit
    if size > limit:
        raise NotEnoughMemory(f"{name} unpacks to {in_words(size)} but only {in_words(limit)} are free; {advice}")


def piped(stream: IO[bytes]) -> bytes:
    """Everything that comes through a pipe: a .npy file or text, at most a quarter of the memory there is."""
    limit, chunks, size = allowed_bytes() // 4, [b""], 0
    while chunk := stream.read(2**20):
        chunks.append(chunk)
        size += len(chunk)
        if not chunks[1].startswith(NPY) and b"\0" in chunk:
            raise FileProblem(f"{STANDARD_INPUT} is neither a .npy file nor text; pipe one of the two")
        if size > limit:
            raise NotEnoughMemory(
                f"{STANDARD_INPUT} has more than the {in_words(limit)} that are read from a pipe; {IN_PLACE}"
            )
    return b"".join(chunks)


def optional(module: str, path: Path) -> Any:
    """A package that only some formats need, or an ImportError that says what to install."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(f"reading {path.suffix} files needs {package}; pip install 'kinrank[io]'") from error
