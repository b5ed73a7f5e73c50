"""DQE: query, nearest and farthest items -> the normal of the plane that separates them, searched for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kinrank import stages
from kinrank.features import Vectors
from kinrank.methods.expansion import KDBA, Expansion, Neighborhoods
from kinrank.parameters import parameter
from kinrank.progress import Progress

K = "how many nearest gallery items the classifier takes as right answers, besides the query itself"
NEGATIVES = "how many of the farthest gallery items the classifier takes as wrong answers"
NEGATIVES_DBA = (
    "how many of the farthest gallery items count as wrong answers when gallery items are replaced too (kdba > 0)"
)


@dataclass(frozen=True, kw_only=True)
class DQE(Expansion):
    """Train a linear classifier per query, its nearest items against its farthest, and rank by its score.

    The query and its k nearest items are taken as right answers and the last of its ranking as wrong ones.
    The direction of the widest margin between the two is the new query, so that what right and wrong items
    have in common no longer counts.

        min_a 1/2 a'Ha - 1'a,   a >= 0,  y'a = 0,  H_ij = y_i y_j <x_i, x_j>
        q' = l2(sum_i a_i y_i x_i),    distance(q, x) = -q'.x

    This is the hard-margin linear support vector machine; its offset does not change an order and is
    dropped. It is solved exactly, as the two nearest points of two convex hulls. Where no plane separates
    the sets (duplicates on both sides) the hard problem has no solution: violations then cost C = 1e8 times
    their square. An item is never on both sides: in a small gallery the nearest come first and there are
    fewer negatives; with none left, this is AQE. With kdba > 0 every gallery item becomes such a normal too
    (kdba items, itself included, against its negatives_dba farthest), and q' is compared with these.

    Cost: two searches and O(q (k + negatives)^2 d) time; O(q d) memory, and O(n d) more with kdba.

    Helps where descriptors share a large common part that hides the differences. Hurts when some of the k
    nearest are wrong: a hard margin obeys its outliers, so k should not pass the number of right answers.

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.DQE(k=20, negatives=20))
    """

    name: ClassVar[str] = "dqe"
    paper: ClassVar[str] = (
        "Arandjelovic, Zisserman: Three Things Everyone Should Know to Improve Object Retrieval, CVPR 2012"
    )

    k: int = parameter(20, K, low=1)
    negatives: int = parameter(20, NEGATIVES, low=1)
    negatives_dba: int = parameter(4, NEGATIVES_DBA, low=1)

    def expand(self, around: Neighborhoods, progress: Progress) -> Vectors:
        wanted = self.negatives_dba if around.augmenting else self.negatives
        left = len(around.gallery) - (around.own is not None) - around.others.k
        far = stages.expansion.farthest_items(around.rows, around.gallery, min(wanted, left), around.own, around.unit)
        return stages.expansion.separating_normal(
            around.rows, around.gallery, around.others, far, progress, around.unit
        )

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        """The lists and rows of an expansion, the gallery read backwards, and one block of normals."""
        points = 1 + min(max(self.k, self.kdba), items) + min(max(self.negatives, self.negatives_dba), items)
        lists = (queries + (items if self.kdba else 0)) * points * 16
        block = 512 * (points + dimensions) * 8
        return super().memory(items, queries, dimensions) + items * dimensions * 4 + lists + block


@dataclass(frozen=True, kw_only=True)
class AugmentedDQE(DQE):
    """DDBA + DQE: a linear classifier for every gallery item and every query, compared with each other.

    Each gallery item is replaced by the direction that separates its nearest items from its farthest. The
    queries' classifiers are trained on the original gallery items, and only the comparison uses the new ones.

        q' = normal of (q, k nearest | negatives farthest),
        x' = normal of (kdba nearest, x included | negatives_dba farthest),    distance(q, x) = -q'.x'

    Cost: DQE, plus two searches of the gallery in itself and O(n (kdba + negatives_dba)^2 d) time, O(n d)
    memory, shared by all queries.

    Helps where descriptors share a large common part, on both sides of the comparison. Hurts rare items, and
    items whose few nearest are wrong: a hard margin obeys its outliers.

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.AugmentedDQE(k=20, negatives=20, kdba=4))
    """

    name: ClassVar[str] = "ddba+dqe"

    kdba: int = parameter(4, KDBA, low=0)
