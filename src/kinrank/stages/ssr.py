"""A query and its first items -> their new scores by SSR: two small networks say how the vectors should move."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.stages import networks
from kinrank.stages.networks import Arrays, Floats, Shapes

FIELDS = {"top": int, "hidden": int, "lr": float, "steps": int, "variant": str}
VARIANTS = ("cut", "published")
MOST_STEPS = 100
Order = NDArray[np.int64]


def layout(sizes: Mapping[str, Any]) -> Shapes:
    """The shape of every array, by its published name."""
    top, hidden, lr, steps, variant = (sizes[name] for name in FIELDS)
    networks.check_sizes(top=top, hidden=hidden)
    if not 1 <= steps <= MOST_STEPS or variant not in VARIANTS or not (math.isfinite(lr) and lr > 0):
        raise ValueError(f"steps={steps}, lr={lr}, variant={variant!r:.40}")
    shapes: Shapes = {}
    for network in ("dni_query", "dni_database"):
        for name in ("layer1.0", "layer1.3", "layer2.2"):
            shapes |= networks.norm(f"{network}.{name}", 1)
        shapes |= networks.layer(f"{network}.layer1.1", hidden, 2 * top + 1)
        shapes |= networks.layer(f"{network}.layer2.0", hidden, hidden)
        shapes |= networks.layer(f"{network}.layer3", 2 * top + 1, hidden)
    return shapes


def inputs(units: Floats, top: int) -> tuple[Floats, Order]:
    """(m + 1, 2 top + 1) what the networks see of each node, the query first, and (m + 1, m) the order of the items.

    Row i: S_iq, then S_io and S_qo over the items o by falling S_io, an item first in its own order; with fewer than
    `top` items each part goes on with its last value.
    """
    near: Floats = units @ units.T
    nodes = np.arange(len(units))
    falling = near[:, 1:].copy()
    falling[nodes[1:], nodes[1:] - 1] = np.inf  # itself, also among its duplicates
    order = np.argsort(-falling, axis=1, kind="stable") + 1
    missing = ((0, 0), (0, top - order.shape[1]))
    own = np.pad(np.take_along_axis(near, order, axis=1), missing, mode="edge")
    asked = np.pad(near[0][order], missing, mode="edge")
    return np.concatenate([near[:, :1], own, asked], axis=1), order


def network(arrays: Arrays, name: str, rows: Floats) -> Floats:
    """W3 n(relu(W2 n(relu(W1 n(I))))), n with one scale and one shift for all: (m + 1, 2 top + 1), same shape."""
    rows = networks.layer_norm(rows, arrays, f"{name}.layer1.0")
    rows = networks.relu(networks.linear(rows, arrays, f"{name}.layer1.1"))
    rows = networks.layer_norm(rows, arrays, f"{name}.layer1.3")
    rows = networks.relu(networks.linear(rows, arrays, f"{name}.layer2.0"))
    rows = networks.layer_norm(rows, arrays, f"{name}.layer2.2")
    return networks.linear(rows, arrays, f"{name}.layer3")


def moves(rows: Floats, made: Floats, units: Floats, order: Order, top: int) -> Floats:
    """(m + 1, d) dF: the made-up derivatives by similarities, (m + 1, 2 top + 1), become those by vectors.

    C_iq = G_i0, C_io_j = G_ij, C_qo_j += G_i,top+j; dU = (C + C')U; dF = (dU - u (u.dU)) / |F|.
    """
    count = order.shape[1]
    slopes = np.zeros((len(rows), len(rows)), np.float32)
    np.put_along_axis(slopes, order, made[:, 1 : count + 1], axis=1)
    slopes[:, 0] += made[:, 0]
    asked = np.zeros(slopes.shape, np.float32)
    np.put_along_axis(asked, order, made[:, top + 1 : top + count + 1], axis=1)
    slopes[0] += asked.sum(axis=0)
    by_units: Floats = (slopes + slopes.T) @ units
    by_units -= units * (units * by_units).sum(axis=1, keepdims=True)
    return by_units / _lengths(rows)


def refined(arrays: Arrays, sizes: Mapping[str, Any], query: Vectors, items: Vectors) -> Floats:
    """(m + 1, d) the query and its items after all steps, each of which moves the query, then the items.

    In every move the vectors moved before are taken as they are ("cut"): the published program also differentiates
    through them.
    """
    rows = np.concatenate([query[None], items]).astype(np.float32)
    rate, top = np.float32(sizes["lr"]), sizes["top"]
    for _ in range(sizes["steps"]):
        for name, moving in (("dni_query", slice(0, 1)), ("dni_database", slice(1, None))):
            units = rows / _lengths(rows)
            seen, order = inputs(units, top)
            rows[moving] -= rate * moves(rows, network(arrays, name, seen), units, order, top)[moving]
    return rows


def scores(arrays: Arrays, sizes: Mapping[str, Any], query: Vectors, items: Vectors) -> Floats:
    """(m,) cosine of the moved query and each moved item."""
    rows = refined(arrays, sizes, query, items)
    return networks.cosines(rows[0], rows[1:])


def _lengths(rows: Floats) -> Floats:
    """(n, 1) lengths, 1 where a row is zero."""
    lengths: Floats = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(lengths > 0, lengths, np.float32(1))
