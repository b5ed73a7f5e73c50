"""Alpha-QE: query + nearest items -> their mean weighted by a power of the similarity, searched for again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kinrank import stages
from kinrank.features import Vectors
from kinrank.methods.expansion import KDBA, Expansion, Neighborhoods
from kinrank.parameters import parameter
from kinrank.progress import Progress

K = "how many nearest gallery items are mixed into each query, weighted by a power of their similarity"
ALPHA = "power to which a similarity is raised to become a weight; larger favours the nearest, 0 weighs all alike"


@dataclass(frozen=True, kw_only=True)
class AlphaQE(Expansion):
    """Replace each query by a mean of itself and its k nearest gallery items, weighted by how near they are.

    The weight is the cosine similarity to the power alpha, 1 for the query itself. Far items fade out by
    themselves, so k can be large and matters little.

        q' = l2(q + sum_{i=1..k} max(q.x_i, 0)^alpha x_i),    distance(q, x) = -q'.x

    Negative similarities count as 0: the bare power would subtract such items (odd alpha) or be no number
    at all (broken alpha). alpha = 0 is AQE. With kdba > 0 the gallery is mixed the same way, x' =
    l2(sum_{i=0..kdba-1} max(x.x_i, 0)^alpha x_i) with x itself as i = 0, and q' (still made from the
    original gallery) is compared with x'.

    Cost: one search and O(q k d) time; O(q d) memory, and O(n d) more with kdba.

    Helps when the number of right answers differs a lot between queries: one setting then serves them all.
    Hurts when all similarities are alike (descriptors crowded in a cone): the weights no longer tell right
    from wrong, and 48 items are many; raise alpha or lower k.

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.AlphaQE(k=48, alpha=3))
    """

    name: ClassVar[str] = "alpha-qe"
    paper: ClassVar[str] = (
        "Radenovic, Tolias, Chum: Fine-tuning CNN Image Retrieval with No Human Annotation, TPAMI 2019"
    )

    k: int = parameter(48, K, low=1)
    alpha: float = parameter(3.0, ALPHA, low=0, high=100)

    def expand(self, around: Neighborhoods, progress: Progress) -> Vectors:
        weights = stages.expansion.power_weights(around.others, self.alpha)
        return stages.expansion.weighted_sum(around.rows, around.gallery, around.others, weights, around.unit)


@dataclass(frozen=True, kw_only=True)
class AugmentedAlphaQE(AlphaQE):
    """Alpha-DBA + alpha-QE: mix gallery items and queries with their nearest by similarity, then compare.

    Both sides of the comparison lose their noise, not only the query. The queries are mixed with the original
    gallery items, and only the comparison uses the mixed ones.

        q' as in AlphaQE,    x' = l2(sum_{i=0..kdba-1} max(x.x_i, 0)^alpha x_i),    distance(q, x) = -q'.x'

    Cost: AlphaQE, plus one search of the gallery in itself, O(n^2 d) time and O(n d) memory, shared by all
    queries.

    Helps where each item has good neighbours in the gallery, few or many: the power sorts them out. Hurts
    rare items among near ones of another kind, and where all similarities are alike.

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.AugmentedAlphaQE(k=48, kdba=32, alpha=3))
    """

    name: ClassVar[str] = "alpha-dba+alpha-qe"

    kdba: int = parameter(32, KDBA, low=0)
