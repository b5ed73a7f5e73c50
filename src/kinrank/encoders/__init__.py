"""Pictures and texts -> vectors, thin over libraries that people already use; each is imported when it is used."""

from __future__ import annotations

from kinrank.encoders.base import Encoder, Options
from kinrank.encoders.embedding import Embedded, embed
from kinrank.encoders.registry import ENCODERS, Recipe, open_encoder

__all__ = ["ENCODERS", "Embedded", "Encoder", "Options", "Recipe", "embed", "open_encoder"]
