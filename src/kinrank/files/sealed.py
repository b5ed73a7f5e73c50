"""Arrays and what is said about them <-> an .npz file without objects, sealed with a checksum of all it holds."""

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

from kinrank.files.arrays import headers, read_npz
from kinrank.files.atomic import replacing
from kinrank.files.opening import FileProblem, fits, regular
from kinrank.memory import NotEnoughMemory

ENDING = ".npz"
SEAL = ("version", "about", "sha256")  # what stands in such a file beside its arrays
Arrays = dict[str, NDArray[Any]]


class Words(NamedTuple):
    """What errors say of a kind of file: "saved whitening", "a whitening", who writes it, how to get a new one."""

    what: str
    one: str
    writer: str
    again: str


def write(
    path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], about: dict[str, Any], version: int
) -> None:
    """Written beside the path and renamed, so never half there; the seal follows the order of the arrays."""
    with replacing(path) as file:
        file.write(content_of(arrays, about, version))


def content_of(arrays: Mapping[str, NDArray[Any]], about: dict[str, Any], version: int) -> bytes:
    """The bytes of such a file."""
    told = json.dumps(about, sort_keys=True)
    file = io.BytesIO()
    seal = {"version": np.array(version), "about": np.array(told), "sha256": np.array(_seal(version, arrays, told))}
    np.savez(file, **{**arrays, **seal})  # type: ignore[arg-type]
    return file.getvalue()


def read(
    path: Path, words: Words, version: int, names: Sequence[str] | None = None
) -> tuple[Arrays, dict[str, Any], str]:
    """The arrays, what is said about them, and the checksum; one sentence for everything that is no such file.

    Args:
        names: the arrays such a file must have, in the order of its seal; None: any, in the order of the file.
    """
    place = regular(ends_well(path, words))
    try:
        claimed = headers(place)
        wanted = [name for name in claimed if name not in SEAL] if names is None else list(names)
        missing = [name for name in (*SEAL, *wanted) if name not in claimed]
        if missing:
            raise FileProblem(f"{place} is no {words.what}: it has no {missing[0]!r}; give what {words.writer} wrote")
        fits(place, sum(claimed[name].size for name in (*SEAL, *wanted)), advice=f"give what {words.writer} wrote")
        arrays = {name: read_npz(place, name, claimed[name]) for name in wanted}
        found, told, seal = (read_npz(place, name, claimed[name]) for name in SEAL)
        if int(found) != version:
            raise FileProblem(
                f"{place} has version {int(found)} of the format and this program reads {version}; {words.again}"
            )
        about = json.loads(str(told))
        if str(seal) != _seal(int(found), arrays, str(told)):
            raise FileProblem(f"{place} is damaged: its numbers do not fit its checksum; {words.again}")
    except (FileProblem, NotEnoughMemory):
        raise
    except Exception as error:  # zip, header, JSON: each has errors of its own
        said = " ".join(str(error).split())[:200]
        raise ValueError(
            f"{place} is truncated, damaged or no {words.what} ({said}); give what {words.writer} wrote"
        ) from error
    return arrays, about, str(seal)


def ends_well(path: Path, words: Words) -> Path:
    """The path, if it ends as such files do."""
    if path.suffix.lower() != ENDING:
        raise ValueError(f"{path} has the unknown ending {path.suffix!r}; {words.one} is saved as {ENDING}")
    return path


def _seal(version: int, arrays: Mapping[str, NDArray[Any]], told: str) -> str:
    digest = hashlib.sha256(f"{version} {told}".encode())
    for array in arrays.values():
        digest.update(f" {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
