"""Database-side augmentation: replace every gallery item by a mixture of itself and its nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kinrank.errors import InputError
from kinrank.methods.dqe import DQE
from kinrank.methods.query_expansion import AQE, AlphaQE, AQEwD, Expansion
from kinrank.neighbors import find_first_equal
from kinrank.parameters import Parameter, list_parameters, parameter
from kinrank.progress import Progress, ProgressOption
from kinrank.stores.gallery import read_gallery
from kinrank.vector_input import Vectors

__all__ = ["DBA", "augment"]


@dataclass(frozen=True, kw_only=True)
class DBA:
    """Recipe of `augment`: how many neighbours are mixed into an item, and with which weights.

    The four weightings are those of the query expansion methods, applied to the gallery with the item
    itself as the query (i = 0, weight 1):

        average         x' = l2(sum_i x_i)                                ADBA       AQE
        decay           x' = l2(sum_i (k - i) / k x_i)                    ADBAwD     AQEwD
        alpha           x' = l2(sum_i max(x.x_i, 0)^alpha x_i)            alpha-DBA  AlphaQE
        discriminative  x' = normal between k nearest and the farthest    DDBA       DQE

    Example:
        >>> DBA(k=10, weighting="alpha", alpha=3)
    """

    k: int = parameter(4, "number of items that are mixed into each gallery item, itself included", low=1)
    weighting: str = parameter(
        "average",
        "weight of each mixed-in item: see the four formulas above",
        choices=("average", "decay", "alpha", "discriminative"),
    )
    alpha: float = parameter(
        3.0, "power of the similarity that weights an item; only used by the weighting `alpha`", low=0, high=100
    )
    negatives: int = parameter(
        4, "number of farthest items that count as wrong; only used by the weighting `discriminative`", low=1
    )

    def __post_init__(self) -> None:
        for declared in self.parameters():
            object.__setattr__(self, declared.name, declared.check("DBA", getattr(self, declared.name)))

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """List every parameter with its meaning, default and range."""
        return list_parameters(cls)

    def method(self) -> Expansion:
        """Return the query expansion method with the same weights."""
        if self.weighting == "average":
            return AQE(kdba=self.k)
        if self.weighting == "decay":
            return AQEwD(kdba=self.k)
        if self.weighting == "alpha":
            return AlphaQE(kdba=self.k, alpha=self.alpha)
        return DQE(kdba=self.k, negatives_dba=self.negatives)


def augment(
    gallery: ArrayLike, recipe: DBA | None = None, *, progress: ProgressOption = None, metric: str = "cosine"
) -> Vectors:
    """Replace every gallery item by a mixture of itself and its nearest neighbours; return (n, d) float32 unit rows.

    With the metric "euclidean" the rows keep their own lengths, in the units of the gallery.

    Use it once, then search or re-rank the result with any method:

        gallery = kinrank.augmentation.augment(gallery, kinrank.augmentation.DBA(k=4))
        ranking = kinrank.rerank(queries, gallery, kinrank.LPMT())

    This differs from the published combinations such as ADBA + AQE (`AugmentedAQE`, or `AQE(kdba=4)`). These expand
    the queries with the original items, and only the final comparison uses the augmented ones. After `augment`, every
    step uses the augmented gallery: `rerank(queries, augment(gallery), AQE())` finds its neighbours there and averages
    those.

    Cost: one search of the gallery in itself, O(n^2 d) time, O(n d) memory.

    Args:
        gallery: (n, d) rows; not changed.
        recipe: a DBA; default DBA().
        progress: True for a bar, or a callable `f(label, done, total)`.
        metric: "cosine" or "euclidean", as for `rerank`.
    """
    recipe = DBA() if recipe is None else recipe
    if not isinstance(recipe, DBA):
        raise InputError(parameter="recipe", given=recipe, allowed="a DBA, such as DBA(k=4)", context="augment")
    report = Progress(progress)
    items = read_gallery(gallery, metric, report=report)
    if not len(items):
        return items.rows
    mixed = recipe.method().augment(items.items(None), report)[find_first_equal(items.rows)]
    return mixed if items.space.scale is None else mixed * np.float32(items.space.scale)
