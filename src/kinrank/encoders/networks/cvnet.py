"""Weights of CVNet or of its global part -> that part: a ResNet, GeM with a learned exponent, a linear layer."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.functional import normalize

from kinrank.encoders.networks.checkpoint import Checkpoint
from kinrank.encoders.networks.filling import filled, on_paper, rows_of
from kinrank.encoders.networks.layers import Head
from kinrank.encoders.networks.pycls import CHANNELS, Trunk, depth_of

RERANKING = ("conv2ds.", "cv_learner.")  # the part that compares two pictures, which has no use here


class GlobalTrunk(Trunk):
    """A ResNet with its head."""

    def __init__(self, depth: int, dimensions: int) -> None:
        super().__init__(depth)
        self.head = Head(CHANNELS, dimensions)

    def forward(self, pictures: Tensor) -> Any:
        return self.head(self.maps(pictures)[1])


class CVNet(nn.Module):
    """(n, 3, h, w) pictures -> (n, 2048) vectors of unit length."""

    def __init__(self, depth: int, dimensions: int) -> None:
        super().__init__()
        self.depth, self.dimensions, self.least = depth, dimensions, 1
        self.encoder_q = GlobalTrunk(depth, dimensions)

    def forward(self, pictures: Tensor) -> Tensor:
        return normalize(self.encoder_q(pictures))


def network(file: Checkpoint) -> CVNet:
    depth = depth_of(file.weights, "encoder_q.")
    dimensions = rows_of(file, "encoder_q.head.fc.weight", 2048)
    return filled(on_paper(lambda: CVNet(depth, dimensions)), file, "cvnet", RERANKING)
