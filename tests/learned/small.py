"""Small sets and options that fit every learned method in a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import kinrank

OPTIONS: dict[str, dict[str, Any]] = {
    "csa": {"anchors": 8, "width": 16, "depth": 1, "heads": 2, "lists": 64},
    "ssr": {"top": 12, "hidden": 16, "lists": 64},
    "lattqe": {"k": 4, "heads": 2, "hidden": 16, "lists": 64},
}


def noisy(groups: int = 12, each: int = 10, dimensions: int = 16, noise: float = 0.28, seed: int = 0) -> Any:
    """Return rows in overlapping groups, so that the search is partly right, and their labels."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(groups), each)
    centres = rng.standard_normal((groups, dimensions))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    return centres[labels] + noise * rng.standard_normal((len(labels), dimensions)), labels


def fitted(name: str, folder: Path, labels: Any = None, **changes: Any) -> kinrank.Method:
    features, known = noisy()
    options = {**OPTIONS[name], **changes}
    return kinrank.fit(name, features, known if labels is None else labels, path=folder / f"{name}.npz", **options)
