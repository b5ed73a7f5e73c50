"""Layers of the learned methods in NumPy: linear, norms, activations, attention."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError

Floats = NDArray[np.float32]
Arrays = Mapping[str, Floats]
Shapes = dict[str, tuple[int, ...]]
EPSILON = np.float32(1e-5)  # added to a variance before its root is taken
MAX_SIZE, MAX_DEPTH = 2**20, 64  # largest size in a network, largest number of blocks


def apply_linear(rows: Floats, arrays: Arrays, name: str) -> Floats:
    """Return x W' + b, (..., in) -> (..., out)."""
    result: Floats = rows @ arrays[f"{name}.weight"].T
    result += arrays[f"{name}.bias"]
    return result


def standardize(rows: Floats) -> Floats:
    """Return (x - mean) / sqrt(variance + 1e-5) over the last axis; the variance divides by the count."""
    centred = rows - rows.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    centred /= np.sqrt(variance + EPSILON)
    return np.asarray(centred)


def apply_layer_norm(rows: Floats, arrays: Arrays, name: str) -> Floats:
    """Standardise, then apply the scale and the shift of the layer."""
    result: Floats = standardize(rows) * arrays[f"{name}.weight"]
    result += arrays[f"{name}.bias"]
    return result


def relu(rows: Floats) -> Floats:
    """Return max(x, 0)."""
    return np.asarray(np.maximum(rows, np.float32(0)))


def gelu(rows: Floats) -> Floats:
    """Return x Phi(x), Phi the normal distribution; exact, not the tanh approximation."""
    from scipy.special import erf

    return np.asarray(np.float32(0.5) * rows * (1 + erf(rows * np.float32(math.sqrt(0.5)))), np.float32)


def apply_attention(rows: Floats, joined: tuple[Floats, Floats], arrays: Arrays, output: str, heads: int) -> Floats:
    """Replace every row by a mean of all rows of its list, by softmax(q k' / sqrt(size of a head)), head by head.

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
    return apply_linear(mixed, arrays, output)


def cosines(first: Floats, rows: Floats) -> Floats:
    """Return cos(first, row) of (..., e) and (..., m, e): (..., m); 0 if one of them is zero."""
    lengths = np.linalg.norm(first, axis=-1)[..., None] * np.linalg.norm(rows, axis=-1)
    products = (rows @ first[..., None])[..., 0]
    return np.asarray(np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0), np.float32)


def linear_shapes(name: str, outputs: int, inputs: int) -> Shapes:
    """Return the shapes of the arrays of a linear layer."""
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def norm_shapes(name: str, size: int) -> Shapes:
    """Return the shapes of the arrays of a layer norm."""
    return {f"{name}.weight": (size,), f"{name}.bias": (size,)}


def check_sizes(deep: int = 1, **sizes: int) -> None:
    """Raise InputError for a size outside the limits; `deep` is the number of blocks."""
    for name, size, most in [("depth", deep, MAX_DEPTH), *((name, size, MAX_SIZE) for name, size in sizes.items())]:
        if not 1 <= size <= most:
            raise InputError(f"{name}={size}")


def check_heads(heads: int, **width: int) -> None:
    """Raise InputError unless the heads divide the width evenly."""
    for name, size in width.items():
        if size % heads:
            raise InputError(f"{name}={size} is not a multiple of heads={heads}")
