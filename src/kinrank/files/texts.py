"""Ids <-> arrays without objects: whole numbers as they are, texts end to end in UTF-8, however long one is."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank import given


def packed(ids: NDArray[Any], name: str) -> dict[str, NDArray[Any]]:
    """`name`: the numbers; or `name`_text: all texts in UTF-8, and `name`_starts: where each begins, and the end."""
    if ids.dtype.kind != "O":
        return {name: ids}
    texts = [text.encode() for text in ids.tolist()]
    starts = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=starts[1:])
    return {f"{name}_text": np.frombuffer(b"".join(texts), np.uint8), f"{name}_starts": starts}


def unpacked(arrays: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any] | None:
    """What was packed, checked; None if there was nothing; a ValueError for what `packed` would not have written."""
    numbers, text, starts = (arrays.get(key) for key in (name, f"{name}_text", f"{name}_starts"))
    if numbers is not None and text is None and starts is None:
        if numbers.ndim != 1 or numbers.dtype not in (np.int64, np.uint64):
            raise ValueError(f"its {name} are {numbers.dtype} of shape {numbers.shape}, which are no ids")
        return given.names(numbers, name)
    if numbers is None and text is None and starts is None:
        return None
    if numbers is not None or text is None or starts is None:
        raise ValueError(f"its {name} are not complete")
    if text.ndim != 1 or text.dtype != np.uint8 or starts.ndim != 1 or starts.dtype != np.int64:
        raise ValueError(f"its {name} are no texts")
    if not len(starts) or starts[0] != 0 or starts[-1] != len(text) or (np.diff(starts) < 0).any():
        raise ValueError(f"its {name} begin and end where there is no text")
    whole, places = text.tobytes(), starts.tolist()
    entries = [whole[start:stop].decode() for start, stop in itertools.pairwise(places)]
    if not entries:
        return np.empty(0, object)
    return given.names(entries, name)
