"""No re-ranking: the Euclidean distance of unit vectors, what every method starts from and is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank.methods.base import Method
from kinrank.neighbors import Items
from kinrank.progress import Progress


@dataclass(frozen=True, kw_only=True)
class NoReranking(Method):
    """The order of the search itself."""

    name: ClassVar[str] = "none"
    paper: ClassVar[str] = "the baseline of every table: Euclidean distance between unit vectors"

    def prepare(self, items: Items, progress: Progress) -> Items:
        return items

    def distances(self, prepared: Items, queries: NDArray[np.int64]) -> NDArray[np.float32]:
        return prepared.query_distances(queries)
