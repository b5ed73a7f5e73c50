"""Sizes -> the few layers that all networks are made of: convolutions, learned exponents, pooling with whitening."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn

from kinrank.encoders.descriptors import gem

BLOCKS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}  # of the four stages of a ResNet, by its depth
WIDTHS = (64, 128, 256, 512)  # of the narrow part of a block, by stage
WIDENING = 4


def convolution(inputs: int, outputs: int, side: int, stride: int = 1) -> nn.Conv2d:
    """Without bias, as a batch norm follows; padded so that only the stride makes the map smaller."""
    return nn.Conv2d(inputs, outputs, side, stride=stride, padding=side // 2, bias=False)


def named(**parts: nn.Module) -> nn.Sequential:
    """Parts that are run one after the other and have these names in a file."""
    return nn.Sequential(OrderedDict(parts))


class Gem(nn.Module):
    """GeM with its learned exponent `p`: one, or one per channel."""

    def __init__(self, exponents: int = 1) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.full((exponents,), 3.0))

    def forward(self, maps: Tensor) -> Any:
        return gem(maps, self.p)


class Head(nn.Module):
    """GeM and a linear layer, the end of CVNet and DELG."""

    def __init__(self, channels: int, dimensions: int) -> None:
        super().__init__()
        self.pool = Gem()
        self.fc = nn.Linear(channels, dimensions)

    def forward(self, maps: Tensor) -> Any:
        return self.fc(self.pool(maps))
