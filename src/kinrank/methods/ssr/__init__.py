"""SSR: move the first items of each query along a learned gradient of their similarities, then compare again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError
from kinrank.lazy_import import import_extra
from kinrank.methods import network_layers as layers
from kinrank.methods.learned_method import LearnedMethod
from kinrank.methods.network_layers import Arrays, Floats, Shapes
from kinrank.methods.shortlist import Shortlist
from kinrank.vector_input import Vectors
from kinrank.weight_files import Weights

USUAL_SIZES = {"top": 64, "hidden": 256, "steps": 1, "variant": "cut"}  # defaults of `kinrank fit`
VARIANTS = ("cut", "published")
MAX_STEPS = 100
ItemOrder = NDArray[np.int64]


def build_inputs(units: Floats, top: int) -> tuple[Floats, ItemOrder]:
    """Return (m + 1, 2 top + 1) network inputs of each node, the query first, and (m + 1, m) the order of the items.

    Row i: S_iq, then S_io and S_qo over the items o by descending S_io, an item first in its own order; with fewer than
    `top` items each part repeats its last value.
    """
    near: Floats = units @ units.T
    nodes = np.arange(len(units))
    falling = near[:, 1:].copy()
    falling[nodes[1:], nodes[1:] - 1] = np.inf  # itself first, even among duplicates
    order = np.argsort(-falling, axis=1, kind="stable") + 1
    missing = ((0, 0), (0, top - order.shape[1]))
    own = np.pad(np.take_along_axis(near, order, axis=1), missing, mode="edge")
    query = np.pad(near[0][order], missing, mode="edge")
    return np.concatenate([near[:, :1], own, query], axis=1), order


def run_network(arrays: Arrays, name: str, rows: Floats) -> Floats:
    """Return W3 n(relu(W2 n(relu(W1 n(I))))), n with one scale and shift for all: (m + 1, 2 top + 1), same shape."""
    rows = layers.apply_layer_norm(rows, arrays, f"{name}.layer1.0")
    rows = layers.relu(layers.apply_linear(rows, arrays, f"{name}.layer1.1"))
    rows = layers.apply_layer_norm(rows, arrays, f"{name}.layer1.3")
    rows = layers.relu(layers.apply_linear(rows, arrays, f"{name}.layer2.0"))
    rows = layers.apply_layer_norm(rows, arrays, f"{name}.layer2.2")
    return layers.apply_linear(rows, arrays, f"{name}.layer3")


def compute_moves(rows: Floats, outputs: Floats, units: Floats, order: ItemOrder, top: int) -> Floats:
    """Return (m + 1, d) dF: derivatives by vectors from the network's derivatives by similarities.

    The latter are (m + 1, 2 top + 1).
    C_iq = G_i0, C_io_j = G_ij, C_qo_j += G_i,top+j; dU = (C + C')U; dF = (dU - u (u.dU)) / |F|.
    """
    count = order.shape[1]
    slopes = np.zeros((len(rows), len(rows)), np.float32)
    np.put_along_axis(slopes, order, outputs[:, 1 : count + 1], axis=1)
    slopes[:, 0] += outputs[:, 0]
    query_slopes = np.zeros(slopes.shape, np.float32)
    np.put_along_axis(query_slopes, order, outputs[:, top + 1 : top + count + 1], axis=1)
    slopes[0] += query_slopes.sum(axis=0)
    by_units: Floats = (slopes + slopes.T) @ units
    by_units -= units * (units * by_units).sum(axis=1, keepdims=True)
    return by_units / _row_lengths(rows)


def refine_vectors(arrays: Arrays, sizes: Mapping[str, Any], query: Vectors, items: Vectors) -> Floats:
    """Return (m + 1, d) the query and its items after all steps, each of which moves the query, then the items.

    Every move treats earlier moves as constants ("cut"); the published program also differentiates through them.
    """
    rows = np.concatenate([query[None], items]).astype(np.float32)
    rate, top = np.float32(sizes["lr"]), sizes["top"]
    for _ in range(sizes["steps"]):
        for name, moving in (("dni_query", slice(0, 1)), ("dni_database", slice(1, None))):
            units = rows / _row_lengths(rows)
            seen, order = build_inputs(units, top)
            rows[moving] -= rate * compute_moves(rows, run_network(arrays, name, seen), units, order, top)[moving]
    return rows


def score_items(arrays: Arrays, sizes: Mapping[str, Any], query: Vectors, items: Vectors) -> Floats:
    """Return (m,) the cosine of the moved query and each moved item."""
    rows = refine_vectors(arrays, sizes, query, items)
    return layers.cosines(rows[0], rows[1:])


def _row_lengths(rows: Floats) -> Floats:
    """Return (n, 1) the lengths, 1 for a zero row."""
    lengths: Floats = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(lengths > 0, lengths, np.float32(1))


@dataclass(frozen=True, kw_only=True)
class SSR(LearnedMethod, Shortlist):
    """Move the query and its first items according to a small network that predicts their similarities.

    For each of them, the network reads its similarities to the others and those of the query, in falling
    order, and returns a synthetic derivative of a loss with respect to these similarities. The vectors are moved
    against it, first the query, then the items, and compared again.

        I_i = (S_iq, S_io_1 .., S_qo_1 ..) over the items o by falling S_io;   G = net(I),  of the same shape
        C_iq = G_i0,  C_io_j = G_ij,  C_qo_j += G_i,top+j;   dU = (C + C') U,   dF = (dU - u (u.dU)) / |F|
        F <- F - lr dF,  the query by one network, then the items by another;    distance(q, x_i) = -cos(F_q, F_i)

    The weights come from `kinrank.fit(SSR(), features, labels, path="ssr.npz")`, which needs torch; ranking needs
    numpy only. The number of re-ranked items (top), the number and length of the moves (steps, lr) and the variant
    belong to the weights. "cut" is the form above. "published" also differentiates through vectors that were just
    moved, as the authors' program does; it is for their weights, and ranks with torch. With fewer items than top, each
    part of I is padded with its last value. Only directions are compared.

    Cost: one search and O(top^2 hidden + top^2 d) time per query and step, one query at a time; O(top^2)
    memory, independent of the size of the gallery. Items beyond the top follow in search order.

    Helps if labels of the same kind of data are available for fitting. Hurts some queries if it was fitted on
    another kind: with labels of Caltech101 it gained nothing on ROxford5k. On all measured sets it stayed
    below LPMT, fitted with labels or without.

    Example:
        >>> ssr = kinrank.fit(kinrank.methods.SSR(), gallery, gallery_labels, path="ssr.npz")
        >>> ranking = kinrank.rerank(queries, gallery, ssr)
    """

    name: ClassVar[str] = "ssr"
    paper: ClassVar[str] = (
        "Shen, Xiao, Hu, Sbai, Aubry: Re-ranking for Image Retrieval and Transductive Few-shot Classification, "
        "NeurIPS 2021"
    )
    size_types: ClassVar[dict[str, type]] = {"top": int, "hidden": int, "lr": float, "steps": int, "variant": str}

    @staticmethod
    def layout(sizes: Mapping[str, Any]) -> Shapes:
        """Return the shape of every array by its published name."""
        top, hidden, lr, steps, variant = (sizes[name] for name in SSR.size_types)
        layers.check_sizes(top=top, hidden=hidden)
        if not 1 <= steps <= MAX_STEPS or variant not in VARIANTS or not (math.isfinite(lr) and lr > 0):
            raise InputError(f"steps={steps}, lr={lr}, variant={variant!r:.40}")
        shapes: Shapes = {}
        for network in ("dni_query", "dni_database"):
            for name in ("layer1.0", "layer1.3", "layer2.2"):
                shapes |= layers.norm_shapes(f"{network}.{name}", 1)
            shapes |= layers.linear_shapes(f"{network}.layer1.1", hidden, 2 * top + 1)
            shapes |= layers.linear_shapes(f"{network}.layer2.0", hidden, hidden)
            shapes |= layers.linear_shapes(f"{network}.layer3", 2 * top + 1, hidden)
        return shapes

    def length(self, network: Weights) -> int:
        return int(network.sizes["top"])

    def scores(self, network: Weights, query: Vectors, items: Vectors, unit: bool) -> Floats:
        if network.sizes["variant"] == "published":
            import_extra("torch", "SSR with weights of the variant published", "torch")
            from kinrank.methods.ssr import training  # imports torch

            return training.score_items(network.arrays, network.sizes, query, items)
        return score_items(network.arrays, network.sizes, query, items)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        """Estimate inputs, outputs, slopes and vectors of one query's list for each thread."""
        sizes = self.sizes(USUAL_SIZES)
        rows = min(sizes["top"], items) + 1
        each = rows * 4 * (6 * (2 * sizes["top"] + 1) + 6 * rows + 4 * sizes["hidden"] + 6 * dimensions)
        each *= 4 * sizes["steps"] if sizes["variant"] == "published" else 1  # values for the derivatives are kept
        return self.memory_of_lists(items, queries, sizes["top"], each)
