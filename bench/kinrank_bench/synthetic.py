"""Synthetic vectors on many closed curves, whose local shape does not depend on the number of items."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

PER_CURVE = 100  # items per curve; only the number of curves grows with the size
HARMONICS = 3


def curves(items: int, dimensions: int = 128, seed: int = 0) -> NDArray[np.float32]:
    """Return (items, dimensions) unit rows in random order, about a hundred on each closed curve.

    Curve c is centre_c + sum_h (a_ch cos(h t) + b_ch sin(h t)) / h with random directions a and b, plus noise:
    neighbours on a curve are near, its far side is about as far as another curve.

    Example:
        >>> curves(200, 8).shape
        (200, 8)
    """
    random = np.random.default_rng([seed, items, dimensions])
    count = max(1, items // PER_CURVE)
    which = random.permutation(np.arange(items) % count)
    angle = random.uniform(0, 2 * np.pi, items).astype(np.float32)
    scale = np.float32(1 / np.sqrt(dimensions))
    rows = (scale * random.standard_normal((count, dimensions), dtype=np.float32))[which]
    for harmonic in range(1, HARMONICS + 1):
        for wave in (np.cos(harmonic * angle), np.sin(harmonic * angle)):
            direction = scale / harmonic * random.standard_normal((count, dimensions), dtype=np.float32)
            rows += wave[:, None] * direction[which]
    rows += np.float32(0.15) * scale * random.standard_normal(rows.shape, dtype=np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)
