"""Lists of ids, as an engine found them -> the same lists with vectors, each fetched once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from kinrank.stores.engine import Hits


def with_vectors(lists: list[Hits], fetch: Callable[[list[Any]], Hits], dimensions: int) -> list[Hits]:
    """The same lists with the vectors of their items, all fetched in one call; NaN for items that are gone.

    Queries that are asked together often find the same items. Then this is several times faster than vectors that come
    with every list.
    """
    found = fetch(list(dict.fromkeys(name for hits in lists for name in hits.keys)))
    assert found.rows is not None
    place = {name: number for number, name in enumerate(found.keys)}
    rows = np.vstack([found.rows.reshape(-1, dimensions), np.full((1, dimensions), np.nan, np.float32)])
    return [Hits(hits.keys, rows[[place.get(name, -1) for name in hits.keys]], hits.distances) for hits in lists]


def whole_numbers(keys: Iterable[Any]) -> list[int]:
    """The ids that are whole numbers of 64 bits, also where they are texts: a column of numbers has no others."""
    found = (key if isinstance(key, int) else int(key) if _digits(key) else None for key in keys)
    return [key for key in found if key is not None and -(2**63) <= key < 2**64]


def _digits(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 20
