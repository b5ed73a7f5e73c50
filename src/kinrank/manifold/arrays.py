"""A .npy file and what the manifest says of it -> the array, mapped or read; never more than the file holds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ALIGNED = 64  # bytes at whose multiples numpy lets the numbers of a file begin


def open_array(path: Path, entry: dict[str, Any], mmap: bool) -> NDArray[Any]:
    """The array of a file as `save` writes it, with the dtype and the shape of its entry in the manifest; a ValueError
    for any other file.

    The size of the file is compared first: a header of a few bytes may claim more numbers than there is memory.
    """
    try:
        shape, kind = _checked_header(path)
        # copy on write: the loops are compiled for writable arrays, and nothing ever reaches the file
        array = np.load(path, mmap_mode="c" if mmap and 0 not in shape else None, allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # numpy reads a header as a piece of Python, in which anything can be wrong
        raise ValueError(f"{path} is not an array: {error}") from error
    if kind.str != entry["dtype"] or list(shape) != entry["shape"]:
        raise ValueError(f"{path} does not hold what the manifest says: {kind} {shape}")
    return np.asarray(array)


def check_file(path: Path) -> None:
    """A ValueError for a pipe, a device or a folder in the place of a file: reading it might never end."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a file; save the manifold again")


def _checked_header(path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype that the header claims; a ValueError unless just so many bytes follow, row after row."""
    with path.open("rb") as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError("it is of another version of the format than kinrank writes")
        shape, columns_first, kind = np.lib.format.read_array_header_1_0(file)
        start = file.tell()
        file.seek(0, 2)
        held = file.tell() - start
    if kind.hasobject or columns_first or start % ALIGNED or any(size < 0 for size in shape):
        raise ValueError("it is not written as kinrank writes arrays")
    claimed = math.prod(shape) * kind.itemsize
    if claimed != held:
        raise ValueError(f"its header claims {claimed} bytes of numbers, and {held} are there")
    return shape, kind
