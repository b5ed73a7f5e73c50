"""A store as users write them: two functions and a length."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinrank as kr


class Elsewhere(kr.Store):
    """A third-party store without any description of itself."""

    def __init__(self, rows: NDArray[np.float32]) -> None:
        self.store = kr.stores.ArrayStore(rows)

    def __len__(self) -> int:
        return len(self.store)

    def search(self, queries: Any, k: int) -> kr.Ranking:
        return self.store.search(queries, k)

    def vectors(self, ids: Any) -> Any:
        return self.store.vectors(ids)
