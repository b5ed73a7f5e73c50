"""A picture that somebody gives -> its vector, by a function that whoever started the service has named."""

from __future__ import annotations

import base64
import binascii
import importlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np

from kinrank.deferred import needed
from kinrank.pictures.images import shrunk

Encoder = Callable[[Any], Any]
SIDE = 1024  # pixels that a picture has at most on its longest side when it is encoded


def encoder_named(words: str) -> Encoder:
    """The function that `package.module:function` names; it takes an RGB picture of Pillow and returns its vector."""
    module, colon, name = words.partition(":")
    if not colon or not module or not name:
        raise ValueError(f"--encoder {words} names no function; give it as package.module:function")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"--encoder {words} cannot be imported ({error}); is the package installed here?") from error
    if not callable(found):
        raise ValueError(f"--encoder {words} is no function; give it as package.module:function")
    encoder: Encoder = found
    return encoder


def encoded(encoder: Encoder, picture: str, width: int) -> list[float]:
    """The vector of a picture in base64; a ValueError for what is no picture, or where the encoder does not fit."""
    try:
        content = base64.b64decode(picture, validate=True)
    except binascii.Error:
        raise ValueError("image is no base64; send the bytes of a picture in it") from None
    try:
        small, _ = shrunk(content, SIDE)
    except ValueError as error:
        raise ValueError(f"this picture cannot be used: {error}") from None
    with needed("PIL.Image", "encoding pictures", "web").open(io.BytesIO(small)) as image:
        vector = np.asarray(encoder(image.convert("RGB")), np.float32).reshape(-1)
    if len(vector) != width or not np.isfinite(vector).all() or not vector.any():
        raise ValueError(
            f"the encoder made {len(vector)} numbers of this picture, and the gallery has vectors of {width}; both "
            "must come from the same model, and hold finite numbers, not all 0"
        )
    numbers: list[float] = vector.tolist()
    return numbers
