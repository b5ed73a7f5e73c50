"""A gallery -> the same gallery with every item mixed with its nearest: database-side augmentation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kinrank.features import Vectors
from kinrank.items import Items
from kinrank.methods.alpha_qe import AlphaQE
from kinrank.methods.aqe import AQE
from kinrank.methods.aqewd import AQEwD
from kinrank.methods.dqe import DQE
from kinrank.methods.expansion import Expansion
from kinrank.neighbors import first_equal
from kinrank.parameters import Parameter, parameter, parameters_of
from kinrank.progress import Progress, Show
from kinrank.stores.rows import gallery_rows


@dataclass(frozen=True, kw_only=True)
class DBA:
    """How `augment` mixes an item with its nearest: how many, and with which weights.

    The four weightings are those of the query expansion methods, applied to the gallery with the item
    itself as the query (i = 0, weight 1):

        average         x' = l2(sum_i x_i)                                ADBA       AQE
        decay           x' = l2(sum_i (k - i) / k x_i)                    ADBAwD     AQEwD
        alpha           x' = l2(sum_i max(x.x_i, 0)^alpha x_i)            alpha-DBA  AlphaQE
        discriminative  x' = normal between k nearest and the farthest    DDBA       DQE

    Example:
        >>> DBA(k=10, weighting="alpha", alpha=3)
    """

    k: int = parameter(4, "how many items are mixed into each gallery item, itself included", low=1)
    weighting: str = parameter(
        "average",
        "how much each mixed-in item counts: see the four formulas above",
        choices=("average", "decay", "alpha", "discriminative"),
    )
    alpha: float = parameter(
        3.0, "power of the similarity that weighs an item; only read by the weighting `alpha`", low=0, high=100
    )
    negatives: int = parameter(
        4, "how many farthest items count as wrong; only read by the weighting `discriminative`", low=1
    )

    def __post_init__(self) -> None:
        for declared in self.parameters():
            object.__setattr__(self, declared.name, declared.check("DBA", getattr(self, declared.name)))

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """Every parameter with its meaning, default and range."""
        return parameters_of(cls)

    def method(self) -> Expansion:
        """The query expansion whose gallery side this is."""
        if self.weighting == "average":
            return AQE(kdba=self.k)
        if self.weighting == "decay":
            return AQEwD(kdba=self.k)
        if self.weighting == "alpha":
            return AlphaQE(kdba=self.k, alpha=self.alpha)
        return DQE(kdba=self.k, negatives_dba=self.negatives)


def augment(gallery: ArrayLike, recipe: DBA | None = None, *, progress: Show = None, metric: str = "cosine") -> Vectors:
    """The gallery with every item replaced by a mixture of itself and its nearest: (n, d) float32 unit rows.

    With the metric "euclidean", rows that have a length of their own, in the units of the gallery.

    Use it once, then search or re-rank the result with anything:

        gallery = kinrank.augment(gallery, kinrank.DBA(k=4))
        ranking = kinrank.rerank(queries, gallery, kinrank.LPMT())

    This differs from the published combinations such as ADBA + AQE (`AugmentedAQE`, or `AQE(kdba=4)`):
    there the queries are expanded with the original items, and only the final comparison sees the augmented
    ones. After `augment` every step sees the augmented gallery, so `rerank(queries, augment(gallery),
    AQE())` also looks for its neighbours, and averages, there.

    Cost: one search of the gallery in itself, O(n^2 d) time, O(n d) memory.

    Args:
        gallery: (n, d) rows; not changed.
        recipe: a DBA; DBA() unless given.
        progress: True for a bar, or a callable `f(label, done, total)`.
        metric: "cosine" or "euclidean", as for `rerank`.
    """
    recipe = DBA() if recipe is None else recipe
    if not isinstance(recipe, DBA):
        raise ValueError(f"augment: recipe={recipe!r} is not allowed; give a DBA, such as DBA(k=4)")
    rows, space = gallery_rows(gallery, metric)
    if not len(rows):
        return rows
    mixed = recipe.method().augmented(Items.everyone(rows, space.unit), Progress(progress))[first_equal(rows)]
    return mixed if space.scale is None else mixed * np.float32(space.scale)
