"""AQE: query + nearest items -> their average, searched for again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kinrank import stages
from kinrank.features import Vectors
from kinrank.methods.expansion import KDBA, Expansion, Neighborhoods
from kinrank.parameters import parameter
from kinrank.progress import Progress


@dataclass(frozen=True, kw_only=True)
class AQE(Expansion):
    """Replace each query by the average of itself and its k nearest gallery items, and search again.

    The first answers are usually right, and their mean is a cleaner picture of what was meant than the query
    alone. It is the simplest re-ranking there is, and the one to beat.

        q' = l2(q + sum_{i=1..k} x_i),    distance(q, x) = -q'.x

    With kdba > 0 the gallery is averaged too, x' = l2(sum of the kdba nearest of x, x included), and q'
    (still made from the original gallery) is compared with x': the published ADBA + AQE.

    Cost: one search and O(q k d) time; O(q d) memory, and O(n d) more with kdba.

    Helps when the first k answers are mostly right: then recall rises at almost no cost. Hurts when they are
    not (hard queries, large k), since a wrong item weighs as much as a right one: use a smaller k, AQEwD or
    AlphaQE there. A query and items that cancel out leave the query as it was.

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.AQE(k=4))
    """

    name: ClassVar[str] = "aqe"
    paper: ClassVar[str] = (
        "Chum, Philbin, Sivic, Isard, Zisserman: Total Recall: Automatic Query Expansion with a Generative "
        "Feature Model for Object Retrieval, ICCV 2007"
    )

    def expand(self, around: Neighborhoods, progress: Progress) -> Vectors:
        weights = stages.expansion.average_weights(around.others)
        return stages.expansion.weighted_sum(around.rows, around.gallery, around.others, weights, around.unit)


@dataclass(frozen=True, kw_only=True)
class AugmentedAQE(AQE):
    """ADBA + AQE: average each gallery item with its nearest, each query with its nearest, and compare these.

    Both sides of the comparison lose their noise, not only the query. The queries are averaged with the
    original gallery items, and only the comparison uses the averaged ones.

        q' = l2(q + sum_{i=1..k} x_i),    x' = l2(sum of the kdba nearest of x, x included),    distance(q, x) = -q'.x'

    Cost: AQE, plus one search of the gallery in itself, O(n^2 d) time and O(n d) memory, shared by all
    queries.

    Helps where each item has several good neighbours in the gallery. Hurts rare items: one whose neighbours
    are of another kind is drawn to them, and fewer than kdba items of a kind are enough for that.

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.AugmentedAQE(k=4, kdba=4))
    """

    name: ClassVar[str] = "adba+aqe"

    kdba: int = parameter(4, KDBA, low=0)
