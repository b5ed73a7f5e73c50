"""Weights of DOLG -> its network: what local features add to a global vector, made orthogonal to it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, softplus

from kinrank.encoders.networks.checkpoint import Checkpoint
from kinrank.encoders.networks.filling import filled, on_paper, rows_of
from kinrank.encoders.networks.layers import Gem
from kinrank.encoders.networks.pycls import CHANNELS, EARLIER, Trunk, depth_of

DILATIONS = (6, 12, 18)
TRAINING = ("desc_cls.",)  # the classes of the training set
ATROUS = "localmodel.aspp."


class MultiAtrous(nn.Module):
    """Neighbourhoods of several sizes of the earlier map, and the whole of it, put together again."""

    def __init__(self, channels: int = EARLIER, width: int = 512) -> None:
        super().__init__()
        near = nn.Conv2d(channels, width, 1)
        far = [nn.Conv2d(channels, width, 3, padding=step, dilation=step) for step in DILATIONS]
        self.aspp = nn.ModuleList([near, *far])
        self.im_pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, width, 1), nn.ReLU())
        self.conv_after = nn.Sequential(nn.Conv2d(width * (2 + len(far)), channels, 1), nn.ReLU())

    def forward(self, maps: Tensor) -> Any:
        whole = self.im_pool(maps).expand(-1, -1, *maps.shape[2:])
        return self.conv_after(torch.cat([whole, *(look(maps) for look in self.aspp)], 1))


class Local(nn.Module):
    """A unit vector for every position, times how much attention the position deserves."""

    def __init__(self, channels: int = EARLIER, atrous: bool = False) -> None:
        super().__init__()
        if atrous:
            self.aspp = MultiAtrous(channels)
        self.atrous = atrous
        self.conv1 = nn.Conv2d(channels, channels, 1)
        self.bn = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, 1, 1)

    def attention(self, vectors: Tensor) -> Tensor:
        return softplus(self.conv2(torch.relu(vectors)))

    def forward(self, maps: Tensor) -> Tensor:
        vectors = self.bn(self.conv1(self.aspp(maps) if self.atrous else maps))
        return normalize(vectors) * self.attention(vectors)


def orthogonal(local: Tensor, whole: Tensor) -> Tensor:
    """(n, c, h, w) local vectors l without their part along the global g: l - (<l, g> / |g|^2) g."""
    along = torch.einsum("nchw,nc->nhw", local, whole) / (whole * whole).sum(1)[:, None, None]
    return local - along[:, None] * whole[:, :, None, None]


class DOLG(nn.Module):
    """(n, 3, h, w) pictures -> (n, 512) vectors of unit length."""

    def __init__(self, depth: int, dimensions: int, atrous: bool) -> None:
        super().__init__()
        self.depth, self.dimensions, self.least = depth, dimensions, 1
        self.globalmodel = Trunk(depth)
        self.localmodel = Local(EARLIER, atrous)
        self.pool_g = Gem()
        self.fc_t = nn.Linear(CHANNELS, EARLIER)
        self.fc = nn.Linear(2 * EARLIER, dimensions)

    def forward(self, pictures: Tensor) -> Tensor:
        earlier, last = self.globalmodel.maps(pictures)
        whole = self.fc_t(self.pool_g(last))
        added = orthogonal(self.localmodel(earlier), whole).mean((2, 3))
        return normalize(self.fc(torch.cat([whole, added], 1)))


def network(file: Checkpoint) -> DOLG:
    """With the multi-atrous part if the file has weights for it."""
    depth, dimensions = depth_of(file.weights, "globalmodel."), rows_of(file, "fc.weight", 512)
    atrous = any(name.startswith(ATROUS) for name in file.weights)
    return filled(on_paper(lambda: DOLG(depth, dimensions, atrous)), file, "dolg", TRAINING)
