"""DQE: the new query is the normal of the plane that separates the nearest items from the farthest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kinrank import stages
from kinrank.methods.query_expansion import KDBA_MEANING, Expansion, ExpansionTask
from kinrank.parameters import parameter
from kinrank.progress import Progress
from kinrank.vector_input import Vectors

K_MEANING = "number of nearest gallery items that are positive examples, besides the query itself"
NEGATIVES_MEANING = "number of farthest gallery items that are negative examples"
NEGATIVES_DBA_MEANING = (
    "number of farthest gallery items that are negative examples when gallery items are replaced too (kdba > 0)"
)


@dataclass(frozen=True, kw_only=True)
class DQE(Expansion):
    """Train a linear classifier per query, its nearest items against its farthest, and rank by its score.

    The query and its k nearest items are positive examples, the last items of its ranking negative ones.
    The direction of the widest margin between the two is the new query, so properties that right and wrong items
    share no longer count.

        min_a 1/2 a'Ha - 1'a,   a >= 0,  y'a = 0,  H_ij = y_i y_j <x_i, x_j>
        q' = l2(sum_i a_i y_i x_i),    distance(q, x) = -q'.x

    This is the hard-margin linear support vector machine; its offset does not change an order and is
    dropped. It is solved exactly, as the two nearest points of two convex hulls. If no plane separates
    the sets (duplicates on both sides), the hard problem has no solution: violations then cost C = 1e8 times
    their square. At most half of the other items are negatives, so that a small gallery keeps the query's own kind out
    of them; an item is never on both sides, and the nearest take precedence. Without negatives, this is AQE. With
    kdba > 0 every gallery item becomes such a normal too (kdba items, itself included, against its negatives_dba
    farthest), and q' is compared with these.

    Cost: two searches and O(q (k + negatives)^2 d) time; O(q d) memory, and O(n d) more with kdba.

    Helps if descriptors share a large common part that hides the differences. Hurts if some of the k
    nearest are wrong: a hard margin follows its outliers, so k should not exceed the number of right results.
    Many negatives help; the published program has 20.

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.methods.DQE(k=1, negatives=200))
    """

    name: ClassVar[str] = "dqe"
    paper: ClassVar[str] = (
        "Arandjelovic, Zisserman: Three Things Everyone Should Know to Improve Object Retrieval, CVPR 2012"
    )

    k: int = parameter(1, K_MEANING, low=1)
    negatives: int = parameter(200, NEGATIVES_MEANING, low=1)
    negatives_dba: int = parameter(20, NEGATIVES_DBA_MEANING, low=1)

    def expand(self, around: ExpansionTask, progress: Progress) -> Vectors:
        count = self.negatives_dba if around.augmenting else self.negatives
        others = len(around.gallery) - (around.own is not None)
        most = min(others - around.others.k, others // 2)
        far = stages.vector_expansion.find_farthest(
            around.rows, around.gallery, min(count, most), around.own, around.unit
        )
        return stages.vector_expansion.max_margin_normals(
            around.rows, around.gallery, around.others, far, progress, around.unit
        )

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        """Estimate the lists and rows of an expansion, the reversed gallery, and one block of normals."""
        points = 1 + min(max(self.k, self.kdba), items) + min(max(self.negatives, self.negatives_dba), items)
        lists = (queries + (items if self.kdba else 0)) * points * 16
        block = 512 * (points + dimensions) * 8
        return super().memory(items, queries, dimensions) + items * dimensions * 4 + lists + block


@dataclass(frozen=True, kw_only=True)
class AugmentedDQE(DQE):
    """DDBA + DQE: train a linear classifier for every gallery item and every query, and compare the normals.

    Each gallery item is replaced by the direction that separates its nearest items from its farthest. The
    classifiers of the queries are trained on the original gallery items; only the comparison uses the new ones.

        q' = normal of (q, k nearest | negatives farthest),
        x' = normal of (kdba nearest, x included | negatives_dba farthest),    distance(q, x) = -q'.x'

    Cost: DQE, plus two searches of the gallery in itself and O(n (kdba + negatives_dba)^2 d) time, O(n d)
    memory, shared by all queries.

    Helps if descriptors share a large common part, on both sides of the comparison. Hurts rare items, and
    items whose few nearest are wrong: a hard margin follows its outliers.

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.methods.AugmentedDQE(k=1, negatives=200, kdba=4))
    """

    name: ClassVar[str] = "ddba+dqe"

    kdba: int = parameter(4, KDBA_MEANING, low=0)
