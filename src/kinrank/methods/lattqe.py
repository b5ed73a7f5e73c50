"""LAttQE: query + nearest items, weighed by a transformer -> their mean, searched for again. Our reading of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kinrank import stages
from kinrank.features import Vectors
from kinrank.methods.expansion import KDBA, Expansion, Neighborhoods, Opened
from kinrank.methods.learned import Learned
from kinrank.methods.served import Gallery, Kept
from kinrank.parameters import parameter
from kinrank.progress import SILENT, Progress
from kinrank.stages.checks import BadArray
from kinrank.stages.turnover import Turnover
from kinrank.weights import Weights, flat, unflat

K = (
    "how many nearest gallery items are mixed into each query; at most as many as the weights were fitted for, and "
    "best just as many"
)
USUAL = {"hidden": 512}  # what `kinrank fit` makes unless it is told otherwise


@dataclass(frozen=True, kw_only=True)
class LAttQE(Learned, Expansion):
    """Replace each query by a mean of itself and its k nearest gallery items, weighed by a transformer.

    The network reads the query and its neighbours as a list, by rank, and each neighbour weighs as much as
    its state points the way of the query's. The descriptors that are summed are the original ones, so that
    the new query is searched in the unchanged gallery.

        t = encoder((q + p_0, x_1 + p_1, .., x_k + p_k)),    w_i = cos(t_0, t_i)
        q' = l2(q + sum_{i=1..k} w_i x_i),    distance(q, x) = -q'.x

    This is our reading: the authors published no program. The encoder has standard layers (attention, then
    feed-forward, each followed by LayerNorm). A weight may be below 0. With kdba > 0 the same network mixes
    every gallery item with its kdba - 1 nearest others (LAttDBA), and q', still made from the original
    gallery, is compared with these.

    The weights come from `kinrank.fit(LAttQE(), features, labels, "lattqe.npz")`, which needs torch; answers
    need numpy only. The network reads descriptors, so the weights belong to one kind of features: those of
    another dimension are refused, and axes must not be turned.

    Cost: one search and O(q k d^2) time; O(q d) memory, and O(n d) more with kdba.

    Helps where labels of the same features exist to fit it on: then it can tell neighbours apart that AQE
    mixes in blindly. Hurts, as all expansion does, where the first items are wrong. A network with random
    weights already acts as a weighted AQE, so that AQE is the method to compare it with.

    Example:
        >>> lattqe = kinrank.fit(kinrank.LAttQE(), gallery, gallery_labels, "lattqe.npz")
        >>> ranking = kinrank.rerank(queries, gallery, lattqe)
    """

    name: ClassVar[str] = "lattqe"
    paper: ClassVar[str] = (
        "Gordo, Radenovic, Berg: Attention-Based Query Expansion Learning, ECCV 2020 (our reading: no program exists)"
    )

    k: int = parameter(16, K, low=1)

    def expand(self, around: Neighborhoods, progress: Progress) -> Vectors:
        network: Weights = around.network
        self._check(network, around.rows.shape[1], around.others.k, around.augmenting)
        weights = stages.lattqe.neighbour_weights(
            network.arrays, network.sizes, around.rows, around.gallery, around.others
        )
        return stages.expansion.weighted_sum(around.rows, around.gallery, around.others, weights, around.unit)

    def _check(self, network: Weights, there: int, others: int, augmenting: bool) -> None:
        """A ValueError for vectors of another dimension, and for more neighbours than the weights know."""
        fitted = network.sizes["dimensions"]
        if fitted != there:
            raise ValueError(
                f"{network.name} was fitted for vectors of {fitted} dimensions, and these have {there}; give weights= "
                "that were fitted on such vectors"
            )
        if others > network.sizes["k"]:
            name, given = ("kdba", self.kdba) if augmenting else ("k", self.k)
            most = network.sizes["k"] + augmenting
            raise ValueError(
                f"{name}={given} is more than {network.name} was fitted for; give {name}={most} or less, or fit "
                "weights with a larger k="
            )

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        """An expansion, and a chunk of lists inside the network for each thread."""
        longest = min(max(self.k, self.kdba), items) + 1
        chunk = max(longest, stages.lattqe.NUMBERS // (8 * max(1, dimensions)))
        rows = min(chunk, longest * (queries + (items if self.kdba else 0)))
        each = rows * 4 * (12 * dimensions + 2 * self.sizes(USUAL)["hidden"] + 3 * 64 * longest)
        return int(super().memory(items, queries, dimensions) + stages.kernels.compiled.threads() * each)

    def kept_by(self, network: Weights, gallery: Gallery, progress: Progress) -> Kept:
        """The weights, so that a saved manifold needs no other file, and the augmented gallery where kdba > 0."""
        self._check(network, gallery.vectors.shape[1], min(self.k, len(gallery)), False)
        kept = super().kept_by(network, gallery, progress)
        sizes = {f"weights_{name}": float(size) for name, size in network.sizes.items()}
        return Kept({**kept.arrays, "weights": flat(network)}, sizes)

    def change(self, before: Kept, gallery: Gallery, turnover: Turnover, tolerance: float | None) -> Kept:
        """By the weights that were kept: the file they came from may be gone, or hold others."""
        return self.kept_by(self._kept_network(before), gallery, SILENT)

    def opened(self, vectors: Vectors, kept: Kept, checked: bool = False) -> Opened:
        return super().opened(vectors, kept, checked)._replace(network=self._kept_network(kept))

    def _kept_network(self, kept: Kept) -> Weights:
        numbers = stages.checks.array_in(kept.arrays, "weights", np.float32, (None,))
        sizes = {name: int(kept.facts.get(f"weights_{name}", 0)) for name in self.stage.FIELDS}
        try:
            return unflat(numbers, sizes, self.stage.layout, "this gallery's LAttQE")
        except ValueError as error:
            raise BadArray("weights", str(error)) from None


@dataclass(frozen=True, kw_only=True)
class AugmentedLAttQE(LAttQE):
    """LAttDBA + LAttQE: mix gallery items and queries with their nearest, weighed by a transformer, then compare.

    Both sides of the comparison lose their noise, not only the query. The queries are mixed with the original
    gallery items, and only the comparison uses the mixed ones. It is our reading, as LAttQE is, and takes the
    same weights: one network serves queries and items.

        t = encoder((x + p_0, x_1 + p_1, ..)) over x and its kdba - 1 nearest others,    w_i = cos(t_0, t_i)
        x' = l2(x + sum_i w_i x_i),    q' = l2(q + sum_{i=1..k} w_i x_i),    distance(q, x) = -q'.x'

    Cost: LAttQE, plus one search of the gallery in itself and the network on each of its items, O(n^2 d +
    n kdba d^2) time and O(n d) memory, shared by all queries.

    Helps where each item has several good neighbours in the gallery, and labels of the same features exist to
    fit the network on. Hurts rare items: one whose neighbours are of another kind is drawn to them, unless the
    network has learned to tell.

    Example:
        >>> lattqe = kinrank.fit(kinrank.AugmentedLAttQE(), gallery, gallery_labels, "lattqe.npz")
        >>> ranking = kinrank.rerank(queries, gallery, lattqe)
    """

    name: ClassVar[str] = "lattdba+lattqe"
    network_name: ClassVar[str] = "lattqe"

    kdba: int = parameter(17, KDBA, low=0)
