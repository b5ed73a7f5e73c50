"""Rows and their neighbours -> how much each neighbour counts by LAttQE: a transformer over the vectors themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kinrank.features import Vectors
from kinrank.neighbors import Neighbors
from kinrank.stages import networks
from kinrank.stages.kernels.compiled import chunks, one_blas_thread, over_threads
from kinrank.stages.networks import Arrays, Floats, Shapes

FIELDS = {"dimensions": int, "k": int, "layers": int, "heads": int, "hidden": int}
NUMBERS = 2**21  # of the vectors of a chunk, 8 MB of them


def layout(sizes: Mapping[str, Any]) -> Shapes:
    """The shape of every array; names as torch.nn.TransformerEncoder has them."""
    dimensions, k, layers, heads, hidden = (sizes[name] for name in FIELDS)
    networks.check_sizes(layers, dimensions=dimensions, k=k, heads=heads, hidden=hidden)
    networks.check_heads(heads, dimensions=dimensions)
    shapes: Shapes = {"position": (k + 1, dimensions)}
    for number in range(layers):
        layer = f"encoder.layers.{number}"
        shapes[f"{layer}.self_attn.in_proj_weight"] = (3 * dimensions, dimensions)
        shapes[f"{layer}.self_attn.in_proj_bias"] = (3 * dimensions,)
        shapes |= networks.layer(f"{layer}.self_attn.out_proj", dimensions, dimensions)
        shapes |= networks.layer(f"{layer}.linear1", hidden, dimensions)
        shapes |= networks.layer(f"{layer}.linear2", dimensions, hidden)
        shapes |= networks.norm(f"{layer}.norm1", dimensions) | networks.norm(f"{layer}.norm2", dimensions)
    return shapes


def states(arrays: Arrays, sizes: Mapping[str, Any], lists: Floats) -> Floats:
    """(m, <= k + 1, d) lists of vectors, each row before its neighbours -> their states, of the same shape.

    A vector for its rank is added to each; every layer is LN(x + Attn(x)), then LN(x + W2 relu(W1 x)).
    """
    rows = lists + arrays["position"][: lists.shape[1]]
    for number in range(sizes["layers"]):
        layer = f"encoder.layers.{number}"
        joined = arrays[f"{layer}.self_attn.in_proj_weight"], arrays[f"{layer}.self_attn.in_proj_bias"]
        rows = rows + networks.attention(rows, joined, arrays, f"{layer}.self_attn.out_proj", sizes["heads"])
        rows = networks.layer_norm(rows, arrays, f"{layer}.norm1")
        inside = networks.relu(networks.linear(rows, arrays, f"{layer}.linear1"))
        rows = networks.layer_norm(rows + networks.linear(inside, arrays, f"{layer}.linear2"), arrays, f"{layer}.norm2")
    return rows


def neighbour_weights(
    arrays: Arrays, sizes: Mapping[str, Any], rows: Vectors, gallery: Vectors, others: Neighbors
) -> Floats:
    """(n, k) cos(t_0, t_i) of every neighbour i; it may be below 0, and that of the row itself is 1."""
    found: Floats = np.empty(others.indices.shape, np.float32)

    def fill(start: int, stop: int) -> None:
        lists = np.concatenate([rows[start:stop, None], gallery[others.indices[start:stop]]], axis=1)
        made = states(arrays, sizes, lists)
        found[start:stop] = networks.cosines(made[:, 0], made[:, 1:])

    with one_blas_thread():  # the products are small: threads over chunks of rows instead
        over_threads(fill, chunks(len(rows), max(1, NUMBERS // ((others.k + 1) * 8 * sizes["dimensions"]))))
    return found
