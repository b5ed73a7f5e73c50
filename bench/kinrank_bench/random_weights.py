"""Random weights for learned methods, for tests without torch and without training."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from kinrank import weight_files
from kinrank.methods import find_method
from kinrank.methods.base import Method
from kinrank.methods.learned_method import LearnedMethod

NETWORK_SIZES: dict[str, dict[str, Any]] = {
    "csa": {"anchors": 16, "width": 16, "depth": 2, "heads": 2},
    "ssr": {"top": 32, "hidden": 12, "lr": 0.02, "steps": 2, "variant": "cut"},
    "lattqe": {"dimensions": 12, "k": 100, "layers": 2, "heads": 1, "hidden": 8},
}
LAYER_STRENGTH = 0.3  # small, so that the ranking stays similar to that of the search


def add_random_weights(
    method: LearnedMethod | str, path: str | os.PathLike[str], dimensions: int = 12, *, seed: int = 0, **sizes: Any
) -> Method:
    """Write small random weights to `path`, and return the method with them. Near items stay near.

    Args:
        method: a learned method, or its name; other methods are returned unchanged.
        dimensions: dimensions of the vectors, for LAttQE.
        sizes: sizes of the network that differ from NETWORK_SIZES.

    Example:
        >>> kinrank.testing.check_method(add_random_weights("csa", folder / "csa.npz"))
    """
    chosen = find_method(method)() if isinstance(method, str) else method
    if not isinstance(chosen, LearnedMethod):
        return chosen
    settings = (
        NETWORK_SIZES[chosen.weights_name]
        | ({"dimensions": dimensions} if chosen.weights_name == "lattqe" else {})
        | sizes
    )
    rng = np.random.default_rng(seed)
    arrays = {
        name: _draw_array(name, shape, rng).astype(np.float32)
        for name, shape in sorted(chosen.layout(settings).items())
    }
    record = {"method": chosen.weights_name, "labels": "given", "recipe": {"made_up": True}, "seed": seed}
    weight_files.save(path, arrays, settings, record)
    return replace(chosen, weights=os.fspath(path))


def _draw_array(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Draw random directions for the input layer, small changes for others, scales about 1 and shifts about 0."""
    noise = rng.normal(size=shape)
    if name.endswith("bias") or name == "position":
        return 0.02 * noise
    if len(shape) == 1:  # the scale of a normalisation
        return 1.0 + 0.1 * noise
    first = name == "topk_proj.weight"
    return (1.0 if first else LAYER_STRENGTH) * noise / np.sqrt(shape[1])
