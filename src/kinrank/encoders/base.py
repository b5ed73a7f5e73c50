"""Encoder: pictures or texts -> vectors; what every encoder has, and what it may be given."""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from kinrank.features import Vectors
from kinrank.parameters import whole_number

PICTURES, TEXTS = "pictures", "texts"


@dataclass(frozen=True)
class Options:
    """What an encoder may be given; each says in its file which of these it takes, and any other is refused.

    Attributes:
        model: which of a library's models, by its name there.
        weights: the file of a network's weights.
        scales: factors by which a picture is resized; the vectors of all are put together.
        size: pixels on the longest side of a picture; larger ones are shrunk to it.
        device: where torch computes: "cpu", "cuda", "mps".
        preprocessing: a JSON file that says how a picture becomes the numbers a model reads.
        whitening: which whitening of those that a file of weights holds, or "none".
    """

    model: str | None = None
    weights: str | None = None
    scales: tuple[float, ...] | None = None
    size: int | None = None
    device: str | None = None
    preprocessing: str | None = None
    whitening: str | None = None

    def __post_init__(self) -> None:
        if self.scales is not None:
            if isinstance(self.scales, str) or not all(isinstance(scale, (int, float)) for scale in self.scales):
                raise ValueError(f"scales={self.scales!r} are no numbers; give factors such as (1, 0.7071)")
            if not 1 <= len(self.scales) <= 16 or not all(0.05 <= scale <= 8 for scale in self.scales):
                raise ValueError(f"scales={self.scales} are not allowed; give 1 to 16 factors from 0.05 to 8")
            object.__setattr__(self, "scales", tuple(float(scale) for scale in self.scales))
        if self.size is not None and not 16 <= whole_number(self.size, "size") <= 8192:
            raise ValueError(f"size={self.size} is not allowed; give pixels from 16 to 8192")

    def only(self, encoder: str, *taken: str) -> None:
        """A ValueError if something was given that the encoder has no use for."""
        for option in fields(self):
            if getattr(self, option.name) is not None and option.name not in taken:
                known = f"it takes {' and '.join(taken)}" if taken else "it takes no options"
                raise ValueError(f"{option.name}= has no meaning for the encoder {encoder}: {known}; leave it out")


class Encoder:
    """Makes vectors of pictures, of texts, or of both. It may be called by several threads at the same time.

    Attributes:
        kinds: what it encodes: PICTURES, TEXTS or both.
        dimensions: of a vector.
        facts: everything that decides its vectors, as plain values: name, model, checksum of the weights, sizes,
            versions of libraries. Vectors of the same facts can be compared, others cannot.
        reads: pixels of the shorter side that it makes use of, so that large pictures need not be decoded whole; None
            where every pixel counts.
    """

    kinds: tuple[str, ...] = ()
    dimensions: int = 0
    facts: dict[str, Any]
    reads: int | None = None

    def pictures(self, images: Sequence[Any]) -> Vectors:
        """(n, d) vectors of pictures of Pillow, RGB and upright; each as if it were given alone, but for rounding."""
        raise NotImplementedError

    def cropped(self, image: Any, box: tuple[float, float, float, float]) -> Any:
        """The part of a picture in a box (left, top, right, bottom) in pixels, rounded as Pillow does."""
        return image.crop(tuple(round(side) for side in box))

    def texts(self, texts: Sequence[str]) -> Vectors:
        """(n, d) vectors of texts; each as if it were given alone, but for rounding."""
        raise NotImplementedError


class WrongShape(ValueError):
    """A model that returns something else than a vector of a known length per item: no item can be encoded by it."""


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """In this block torch computes in one thread if it is there: the same input gives the same bits on any number of
    cores, and as many threads as there are cores can encode something else each, which is also faster.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # of this thread only, once it has computed something
    try:
        yield
    finally:
        torch.set_num_threads(before)


def encoded(encoder: Encoder, kind: str, given: Sequence[Any]) -> Vectors:
    """(n, d) the vectors of pictures or texts, computed in one thread; rows may hold NaN, or nothing but zeros.

    A ValueError says why the encoder can make nothing of what it was given; a WrongShape, that it never will.
    """
    if kind not in encoder.kinds:
        raise ValueError(f"the encoder {encoder.facts['encoder']} encodes {' and '.join(encoder.kinds)}, not {kind}")
    try:
        with one_thread():
            made = encoder.pictures(given) if kind == PICTURES else encoder.texts(given)
    except (ValueError, MemoryError):
        raise
    except Exception as error:  # whatever a library, or a function of somebody's, raises
        said = " ".join(str(error).split())[:160]
        raise ValueError(f"the encoder failed on it ({type(error).__name__}: {said})") from error
    return rows(made, len(given), encoder.dimensions)


def checksum(path: str | Path) -> str:
    """The first 32 signs of the SHA-256 of a file, by which weights are told apart."""
    known = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(2**20):
            known.update(chunk)
    return known.hexdigest()[:32]


def rows(vectors: Any, count: int, dimensions: int) -> Vectors:
    """What a library returned as contiguous float32 rows of the expected shape."""
    found = np.ascontiguousarray(vectors, np.float32)
    if found.shape != (count, dimensions):
        raise WrongShape(
            f"the model returned an array of shape {found.shape} for {count} inputs; expected ({count}, {dimensions})"
        )
    return found
