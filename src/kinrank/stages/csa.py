"""A query and its first items -> their new scores by CSA: a transformer over their similarities to a few anchors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kinrank.features import Vectors
from kinrank.neighbors import similarities
from kinrank.stages import networks
from kinrank.stages.networks import Arrays, Floats, Shapes

FIELDS = {"anchors": int, "width": int, "depth": int, "heads": int}
WIDER = 4  # times the width of a row in the middle of a block


def layout(sizes: Mapping[str, Any]) -> Shapes:
    """The shape of every array, by its published name."""
    anchors, width, depth, heads = (sizes[name] for name in FIELDS)
    networks.check_sizes(depth, anchors=anchors, width=width, heads=heads)
    networks.check_heads(heads, width=width)
    shapes = networks.layer("topk_proj", width, anchors)
    for number in range(depth):
        block = f"blocks.{number}"
        shapes |= networks.norm(f"{block}.norm1", width) | networks.layer(f"{block}.attn.qkv", 3 * width, width)
        shapes |= networks.layer(f"{block}.attn.proj", width, width) | networks.norm(f"{block}.norm2", width)
        shapes |= networks.layer(f"{block}.mlp.fc1", WIDER * width, width)
        shapes |= networks.layer(f"{block}.mlp.fc2", width, WIDER * width)
    return shapes


def affinities(query: Vectors, items: Vectors, anchors: int, unit: bool = True) -> Floats:
    """(m + 1, anchors) similarities of query and items to the first of them, the query among these; 0 behind those."""
    rows = np.concatenate([query[None], items])
    found = similarities(rows, rows[:anchors], unit)
    return np.pad(found, ((0, 0), (0, anchors - found.shape[1])))


def forward(arrays: Arrays, sizes: Mapping[str, Any], rows: Floats) -> Floats:
    """(m + 1, anchors) similarities -> (m + 1, width) states.

    Every block adds attention, then a small network, each to what came in: h + Attn(LN(h)), h + W2 gelu(W1 LN(h)).
    """
    states = networks.linear(rows, arrays, "topk_proj")
    for number in range(sizes["depth"]):
        block = f"blocks.{number}"
        joined = arrays[f"{block}.attn.qkv.weight"], arrays[f"{block}.attn.qkv.bias"]
        normed = networks.layer_norm(states, arrays, f"{block}.norm1")
        states = states + networks.attention(normed, joined, arrays, f"{block}.attn.proj", sizes["heads"])
        normed = networks.layer_norm(states, arrays, f"{block}.norm2")
        inside = networks.gelu(networks.linear(normed, arrays, f"{block}.mlp.fc1"))
        states = states + networks.linear(inside, arrays, f"{block}.mlp.fc2")
    return states


def scores(arrays: Arrays, sizes: Mapping[str, Any], query: Vectors, items: Vectors, unit: bool = True) -> Floats:
    """(m,) cos(h_0, h_i): how alike the states of the query and of each item are."""
    states = forward(arrays, sizes, affinities(query, items, sizes["anchors"], unit))
    return networks.cosines(states[0], states[1:])
