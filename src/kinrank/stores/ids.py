"""Ids as engines have them: whole numbers, texts, UUIDs -> arrays of names, and rankings that carry them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from kinrank.ranking import Ranking
from kinrank.stores.ordered import Listed


def names_of(keys: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    """(n,) int64, uint64 where a number needs it, or Python texts (dtype object); UUIDs as their text.

    Where an engine mixes numbers and texts, all are texts. -1 and the empty text are refused: they stand for no item.
    """
    entries = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)
    if all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in set(map(type, entries))):
        try:
            found = np.array(entries, np.int64)
        except OverflowError:
            found = np.array(entries, np.uint64)
        nothing: Any = -1
        wrong = bool((found == -1).any()) if found.dtype == np.int64 else False
    else:
        strange = [one for one in entries if not isinstance(one, (int, str, UUID)) or isinstance(one, bool)]
        if strange:
            kind = type(strange[0]).__name__
            raise ValueError(f"ids must be whole numbers, texts or UUIDs; the store has {strange[0]!r}, a {kind}")
        found = np.empty(len(entries), object)
        found[:] = list(map(str, entries))
        nothing, wrong = "", "" in entries
    if wrong:
        raise ValueError(f"an item of the store has the id {nothing!r}, which stands for no item; give it another one")
    return found


def named(lists: Sequence[Listed], meta: dict[str, Any], width: int = 0) -> Ranking:
    """A Ranking of one list per query, padded to the longest, or to `width`.

    Its `indices` are the ids themselves where these are whole numbers from 0; otherwise they count the ids that stand
    in this ranking, lowest first, and only tell items of it apart.
    """
    width = max([width, *(len(one.ids) for one in lists)])
    texts = any(one.ids.dtype.kind == "O" for one in lists)
    numbers = [one.ids for one in lists if one.ids.dtype.kind != "O"]
    large = any(ids.dtype.kind == "u" for ids in numbers)
    ids: NDArray[Any] = np.full((len(lists), width), "" if texts else -1, object if texts or large else np.int64)
    distances = np.full(ids.shape, np.inf, np.float32)
    there = np.zeros(ids.shape, np.bool_)
    for row, one in enumerate(lists):
        size = len(one.ids)
        same = one.ids.astype(str).astype(object) if texts and one.ids.dtype.kind != "O" else one.ids
        ids[row, :size], distances[row, :size], there[row, :size] = same, one.distances, True
    if ids.dtype == np.int64 and int(ids.min(initial=0, where=there)) >= 0:
        return Ranking(ids, distances, meta, ids.copy())
    indices = np.full(ids.shape, -1, np.int64)
    indices[there] = np.unique(ids[there], return_inverse=True)[1]
    return Ranking(indices, distances, meta, ids)
