"""Checks of paths, pipes and sizes before reading: refuse devices, waiting pipes and input that exceeds the memory."""

from __future__ import annotations

import stat
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from kinrank.errors import MemoryLimitError, MissingExtraError, MissingFileError, UnreadableFileError
from kinrank.memory_limit import default_limit_bytes, format_bytes

STANDARD_INPUT = "standard input"
NPY_REMEDY = "save it as .npy, which is read in place"
NPY_MAGIC = b"\x93NUMPY"  # first bytes of every .npy file
FILE_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def check_regular_file(path: Path) -> Path:
    """Return the path if it is a regular file. Opening a pipe may wait forever, and a device may never end."""
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except PermissionError:
        raise
    except (OSError, ValueError):  # ValueError: a name that no file can have
        raise MissingFileError(f"{path} does not exist, or is not a file; check the path") from None
    if kind != stat.S_IFREG:
        actual = FILE_KINDS.get(kind, "something else")
        raise UnreadableFileError(f"{path} is {actual}, but only regular files are read", remedy="check the path")
    return path


def check_fits_memory(name: object, size: int, limit: int | None = None, advice: str = NPY_REMEDY) -> None:
    """Refuse content that exceeds the memory before it is allocated: a small file can unpack to a huge array."""
    limit = default_limit_bytes() if limit is None else limit
    if size > limit:
        raise MemoryLimitError(
            f"{name} unpacks to {format_bytes(size)}, but only {format_bytes(limit)} are free; {advice}"
        )


def read_pipe(stream: IO[bytes]) -> bytes:
    """Read a .npy file or text from a pipe, at most a quarter of the available memory."""
    limit, chunks, size = default_limit_bytes() // 4, [b""], 0
    while chunk := stream.read(2**20):
        chunks.append(chunk)
        size += len(chunk)
        if not chunks[1].startswith(NPY_MAGIC) and b"\0" in chunk:
            raise UnreadableFileError(f"{STANDARD_INPUT} is neither a .npy file nor text", remedy="pipe one of these")
        if size > limit:
            raise MemoryLimitError(
                f"{STANDARD_INPUT} is larger than the {format_bytes(limit)} that are read from a pipe; {NPY_REMEDY}"
            )
    return b"".join(chunks)


def import_optional(module: str, path: Path) -> Any:
    """Import a package that only some formats need, or raise an error that says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise MissingExtraError(
            f"reading {path.suffix} files needs {package}; install it in a clone of kinrank with: pip install '.[io]'"
        ) from error
