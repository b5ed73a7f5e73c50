"""A picture or a text that somebody gives -> its vector, by the encoder that made those of the gallery."""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from kinrank.deferred import needed
from kinrank.encoders.base import PICTURES, TEXTS, Encoder, encoded
from kinrank.encoders.registry import Recipe
from kinrank.features import Vectors
from kinrank.pictures.images import decoded

KINDS = (PICTURES, TEXTS)
UPLOADS = 16  # pictures or texts that one request may have encoded
LONGEST = 10_000  # characters of a text
SIDE = 64  # pixels of the grey picture with which a network is tried

log = logging.getLogger("kinrank.web")


class Encoding:
    """An encoder whose vectors are as long as those of the gallery. Many threads may ask at the same time.

    Example:
        >>> encoding = Encoding.open({"name": "minilm"}, 384)
        >>> encoding.texts(["a dog on a beach"]).shape
        (1, 384)
    """

    def __init__(self, encoder: Encoder, width: int) -> None:
        if encoder.dimensions != width:
            raise ValueError(
                f"the encoder {encoder.facts['encoder']} makes vectors of {encoder.dimensions} numbers and the gallery "
                f"has vectors of {width}; both must come from the same model: give the encoder that made the gallery"
            )
        self._encoder = encoder
        self.kinds = {kind: kind in encoder.kinds for kind in KINDS}

    @classmethod
    def open(cls, recipe: dict[str, Any] | str, width: int) -> Encoding:
        """The encoder of a recipe, read from disk; a ValueError where it does not fit a gallery of this width.

        Args:
            recipe: what `kinrank.encoders.registry.Recipe.to_dict` made, or the name alone.
            width: numbers in a vector of the gallery.
        """
        given = {"name": recipe} if isinstance(recipe, str) else recipe
        return cls(Recipe.from_dict(given).open(), width)

    def warm(self) -> None:
        """Encode something small, so that the first request need not wait for what a library does at its first use."""
        if self.kinds[PICTURES]:
            images = needed("PIL.Image", "encoding pictures", "web")
            encoded(self._encoder, PICTURES, [images.new("RGB", (SIDE, SIDE), (127, 127, 127))])
        if self.kinds[TEXTS]:
            encoded(self._encoder, TEXTS, ["word"])

    def pictures(self, given: Sequence[str]) -> Vectors:
        """(n, d) the vectors of pictures in base64, the same as if they were files of the gallery."""
        self._check(PICTURES, len(given))
        return self._rows([self._row(PICTURES, self._picture(content)) for content in given])

    def texts(self, given: Sequence[str]) -> Vectors:
        """(n, d) the vectors of texts."""
        self._check(TEXTS, len(given))
        for text in given:
            if not text.strip():
                raise ValueError("the text is empty; say in some words what is looked for")
            if len(text) > LONGEST:
                raise ValueError(f"the text has {len(text)} characters, more than {LONGEST}; give a shorter one")
        return self._rows([self._row(TEXTS, text) for text in given])

    def _check(self, kind: str, count: int) -> None:
        if not self.kinds[kind]:
            other = PICTURES if kind == TEXTS else TEXTS
            raise ValueError(f"the encoder of this gallery encodes {other}, not {kind}; send {other}, or vectors")
        if count > UPLOADS:
            raise ValueError(f"{count} {kind} are too many at a time; send at most {UPLOADS}")

    def _picture(self, given: str) -> Any:
        try:
            content = base64.b64decode(given, validate=True)
        except ValueError:
            raise ValueError("image is no base64; send the bytes of a picture in it") from None
        try:
            return decoded(content, self._encoder.reads)
        except ValueError as error:
            raise ValueError(f"this picture cannot be used: {error}") from None

    def _row(self, kind: str, one: Any) -> Vectors:
        """(1, d) one at a time: pictures are large, and a vector does not depend on what else is encoded with it."""
        try:
            found = encoded(self._encoder, kind, [one])
        except ValueError as error:
            log.warning("the encoder %s failed", self._encoder.facts["encoder"], exc_info=True)
            raise ValueError(f"one of the {kind} cannot be encoded: {error}") from error
        if not np.isfinite(found).all() or not found.any():
            raise ValueError(
                f"the encoder made no vector of one of the {kind}: its numbers are not finite, or all 0; give another"
            )
        return found

    def _rows(self, found: list[Vectors]) -> Vectors:
        return np.concatenate(found) if found else np.zeros((0, self._encoder.dimensions), np.float32)


def refused() -> ValueError:
    """What is said where there is no encoder."""
    return ValueError(
        "neither pictures nor texts can be encoded here; start the service with --encoder NAME, or send vectors"
    )
