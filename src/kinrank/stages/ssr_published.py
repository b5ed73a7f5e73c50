"""A query and its first items -> their new scores by SSR as it was published, which differentiates through its moves.

`stages.ssr` takes vectors that were moved before as they are; here the derivative of a move also runs through all moves
before it, which needs torch. The functions take lists in batches: `learned.ssr` trains with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kinrank.deferred import needed
from kinrank.features import Vectors
from kinrank.stages.networks import EPSILON, Arrays, Floats, cosines

SHORTEST = 1e-12  # what a zero vector is divided by


def scores(arrays: Arrays, sizes: Mapping[str, Any], query: Vectors, items: Vectors) -> Floats:
    """(m,) cosine of the moved query (d,) and each moved item of (m, d), m up to `top`.

    Example:
        >>> scores(weights.arrays, weights.sizes, query, gallery[nearest])
    """
    if not len(items):
        return np.empty(0, np.float32)
    return cosines(*refined(arrays, sizes, query, items))


def refined(arrays: Arrays, sizes: Mapping[str, Any], query: Vectors, items: Vectors) -> tuple[Floats, Floats]:
    """(d,) query and (m, d) items after all steps."""
    torch = needed("torch", "SSR with weights of the variant published", "torch")
    with torch.inference_mode(False), torch.enable_grad():
        weights = {name: torch.tensor(array, device="cpu") for name, array in arrays.items()}
        rows = torch.tensor(np.concatenate([query[None], items])[None], dtype=torch.float32, device="cpu")
        made = moved(weights, sizes, rows)[0].detach().numpy()
    return made[0], made[1:]


def moved(weights: Any, sizes: Mapping[str, Any], rows: Any) -> Any:
    """(b, m + 1, d) lists, the query of each first, after all steps; differentiable by weights.

    Each move is F -= lr * (dI/dF)' G, with I what the network sees and G what it makes of that; the graph is kept, so
    that dI/dF sees what earlier moves made of F.
    """
    torch = needed("torch", "SSR with weights of the variant published", "torch")
    parts = [rows[:, :1].detach().requires_grad_(), rows[:, 1:].detach().requires_grad_()]
    for _ in range(sizes["steps"]):
        for place, name in enumerate(("dni_query", "dni_database")):
            together = torch.cat(parts, dim=1)
            seen, order = inputs(together / together.norm(dim=2, keepdim=True).clamp(min=SHORTEST), sizes["top"])
            made = network(weights, name, seen)
            places = inside(order.shape[2], sizes["top"])
            (slope,) = torch.autograd.grad(seen[..., places], parts[place], made[..., places], create_graph=True)
            parts[place] = parts[place] - sizes["lr"] * slope
    return torch.cat(parts, dim=1)


def inputs(units: Any, top: int) -> tuple[Any, Any]:
    """(b, m + 1, 2 top + 1) what networks see of each node, and (b, m + 1, m) places of items; see stages.ssr."""
    near = units @ units.transpose(1, 2)
    falling = near[:, :, 1:].detach().clone()
    falling.diagonal(offset=-1, dim1=1, dim2=2).fill_(float("inf"))  # itself, also among its duplicates
    order = falling.argsort(dim=2, descending=True, stable=True) + 1
    missing = top - order.shape[2]
    own, asked = near.gather(2, order), near[:, :1].expand_as(near).gather(2, order)
    parts = [near[:, :, :1]]
    for part in (own, asked):
        parts += [part, part[:, :, -1:].expand(-1, -1, missing)]
    return needed("torch", "SSR", "torch").cat(parts, dim=2), order


def inside(count: int, top: int) -> list[int]:
    """The places of what the networks see that stand for items, where there are `count` of `top`."""
    return [*range(1 + count), *range(1 + top, 1 + top + count)]


def network(weights: Any, name: str, rows: Any) -> Any:
    """What one of the two networks makes of its inputs, of the same shape; see stages.ssr."""
    for norm, layer in (("layer1.0", "layer1.1"), ("layer1.3", "layer2.0"), ("layer2.2", "layer3")):
        centred = rows - rows.mean(dim=-1, keepdim=True)
        rows = centred / (centred.square().mean(dim=-1, keepdim=True) + float(EPSILON)).sqrt()
        rows = rows * weights[f"{name}.{norm}.weight"] + weights[f"{name}.{norm}.bias"]
        rows = rows @ weights[f"{name}.{layer}.weight"].T + weights[f"{name}.{layer}.bias"]
        rows = rows if layer == "layer3" else rows.relu()
    return rows
