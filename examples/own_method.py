"""Write a method, use it like any other, and check that it fulfils the contract."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import kinrank as kr
from kinrank.parameters import parameter
from kinrank.testing import check_method, toy


@dataclass(frozen=True, kw_only=True)
class Shared(kr.Method):
    """Rank items by their distance to the query and to its k nearest items."""

    name: ClassVar[str] = "shared"
    paper: ClassVar[str] = "none: an example"

    k: int = parameter(5, "nearest items of the query that are used as well", low=1)
    weight: float = parameter(0.5, "share of their opinion", low=0, high=1)

    def prepare(self, items, progress):
        return items, items.query_neighbors(self.k).indices

    def distances(self, prepared, queries):
        items, near = prepared
        own = items.query_distances(queries).astype(np.float64)
        rows = items.gallery_vectors
        gaps = (np.linalg.norm(rows[some][:, None] - rows[None], axis=2) for some in near[queries])
        theirs = [gap.mean(axis=0) for gap in gaps]
        return (1 - self.weight) * own + self.weight * np.array(theirs)


check_method(Shared())
data = toy("moons")
truth = kr.Truth.from_labels(data.query_labels, data.gallery_labels)
print(kr.evaluate(kr.rerank(data.queries, data.gallery, Shared(k=3)), truth, ["mAP", "R@1"]))
