"""CSA, SSR and LAttQE written out: loops, float64, one vector at a time. Deliberately slow, for comparison."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]


def linear(row: np.ndarray, arrays: Arrays, name: str) -> np.ndarray:
    weight, bias = arrays[f"{name}.weight"], arrays[f"{name}.bias"]
    return np.array(
        [sum(w * x for w, x in zip(line, row, strict=True)) + b for line, b in zip(weight, bias, strict=True)]
    )


def norm(row: np.ndarray, arrays: Arrays, name: str) -> np.ndarray:
    mean = sum(row) / len(row)
    variance = sum((x - mean) ** 2 for x in row) / len(row)
    return (row - mean) / math.sqrt(variance + 1e-5) * arrays[f"{name}.weight"] + arrays[f"{name}.bias"]


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))


def attention(rows: list[np.ndarray], weight: np.ndarray, bias: np.ndarray, heads: int) -> list[np.ndarray]:
    """Return the input of the last layer, each head separately."""
    width = len(rows[0])
    size = width // heads
    made = [weight @ row + bias for row in rows]
    mixed = []
    for i in range(len(rows)):
        parts = []
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            query = made[i][:width][part]
            keys = [one[width : 2 * width][part] for one in made]
            values = [one[2 * width :][part] for one in made]
            logits = [float(query @ key) / math.sqrt(size) for key in keys]
            shares = np.exp(np.array(logits) - max(logits))
            shares = shares / shares.sum()
            parts.append(sum(share * value for share, value in zip(shares, values, strict=True)))
        mixed.append(np.concatenate(parts))
    return mixed


def csa(arrays: Arrays, sizes: dict[str, Any], query: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Return (m,) cos(h_0, h_i)."""
    z = [query, *items]
    anchors = z[: sizes["anchors"]]
    states = []
    for row in z:
        near = [float(row @ anchor) for anchor in anchors]
        states.append(linear(np.array(near + [0.0] * (sizes["anchors"] - len(near))), arrays, "topk_proj"))
    for number in range(sizes["depth"]):
        block = f"blocks.{number}"
        normed = [norm(h, arrays, f"{block}.norm1") for h in states]
        joined = arrays[f"{block}.attn.qkv.weight"], arrays[f"{block}.attn.qkv.bias"]
        mixed = attention(normed, *joined, sizes["heads"])
        states = [h + linear(row, arrays, f"{block}.attn.proj") for h, row in zip(states, mixed, strict=True)]
        inside = [linear(norm(h, arrays, f"{block}.norm2"), arrays, f"{block}.mlp.fc1") for h in states]
        bent = [np.array([x * 0.5 * (1 + math.erf(x / math.sqrt(2))) for x in row]) for row in inside]
        states = [h + linear(row, arrays, f"{block}.mlp.fc2") for h, row in zip(states, bent, strict=True)]
    return np.array([cosine(states[0], h) for h in states[1:]])


def _moved(arrays: Arrays, network: str, rows: list[np.ndarray], top: int) -> list[np.ndarray]:
    """Return dF of every node, the query first."""
    lengths = [math.sqrt(float(f @ f)) for f in rows]
    units = [f / length for f, length in zip(rows, lengths, strict=True)]
    near = [[float(u @ v) for v in units] for u in units]
    count = len(rows) - 1
    slopes = np.zeros((len(rows), len(rows)))
    for i in range(len(rows)):
        order = sorted(range(1, count + 1), key=lambda j, i=i: (j != i, -near[i][j], j))
        own, asked = [near[i][j] for j in order], [near[0][j] for j in order]
        seen = [near[i][0], *own, *[own[-1]] * (top - count), *asked, *[asked[-1]] * (top - count)]
        row = norm(np.array(seen), arrays, f"{network}.layer1.0")
        row = np.maximum(linear(row, arrays, f"{network}.layer1.1"), 0)
        row = norm(row, arrays, f"{network}.layer1.3")
        row = np.maximum(linear(row, arrays, f"{network}.layer2.0"), 0)
        row = norm(row, arrays, f"{network}.layer2.2")
        made = linear(row, arrays, f"{network}.layer3")
        slopes[i, 0] += made[0]
        for place, j in enumerate(order):
            slopes[i, j] += made[1 + place]
            slopes[0, j] += made[1 + top + place]
    moves = []
    for i, unit in enumerate(units):
        by_unit = sum((slopes[i, j] + slopes[j, i]) * units[j] for j in range(len(rows)))
        moves.append((by_unit - unit * float(unit @ by_unit)) / lengths[i])
    return moves


def ssr(arrays: Arrays, sizes: dict[str, Any], query: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Return (m,) cosines after all moves, each of which treats earlier moves as constants ("cut")."""
    rows = [np.asarray(row, np.float64) for row in (query, *items)]
    for _ in range(sizes["steps"]):
        rows[0] = rows[0] - sizes["lr"] * _moved(arrays, "dni_query", rows, sizes["top"])[0]
        moves = _moved(arrays, "dni_database", rows, sizes["top"])
        rows = [rows[0], *(row - sizes["lr"] * move for row, move in zip(rows[1:], moves[1:], strict=True))]
    return np.array([cosine(rows[0], row) for row in rows[1:]])


def lattqe(arrays: Arrays, sizes: dict[str, Any], row: np.ndarray, near: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of the neighbours of one row, and the new row."""
    z = [row, *near]
    states = [vector + place for vector, place in zip(z, arrays["position"], strict=False)]
    for number in range(sizes["layers"]):
        layer = f"encoder.layers.{number}"
        joined = arrays[f"{layer}.self_attn.in_proj_weight"], arrays[f"{layer}.self_attn.in_proj_bias"]
        mixed = attention(states, *joined, sizes["heads"])
        added = [h + linear(one, arrays, f"{layer}.self_attn.out_proj") for h, one in zip(states, mixed, strict=True)]
        states = [norm(h, arrays, f"{layer}.norm1") for h in added]
        inside = [np.maximum(linear(h, arrays, f"{layer}.linear1"), 0) for h in states]
        added = [h + linear(one, arrays, f"{layer}.linear2") for h, one in zip(states, inside, strict=True)]
        states = [norm(h, arrays, f"{layer}.norm2") for h in added]
    weights = np.array([cosine(states[0], h) for h in states])
    total = sum(w * vector for w, vector in zip(weights, z, strict=True))
    return weights[1:], total / math.sqrt(float(total @ total))
