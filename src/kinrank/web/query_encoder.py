"""QueryEncoder: vectors of pictures and texts in requests, by the encoder of the gallery."""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from kinrank.encoders.base import PICTURES, TEXTS, Encoder, encode_items
from kinrank.encoders.encoder_registry import Recipe
from kinrank.errors import InputError
from kinrank.lazy_import import import_extra
from kinrank.pictures.images import decode_picture
from kinrank.vector_input import Vectors

ENCODER_KINDS = (PICTURES, TEXTS)
MAX_UPLOADS = 16  # pictures or texts per request
MAX_TEXT_CHARACTERS = 10_000
WARMUP_PIXELS = 64  # side of the grey picture that is encoded first

log = logging.getLogger(__name__)


class QueryEncoder:
    """Encoder whose vectors have the dimensions of the gallery. Thread-safe.

    Example:
        >>> encoder = QueryEncoder.open({"name": "minilm"}, 384)
        >>> encoder.encode_texts(["a dog on a beach"]).shape
        (1, 384)
    """

    def __init__(self, encoder: Encoder, width: int) -> None:
        if encoder.dimensions != width:
            raise InputError(
                f"the encoder {encoder.facts['encoder']} makes vectors of {encoder.dimensions} numbers, but the "
                f"gallery has vectors of {width}",
                remedy="give the encoder that made the gallery",
            )
        self._encoder = encoder
        self.kinds = {kind: kind in encoder.kinds for kind in ENCODER_KINDS}

    @classmethod
    def open(cls, recipe: dict[str, Any] | str, width: int) -> QueryEncoder:
        """Load the encoder of a recipe; an InputError if it does not fit a gallery of this width.

        Args:
            recipe: result of `kinrank.encoders.registry.Recipe.to_dict`, or the name alone.
            width: numbers in a vector of the gallery.
        """
        values = {"name": recipe} if isinstance(recipe, str) else recipe
        return cls(Recipe.from_dict(values).open(), width)

    def warm_up(self) -> None:
        """Encode something small, so that the first request does not wait for the initialisation of a library."""
        if self.kinds[PICTURES]:
            images = import_extra("PIL.Image", "encoding pictures", "web")
            encode_items(self._encoder, PICTURES, [images.new("RGB", (WARMUP_PIXELS, WARMUP_PIXELS), (127, 127, 127))])
        if self.kinds[TEXTS]:
            encode_items(self._encoder, TEXTS, ["word"])

    def encode_pictures(self, uploads: Sequence[str]) -> Vectors:
        """Return (n, d) the vectors of pictures in base64, equal to those of the same files in the gallery."""
        self._check(PICTURES, len(uploads))
        return self._stack([self._encode(PICTURES, self._decode(upload)) for upload in uploads])

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Return (n, d) the vectors of texts."""
        self._check(TEXTS, len(texts))
        for text in texts:
            if not text.strip():
                raise InputError("the text is empty", remedy="describe in a few words what to search for")
            if len(text) > MAX_TEXT_CHARACTERS:
                raise InputError(
                    f"the text has {len(text)} characters, more than {MAX_TEXT_CHARACTERS}", remedy="give a shorter one"
                )
        return self._stack([self._encode(TEXTS, text) for text in texts])

    def _check(self, kind: str, count: int) -> None:
        if not self.kinds[kind]:
            other = PICTURES if kind == TEXTS else TEXTS
            raise InputError(f"the encoder of this gallery encodes {other}, not {kind}; send {other}, or vectors")
        if count > MAX_UPLOADS:
            raise InputError(f"{count} {kind} are too many for one request; send at most {MAX_UPLOADS}")

    def _decode(self, upload: str) -> Any:
        try:
            content = base64.b64decode(upload, validate=True)
        except ValueError:
            raise InputError("the image is not base64; send the bytes of a picture in base64") from None
        try:
            return decode_picture(content, self._encoder.reads)
        except InputError as error:
            raise InputError(f"this picture cannot be used: {error}") from None

    def _encode(self, kind: str, value: Any) -> Vectors:
        """Return (1, d) the vector of one picture or text.

        They are encoded one at a time, because pictures are large and a vector does not depend on the others.
        """
        try:
            vectors = encode_items(self._encoder, kind, [value])
        except InputError as error:
            log.warning("the encoder %s failed", self._encoder.facts["encoder"], exc_info=True)
            raise InputError(f"one of the {kind} cannot be encoded: {error}") from error
        if not np.isfinite(vectors).all() or not vectors.any():
            raise InputError(
                f"the encoder made no valid vector of one of the {kind}: its numbers are not finite, or all 0; give "
                "another"
            )
        return vectors

    def _stack(self, vectors: list[Vectors]) -> Vectors:
        return np.concatenate(vectors) if vectors else np.zeros((0, self._encoder.dimensions), np.float32)
