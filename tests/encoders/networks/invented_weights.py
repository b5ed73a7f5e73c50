"""Invented weights for the layout of a published file, by the recipe of the golden arrays."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

GOLDEN = "golden/encoders"
MOVED = "desc_cls.t"  # the program changes it at run time, so its row is not part of the recipe


def description(shared: Path, family: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((shared / GOLDEN / f"{family}.json").read_text("utf-8"))
    return found


def arrays(shared: Path, family: str) -> dict[str, NDArray[Any]]:
    return dict(np.load(shared / GOLDEN / f"{family}.npz"))


def weight(name: str, shape: Sequence[int], has_statistics: bool) -> NDArray[Any]:
    """Return the array of this name; a batch norm has statistics."""
    last = name.rpartition(".")[2]
    if last == "num_batches_tracked":
        return np.zeros(shape, np.int64)
    if name == MOVED or last == "p":
        return np.full(shape, 2.7 if last == "p" else 0.0, np.float32)
    n = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)
    if last == "running_mean":
        n = 0.1 * n
    elif last == "running_var":
        n = np.abs(n) + 0.5
    elif last == "bias":
        n = 0.1 * n if has_statistics else 0.3 / np.sqrt(shape[0]) * n
    elif len(shape) == 1:
        n = 1 + 0.1 * n
    elif len(shape) == 2:
        n = n / np.sqrt(shape[1])
    else:
        n = n * np.sqrt(1.6 / np.prod(shape[1:]))
    return np.asarray(n, np.float32)


def made(layout: Sequence[tuple[str, Sequence[int]]]) -> dict[str, NDArray[Any]]:
    names = {name for name, _ in layout}
    return {name: weight(name, shape, f"{name.rpartition('.')[0]}.running_var" in names) for name, shape in layout}


def checked(rows: Sequence[dict[str, Any]]) -> dict[str, NDArray[Any]]:
    """Return the weights of a layout after checking the first value and the sum of each against its row."""
    found = made([(row["name"], row["shape"]) for row in rows])
    for row in rows:
        if row["name"] != MOVED:
            array = found[row["name"]]
            assert abs(float(array.reshape(-1)[0]) - row["first"]) <= 1e-6, row["name"]
            total = float(np.abs(array.astype(np.float64)).sum())
            assert abs(total - row["abs_sum"]) <= 1e-6 * max(1.0, row["abs_sum"]), row["name"]
    return found


def tensors(weights: dict[str, NDArray[Any]]) -> dict[str, Any]:
    import torch

    return {name: torch.from_numpy(array) for name, array in weights.items()}


def off(found: Any, golden: NDArray[Any]) -> float:
    """Return the largest difference relative to the largest golden value."""
    values = np.asarray(found)
    assert values.shape == golden.shape, (values.shape, golden.shape)
    return float(np.abs(values - golden).max() / np.abs(golden).max())


def fingerprint(tensor: Any) -> int:
    return zlib.crc32(np.ascontiguousarray(tensor, np.float32).tobytes())
