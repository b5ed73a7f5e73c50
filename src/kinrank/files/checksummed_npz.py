"""Checksums of files; .npz files of arrays and metadata, without Python objects, with a checksum of all content."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError, MemoryLimitError, UnreadableFileError
from kinrank.files.atomic import atomic_write
from kinrank.files.numpy_files import read_headers, read_npz
from kinrank.files.path_checks import check_fits_memory, check_regular_file

FILE_ENDING = ".npz"
SEAL_KEYS = ("version", "about", "sha256")  # entries of such a file in addition to its arrays
Arrays = dict[str, NDArray[Any]]


class FileWording(NamedTuple):
    """Words for error messages about a kind of file.

    Attributes:
        what: name of the kind, such as "saved whitening".
        one: with an article, such as "a whitening".
        writer: what writes it, such as "Whitening.save".
        again: how to get a new one.
    """

    what: str
    one: str
    writer: str
    again: str


def write_npz(
    path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], about: dict[str, Any], version: int
) -> None:
    """Write the file atomically. The checksum depends on the order of the arrays."""
    with atomic_write(path) as file:
        file.write(pack_npz(arrays, about, version))


def pack_npz(arrays: Mapping[str, NDArray[Any]], about: dict[str, Any], version: int) -> bytes:
    """Return the bytes of the file."""
    metadata = json.dumps(about, sort_keys=True)
    file = io.BytesIO()
    seal = {
        "version": np.array(version),
        "about": np.array(metadata),
        "sha256": np.array(_compute_checksum(version, arrays, metadata)),
    }
    np.savez(file, **{**arrays, **seal})  # type: ignore[arg-type]
    return file.getvalue()


def read_checked_npz(
    path: Path, words: FileWording, version: int, names: Sequence[str] | None = None
) -> tuple[Arrays, dict[str, Any], str]:
    """Read and check the file. Return the arrays, the metadata and the checksum. Any other file raises an InputError.

    Args:
        path: the file.
        words: words for error messages.
        version: version of the format.
        names: arrays that the file must contain, in the order of its checksum; None for any, in the order of the file.
    """
    check_regular_file(check_ending(path, words))
    try:
        claimed = read_headers(path)
        wanted = [name for name in claimed if name not in SEAL_KEYS] if names is None else list(names)
        missing = [name for name in (*SEAL_KEYS, *wanted) if name not in claimed]
        if missing:
            raise UnreadableFileError(
                f"{path} is not a {words.what}: it has no {missing[0]!r}", allowed=f"a file that {words.writer} wrote"
            )
        check_fits_memory(
            path,
            sum(claimed[name].size for name in (*SEAL_KEYS, *wanted)),
            advice=f"give a file that {words.writer} wrote",
        )
        arrays = {name: read_npz(path, name, claimed[name]) for name in wanted}
        number, metadata, seal = (read_npz(path, name, claimed[name]) for name in SEAL_KEYS)
        if int(number) != version:
            raise UnreadableFileError(
                f"{path} has version {int(number)} of the format, but this program reads version {version}",
                remedy=words.again,
            )
        about = json.loads(str(metadata))
        if str(seal) != _compute_checksum(int(number), arrays, str(metadata)):
            raise UnreadableFileError(f"{path} is damaged: its checksum differs", remedy=words.again)
    except (UnreadableFileError, MemoryLimitError):
        raise
    except Exception as error:  # zip, header and JSON have their own errors
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{path} is truncated, damaged or not a {words.what} ({reason})",
            allowed=f"a file that {words.writer} wrote",
        ) from error
    return arrays, about, str(seal)


def check_ending(path: Path, words: FileWording) -> Path:
    """Return the path if it has the ending of such files."""
    if path.suffix.lower() != FILE_ENDING:
        raise InputError(
            f"{path} has the unknown ending {path.suffix!r}", remedy=f"{words.one} is saved as {FILE_ENDING}"
        )
    return path


def _compute_checksum(version: int, arrays: Mapping[str, NDArray[Any]], metadata: str) -> str:
    """Compute the checksum of version, metadata and arrays."""
    digest = hashlib.sha256(f"{version} {metadata}".encode())
    for array in arrays.values():
        digest.update(f" {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def file_checksum(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()
