"""Lists -> the loss of SSR: after query and items were moved, relevant items shall be nearer than the others."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from kinrank.learned.layers import cosines, full, started, uniform
from kinrank.stages.ssr import layout
from kinrank.stages.ssr_published import inputs, inside, network
from kinrank.stages.ssr_published import moved as moved_as_published

SCALE = "scale_cls"  # what similarities are multiplied with; only training needs it
FIRST_SCALE = 10.0


def start(sizes: dict[str, Any]) -> dict[str, Tensor]:
    """Matrices of uniform numbers up to 1 / sqrt(their columns), scales 1, shifts 0."""
    made = started(layout(sizes), lambda shape: uniform(shape, shape[1] ** -0.5))
    return {**made, SCALE: full((1,), FIRST_SCALE)}


def moved(weights: dict[str, Tensor], sizes: dict[str, Any], rows: Tensor) -> Tensor:
    """(b, m + 1, d) lists, the query of each first, after all steps: `stages.ssr.refined` for many."""
    if sizes["variant"] == "published":
        return torch.as_tensor(moved_as_published(weights, sizes, rows))
    for _ in range(sizes["steps"]):
        for place, name in enumerate(("dni_query", "dni_database")):
            lengths = rows.norm(dim=2, keepdim=True)
            units = rows / lengths
            seen, order = inputs(units, sizes["top"])
            slopes = moves(network(weights, name, seen), units, order, sizes["top"]) / lengths
            stays = torch.zeros_like(slopes[:, :1] if place else slopes[:, 1:])
            slopes = torch.cat([stays, slopes[:, 1:]] if place else [slopes[:, :1], stays], dim=1)
            rows = rows - sizes["lr"] * slopes
    return rows


def moves(made: Tensor, units: Tensor, order: Tensor, top: int) -> Tensor:
    """(b, m + 1, d) dF |F|: made-up derivatives by similarities, (b, m + 1, 2 top + 1), become those by vectors.

    C_iq = G_i0, C_io_j = G_ij, C_qo_j += G_i,top+j; dU = (C + C')U; dF |F| = dU - u (u.dU).
    """
    near, own, asked = made[..., inside(order.shape[2], top)].split([1, order.shape[2], order.shape[2]], dim=2)
    empty = made.new_zeros(*order.shape[:2], order.shape[1])
    slopes = empty.scatter(2, order, own) + functional.pad(near, (0, order.shape[2]))
    of_query = empty.scatter(2, order, asked).sum(dim=1, keepdim=True)
    slopes = slopes + functional.pad(of_query, (0, 0, 0, order.shape[2]))
    by_units = (slopes + slopes.transpose(1, 2)) @ units
    return by_units - units * (units * by_units).sum(dim=2, keepdim=True)


def losses(weights: dict[str, Tensor], sizes: dict[str, Any], rows: Tensor, signs: Tensor) -> Tensor:
    """(b,) -mean over relevant items of log( e^(c s+) / (e^(c s+) + sum of e^(c s) over those that are not) )."""
    logits = weights[SCALE] * cosines(moved(weights, sizes, rows))[:, 1:]
    others = logits.masked_fill(signs != 0, -torch.inf).logsumexp(dim=1, keepdim=True)
    each = torch.logaddexp(logits, others) - logits
    relevant = signs == 1
    return torch.where(relevant, each, 0.0).sum(dim=1) / relevant.sum(dim=1)


def loss(weights: dict[str, Tensor], sizes: dict[str, Any], rows: Tensor, signs: Tensor, dropout: float) -> Tensor:
    """Rows (b, k + 1, d), the query of each list first; signs (b, k), see `Lists`. There is no dropout."""
    return losses(weights, sizes, rows, signs).mean()
