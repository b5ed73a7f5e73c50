"""GSS: a small graph network, trained on the gallery itself, moves similar items together and others apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.features import Vectors
from kinrank.items import Items
from kinrank.methods.base import Method
from kinrank.methods.dfs import graph_bytes
from kinrank.methods.served import Answer, Gallery, Kept, by_halves, equally_many, halves, searched_exactly
from kinrank.neighbors import Integers, Neighbors, first_equal
from kinrank.parameters import parameter
from kinrank.progress import Progress
from kinrank.stages.masks import EVERYONE, Masks

if TYPE_CHECKING:
    from kinrank.stages.gss import Network

EPOCHS = "how often the network looks at all pairs of the gallery to improve itself; 0 leaves it untrained"
PERCENTILE = "similarity from which a pair is pulled together, as the percentage of all pairs that are below it"
ALPHA = "factor of the loss; the steps of training hardly depend on it"
LAYERS = "how many layers, that is, over how many edges an item sees"


class Trained(NamedTuple):
    """What is known of a gallery: embeddings (n, d), hidden rows of each layer but the last, degrees (n,), network."""

    embeddings: Vectors
    hidden: list[Vectors]
    degrees: NDArray[np.float64]
    network: Network


class Placed(NamedTuple):
    """Embeddings of the queries and of the gallery, and the first equal of every gallery item."""

    queries: Vectors
    gallery: Vectors
    first: Integers


@dataclass(frozen=True, kw_only=True)
class GSS(Method):
    """Passes descriptors along the gallery's graph through a small network, trained to move similar items together.
    It learns from the gallery alone, without labels: pairs that are similar after the network are pulled together, all
    others pushed apart. Items are then compared by where they are.

    The graph joins two items when one is among the k - 1 nearest others of the other. A query enters afterwards,
    through its kq nearest gallery items; neither they nor other queries notice. With queries=None every item is where
    the gallery has it.

    Equation: A_ij = max(s_ij, 0) along edges, A^ = D^-1/2 (A + I) D^-1/2 with D = 1 + row sums of A;
    P_1 = A^ X W_1 + b_1, H_1 = elu(P_1); then P_l = A^ H_(l-1) W_l + b_l, H_l = P_(l-1) + decay elu(P_l);
    e = l2(H of the last layer); the distance is -e_q.e_x. Minimised, from W = I and b = 0, by Adam over `epochs`:
    the mean of -(alpha / 2) (relu(e_i.e_j) - beta)^2 over all pairs of the gallery, beta the `percentile` of e_i.e_j
    before training. Nothing is random. Over candidates (`rerank(..., candidates=c)`) the network is not trained, as
    it would be for every query anew: `epochs=0`.

    Cost: O(n^2 d) for the graph, 1.5 n^2 d multiplications per epoch; one sparse row and `layers` d^2 per query. Memory
    2 layers + 2 arrays of the size of the gallery. Nothing n x n.

    Helps where groups are larger than k and descriptors noisy; most of the gain is there before training. Hurts when
    neighbours are wrong, as where items have fewer kin than k (faces with two pictures lost 15 points), and when the
    gallery is so large that the epochs take hours: lower `epochs`. What was learned
    belongs to this gallery and to the axes of its descriptors: after a rotation the result differs.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.GSS(k=5, kq=5))
    """

    name: ClassVar[str] = "gss"
    paper: ClassVar[str] = (
        "Liu, Yu, Volkovs, Chang, Rai, Ma, Gorti: Guided Similarity Separation for Image Retrieval, NeurIPS 2019"
    )

    k: int = parameter(
        5, "length of the neighbour list of a gallery item in the graph, the item itself included", low=1
    )
    kq: int = parameter(5, "how many of the nearest gallery items a query enters the graph through", low=1)
    epochs: int = parameter(200, EPOCHS, low=0, high=10_000)
    lr: float = parameter(1e-4, "length of a step of training", low=0, high=1)
    decay: float = parameter(0.3, "share of what each layer after the first adds", low=0, high=10)
    percentile: float = parameter(98.0, PERCENTILE, low=0, high=100)
    alpha: float = parameter(1.0, ALPHA, low=0, above_low=True, high=1000)
    layers: int = parameter(2, LAYERS, low=1, high=10)

    def prepare(self, items: Items, progress: Progress) -> Placed:
        rows = items.gallery_vectors
        learned = self.learned(rows, items.gallery_neighbors(self.k), progress)
        first = first_equal(rows)
        if items.self_query:
            return Placed(learned.embeddings, learned.embeddings, first)
        queries = self.entered(items.query_vectors, items.query_neighbors(self.kq), rows, learned)
        return Placed(queries, learned.embeddings, first)

    def learned(self, rows: Vectors, lists: Neighbors, progress: Progress) -> Trained:
        """The trained network and what it makes of the gallery (n, d), of which these are the k nearest.

        Equal items get the embedding of the first of them, though their lists may differ.
        """
        graph = stages.gss.graph(lists)
        network = stages.gss.identity(rows.shape[1], self.layers)
        way = stages.layers.Pass.over(graph.adjacency, rows, self.layers, self.decay)
        stages.separation.train(way, network, self.epochs, self.lr, self.alpha, self.percentile, progress)
        if not np.isfinite(way.lengths).all():
            raise ValueError(
                f"{self!r} was trained in steps so long that numbers overflowed; lower lr, or epochs or layers"
            )
        first = first_equal(rows)
        later = np.flatnonzero(first != np.arange(len(first)))
        way.embeddings[later] = way.embeddings[first[later]]
        return Trained(way.embeddings, way.hidden(), graph.degrees, network)

    def entered(self, queries: Vectors, nearest: Neighbors, rows: Vectors, learned: Trained) -> Vectors:
        """(q, d) embeddings of queries with these nearest items (q, <= kq)."""
        before = [rows, *learned.hidden]
        return stages.gss.entered(queries, nearest, before, learned.degrees, learned.network, self.decay)

    def distances(self, prepared: Placed, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        return halves(prepared.queries[queries], prepared.gallery, prepared.first, unit=True)

    def over_candidates(self) -> Method:
        return replace(self, epochs=0)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        """Lists and graph; two arrays a layer and two more; the network, its gradient, means, steps; pairs; queries."""
        arrays, networks = (2 * self.layers + 2, 5) if self.epochs else (2 * self.layers + 1, 1)
        numbers = arrays * items * dimensions + networks * self.layers * dimensions * (dimensions + 1)
        pairs = stages.separation.working_bytes(items, dimensions) if self.epochs else 0
        asked = queries * (dimensions * 24 + (min(self.kq, items) + 9) * 24)
        return graph_bytes(items, self.k) + 4 * numbers + pairs + asked + 2_000_000

    def seconds(self, items: int, dimensions: int) -> float:
        layers = 1e-10 * self.layers * items * dimensions**2
        pairs = 1.5e-10 * self.epochs * items**2 * dimensions  # none over candidates: see `over_candidates`
        return super().seconds(items, dimensions) + layers + pairs

    def keep(self, gallery: Gallery, progress: Progress, changes: bool = True) -> Kept:
        """Embeddings and hidden rows of each layer but the last, (n, d) each, degrees (n,), and the network."""
        learned = self.learned(gallery.vectors, gallery.lists(self.k), progress)
        weights, biases = learned.network
        hidden = {f"hidden_{level}": rows for level, rows in enumerate(learned.hidden, start=1)}
        placed = {"embeddings": learned.embeddings, **hidden}
        return Kept({**placed, "degrees": learned.degrees, "weights": weights, "biases": biases})

    def opened(self, vectors: Vectors, kept: Kept, checked: bool = False) -> Trained:
        count, size = vectors.shape
        names = [f"hidden_{level}" for level in range(1, self.layers)]
        if not checked:
            _check(kept, count, size, self.layers, names)
        arrays = kept.arrays
        network = stages.gss.Network(arrays["weights"], arrays["biases"])
        return Trained(arrays["embeddings"], [arrays[name] for name in names], arrays["degrees"], network)

    def reach(self, depth: int) -> int:
        return self.kq

    def answer(
        self, gallery: Gallery, opened: Trained, queries: Vectors, found: Neighbors, k: int, depth: int,
        budget: int | None, masks: Masks = EVERYONE,
    ) -> Answer:  # fmt: skip
        """Queries enter through what was found; then all embeddings are searched, which no store holds."""
        placed = np.empty_like(queries)
        for rows, others in equally_many(found, self.kq):
            placed[rows] = self.entered(queries[rows], others, gallery.vectors, opened)
        return by_halves(searched_exactly(placed, opened.embeddings, depth, masks, unit=True))


def _check(kept: Kept, count: int, size: int, layers: int, hidden: list[str]) -> None:
    """A ValueError if what was kept does not fit a gallery (count, size)."""
    checks, arrays = stages.checks, kept.arrays
    checks.check_unit("embeddings", checks.array_in(arrays, "embeddings", np.float32, (count, size)))
    checks.check_finite("degrees", checks.array_in(arrays, "degrees", np.float64, (count,)), low=1.0)
    shapes: dict[str, tuple[int, ...]] = {"weights": (layers, size, size), "biases": (layers, size)}
    for name, shape in (shapes | dict.fromkeys(hidden, (count, size))).items():
        checks.check_finite(name, checks.array_in(arrays, name, np.float32, shape))
