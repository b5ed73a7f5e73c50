"""Small encoder of pictures and texts, both in 8 dimensions, for tests of uploads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from kinrank.encoders import encoder_registry
from kinrank.encoders.base import PICTURES, TEXTS, Encoder, Options

RECIPE = {"name": "tiny"}


class Tiny(Encoder):
    """Encodes pictures by the mean of eight stripes, texts by their letters. "fail" fails, "nothing" is zero."""

    kinds = (PICTURES, TEXTS)
    dimensions = 8
    reads = 8

    def __init__(self) -> None:
        self.facts = {"encoder": "tiny"}

    def pictures(self, images: Sequence[Any]) -> np.ndarray:
        return np.stack([eight(image) for image in images])

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        return np.stack([self._text(text) for text in texts])

    def _text(self, text: str) -> np.ndarray:
        if text == "fail":
            raise RuntimeError("the network is\n unwell")
        counts = np.zeros(8, np.float32)
        if text != "nothing":
            np.add.at(counts, np.frombuffer(text.encode(), np.uint8) % 8, 1.0)
        return counts


def open_with_options(options: Options) -> Encoder:
    """Open the encoder, as the registry does."""
    return Tiny()


def eight(image: Any) -> Any:
    """Return the mean of eight stripes, which are lighter or darker than grey."""
    return np.asarray(image.resize((8, 8)), np.float32).mean(axis=(0, 2)) - 127.0


@contextlib.contextmanager
def known() -> Iterator[dict[str, Any]]:
    """Register the encoder for this block; yield its recipe."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(encoder_registry.ENCODERS, "tiny", "web.tiny")
        yield RECIPE
