"""Encoder: base class of all encoders, and their options."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from kinrank.encoders.descriptors import DESCRIPTORS
from kinrank.errors import EncoderOutputError, InputError
from kinrank.files.checksummed_npz import file_checksum
from kinrank.parameters import check_whole_number
from kinrank.vector_input import Vectors

PICTURES, TEXTS = "pictures", "texts"


@dataclass(frozen=True)
class Options:
    """Options of encoders. Each encoder accepts some of them and refuses the others.

    Attributes:
        model: name of the model in its library.
        weights: file with the weights of a network.
        scales: factors by which an image is resized; the vectors of all scales are combined.
        size: maximum number of pixels on the longest side of an image; larger images are shrunk.
        device: device of torch: "cpu", "cuda", "mps".
        preprocessing: JSON file that describes how an image becomes the input of a model.
        whitening: name of a whitening in the file of weights, or "none".
        pooling: names in DESCRIPTORS, which turn the last feature map into a vector; those of several are concatenated.
    """

    model: str | None = None
    weights: str | None = None
    scales: tuple[float, ...] | None = None
    size: int | None = None
    device: str | None = None
    preprocessing: str | None = None
    whitening: str | None = None
    pooling: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.pooling is not None:
            names = (self.pooling,) if isinstance(self.pooling, str) else tuple(self.pooling)
            if not names or len(set(names)) < len(names) or not all(name in DESCRIPTORS for name in names):
                raise InputError(
                    parameter="pooling", given=self.pooling, allowed=f"different names of {', '.join(DESCRIPTORS)}"
                )
            object.__setattr__(self, "pooling", names)
        if self.scales is not None:
            if isinstance(self.scales, str) or not all(isinstance(scale, (int, float)) for scale in self.scales):
                raise InputError(
                    "is not a sequence of numbers",
                    parameter="scales",
                    given=self.scales,
                    allowed="factors such as (1, 0.7071)",
                )
            if not 1 <= len(self.scales) <= 16 or not all(0.05 <= scale <= 8 for scale in self.scales):
                raise InputError(parameter="scales", given=self.scales, allowed="1 to 16 factors from 0.05 to 8")
            object.__setattr__(self, "scales", tuple(float(scale) for scale in self.scales))
        if self.size is not None and not 16 <= check_whole_number(self.size, "size") <= 8192:
            raise InputError(parameter="size", given=self.size, allowed="pixels from 16 to 8192")

    def allow_only(self, encoder: str, *taken: str) -> None:
        """Raise InputError if an option is set that the encoder does not use."""
        for option in fields(self):
            if getattr(self, option.name) is not None and option.name not in taken:
                known = f"it takes {' and '.join(f'`{name}`' for name in taken)}" if taken else "it takes no options"
                raise InputError(
                    f"has no meaning for the encoder {encoder}: {known}", parameter=option.name, remedy="leave it out"
                )


class Encoder:
    """Encodes images, texts, or both. Several threads may call it at the same time.

    Attributes:
        kinds: content that it encodes: PICTURES, TEXTS or both.
        dimensions: length of a vector.
        facts: everything that determines its vectors, as plain values: name, model, checksum of the weights, sizes,
            versions of libraries. Only vectors with equal facts can be compared.
        reads: number of pixels on the shorter side that it uses, so that large images can be decoded at a lower
            resolution; None if every pixel counts.
        columns: pooling -> number of columns of its vectors, if the option `pooling` was given. `facts["pool"]` then
            has the names with "+" between them.
    """

    kinds: tuple[str, ...] = ()
    dimensions: int = 0
    facts: dict[str, Any]
    reads: int | None = None
    columns: Mapping[str, int] = MappingProxyType({})

    def pictures(self, images: Sequence[Any]) -> Vectors:
        """Return the (n, d) vectors of upright RGB images of Pillow. Except for rounding, they do not depend on each
        other.
        """
        raise NotImplementedError

    def crop(self, image: Any, box: tuple[float, float, float, float]) -> Any:
        """Return the part of an image in a box (left, top, right, bottom) in pixels, rounded as in Pillow.

        Its attribute `whole_size` is the size of the image, so that `pictures` can give the part the same scale.
        """
        part = image.crop(tuple(round(side) for side in box))
        part.whole_size = image.size
        return part

    def texts(self, texts: Sequence[str]) -> Vectors:
        """Return the (n, d) vectors of texts. Except for rounding, they do not depend on each other."""
        raise NotImplementedError


@contextlib.contextmanager
def use_one_thread() -> Iterator[None]:
    """Make torch, if it is imported, compute in one thread in this block.

    The same input then gives the same bits on any number of cores. Encoding one item per core is also faster.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # affects this thread only, once it has computed something
    try:
        yield
    finally:
        torch.set_num_threads(before)


def encode_items(encoder: Encoder, kind: str, given: Sequence[Any]) -> Vectors:
    """Return the (n, d) vectors of images or texts, computed in one thread. Rows may contain NaN, or only zeros.

    Raise InputError if the encoder fails on these items, and EncoderOutputError if its output is always unusable.
    """
    if kind not in encoder.kinds:
        raise InputError(f"the encoder {encoder.facts['encoder']} encodes {' and '.join(encoder.kinds)}, not {kind}")
    try:
        with use_one_thread():
            made = encoder.pictures(given) if kind == PICTURES else encoder.texts(given)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # anything that a library or a function of the user raises
        message = " ".join(str(error).split())[:160]
        raise InputError(f"the encoder failed on it ({type(error).__name__}: {message})") from error
    return check_rows(made, len(given), encoder.dimensions)


def weights_checksum(path: str | Path) -> str:
    """Return the first 32 hexadecimal digits of the SHA-256 of a file, which identify weights."""
    return file_checksum(path)[:32]


def check_rows(vectors: Any, count: int, dimensions: int) -> Vectors:
    """Return the output of a library as contiguous float32 rows. Raise EncoderOutputError for a wrong shape."""
    found = np.ascontiguousarray(vectors, np.float32)
    if found.shape != (count, dimensions):
        raise EncoderOutputError(
            f"the model returned an array of shape {found.shape} for {count} inputs; expected ({count}, {dimensions})"
        )
    return found
