"""Weights of SENet -> its network: a ResNet whose last map learns how every position resembles its surroundings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, pad

from kinrank.encoders.descriptors import gem
from kinrank.encoders.networks.checkpoint import Checkpoint
from kinrank.encoders.networks.filling import filled, on_paper, rows_of
from kinrank.encoders.networks.layers import named
from kinrank.encoders.networks.pycls import CHANNELS, Trunk, depth_of

SIDE = 7  # of the surroundings of a position
EXPONENT = 3.0
TOGETHER = 2048  # positions whose surroundings are in memory at the same time


class Similarity(nn.Module):
    """The products of a position with its surroundings -> one vector per position."""

    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        shrinking = [
            nn.Sequential(nn.Conv3d(width, width, (1, 3, 3)), nn.BatchNorm3d(width), nn.ReLU())
            for _ in range(SIDE // 2)
        ]
        self.conv_in = nn.ModuleList(shrinking)
        self.conv1x1_out = nn.Sequential(nn.Conv2d(width, channels, 1), nn.BatchNorm2d(channels))

    def shrunk(self, products: Tensor) -> Tensor:
        """(n, width, m, 7, 7) of m positions -> (n, width, m)."""
        for shrink in self.conv_in:
            products = shrink(products)
        return products.mean((3, 4))


class SelfSimilarity(nn.Module):
    """The last map -> the map with what its self-similarities tell."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.ch_reduction_encoder = nn.Conv2d(channels, width, 1, bias=False)
        self.SSE = Similarity(width, channels)
        self.FFN = nn.Sequential(nn.Conv2d(channels, channels, 1), nn.ReLU(), nn.Conv2d(channels, channels, 1))

    def reduced(self, maps: Tensor) -> Tensor:
        """(n, width, h, w) a unit vector for every position."""
        return normalize(self.ch_reduction_encoder(maps))

    def similarity(self, maps: Tensor) -> Any:
        """(n, channels, h, w) what is added to the map; some rows of it at a time, since the products need memory."""
        reduced = self.reduced(maps)
        rows = max(1, TOGETHER // reduced.shape[3])
        parts = [self.SSE.shrunk(part) for part in correlations(reduced, rows)]
        return self.SSE.conv1x1_out(torch.cat(parts, 2).reshape(reduced.shape))

    def forward(self, maps: Tensor) -> Any:
        return self.FFN(maps + self.similarity(maps))


def correlations(reduced: Tensor, rows: int) -> Iterator[Tensor]:
    """(n, c, m, 7, 7) every position times its surroundings, channel by channel, nothing below 0; so many rows each."""
    around = pad(reduced, (SIDE // 2,) * 4).unfold(2, SIDE, 1).unfold(3, SIDE, 1)  # no copy yet
    for start in range(0, reduced.shape[2], rows):
        part = slice(start, start + rows)
        yield torch.relu(reduced[:, :, part, :, None, None] * around[:, :, part]).flatten(2, 3)


class SENet(Trunk):
    """(n, 3, h, w) pictures -> (n, 2048) vectors of unit length."""

    def __init__(self, depth: int, dimensions: int, width: int) -> None:
        super().__init__(depth)
        self.depth, self.dimensions, self.least = depth, dimensions, 1
        self.SSM = SelfSimilarity(CHANNELS, width)
        self.head = named(fc=nn.Linear(CHANNELS, dimensions))

    def forward(self, pictures: Tensor) -> Tensor:
        return normalize(self.head(gem(self.SSM(self.maps(pictures)[1]), EXPONENT)))


def network(file: Checkpoint) -> SENet:
    depth, dimensions = depth_of(file.weights), rows_of(file, "head.fc.weight", 2048)
    width = rows_of(file, "SSM.ch_reduction_encoder.weight", 256)
    return filled(on_paper(lambda: SENet(depth, dimensions, width)), file, "senet")
