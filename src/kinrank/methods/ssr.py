"""SSR: the first items of each query, moved along a learned gradient of their similarities -> compared again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.features import Vectors
from kinrank.methods.learned import Learned
from kinrank.methods.shortlist import Shortlist
from kinrank.weights import Weights

USUAL = {"top": 64, "hidden": 256, "steps": 1, "variant": "cut"}  # what `kinrank fit` makes unless it is told otherwise


@dataclass(frozen=True, kw_only=True)
class SSR(Learned, Shortlist):
    """Move the query and its first items to where a small network says that their similarities should be.

    The network sees, for each of them, its similarities to the others and those of the query, in falling
    order, and answers with a made-up derivative of a loss by these similarities. The vectors are moved
    against it, first the query, then the items, and compared again.

        I_i = (S_iq, S_io_1 .., S_qo_1 ..) over the items o by falling S_io;   G = net(I),  of the same shape
        C_iq = G_i0,  C_io_j = G_ij,  C_qo_j += G_i,top+j;   dU = (C + C') U,   dF = (dU - u (u.dU)) / |F|
        F <- F - lr dF,  the query by one network, then the items by another;    distance(q, x_i) = -cos(F_q, F_i)

    The weights come from `kinrank.fit(SSR(), features, labels, "ssr.npz")`, which needs torch; answers need
    numpy only. How many items are re-ranked (top), how often and how far they move (steps, lr) belongs to the
    weights, and so does the variant. "cut" is the form above. "published" also differentiates through vectors
    that were just moved, as the authors' program does; it is for their weights, and answers with torch. With
    fewer items than top each part of I goes on with its last value. Only directions are compared.

    Cost: one search and O(top^2 hidden + top^2 d) time per query and step, one query at a time; O(top^2)
    memory, whatever the size of the gallery. Items beyond the top follow in the order of the search.

    Helps where labels of the same kind of data exist to fit it on. Hurts some queries where it was fitted on
    another kind: with labels of Caltech101 it gained nothing on ROxford5k. On all sets measured it stayed
    below LPMT, fitted with labels or without.

    Example:
        >>> ssr = kinrank.fit(kinrank.SSR(), gallery, gallery_labels, "ssr.npz")
        >>> ranking = kinrank.rerank(queries, gallery, ssr)
    """

    name: ClassVar[str] = "ssr"
    paper: ClassVar[str] = (
        "Shen, Xiao, Hu, Sbai, Aubry: Re-ranking for Image Retrieval and Transductive Few-shot Classification, "
        "NeurIPS 2021"
    )

    def length(self, network: Weights) -> int:
        return int(network.sizes["top"])

    def scores(self, network: Weights, query: Vectors, items: Vectors, unit: bool) -> NDArray[np.float32]:
        if network.sizes["variant"] == "published":
            return stages.ssr_published.scores(network.arrays, network.sizes, query, items)
        return stages.ssr.scores(network.arrays, network.sizes, query, items)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        """What goes into the networks and comes out, slopes and vectors of one query's list for each thread."""
        sizes = self.sizes(USUAL)
        rows = min(sizes["top"], items) + 1
        each = rows * 4 * (6 * (2 * sizes["top"] + 1) + 6 * rows + 4 * sizes["hidden"] + 6 * dimensions)
        each *= 4 * sizes["steps"] if sizes["variant"] == "published" else 1  # what derivatives are made of is kept
        return self.memory_of_lists(items, queries, sizes["top"], each)
