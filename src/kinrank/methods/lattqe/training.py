"""Loss of LAttQE: the mixture of a query and its neighbours should be near the relevant items."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from kinrank.methods import network_layers
from kinrank.methods.lattqe import LAttQE
from kinrank.methods.torch_layers import (
    attention,
    cosines,
    initialize_weights,
    layer_norm,
    linear,
    normal_tensor,
    uniform_tensor,
)

MARGIN = 1.0  # irrelevant items beyond this distance do not count
NEGATIVE_COUNT = 5  # nearest irrelevant items
CLASSIFICATION_WEIGHT = 0.1  # weight of the second term
MIN_SQUARED_DISTANCE = 1e-6  # the root has no derivative at 0
RELEVANCE_LAYER = "relevance"  # a layer that is only used in training


def start(sizes: dict[str, Any]) -> dict[str, Tensor]:
    """Return initial weights: uniform matrices (Glorot), small normal positions, scales 1, shifts 0."""
    shapes = {**LAttQE.layout(sizes), **network_layers.linear_shapes(RELEVANCE_LAYER, 1, sizes["dimensions"])}
    weights = initialize_weights(shapes, lambda shape: uniform_tensor(shape, (6 / sum(shape)) ** 0.5))
    return {**weights, "position": normal_tensor(shapes["position"])}


def states(weights: dict[str, Tensor], sizes: dict[str, Any], lists: Tensor, dropout: float = 0.0) -> Tensor:
    """Compute states of lists (b, <= k + 1, d) of the same shape as `encode_lists` does, with dropout."""
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


def expand_queries(lists: Tensor, outputs: Tensor) -> Tensor:
    """Return (b, d) l2(sum of w_i z_i) over the rows z of lists (b, m, d), w_i the cosine of states 0 and i."""
    return functional.normalize((cosines(outputs)[:, :, None] * lists).sum(dim=1), dim=1)


def contrastive_losses(queries: Tensor, items: Tensor, signs: Tensor) -> Tensor:
    """Return (b,) mean over relevant items of d^2, plus the sum over the 5 nearest others of max(0, 1 - d)^2.

    d is the distance of the mixture (b, d) and the items (b, k, d), which come nearest to the query first. A published
    tuple, one relevant item and 5 others, gives this on average.
    """
    squared = (2 - 2 * (items @ queries[:, :, None])[:, :, 0]).clamp(min=MIN_SQUARED_DISTANCE)
    relevant, other = signs == 1, signs == 0
    near = other & (other.cumsum(dim=1) <= NEGATIVE_COUNT)
    pull = torch.where(relevant, squared, 0.0).sum(dim=1) / relevant.sum(dim=1)
    return pull + torch.where(near, (MARGIN - squared.sqrt()).clamp(min=0).square(), 0.0).sum(dim=1)


def classification_losses(weights: dict[str, Tensor], outputs: Tensor, signs: Tensor) -> Tensor:
    """Return (b,) losses of a linear layer that predicts relevance (b, m) from the states (b, m, d) of neighbours."""
    logits = linear(outputs, weights, RELEVANCE_LAYER)[:, :, 0]
    each = functional.binary_cross_entropy_with_logits(logits, (signs == 1).float(), reduction="none")
    known = signs >= 0
    return torch.where(known, each, 0.0).sum(dim=1) / known.sum(dim=1).clamp(min=1)


def loss(weights: dict[str, Tensor], sizes: dict[str, Any], rows: Tensor, signs: Tensor, dropout: float) -> Tensor:
    """Return the loss of rows (b, candidates + 1, d), the query of each list first; the network reads k items."""
    k = min(sizes["k"], signs.shape[1])
    lists = rows[:, : k + 1]
    outputs = states(weights, sizes, lists, dropout)
    contrast = contrastive_losses(expand_queries(lists, outputs), rows[:, 1:], signs)
    return (contrast + CLASSIFICATION_WEIGHT * classification_losses(weights, outputs[:, 1:], signs[:, :k])).mean()
