"""CSA: the first items of each query, described by their similarities to a few of them -> a learned order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.features import Vectors
from kinrank.methods.learned import Learned
from kinrank.methods.shortlist import Shortlist
from kinrank.parameters import parameter
from kinrank.weights import Weights

USUAL = {"anchors": 64, "width": 128, "depth": 2, "heads": 4}  # what `kinrank fit` makes unless it is told otherwise


@dataclass(frozen=True, kw_only=True)
class CSA(Learned, Shortlist):
    """Re-rank the first items of each query by a transformer that sees how similar they are to one another.

    The query and its best items are the anchors. Every item of the list is described by its similarities to
    these, a transformer lets the descriptions take notice of each other, and items whose states point the
    way of the query's are near. It never sees the descriptors themselves, so that weights fitted on one kind
    of features can be used on another.

        a_i = (z_i.z_0, .., z_i.z_(L-1)) for z = (q, x_1 .. x_top), the first L of them anchors;  h = W a + b
        depth times:  h <- h + Attn(LN(h)),   h <- h + W2 gelu(W1 LN(h));   distance(q, x_i) = -cos(h_0, h_i)

    The weights come from `kinrank.fit(CSA(), features, labels, "csa.npz")`, which needs torch; answers need
    numpy only. How many anchors there are and how large the network is belongs to the weights. With fewer
    items than anchors the similarities that are missing are 0.

    Cost: one search and O(top^2 width) time per query, one query at a time; O(top^2 heads) memory, whatever
    the size of the gallery. Items beyond the top follow in the order of the search.

    Helps where labels of the same kind of data exist to fit it on. Hurts, or rather cannot help, right answers
    beyond the top. On all sets measured it stayed below LPMT, fitted with labels or without; fitted on
    pseudo-labels it made faces, persons, shapes and glyphs worse.

    Example:
        >>> csa = kinrank.fit(kinrank.CSA(), gallery, gallery_labels, "csa.npz")
        >>> ranking = kinrank.rerank(queries, gallery, csa)
    """

    name: ClassVar[str] = "csa"
    paper: ClassVar[str] = (
        "Ouyang, Wu, Wang, Zhou, Li: Contextual Similarity Aggregation with Self-attention for Visual Re-ranking, "
        "NeurIPS 2021"
    )

    top: int = parameter(
        400, "how many of the first items of a query are re-ranked (K); the others keep their order", low=1
    )

    def length(self, network: Weights) -> int:
        return self.top

    def scores(self, network: Weights, query: Vectors, items: Vectors, unit: bool) -> NDArray[np.float32]:
        return stages.csa.scores(network.arrays, network.sizes, query, items, unit)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        """Logits, states in the middle of a block, and vectors of one query's list for each thread."""
        top, sizes = min(self.top, items) + 1, self.sizes(USUAL)
        each = top * 4 * (3 * sizes["heads"] * top + 16 * sizes["width"] + 2 * sizes["anchors"] + 2 * dimensions)
        return self.memory_of_lists(items, queries, self.top, each)
