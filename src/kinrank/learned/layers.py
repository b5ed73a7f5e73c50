"""Tensors and weights -> tensors: the layers of `stages.networks` for training, and what their weights start from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

Parameters = Mapping[str, Tensor]


def linear(rows: Tensor, weights: Parameters, name: str) -> Tensor:
    return functional.linear(rows, weights[f"{name}.weight"], weights[f"{name}.bias"])


def layer_norm(rows: Tensor, weights: Parameters, name: str) -> Tensor:
    return functional.layer_norm(rows, rows.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-5)


def attention(rows: Tensor, joined: tuple[Tensor, Tensor], heads: int, dropout: float) -> Tensor:
    """(b, m, e) every row as a mean of all rows of its list, head by head; without the layer that follows.

    joined: weights (3 e, e) and bias (3 e,) of queries, keys and values, one after the other, in each head after head.
    """
    three = functional.linear(rows, *joined).unflatten(2, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    queries, keys, values = three.unbind(0)  # (b, heads, m, e / heads)
    shares = (queries @ keys.transpose(2, 3) / math.sqrt(queries.shape[3])).softmax(dim=3)
    return (functional.dropout(shares, dropout) @ values).transpose(1, 2).flatten(2)


def cosines(rows: Tensor) -> Tensor:
    """(b, m) cosine of the first row of each list and every row of it, (b, m, e)."""
    units = functional.normalize(rows, dim=2)
    return (units @ units[:, :1].transpose(1, 2))[:, :, 0]


def started(shapes: Mapping[str, tuple[int, ...]], matrix: Callable[[tuple[int, ...]], Tensor]) -> dict[str, Tensor]:
    """What weights of these shapes start from: matrices as given, scales of a norm 1, everything else 0."""
    return {
        name: matrix(shape) if len(shape) > 1 else full(shape, float(name.endswith(".weight")))
        for name, shape in shapes.items()
    }


def full(shape: tuple[int, ...], value: float) -> Tensor:
    """The same number everywhere; on the CPU, whatever the caller's default is."""
    return torch.full(shape, value, dtype=torch.float32, device="cpu")


def normal(shape: tuple[int, ...]) -> Tensor:
    """Numbers of a normal distribution of spread 0.02, cut at two spreads."""
    return torch.nn.init.trunc_normal_(full(shape, 0.0), std=0.02, a=-0.04, b=0.04)


def uniform(shape: tuple[int, ...], bound: float) -> Tensor:
    """Numbers from -bound to bound."""
    return (2 * torch.rand(shape, dtype=torch.float32, device="cpu") - 1) * bound
