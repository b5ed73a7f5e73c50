"""GSS: a small graph network, trained on the gallery itself, that moves similar items together and others apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.errors import InputError
from kinrank.methods.base import Answer, Arrays, Facts, GalleryIndex, MethodState, PreparedMethod
from kinrank.methods.capabilities import Capabilities
from kinrank.methods.dfs import graph_bytes
from kinrank.methods.gss.network import (
    LayerPass,
    Network,
    embed_queries,
    estimate_pair_bytes,
    identity_network,
    train_network,
)
from kinrank.methods.prepared_search import (
    answer_by_half_squares,
    group_by_found_count,
    half_squared_distances,
    search_rows_exactly,
)
from kinrank.neighbors import Integers, Neighbors, find_first_equal
from kinrank.parameters import parameter
from kinrank.problem import Items
from kinrank.progress import Progress
from kinrank.stages.request import Request
from kinrank.vector_input import Vectors

EPOCHS_MEANING = "number of training passes over all pairs of the gallery; 0 leaves the network untrained"
PERCENTILE_MEANING = "similarity from which a pair is pulled together, as the percentage of pairs below it"
ALPHA_MEANING = "factor of the loss; it hardly affects the training steps"
LAYERS_MEANING = "number of layers, which is the number of edges that information travels"


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainedGallery(MethodState):
    """Trained gallery: embeddings (n, d), hidden rows of each layer but the last, degrees (n,) and the network."""

    embeddings: Vectors
    hidden: list[Vectors]
    degrees: NDArray[np.float64]
    network: Network

    def to_arrays(self) -> Arrays:
        hidden = {f"hidden_{level}": rows for level, rows in enumerate(self.hidden, start=1)}
        weights, biases = self.network
        return {**super().to_arrays(), **hidden, "weights": weights, "biases": biases}

    @classmethod
    def from_arrays(cls, method: GSS, vectors: Vectors, arrays: Arrays, facts: Facts) -> TrainedGallery:
        checks, (count, size), layers = stages.array_storage, vectors.shape, method.layers
        checks.check_unit("embeddings", checks.require_array(arrays, "embeddings", np.float32, (count, size)))
        checks.check_finite("degrees", checks.require_array(arrays, "degrees", np.float64, (count,)), low=1.0)
        hidden = [f"hidden_{level}" for level in range(1, layers)]
        shapes: dict[str, tuple[int, ...]] = {"weights": (layers, size, size), "biases": (layers, size)}
        for name, shape in (shapes | dict.fromkeys(hidden, (count, size))).items():
            checks.check_finite(name, checks.require_array(arrays, name, np.float32, shape))
        return cls(
            embeddings=arrays["embeddings"],
            hidden=[arrays[name] for name in hidden],
            degrees=arrays["degrees"],
            network=Network(arrays["weights"], arrays["biases"]),
            facts=facts,
        )


class Embeddings(NamedTuple):
    """Prepared data: embeddings of the queries and of the gallery, and the first equal gallery items."""

    queries: Vectors
    gallery: Vectors
    first: Integers


@dataclass(frozen=True, kw_only=True)
class GSS(PreparedMethod):
    """Pass descriptors along the graph of the gallery through a small network, trained to move similar items together.

    It learns from the gallery alone, without labels: pairs that are similar after the network are pulled together, all
    others pushed apart. Items are then compared by their embeddings.

    The graph connects two items if one is among the k - 1 nearest others of the other. A query enters afterwards,
    through its kq nearest gallery items, without effect on these or on other queries. With queries=None every item has
    its embedding in the gallery.

    Equation: A_ij = max(s_ij, 0) along edges, A^ = D^-1/2 (A + I) D^-1/2 with D = 1 + row sums of A;
    P_1 = A^ X W_1 + b_1, H_1 = elu(P_1); then P_l = A^ H_(l-1) W_l + b_l, H_l = P_(l-1) + decay elu(P_l);
    e = l2(H of the last layer); the distance is -e_q.e_x. Minimised, from W = I and b = 0, by Adam over `epochs`:
    the mean of -(alpha / 2) (relu(e_i.e_j) - beta)^2 over all pairs of the gallery, beta the `percentile` of e_i.e_j
    before training. Nothing is random. Over candidates (`rerank(..., candidates=c)`) the network is not trained,
    because every query would need its own training: `epochs=0`.

    Cost: O(n^2 d) for the graph, 1.5 n^2 d multiplications per epoch; one sparse row and `layers` d^2 per query. Memory
    2 layers + 2 arrays of the size of the gallery. Nothing n x n.

    Helps if groups are larger than k and descriptors noisy; most of the gain is there before training. Hurts if
    neighbours are wrong, as for items with fewer relevant items than k (faces with two pictures lost 15 points), and if
    the gallery is so large that the epochs take hours: lower `epochs`. The learned weights belong to this gallery and
    to the axes of its descriptors: after a rotation the result differs.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.methods.GSS(k=5, kq=5))
    """

    name: ClassVar[str] = "gss"
    paper: ClassVar[str] = (
        "Liu, Yu, Volkovs, Chang, Rai, Ma, Gorti: Guided Similarity Separation for Image Retrieval, NeurIPS 2019"
    )
    capabilities: ClassVar[Capabilities] = Capabilities(prepared_search=True, filters=True)
    candidate_settings: ClassVar[dict[str, Any]] = {"epochs": 0}
    state: ClassVar[type[MethodState]] = TrainedGallery

    k: int = parameter(
        5, "length of the neighbour list of a gallery item in the graph, the item itself included", low=1
    )
    kq: int = parameter(5, "number of nearest gallery items through which a query enters the graph", low=1)
    epochs: int = parameter(200, EPOCHS_MEANING, low=0, high=10_000)
    lr: float = parameter(1e-4, "length of a training step", low=0, high=1)
    decay: float = parameter(0.3, "weight of the contribution of each layer after the first", low=0, high=10)
    percentile: float = parameter(98.0, PERCENTILE_MEANING, low=0, high=100)
    alpha: float = parameter(1.0, ALPHA_MEANING, low=0, above_low=True, high=1000)
    layers: int = parameter(2, LAYERS_MEANING, low=1, high=10)

    def prepare(self, items: Items, progress: Progress) -> Embeddings:
        rows = items.gallery_vectors
        learned = self.train(rows, items.gallery_neighbors(self.k), progress)
        first = find_first_equal(rows)
        if items.self_query:
            return Embeddings(learned.embeddings, learned.embeddings, first)
        queries = self.embed_queries(items.query_vectors, items.query_neighbors(self.kq), rows, learned)
        return Embeddings(queries, learned.embeddings, first)

    def train(self, rows: Vectors, lists: Neighbors, progress: Progress) -> TrainedGallery:
        """Train the network on the gallery (n, d) with these k nearest items, and return it with its embeddings.

        Equal items get the embedding of the first of them, although their lists may differ.
        """
        graph = stages.affinity.build_item_graph(lists)
        network = identity_network(rows.shape[1], self.layers)
        way = LayerPass.over(graph.adjacency, rows, self.layers, self.decay)
        train_network(way, network, self.epochs, self.lr, self.alpha, self.percentile, progress)
        if not np.isfinite(way.lengths).all():
            raise InputError(
                f"the training steps of {self!r} are so long that numbers overflowed",
                remedy="lower `lr`, `epochs` or `layers`",
            )
        first = find_first_equal(rows)
        later = np.flatnonzero(first != np.arange(len(first)))
        way.embeddings[later] = way.embeddings[first[later]]
        return TrainedGallery(embeddings=way.embeddings, hidden=way.hidden(), degrees=graph.degrees, network=network)

    def embed_queries(self, queries: Vectors, nearest: Neighbors, rows: Vectors, learned: TrainedGallery) -> Vectors:
        """Return (q, d) embeddings of queries with these nearest items (q, <= kq)."""
        before = [rows, *learned.hidden]
        return embed_queries(queries, nearest, before, learned.degrees, learned.network, self.decay)

    def distances(self, prepared: Embeddings, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        return half_squared_distances(prepared.queries[queries], prepared.gallery, prepared.first, unit=True)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        """Estimate lists, graph, two arrays a layer and two more, network and optimiser, pairs, and queries."""
        arrays, networks = (2 * self.layers + 2, 5) if self.epochs else (2 * self.layers + 1, 1)
        numbers = arrays * items * dimensions + networks * self.layers * dimensions * (dimensions + 1)
        pairs = estimate_pair_bytes(items, dimensions) if self.epochs else 0
        query_bytes = queries * (dimensions * 24 + (min(self.kq, items) + 9) * 24)
        return graph_bytes(items, self.k) + 4 * numbers + pairs + query_bytes + 2_000_000

    def seconds(self, items: int, dimensions: int) -> float:
        layers = 1e-10 * self.layers * items * dimensions**2
        pairs = 1.5e-10 * self.epochs * items**2 * dimensions  # none over candidates: see `candidate_settings`
        return super().seconds(items, dimensions) + layers + pairs

    def prepare_gallery(self, gallery: GalleryIndex, progress: Progress, changes: bool = True) -> TrainedGallery:
        return self.train(gallery.vectors, gallery.lists(self.k), progress)

    def neighbors_needed(self, depth: int) -> int:
        return self.kq

    def search_gallery(self, gallery: GalleryIndex, state: TrainedGallery, request: Request) -> Answer:
        """Place the queries through the found items, then search all embeddings, which are not in a store."""
        placed = np.empty_like(request.queries)
        for rows, others in group_by_found_count(request.neighbors, self.kq):
            placed[rows] = self.embed_queries(request.queries[rows], others, gallery.vectors, state)
        return answer_by_half_squares(search_rows_exactly(replace(request, queries=placed), state.embeddings, True))
