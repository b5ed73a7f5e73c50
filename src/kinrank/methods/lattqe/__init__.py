"""LAttQE: query expansion with weights from a transformer. Our interpretation of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.errors import InputError
from kinrank.methods import network_layers
from kinrank.methods.base import Arrays, Facts, GalleryIndex, MethodState
from kinrank.methods.learned_method import LearnedMethod
from kinrank.methods.network_layers import Floats, Shapes
from kinrank.methods.query_expansion import KDBA_MEANING, Expansion, ExpansionState, ExpansionTask
from kinrank.neighbors import Neighbors
from kinrank.parameters import parameter
from kinrank.progress import SILENT, Progress
from kinrank.stages.array_storage import BadArrayError
from kinrank.stages.item_change import ItemChange
from kinrank.vector_input import Vectors
from kinrank.weight_files import Weights, flatten_weights, unflatten_weights

K_MEANING = (
    "number of nearest gallery items to mix into each query; at most as many as the weights were fitted for, and "
    "best exactly as many"
)
USUAL_SIZES = {"hidden": 512}  # defaults of `kinrank fit`
MAX_CHUNK_NUMBERS = 2**21  # float32 numbers in the vectors of a chunk: 8 MB


def encode_lists(arrays: network_layers.Arrays, sizes: Mapping[str, Any], lists: Floats) -> Floats:
    """Return the states of lists of vectors, (m, <= k + 1, d), each row before its neighbours; same shape.

    A vector for its rank is added to each; every layer is LN(x + Attn(x)), then LN(x + W2 relu(W1 x)).
    """
    rows = lists + arrays["position"][: lists.shape[1]]
    for number in range(sizes["layers"]):
        layer = f"encoder.layers.{number}"
        joined = arrays[f"{layer}.self_attn.in_proj_weight"], arrays[f"{layer}.self_attn.in_proj_bias"]
        rows = rows + network_layers.apply_attention(
            rows, joined, arrays, f"{layer}.self_attn.out_proj", sizes["heads"]
        )
        rows = network_layers.apply_layer_norm(rows, arrays, f"{layer}.norm1")
        inside = network_layers.relu(network_layers.apply_linear(rows, arrays, f"{layer}.linear1"))
        rows = network_layers.apply_layer_norm(
            rows + network_layers.apply_linear(inside, arrays, f"{layer}.linear2"), arrays, f"{layer}.norm2"
        )
    return rows


def weigh_neighbors(network: Weights, rows: Vectors, gallery: Vectors, others: Neighbors) -> Floats:
    """Return (n, k) cos(t_0, t_i) of every neighbour i; it may be negative, and that of the row itself is 1."""
    compiler, weights = stages.kernels.compiler, np.empty(others.indices.shape, np.float32)
    chunk = max(1, MAX_CHUNK_NUMBERS // ((others.k + 1) * 8 * network.sizes["dimensions"]))

    def fill(start: int, stop: int) -> None:
        lists = np.concatenate([rows[start:stop, None], gallery[others.indices[start:stop]]], axis=1)
        states = encode_lists(network.arrays, network.sizes, lists)
        weights[start:stop] = network_layers.cosines(states[:, 0], states[:, 1:])

    with compiler.single_blas_thread():  # the products are small: run chunks of rows on threads instead
        compiler.run_on_threads(fill, compiler.split_rows(len(rows), chunk))
    return weights


@dataclass(frozen=True, eq=False, kw_only=True)
class LAttQEState(ExpansionState):
    """Prepared gallery, with the weights as one array (w,), so that a saved manifold needs no other file."""

    weights: NDArray[np.float32]

    @classmethod
    def from_arrays(cls, method: LAttQE, vectors: Vectors, arrays: Arrays, facts: Facts) -> LAttQEState:
        expansion = ExpansionState.from_arrays(method, vectors, arrays, facts)
        weights = stages.array_storage.require_array(arrays, "weights", np.float32, (None,))
        sizes = {name: int(facts.get(f"weights_{name}", 0)) for name in method.size_types}
        try:
            network = unflatten_weights(weights, sizes, method.layout, "this gallery's LAttQE")
        except InputError as error:
            raise BadArrayError("weights", str(error)) from None
        return cls(augmented=expansion.augmented, network=network, weights=weights, facts=facts)


@dataclass(frozen=True, kw_only=True)
class LAttQE(LearnedMethod, Expansion):
    """Replace each query by a mean of itself and its k nearest gallery items, weighted by a transformer.

    The network reads the query and its neighbours as a list, by rank, and the weight of a neighbour is
    the cosine of its state and the query's. The original descriptors are summed, so
    the new query is searched in the unchanged gallery.

        t = encoder((q + p_0, x_1 + p_1, .., x_k + p_k)),    w_i = cos(t_0, t_i)
        q' = l2(q + sum_{i=1..k} w_i x_i),    distance(q, x) = -q'.x

    This is our interpretation: the authors published no program. The encoder has standard layers (attention, then
    feed-forward, each followed by LayerNorm). A weight may be below 0. With kdba > 0 the same network mixes
    every gallery item with its kdba - 1 nearest others (LAttDBA), and q', still made from the original
    gallery, is compared with these.

    The weights come from `kinrank.fit(LAttQE(), features, labels, path="lattqe.npz")`, which needs torch; ranking
    needs numpy only. The network reads descriptors, so the weights belong to one kind of features: those of
    another dimension are refused, and axes must not be rotated.

    Cost: one search and O(q k d^2) time; O(q d) memory, and O(n d) more with kdba.

    Helps if labels of the same features are available for fitting: it can then distinguish neighbours that AQE
    mixes in blindly. Hurts, like all expansion, if the first items are wrong. A network with random
    weights already acts as a weighted AQE, so compare it with AQE.

    Example:
        >>> lattqe = kinrank.fit(kinrank.methods.LAttQE(), gallery, gallery_labels, path="lattqe.npz")
        >>> ranking = kinrank.rerank(queries, gallery, lattqe)
    """

    name: ClassVar[str] = "lattqe"
    paper: ClassVar[str] = (
        "Gordo, Radenovic, Berg: Attention-Based Query Expansion Learning, ECCV 2020 (our reading: no program exists)"
    )
    state: ClassVar[type[MethodState]] = LAttQEState
    size_types: ClassVar[dict[str, type]] = dict.fromkeys(("dimensions", "k", "layers", "heads", "hidden"), int)

    k: int = parameter(16, K_MEANING, low=1)

    @staticmethod
    def layout(sizes: Mapping[str, Any]) -> Shapes:
        """Return the shape of every array, with the names of torch.nn.TransformerEncoder."""
        dimensions, k, layers, heads, hidden = (sizes[name] for name in LAttQE.size_types)
        network_layers.check_sizes(layers, dimensions=dimensions, k=k, heads=heads, hidden=hidden)
        network_layers.check_heads(heads, dimensions=dimensions)
        shapes: Shapes = {"position": (k + 1, dimensions)}
        for number in range(layers):
            layer = f"encoder.layers.{number}"
            shapes[f"{layer}.self_attn.in_proj_weight"] = (3 * dimensions, dimensions)
            shapes[f"{layer}.self_attn.in_proj_bias"] = (3 * dimensions,)
            shapes |= network_layers.linear_shapes(f"{layer}.self_attn.out_proj", dimensions, dimensions)
            shapes |= network_layers.linear_shapes(f"{layer}.linear1", hidden, dimensions)
            shapes |= network_layers.linear_shapes(f"{layer}.linear2", dimensions, hidden)
            shapes |= network_layers.norm_shapes(f"{layer}.norm1", dimensions)
            shapes |= network_layers.norm_shapes(f"{layer}.norm2", dimensions)
        return shapes

    def expand(self, around: ExpansionTask, progress: Progress) -> Vectors:
        network: Weights = around.network
        self._check(network, around.rows.shape[1], around.others.k, around.augmenting)
        weights = weigh_neighbors(network, around.rows, around.gallery, around.others)
        return stages.vector_expansion.weighted_sum(around.rows, around.gallery, around.others, weights, around.unit)

    def _check(self, network: Weights, dimensions: int, others: int, augmenting: bool) -> None:
        """Refuse vectors of another dimension, and more neighbours than the weights were fitted for."""
        fitted = network.sizes["dimensions"]
        if fitted != dimensions:
            raise InputError(
                f"{network.name} was fitted for vectors of {fitted} dimensions, and these have {dimensions}",
                remedy="give `weights` that were fitted on such vectors",
            )
        if others > network.sizes["k"]:
            name, given = ("kdba", self.kdba) if augmenting else ("k", self.k)
            most = network.sizes["k"] + augmenting
            raise InputError(
                f"is more than {network.name} was fitted for",
                parameter=name,
                given=given,
                remedy=f"give `{name}={most}` or less, or fit weights with a larger `k`",
            )

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        """Estimate an expansion, and a chunk of lists inside the network for each thread."""
        longest = min(max(self.k, self.kdba), items) + 1
        chunk = max(longest, MAX_CHUNK_NUMBERS // (8 * max(1, dimensions)))
        rows = min(chunk, longest * (queries + (items if self.kdba else 0)))
        each = rows * 4 * (12 * dimensions + 2 * self.sizes(USUAL_SIZES)["hidden"] + 3 * 64 * longest)
        return int(super().memory(items, queries, dimensions) + stages.kernels.compiler.thread_count() * each)

    def prepare_gallery_with(self, network: Weights, gallery: GalleryIndex, progress: Progress) -> ExpansionState:
        self._check(network, gallery.vectors.shape[1], min(self.k, len(gallery)), False)
        state = super().prepare_gallery_with(network, gallery, progress)
        sizes = {f"weights_{name}": float(size) for name, size in network.sizes.items()}
        weights = flatten_weights(network)
        return LAttQEState(augmented=state.augmented, network=network, weights=weights, facts=sizes)

    def change(
        self, before: LAttQEState, gallery: GalleryIndex, turnover: ItemChange, tolerance: float | None
    ) -> ExpansionState:
        """Use the weights of the state: their file may be gone, or hold others."""
        return self.prepare_gallery_with(before.network, gallery, SILENT)


@dataclass(frozen=True, kw_only=True)
class AugmentedLAttQE(LAttQE):
    """LAttDBA + LAttQE: mix gallery items and queries with their nearest, weighted by a transformer, then compare.

    This removes noise on both sides of the comparison. The queries are mixed with the original
    gallery items; only the comparison uses the mixed ones. It is our interpretation, like LAttQE, and uses the
    same weights: one network serves queries and items.

        t = encoder((x + p_0, x_1 + p_1, ..)) over x and its kdba - 1 nearest others,    w_i = cos(t_0, t_i)
        x' = l2(x + sum_i w_i x_i),    q' = l2(q + sum_{i=1..k} w_i x_i),    distance(q, x) = -q'.x'

    Cost: LAttQE, plus one search of the gallery in itself and the network on each of its items, O(n^2 d +
    n kdba d^2) time and O(n d) memory, shared by all queries.

    Helps if each item has several good neighbours in the gallery, and labels of the same features are available for
    fitting. Hurts rare items: an item whose neighbours belong to another class is drawn to them, unless the
    network has learned to distinguish them.

    Example:
        >>> lattqe = kinrank.fit(kinrank.methods.AugmentedLAttQE(), gallery, gallery_labels, path="lattqe.npz")
        >>> ranking = kinrank.rerank(queries, gallery, lattqe)
    """

    name: ClassVar[str] = "lattdba+lattqe"
    network_name: ClassVar[str] = "lattqe"

    kdba: int = parameter(17, KDBA_MEANING, low=0)
