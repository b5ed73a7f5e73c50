"""AQEwD: query + nearest items -> their average with weights that fall with the rank, searched for again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kinrank import stages
from kinrank.features import Vectors
from kinrank.methods.expansion import KDBA, Expansion, Neighborhoods
from kinrank.parameters import parameter
from kinrank.progress import Progress

K = "how many nearest gallery items are mixed into each query, with weights that fall with their rank"


@dataclass(frozen=True, kw_only=True)
class AQEwD(Expansion):
    """Replace each query by a mean of itself and its k nearest gallery items that trusts the first ones most.

    The weight falls in equal steps from 1 for the query to 1 / (k + 1) for the last item. Later answers are
    more often wrong, so more of them can be used than with the plain average of AQE.

        q' = l2(q + sum_{i=1..k} (k + 1 - i) / (k + 1) x_i),    distance(q, x) = -q'.x

    With kdba > 0 the gallery is mixed too, x' = l2(sum_{i=0..kdba-1} (kdba - i) / kdba x_i) over the
    nearest of x with x itself as i = 0, and q' (still made from the original gallery) is compared with x'.

    Cost: one search and O(q k d) time; O(q d) memory, and O(n d) more with kdba.

    Helps like AQE, and is less harmed by a k beyond the number of right answers. Hurts where even the first
    answer is wrong. The weight looks at the rank only, not at how near an item is: AlphaQE does.

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.AQEwD(k=8))
    """

    name: ClassVar[str] = "aqewd"
    paper: ClassVar[str] = (
        "Gordo, Almazan, Revaud, Larlus: End-to-end Learning of Deep Visual Representations for Image "
        "Retrieval, IJCV 2017"
    )

    k: int = parameter(8, K, low=1)

    def expand(self, around: Neighborhoods, progress: Progress) -> Vectors:
        weights = stages.expansion.decay_weights(around.others, around.k)
        return stages.expansion.weighted_sum(around.rows, around.gallery, around.others, weights, around.unit)


@dataclass(frozen=True, kw_only=True)
class AugmentedAQEwD(AQEwD):
    """ADBAwD + AQEwD: mix gallery items and queries with their nearest by falling weights, and compare these.

    Both sides of the comparison lose their noise, not only the query. The queries are mixed with the original
    gallery items, and only the comparison uses the mixed ones.

        q' as in AQEwD,    x' = l2(sum_{i=0..kdba-1} (kdba - i) / kdba x_i),    distance(q, x) = -q'.x'

    Cost: AQEwD, plus one search of the gallery in itself, O(n^2 d) time and O(n d) memory, shared by all
    queries.

    Helps where each item has several good neighbours in the gallery; the falling weights make it milder than
    ADBA. Hurts rare items, which are drawn to neighbours of another kind.

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.AugmentedAQEwD(k=6, kdba=4))
    """

    name: ClassVar[str] = "adbawd+aqewd"

    kdba: int = parameter(4, KDBA, low=0)
