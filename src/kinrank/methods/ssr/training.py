"""SSR in torch: its published variant, which differentiates through its moves, and the loss of both variants.

`kinrank.methods.ssr` treats earlier moves as constants; in the published variant the derivative of a move also runs
through all moves before it. After the moves, relevant items should be nearer than the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from kinrank.methods import network_layers
from kinrank.methods.network_layers import Arrays, Floats
from kinrank.methods.ssr import SSR
from kinrank.methods.torch_layers import cosines, full_tensor, initialize_weights, uniform_tensor
from kinrank.vector_input import Vectors

SCALE_NAME = "scale_cls"  # factor of the similarities; only used in training
INITIAL_SCALE = 10.0
MIN_LENGTH = 1e-12  # divisor of a zero vector


def score_items(arrays: Arrays, sizes: Mapping[str, Any], query: Vectors, items: Vectors) -> Floats:
    """Return (m,) the cosine of the moved query (d,) and each moved item of (m, d), m up to `top`.

    Example:
        >>> score_items(weights.arrays, weights.sizes, query, gallery[nearest])
    """
    if not len(items):
        return np.empty(0, np.float32)
    return network_layers.cosines(*refine_vectors(arrays, sizes, query, items))


def refine_vectors(arrays: Arrays, sizes: Mapping[str, Any], query: Vectors, items: Vectors) -> tuple[Floats, Floats]:
    """Return (d,) query and (m, d) items after all steps."""
    with torch.inference_mode(False), torch.enable_grad():
        weights = {name: torch.tensor(array, device="cpu") for name, array in arrays.items()}
        rows = torch.tensor(np.concatenate([query[None], items])[None], dtype=torch.float32, device="cpu")
        moved = move_vectors(weights, sizes, rows)[0].detach().numpy()
    return moved[0], moved[1:]


def move_vectors(weights: Any, sizes: Mapping[str, Any], rows: Any) -> Any:
    """Return (b, m + 1, d) lists, the query of each first, after all steps; differentiable by weights.

    Each move is F -= lr * (dI/dF)' G, with I the input of the network and G its output. The graph is kept, so that
    dI/dF includes the effect of earlier moves on F.
    """
    parts = [rows[:, :1].detach().requires_grad_(), rows[:, 1:].detach().requires_grad_()]
    for _ in range(sizes["steps"]):
        for place, name in enumerate(("dni_query", "dni_database")):
            together = torch.cat(parts, dim=1)
            seen, order = build_inputs(
                together / together.norm(dim=2, keepdim=True).clamp(min=MIN_LENGTH), sizes["top"]
            )
            output = run_network(weights, name, seen)
            places = item_places(order.shape[2], sizes["top"])
            (slope,) = torch.autograd.grad(seen[..., places], parts[place], output[..., places], create_graph=True)
            parts[place] = parts[place] - sizes["lr"] * slope
    return torch.cat(parts, dim=1)


def build_inputs(units: Any, top: int) -> tuple[Any, Any]:
    """Return (b, m + 1, 2 top + 1) network inputs of each node and (b, m + 1, m) the order of items, in torch."""
    near = units @ units.transpose(1, 2)
    falling = near[:, :, 1:].detach().clone()
    falling.diagonal(offset=-1, dim1=1, dim2=2).fill_(float("inf"))  # itself first, even among duplicates
    order = falling.argsort(dim=2, descending=True, stable=True) + 1
    missing = top - order.shape[2]
    own, query = near.gather(2, order), near[:, :1].expand_as(near).gather(2, order)
    parts = [near[:, :, :1]]
    for part in (own, query):
        parts += [part, part[:, :, -1:].expand(-1, -1, missing)]
    return torch.cat(parts, dim=2), order


def item_places(count: int, top: int) -> list[int]:
    """Return the positions of the network inputs that belong to items, if there are `count` of `top`."""
    return [*range(1 + count), *range(1 + top, 1 + top + count)]


def run_network(weights: Any, name: str, rows: Any) -> Any:
    """Return the output of one of the two networks, of the same shape as its input; see `kinrank.methods.ssr`."""
    for norm, layer in (("layer1.0", "layer1.1"), ("layer1.3", "layer2.0"), ("layer2.2", "layer3")):
        centred = rows - rows.mean(dim=-1, keepdim=True)
        rows = centred / (centred.square().mean(dim=-1, keepdim=True) + float(network_layers.EPSILON)).sqrt()
        rows = rows * weights[f"{name}.{norm}.weight"] + weights[f"{name}.{norm}.bias"]
        rows = rows @ weights[f"{name}.{layer}.weight"].T + weights[f"{name}.{layer}.bias"]
        rows = rows if layer == "layer3" else rows.relu()
    return rows


def start(sizes: dict[str, Any]) -> dict[str, Tensor]:
    """Return initial weights: matrices of uniform numbers up to 1 / sqrt(their columns), scales 1, shifts 0."""
    weights = initialize_weights(SSR.layout(sizes), lambda shape: uniform_tensor(shape, shape[1] ** -0.5))
    return {**weights, SCALE_NAME: full_tensor((1,), INITIAL_SCALE)}


def move_rows(weights: dict[str, Tensor], sizes: dict[str, Any], rows: Tensor) -> Tensor:
    """Return (b, m + 1, d) lists, the query of each first, after all steps; see `SSR`."""
    if sizes["variant"] == "published":
        return move_vectors(weights, sizes, rows)
    for _ in range(sizes["steps"]):
        for place, name in enumerate(("dni_query", "dni_database")):
            lengths = rows.norm(dim=2, keepdim=True)
            units = rows / lengths
            seen, order = build_inputs(units, sizes["top"])
            slopes = vector_gradients(run_network(weights, name, seen), units, order, sizes["top"]) / lengths
            stays = torch.zeros_like(slopes[:, :1] if place else slopes[:, 1:])
            slopes = torch.cat([stays, slopes[:, 1:]] if place else [slopes[:, :1], stays], dim=1)
            rows = rows - sizes["lr"] * slopes
    return rows


def vector_gradients(outputs: Tensor, units: Tensor, order: Tensor, top: int) -> Tensor:
    """Return (b, m + 1, d) dF |F| from synthetic derivatives by similarities, (b, m + 1, 2 top + 1).

    C_iq = G_i0, C_io_j = G_ij, C_qo_j += G_i,top+j; dU = (C + C')U; dF |F| = dU - u (u.dU).
    """
    near, own, by_query = outputs[..., item_places(order.shape[2], top)].split(
        [1, order.shape[2], order.shape[2]], dim=2
    )
    empty = outputs.new_zeros(*order.shape[:2], order.shape[1])
    slopes = empty.scatter(2, order, own) + functional.pad(near, (0, order.shape[2]))
    of_query = empty.scatter(2, order, by_query).sum(dim=1, keepdim=True)
    slopes = slopes + functional.pad(of_query, (0, 0, 0, order.shape[2]))
    by_units = (slopes + slopes.transpose(1, 2)) @ units
    return by_units - units * (units * by_units).sum(dim=2, keepdim=True)


def list_losses(weights: dict[str, Tensor], sizes: dict[str, Any], rows: Tensor, signs: Tensor) -> Tensor:
    """Return (b,) -mean over relevant items of log( e^(c s+) / (e^(c s+) + sum of e^(c s) over irrelevant items) )."""
    logits = weights[SCALE_NAME] * cosines(move_rows(weights, sizes, rows))[:, 1:]
    irrelevant = logits.masked_fill(signs != 0, -torch.inf).logsumexp(dim=1, keepdim=True)
    each = torch.logaddexp(logits, irrelevant) - logits
    relevant = signs == 1
    return torch.where(relevant, each, 0.0).sum(dim=1) / relevant.sum(dim=1)


def loss(weights: dict[str, Tensor], sizes: dict[str, Any], rows: Tensor, signs: Tensor, dropout: float) -> Tensor:
    """Return the loss of rows (b, k + 1, d), the query of each list first; signs (b, k). There is no dropout."""
    return list_losses(weights, sizes, rows, signs).mean()
