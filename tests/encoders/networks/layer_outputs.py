"""Outputs of the layers of a network for an image."""

from __future__ import annotations

import copy
from typing import Any


def outputs(network: Any, picture: Any, *names: str) -> dict[str, Any]:
    """Return the outputs of the layers with these names, and under "" that of the network."""
    import torch

    seen: dict[str, Any] = {}

    def keeps(name: str) -> Any:
        def keep(_part: Any, _given: Any, returned: Any) -> None:
            seen[name] = returned

        return keep

    parts = dict(network.named_modules())
    hooks = [parts[name].register_forward_hook(keeps(name)) for name in names]
    try:
        with torch.inference_mode():
            seen[""] = network(picture[None])
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def mean(maps: Any) -> Any:
    """Return the (c,) mean of every channel of one map."""
    return maps[0].mean((-2, -1))


def at(encoder: Any, *scales: float) -> Any:
    """Return a copy of the encoder with the same network and other scales."""
    other = copy.copy(encoder)
    other.scales = scales
    return other
