"""Layers and initial weights of the learned methods in torch, for training. Imported late."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

LayerWeights = Mapping[str, Tensor]


def linear(rows: Tensor, weights: LayerWeights, name: str) -> Tensor:
    return functional.linear(rows, weights[f"{name}.weight"], weights[f"{name}.bias"])


def layer_norm(rows: Tensor, weights: LayerWeights, name: str) -> Tensor:
    return functional.layer_norm(rows, rows.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-5)


def attention(rows: Tensor, joined: tuple[Tensor, Tensor], heads: int, dropout: float) -> Tensor:
    """Return (b, m, e) every row as a mean of all rows of its list, head by head, without the output layer.

    joined: weights (3 e, e) and bias (3 e,) of queries, keys and values, one after the other, in each head after head.
    """
    three = functional.linear(rows, *joined).unflatten(2, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    queries, keys, values = three.unbind(0)  # (b, heads, m, e / heads)
    shares = (queries @ keys.transpose(2, 3) / math.sqrt(queries.shape[3])).softmax(dim=3)
    return (functional.dropout(shares, dropout) @ values).transpose(1, 2).flatten(2)


def cosines(rows: Tensor) -> Tensor:
    """Return (b, m) cosines of the first row of each list and all of its rows, (b, m, e)."""
    units = functional.normalize(rows, dim=2)
    return (units @ units[:, :1].transpose(1, 2))[:, :, 0]


def initialize_weights(
    shapes: Mapping[str, tuple[int, ...]], matrix: Callable[[tuple[int, ...]], Tensor]
) -> dict[str, Tensor]:
    """Return initial weights of these shapes: matrices as given, scales of a norm 1, everything else 0."""
    return {
        name: matrix(shape) if len(shape) > 1 else full_tensor(shape, float(name.endswith(".weight")))
        for name, shape in shapes.items()
    }


def full_tensor(shape: tuple[int, ...], value: float) -> Tensor:
    """Return a constant tensor on the CPU, independent of the caller's default device."""
    return torch.full(shape, value, dtype=torch.float32, device="cpu")


def normal_tensor(shape: tuple[int, ...]) -> Tensor:
    """Return normal random numbers of standard deviation 0.02, truncated at two standard deviations."""
    return torch.nn.init.trunc_normal_(full_tensor(shape, 0.0), std=0.02, a=-0.04, b=0.04)


def uniform_tensor(shape: tuple[int, ...], bound: float) -> Tensor:
    """Return uniform random numbers from -bound to bound."""
    return (2 * torch.rand(shape, dtype=torch.float32, device="cpu") - 1) * bound
