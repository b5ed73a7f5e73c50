"""Lists -> the loss of CSA: an item's state shall point the way of its query's if, and only if, it is relevant."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from kinrank.learned.layers import attention, cosines, layer_norm, linear, normal, started
from kinrank.stages import networks
from kinrank.stages.csa import layout

TEMPERATURE = 2.0  # not to be lowered alone: the query is its own positive, and everything would be pushed away from it
ALIGNED = 0.2  # share of the second term
SHORTEST, LONGEST = 1e-4, 1e4  # of the squares of its differences
ALIGN = "feature_align.layers.0"  # what only training needs


def start(sizes: dict[str, Any]) -> dict[str, Tensor]:
    """Matrices of small normal numbers, scales 1, shifts 0."""
    return started({**layout(sizes), **networks.layer(ALIGN, sizes["anchors"], sizes["width"])}, normal)


def affinities(rows: Tensor, anchors: int) -> Tensor:
    """(b, m, anchors) similarities of rows (b, m, d) to the first of them; 0 behind those."""
    found = rows @ rows[:, :anchors].transpose(1, 2)
    return functional.pad(found, (0, anchors - found.shape[2]))


def states(weights: dict[str, Tensor], sizes: dict[str, Any], seen: Tensor, dropout: float = 0.0) -> Tensor:
    """(b, m, anchors) -> (b, m, width), as `stages.csa.forward`, with dropout."""
    rows = linear(functional.dropout(seen, dropout), weights, "topk_proj")  # an item shall not hang on a single anchor
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


def terms(
    weights: dict[str, Tensor], sizes: dict[str, Any], rows: Tensor, signs: Tensor, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The two terms of the loss, each a mean over lists.

    -log( sum of e^(cos(h_0, h_i) / 2) over relevant i / the same over all ), the query itself, i = 0, in both sums, and
    the mean over i of | l2(a_i) - l2(W h_i + b) |. Items of unknown label are in neither sum. The published program
    permutes the items; to a network that knows no places that is nothing, so it is left out.
    """
    seen = affinities(rows, sizes["anchors"])
    made = states(weights, sizes, seen, dropout)
    alike = cosines(made) / TEMPERATURE
    signs = functional.pad(signs, (1, 0), value=1)  # the query
    relevant, known = alike.masked_fill(signs != 1, -torch.inf), alike.masked_fill(signs < 0, -torch.inf)
    contrast = known.logsumexp(dim=1) - relevant.logsumexp(dim=1)
    back = functional.normalize(linear(made, weights, ALIGN), dim=2) - functional.normalize(seen, dim=2)
    return contrast.mean(), back.square().sum(dim=2).clamp(SHORTEST, LONGEST).sqrt().mean()


def loss(weights: dict[str, Tensor], sizes: dict[str, Any], rows: Tensor, signs: Tensor, dropout: float) -> Tensor:
    """Rows (b, k + 1, d), the query of each list first; signs (b, k), see `Lists`."""
    contrast, apart = terms(weights, sizes, rows, signs, dropout)
    return contrast + ALIGNED * apart
