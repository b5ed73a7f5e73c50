"""Lists -> the loss of LAttQE: the mixture of a query and its neighbours shall lie near what is relevant to it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from kinrank.learned.layers import attention, cosines, layer_norm, linear, normal, started, uniform
from kinrank.stages import networks
from kinrank.stages.lattqe import layout

MARGIN = 1.0  # distance beyond which what is not relevant does not matter
NEGATIVES = 5  # the nearest that are not relevant
CLASSIFIED = 0.1  # share of the second term
SHORTEST = 1e-6  # of squared distances, whose root has no derivative at 0
RELEVANCE = "relevance"  # the layer that only training needs


def start(sizes: dict[str, Any]) -> dict[str, Tensor]:
    """Matrices of uniform numbers (Glorot), positions of small normal ones, scales 1, shifts 0."""
    shapes = {**layout(sizes), **networks.layer(RELEVANCE, 1, sizes["dimensions"])}
    made = started(shapes, lambda shape: uniform(shape, (6 / sum(shape)) ** 0.5))
    return {**made, "position": normal(shapes["position"])}


def states(weights: dict[str, Tensor], sizes: dict[str, Any], lists: Tensor, dropout: float = 0.0) -> Tensor:
    """(b, <= k + 1, d) -> the same shape, as `stages.lattqe.states`, with dropout."""
    rows = lists + weights["position"][: lists.shape[1]]
    for number in range(sizes["layers"]):
        layer = f"encoder.layers.{number}"
        joined = weights[f"{layer}.self_attn.in_proj_weight"], weights[f"{layer}.self_attn.in_proj_bias"]
        mixed = linear(attention(rows, joined, sizes["heads"], dropout), weights, f"{layer}.self_attn.out_proj")
        rows = layer_norm(rows + functional.dropout(mixed, dropout), weights, f"{layer}.norm1")
        inside = functional.dropout(linear(rows, weights, f"{layer}.linear1").relu(), dropout)
        inside = functional.dropout(linear(inside, weights, f"{layer}.linear2"), dropout)
        rows = layer_norm(rows + inside, weights, f"{layer}.norm2")
    return rows


def expanded(lists: Tensor, made: Tensor) -> Tensor:
    """(b, d) l2(sum of w_i z_i) over the rows z of lists (b, m, d), w_i the cosine of states 0 and i."""
    return functional.normalize((cosines(made)[:, :, None] * lists).sum(dim=1), dim=1)


def contrastive(queries: Tensor, items: Tensor, signs: Tensor) -> Tensor:
    """(b,) mean over relevant items of d^2, plus the sum over the 5 nearest others of max(0, 1 - d)^2.

    d is the distance of the mixture (b, d) and the items (b, k, d), which come nearest to the query first. That is what
    a published tuple, one relevant item and 5 others, gives on average.
    """
    squared = (2 - 2 * (items @ queries[:, :, None])[:, :, 0]).clamp(min=SHORTEST)
    relevant, other = signs == 1, signs == 0
    near = other & (other.cumsum(dim=1) <= NEGATIVES)
    pull = torch.where(relevant, squared, 0.0).sum(dim=1) / relevant.sum(dim=1)
    return pull + torch.where(near, (MARGIN - squared.sqrt()).clamp(min=0).square(), 0.0).sum(dim=1)


def classified(weights: dict[str, Tensor], made: Tensor, signs: Tensor) -> Tensor:
    """(b,) how badly a linear layer tells from the states (b, m, d) of neighbours whether they are relevant (b, m)."""
    logits = linear(made, weights, RELEVANCE)[:, :, 0]
    each = functional.binary_cross_entropy_with_logits(logits, (signs == 1).float(), reduction="none")
    known = signs >= 0
    return torch.where(known, each, 0.0).sum(dim=1) / known.sum(dim=1).clamp(min=1)


def loss(weights: dict[str, Tensor], sizes: dict[str, Any], rows: Tensor, signs: Tensor, dropout: float) -> Tensor:
    """Rows (b, candidates + 1, d), the query of each list first; the network sees the k nearest of these items."""
    k = min(sizes["k"], signs.shape[1])
    lists = rows[:, : k + 1]
    made = states(weights, sizes, lists, dropout)
    apart = contrastive(expanded(lists, made), rows[:, 1:], signs)
    return (apart + CLASSIFIED * classified(weights, made[:, 1:], signs[:, :k])).mean()
