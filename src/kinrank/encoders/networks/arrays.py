"""What a pickle says about an array of numpy -> the array, without letting it call numpy.

A pickled array asks for four names of numpy, and for six in files of all its versions. Here each stands for a small
function that takes what such a file gives it and understands nothing but numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

KINDS = ("f2", "f4", "f8", "i4", "i8", "u1", "b1")


class Kind:
    """Stands for numpy.dtype: which numbers, and the order of their bytes."""

    def __init__(self, code: str, *_: Any) -> None:
        if code not in KINDS:
            raise ValueError(f"an array of {code!r:.20} is not read")
        self.code, self.order = code, "<"

    def __setstate__(self, state: Any) -> None:
        self.order = ">" if state[1] == ">" else "<"

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.order + self.code)


class Array:
    """Stands for numpy.ndarray: its numbers, once they are known."""

    values: NDArray[Any] = np.zeros(0)

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_columns, content = state
        if not isinstance(kind, Kind) or not isinstance(content, bytes):
            raise ValueError("an array of objects is not read")
        flat = np.frombuffer(content, kind.dtype).astype(kind.dtype.newbyteorder("="))
        self.values = flat.reshape(tuple(shape), order="F" if by_columns else "C")


def begun(*_: Any) -> Array:
    """Stands for the function that begins an array."""
    return Array()


def single(kind: Kind, content: bytes) -> Any:
    """Stands for the function that makes a single number."""
    return np.frombuffer(content, kind.dtype)[0].item()


NAMES: list[Callable[..., Any] | tuple[Callable[..., Any], str]] = [
    (Kind, "numpy.dtype"),
    (Array, "numpy.ndarray"),
    *((begun, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")),  # of numpy 1 and of numpy 2
    *((single, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
]


def plain(value: Any) -> Any:
    """The array itself, where a file held one."""
    return value.values if isinstance(value, Array) else value
