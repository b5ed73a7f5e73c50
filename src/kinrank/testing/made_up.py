"""The name of a learned method -> the method with small made-up weights, for tests: no torch, no training."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from kinrank import weights
from kinrank.methods import method_named
from kinrank.methods.base import Method
from kinrank.methods.learned import Learned

SIZES: dict[str, dict[str, Any]] = {
    "csa": {"anchors": 16, "width": 16, "depth": 2, "heads": 2},
    "ssr": {"top": 32, "hidden": 12, "lr": 0.02, "steps": 2, "variant": "cut"},
    "lattqe": {"dimensions": 12, "k": 100, "layers": 2, "heads": 1, "hidden": 8},
}
GENTLE = 0.3  # how far layers change what comes in: the order of the search shines through


def made_up(
    method: Learned | str, path: str | os.PathLike[str], dimensions: int = 12, seed: int = 0, **sizes: Any
) -> Method:
    """The method with weights written to `path`, random but gentle: what is near stays near.

    Args:
        method: a learned method, or its name; others are returned as they are.
        dimensions: of the vectors, which LAttQE must know.
        sizes: of the network, where they are to differ from SIZES.

    Example:
        >>> check_method(made_up("csa", folder / "csa.npz"))
    """
    chosen = method_named(method)() if isinstance(method, str) else method
    if not isinstance(chosen, Learned):
        return chosen
    told = SIZES[chosen.fitted_as] | ({"dimensions": dimensions} if chosen.fitted_as == "lattqe" else {}) | sizes
    rng = np.random.default_rng(seed)
    arrays = {
        name: _made(name, shape, rng).astype(np.float32) for name, shape in sorted(chosen.stage.layout(told).items())
    }
    record = {"method": chosen.fitted_as, "labels": "given", "recipe": {"made_up": True}, "seed": seed}
    weights.save(path, arrays, told, record)
    return replace(chosen, weights=os.fspath(path))


def _made(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Random directions for what comes in, small changes of it after that, scales about 1 and shifts about 0."""
    noise = rng.normal(size=shape)
    if name.endswith("bias") or name == "position":
        return 0.02 * noise
    if len(shape) == 1:  # the scale of a normalisation
        return 1.0 + 0.1 * noise
    first = name == "topk_proj.weight"
    return (1.0 if first else GENTLE) * noise / np.sqrt(shape[1])
