"""Rows and weights -> rows: the few layers that the learned methods are made of, in numpy."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Arrays = Mapping[str, Floats]
Shapes = dict[str, tuple[int, ...]]
EPSILON = np.float32(1e-5)  # what is added to a variance before rows are divided by its root
MOST, DEEPEST = 2**20, 64  # that any size of a network, and the number of its blocks, may be


def linear(rows: Floats, arrays: Arrays, name: str) -> Floats:
    """x W' + b, (..., in) -> (..., out)."""
    made: Floats = rows @ arrays[f"{name}.weight"].T
    made += arrays[f"{name}.bias"]
    return made


def standard(rows: Floats) -> Floats:
    """(x - mean) / sqrt(variance + 1e-5) over the last axis; the variance divides by the count."""
    centred = rows - rows.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    centred /= np.sqrt(variance + EPSILON)
    return np.asarray(centred)


def layer_norm(rows: Floats, arrays: Arrays, name: str) -> Floats:
    """The same, times a scale plus a shift of the layer's own."""
    made: Floats = standard(rows) * arrays[f"{name}.weight"]
    made += arrays[f"{name}.bias"]
    return made


def relu(rows: Floats) -> Floats:
    return np.asarray(np.maximum(rows, np.float32(0)))


def gelu(rows: Floats) -> Floats:
    """x Phi(x), Phi the normal distribution; exact, not its tanh."""
    from scipy.special import erf

    return np.asarray(np.float32(0.5) * rows * (1 + erf(rows * np.float32(math.sqrt(0.5)))), np.float32)


def attention(rows: Floats, joined: tuple[Floats, Floats], arrays: Arrays, output: str, heads: int) -> Floats:
    """Every row as a mean of all rows of its list, by softmax(q k' / sqrt(size of a head)), head by head.

    rows (..., m, e); joined: weights (3 e, e) and bias (3 e,) of queries, keys and values, one after the other, in each
    head after head; output: the layer that follows. Returns (..., m, e).
    """
    weight, bias = joined
    *lists, count, width = rows.shape
    three = (rows @ weight.T + bias).reshape(*lists, count, 3, heads, width // heads)
    queries, keys, values = (np.moveaxis(three[..., part, :, :], -2, -3) for part in range(3))  # (..., heads, m, size)
    logits = queries @ np.swapaxes(keys, -1, -2)
    logits *= np.float32(1 / math.sqrt(width // heads))
    logits -= logits.max(axis=-1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=-1, keepdims=True)
    mixed = np.moveaxis(logits @ values, -3, -2).reshape(*lists, count, width)
    return linear(mixed, arrays, output)


def cosines(first: Floats, rows: Floats) -> Floats:
    """cos(first, row) of (..., e) and (..., m, e): (..., m); 0 where one of them is zero."""
    lengths = np.linalg.norm(first, axis=-1)[..., None] * np.linalg.norm(rows, axis=-1)
    products = (rows @ first[..., None])[..., 0]
    return np.asarray(np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0), np.float32)


def layer(name: str, outputs: int, inputs: int) -> Shapes:
    """The arrays of a linear layer."""
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def norm(name: str, size: int) -> Shapes:
    """The arrays of a layer_norm."""
    return {f"{name}.weight": (size,), f"{name}.bias": (size,)}


def check_sizes(deep: int = 1, **sizes: int) -> None:
    """A ValueError for a size that no network has; deep: how many blocks it has, one after the other."""
    for name, size, most in [("depth", deep, DEEPEST), *((name, size, MOST) for name, size in sizes.items())]:
        if not 1 <= size <= most:
            raise ValueError(f"{name}={size}")


def check_heads(heads: int, **width: int) -> None:
    """A ValueError unless the heads share the width evenly."""
    for name, size in width.items():
        if size % heads:
            raise ValueError(f"{name}={size} is no multiple of heads={heads}")
