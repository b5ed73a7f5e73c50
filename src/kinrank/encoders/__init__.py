"""Encoders: vectors of images and texts, with common libraries that are imported when they are used."""

from __future__ import annotations

from kinrank.encoders.base import Encoder, Options
from kinrank.encoders.embeddings import Embedded, embed
from kinrank.encoders.encoder_registry import ENCODERS, Recipe, open_encoder

__all__ = ["ENCODERS", "Embedded", "Encoder", "Options", "Recipe", "embed", "open_encoder"]
