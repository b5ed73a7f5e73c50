"""Loss of CSA: the state of an item should point in the direction of its query's if, and only if, it is relevant."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from kinrank.methods import network_layers
from kinrank.methods.csa import CSA
from kinrank.methods.torch_layers import attention, cosines, initialize_weights, layer_norm, linear, normal_tensor

TEMPERATURE = 2.0  # do not lower it alone: the query is its own positive, and would push everything away
ALIGNMENT_WEIGHT = 0.2  # weight of the second term
MIN_SQUARE, MAX_SQUARE = 1e-4, 1e4  # bounds of its squared differences
ALIGNMENT_LAYER = "feature_align.layers.0"  # only used in training


def start(sizes: dict[str, Any]) -> dict[str, Tensor]:
    """Return initial weights: matrices of small normal numbers, scales 1, shifts 0."""
    return initialize_weights(
        {**CSA.layout(sizes), **network_layers.linear_shapes(ALIGNMENT_LAYER, sizes["anchors"], sizes["width"])},
        normal_tensor,
    )


def affinities(rows: Tensor, anchors: int) -> Tensor:
    """Return (b, m, anchors) similarities of rows (b, m, d) to the first of them, padded with 0."""
    products = rows @ rows[:, :anchors].transpose(1, 2)
    return functional.pad(products, (0, anchors - products.shape[2]))


def states(weights: dict[str, Tensor], sizes: dict[str, Any], seen: Tensor, dropout: float = 0.0) -> Tensor:
    """Compute (b, m, anchors) -> (b, m, width) as `run_network` does, with dropout."""
    rows = linear(functional.dropout(seen, dropout), weights, "topk_proj")  # so that no item depends on a single anchor
    rows = functional.dropout(rows, dropout)
    for number in range(sizes["depth"]):
        block = f"blocks.{number}"
        joined = weights[f"{block}.attn.qkv.weight"], weights[f"{block}.attn.qkv.bias"]
        mixed = attention(layer_norm(rows, weights, f"{block}.norm1"), joined, sizes["heads"], dropout)
        rows = rows + functional.dropout(linear(mixed, weights, f"{block}.attn.proj"), dropout)
        inside = functional.gelu(linear(layer_norm(rows, weights, f"{block}.norm2"), weights, f"{block}.mlp.fc1"))
        inside = linear(functional.dropout(inside, dropout), weights, f"{block}.mlp.fc2")
        rows = rows + functional.dropout(inside, dropout)
    return rows


def loss_terms(
    weights: dict[str, Tensor], sizes: dict[str, Any], rows: Tensor, signs: Tensor, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Return the two terms of the loss, each a mean over lists.

    -log( sum of e^(cos(h_0, h_i) / 2) over relevant i / the sum over all i ), the query itself, i = 0, in both sums,
    and the mean over i of | l2(a_i) - l2(W h_i + b) |. Items of unknown label are in neither sum. The published program
    permutes the items; the network ignores positions, so this is left out.
    """
    seen = affinities(rows, sizes["anchors"])
    outputs = states(weights, sizes, seen, dropout)
    alike = cosines(outputs) / TEMPERATURE
    signs = functional.pad(signs, (1, 0), value=1)  # the query
    relevant, known = alike.masked_fill(signs != 1, -torch.inf), alike.masked_fill(signs < 0, -torch.inf)
    contrast = known.logsumexp(dim=1) - relevant.logsumexp(dim=1)
    back = functional.normalize(linear(outputs, weights, ALIGNMENT_LAYER), dim=2) - functional.normalize(seen, dim=2)
    return contrast.mean(), back.square().sum(dim=2).clamp(MIN_SQUARE, MAX_SQUARE).sqrt().mean()


def loss(weights: dict[str, Tensor], sizes: dict[str, Any], rows: Tensor, signs: Tensor, dropout: float) -> Tensor:
    """Return the loss of rows (b, k + 1, d), the query of each list first; signs (b, k), see `TrainingLists`."""
    contrast, alignment = loss_terms(weights, sizes, rows, signs, dropout)
    return contrast + ALIGNMENT_WEIGHT * alignment
