"""Weights of the port of DELG to torch -> its global part: a ResNet, GeM with a learned exponent, a linear layer."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import normalize

from kinrank.encoders.networks.checkpoint import Checkpoint
from kinrank.encoders.networks.cvnet import GlobalTrunk
from kinrank.encoders.networks.filling import filled, on_paper, rows_of
from kinrank.encoders.networks.pycls import depth_of

UNUSED = ("localmodel.", "desc_cls.", "att_cls.")  # local features, and what only training needs


class DELG(nn.Module):
    """(n, 3, h, w) pictures -> (n, 512) vectors of unit length."""

    def __init__(self, depth: int, dimensions: int) -> None:
        super().__init__()
        self.depth, self.dimensions, self.least = depth, dimensions, 1
        self.globalmodel = GlobalTrunk(depth, dimensions)

    def forward(self, pictures: Tensor) -> Tensor:
        return normalize(self.globalmodel(pictures))


def network(file: Checkpoint) -> DELG:
    depth = depth_of(file.weights, "globalmodel.")
    dimensions = rows_of(file, "globalmodel.head.fc.weight", 512)
    return filled(on_paper(lambda: DELG(depth, dimensions)), file, "delg", UNUSED)
