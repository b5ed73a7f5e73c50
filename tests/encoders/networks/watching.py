"""A network and a picture -> what came out of its parts on the way."""

from __future__ import annotations

import copy
from typing import Any


def outputs(network: Any, picture: Any, *names: str) -> dict[str, Any]:
    """What the parts of these names returned, and under "" what the network did."""
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
    """(c,) the mean of every channel of one map."""
    return maps[0].mean((-2, -1))


def at(encoder: Any, *scales: float) -> Any:
    """The same encoder, network and all, with other scales."""
    other = copy.copy(encoder)
    other.scales = scales
    return other
