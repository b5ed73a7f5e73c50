"""A Store -> what it is, in words, where it may miss some of the nearest items."""

from __future__ import annotations

import re
from typing import Any


def in_words(store: Any) -> str | None:
    """Such as "FaissStore(hnsw)"; None for no store, and for one that finds every nearest item as exact search does."""
    if store is None or getattr(store, "exact", False):
        return None
    words = " ".join(repr(store).split())[:100]
    if " object at 0x" not in words:
        return words
    plain = re.match(r"<(?:[\w.<>]*\.)?(\w+) object at 0x", words)  # an address in memory tells nobody anything
    return plain[1] if plain else type(store).__name__
