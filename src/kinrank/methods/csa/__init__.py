"""CSA: a transformer re-ranks the first items of each query by their similarities to a few anchors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kinrank.methods import network_layers as layers
from kinrank.methods.learned_method import LearnedMethod
from kinrank.methods.network_layers import Arrays, Floats, Shapes
from kinrank.methods.shortlist import Shortlist
from kinrank.neighbors import pairwise_similarities
from kinrank.parameters import parameter
from kinrank.vector_input import Vectors
from kinrank.weight_files import Weights

MLP_EXPANSION = 4  # width of the hidden layer of a block, as a multiple of the row width
USUAL_SIZES = {"anchors": 64, "width": 128, "depth": 2, "heads": 4}  # defaults of `kinrank fit`


def anchor_similarities(query: Vectors, items: Vectors, anchors: int, unit: bool = True) -> Floats:
    """Return (m + 1, anchors) similarities of query and items to the first ones, the query included, padded with 0."""
    rows = np.concatenate([query[None], items])
    similar = pairwise_similarities(rows, rows[:anchors], unit)
    return np.pad(similar, ((0, 0), (0, anchors - similar.shape[1])))


def run_network(arrays: Arrays, sizes: Mapping[str, Any], rows: Floats) -> Floats:
    """Compute (m + 1, width) states from (m + 1, anchors) similarities.

    Every block adds attention, then a small network, each to its input: h + Attn(LN(h)), h + W2 gelu(W1 LN(h)).
    """
    states = layers.apply_linear(rows, arrays, "topk_proj")
    for number in range(sizes["depth"]):
        block = f"blocks.{number}"
        joined = arrays[f"{block}.attn.qkv.weight"], arrays[f"{block}.attn.qkv.bias"]
        normed = layers.apply_layer_norm(states, arrays, f"{block}.norm1")
        states = states + layers.apply_attention(normed, joined, arrays, f"{block}.attn.proj", sizes["heads"])
        normed = layers.apply_layer_norm(states, arrays, f"{block}.norm2")
        inside = layers.gelu(layers.apply_linear(normed, arrays, f"{block}.mlp.fc1"))
        states = states + layers.apply_linear(inside, arrays, f"{block}.mlp.fc2")
    return states


def score_items(arrays: Arrays, sizes: Mapping[str, Any], query: Vectors, items: Vectors, unit: bool = True) -> Floats:
    """Return (m,) cos(h_0, h_i): the similarity of the states of the query and each item."""
    states = run_network(arrays, sizes, anchor_similarities(query, items, sizes["anchors"], unit))
    return layers.cosines(states[0], states[1:])


@dataclass(frozen=True, kw_only=True)
class CSA(LearnedMethod, Shortlist):
    """Re-rank the first items of each query by a transformer that reads their similarities to one another.

    The query and its best items are the anchors. Every item of the list is described by its similarities to
    these, a transformer relates the descriptions to each other, and items whose states point in the
    direction of the query's are near. It never reads the descriptors themselves, so weights fitted on one kind
    of features can be used on another.

        a_i = (z_i.z_0, .., z_i.z_(L-1)) for z = (q, x_1 .. x_top), the first L of them anchors;  h = W a + b
        depth times:  h <- h + Attn(LN(h)),   h <- h + W2 gelu(W1 LN(h));   distance(q, x_i) = -cos(h_0, h_i)

    The weights come from `kinrank.fit(CSA(), features, labels, path="csa.npz")`, which needs torch; ranking needs
    numpy only. The number of anchors and the size of the network belong to the weights. With fewer
    items than anchors, the missing similarities are 0.

    Cost: one search and O(top^2 width) time per query, one query at a time; O(top^2 heads) memory, independent of
    the size of the gallery. Items beyond the top follow in search order.

    Helps if labels of the same kind of data are available for fitting. Hurts on unsuitable data, and cannot help right
    results beyond the top. On all measured sets it stayed below LPMT, fitted with labels or without; fitted on
    pseudo-labels it made faces, persons, shapes and glyphs worse.

    Example:
        >>> csa = kinrank.fit(kinrank.methods.CSA(), gallery, gallery_labels, path="csa.npz")
        >>> ranking = kinrank.rerank(queries, gallery, csa)
    """

    name: ClassVar[str] = "csa"
    paper: ClassVar[str] = (
        "Ouyang, Wu, Wang, Zhou, Li: Contextual Similarity Aggregation with Self-attention for Visual Re-ranking, "
        "NeurIPS 2021"
    )
    size_types: ClassVar[dict[str, type]] = {"anchors": int, "width": int, "depth": int, "heads": int}

    top: int = parameter(400, "number of first items of a query to re-rank (K); the others keep their order", low=1)

    @staticmethod
    def layout(sizes: Mapping[str, Any]) -> Shapes:
        """Return the shape of every array by its published name."""
        anchors, width, depth, heads = (sizes[name] for name in CSA.size_types)
        layers.check_sizes(depth, anchors=anchors, width=width, heads=heads)
        layers.check_heads(heads, width=width)
        shapes = layers.linear_shapes("topk_proj", width, anchors)
        for number in range(depth):
            block = f"blocks.{number}"
            shapes |= layers.norm_shapes(f"{block}.norm1", width)
            shapes |= layers.linear_shapes(f"{block}.attn.qkv", 3 * width, width)
            shapes |= layers.linear_shapes(f"{block}.attn.proj", width, width)
            shapes |= layers.norm_shapes(f"{block}.norm2", width)
            shapes |= layers.linear_shapes(f"{block}.mlp.fc1", MLP_EXPANSION * width, width)
            shapes |= layers.linear_shapes(f"{block}.mlp.fc2", width, MLP_EXPANSION * width)
        return shapes

    def length(self, network: Weights) -> int:
        return self.top

    def scores(self, network: Weights, query: Vectors, items: Vectors, unit: bool) -> Floats:
        return score_items(network.arrays, network.sizes, query, items, unit)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        """Estimate logits, intermediate states and vectors of one query's list for each thread."""
        top, sizes = min(self.top, items) + 1, self.sizes(USUAL_SIZES)
        each = top * 4 * (3 * sizes["heads"] * top + 16 * sizes["width"] + 2 * sizes["anchors"] + 2 * dimensions)
        return self.memory_of_lists(items, queries, self.top, each)
