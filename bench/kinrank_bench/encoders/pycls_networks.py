"""Networks based on the ResNet of pycls: CVNet-Global, DELG (global part), DOLG and SENet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, pad, softplus

from kinrank.encoders.descriptors import gem
from kinrank.encoders.torch_checkpoint import Checkpoint, load_weights
from kinrank_bench.encoders.backbones import (
    LAST_CHANNELS,
    THIRD_STAGE_CHANNELS,
    Gem,
    Head,
    Trunk,
    build_named_sequence,
    build_without_memory,
    count_outputs,
    detect_depth,
)

CVNET_UNUSED = ("conv2ds.", "cv_learner.")  # the part that compares two images, which is not used
DELG_UNUSED = ("localmodel.", "desc_cls.", "att_cls.")  # local features, and layers for training
DOLG_DILATIONS = (6, 12, 18)
DOLG_UNUSED = ("desc_cls.",)  # classifier of the training set
DOLG_ATROUS = "localmodel.aspp."
SENET_WINDOW_SIDE = 7  # of the window around a position
SENET_GEM_EXPONENT = 3.0
SENET_MAX_POSITIONS = 2048  # whose windows are in memory at the same time


class GlobalTrunk(Trunk):
    """ResNet with GeM and a linear layer."""

    def __init__(self, depth: int, dimensions: int) -> None:
        super().__init__(depth)
        self.head = Head(LAST_CHANNELS, dimensions)

    def forward(self, pictures: Tensor) -> Any:
        return self.head(self.maps(pictures)[1])


class CVNet(nn.Module):
    """CVNet-Global: network from (n, 3, h, w) images to (n, 2048) unit vectors."""

    def __init__(self, depth: int, dimensions: int) -> None:
        super().__init__()
        self.depth, self.dimensions, self.least = depth, dimensions, 1
        self.encoder_q = GlobalTrunk(depth, dimensions)

    def forward(self, pictures: Tensor) -> Tensor:
        return normalize(self.encoder_q(pictures))


def build_cvnet(file: Checkpoint) -> CVNet:
    depth = detect_depth(file.weights, "encoder_q.")
    dimensions = count_outputs(file, "encoder_q.head.fc.weight", 2048)
    return load_weights(build_without_memory(lambda: CVNet(depth, dimensions)), file, "cvnet", CVNET_UNUSED)


class DELG(nn.Module):
    """Global part of DELG: network from (n, 3, h, w) images to (n, 512) unit vectors."""

    def __init__(self, depth: int, dimensions: int) -> None:
        super().__init__()
        self.depth, self.dimensions, self.least = depth, dimensions, 1
        self.globalmodel = GlobalTrunk(depth, dimensions)

    def forward(self, pictures: Tensor) -> Tensor:
        return normalize(self.globalmodel(pictures))


def build_delg(file: Checkpoint) -> DELG:
    depth = detect_depth(file.weights, "globalmodel.")
    dimensions = count_outputs(file, "globalmodel.head.fc.weight", 512)
    return load_weights(build_without_memory(lambda: DELG(depth, dimensions)), file, "delg", DELG_UNUSED)


class MultiAtrous(nn.Module):
    """Concatenates convolutions with several dilations and a global average of the earlier map."""

    def __init__(self, channels: int = THIRD_STAGE_CHANNELS, width: int = 512) -> None:
        super().__init__()
        near = nn.Conv2d(channels, width, 1)
        far = [nn.Conv2d(channels, width, 3, padding=step, dilation=step) for step in DOLG_DILATIONS]
        self.aspp = nn.ModuleList([near, *far])
        self.im_pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, width, 1), nn.ReLU())
        self.conv_after = nn.Sequential(nn.Conv2d(width * (2 + len(far)), channels, 1), nn.ReLU())

    def forward(self, maps: Tensor) -> Any:
        whole = self.im_pool(maps).expand(-1, -1, *maps.shape[2:])
        return self.conv_after(torch.cat([whole, *(look(maps) for look in self.aspp)], 1))


class Local(nn.Module):
    """Local features: a unit vector per position, multiplied by its attention."""

    def __init__(self, channels: int = THIRD_STAGE_CHANNELS, atrous: bool = False) -> None:
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


def orthogonal_part(local: Tensor, whole: Tensor) -> Tensor:
    """Return (n, c, h, w) local vectors l without their component along the global vector g: l - (<l, g> / |g|^2) g."""
    along = torch.einsum("nchw,nc->nhw", local, whole) / (whole * whole).sum(1)[:, None, None]
    return local - along[:, None] * whole[:, :, None, None]


class DOLG(nn.Module):
    """DOLG: network from (n, 3, h, w) images to (n, 512) unit vectors."""

    def __init__(self, depth: int, dimensions: int, atrous: bool) -> None:
        super().__init__()
        self.depth, self.dimensions, self.least = depth, dimensions, 1
        self.globalmodel = Trunk(depth)
        self.localmodel = Local(THIRD_STAGE_CHANNELS, atrous)
        self.pool_g = Gem()
        self.fc_t = nn.Linear(LAST_CHANNELS, THIRD_STAGE_CHANNELS)
        self.fc = nn.Linear(2 * THIRD_STAGE_CHANNELS, dimensions)

    def forward(self, pictures: Tensor) -> Tensor:
        earlier, last = self.globalmodel.maps(pictures)
        whole = self.fc_t(self.pool_g(last))
        added = orthogonal_part(self.localmodel(earlier), whole).mean((2, 3))
        return normalize(self.fc(torch.cat([whole, added], 1)))


def build_dolg(file: Checkpoint) -> DOLG:
    """Build DOLG from a file, with the multi-atrous part if the file has weights for it."""
    depth, dimensions = detect_depth(file.weights, "globalmodel."), count_outputs(file, "fc.weight", 512)
    atrous = any(name.startswith(DOLG_ATROUS) for name in file.weights)
    return load_weights(build_without_memory(lambda: DOLG(depth, dimensions, atrous)), file, "dolg", DOLG_UNUSED)


class Similarity(nn.Module):
    """Reduces the products of each position with its window to one vector per position."""

    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        shrinking = [
            nn.Sequential(nn.Conv3d(width, width, (1, 3, 3)), nn.BatchNorm3d(width), nn.ReLU())
            for _ in range(SENET_WINDOW_SIDE // 2)
        ]
        self.conv_in = nn.ModuleList(shrinking)
        self.conv1x1_out = nn.Sequential(nn.Conv2d(width, channels, 1), nn.BatchNorm2d(channels))

    def shrink_windows(self, products: Tensor) -> Tensor:
        """Reduce (n, width, m, 7, 7) products of m positions to (n, width, m)."""
        for shrink in self.conv_in:
            products = shrink(products)
        return products.mean((3, 4))


class SelfSimilarity(nn.Module):
    """Adds self-similarities to the last map."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.ch_reduction_encoder = nn.Conv2d(channels, width, 1, bias=False)
        self.SSE = Similarity(width, channels)
        self.FFN = nn.Sequential(nn.Conv2d(channels, channels, 1), nn.ReLU(), nn.Conv2d(channels, channels, 1))

    def reduce_channels(self, maps: Tensor) -> Tensor:
        """Return (n, width, h, w) unit vectors, one per position."""
        return normalize(self.ch_reduction_encoder(maps))

    def similarity(self, maps: Tensor) -> Any:
        """Return the (n, channels, h, w) addition to the map, computed for some rows at a time to limit memory."""
        reduced = self.reduce_channels(maps)
        rows = max(1, SENET_MAX_POSITIONS // reduced.shape[3])
        parts = [self.SSE.shrink_windows(part) for part in local_correlations(reduced, rows)]
        return self.SSE.conv1x1_out(torch.cat(parts, 2).reshape(reduced.shape))

    def forward(self, maps: Tensor) -> Any:
        return self.FFN(maps + self.similarity(maps))


def local_correlations(reduced: Tensor, rows: int) -> Iterator[Tensor]:
    """Yield (n, c, m, 7, 7) products of positions with their windows, clipped at 0, for `rows` rows at a time."""
    around = (
        pad(reduced, (SENET_WINDOW_SIDE // 2,) * 4).unfold(2, SENET_WINDOW_SIDE, 1).unfold(3, SENET_WINDOW_SIDE, 1)
    )  # no copy yet
    for start in range(0, reduced.shape[2], rows):
        part = slice(start, start + rows)
        yield torch.relu(reduced[:, :, part, :, None, None] * around[:, :, part]).flatten(2, 3)


class SENet(Trunk):
    """SENet: network from (n, 3, h, w) images to (n, 2048) unit vectors."""

    def __init__(self, depth: int, dimensions: int, width: int) -> None:
        super().__init__(depth)
        self.depth, self.dimensions, self.least = depth, dimensions, 1
        self.SSM = SelfSimilarity(LAST_CHANNELS, width)
        self.head = build_named_sequence(fc=nn.Linear(LAST_CHANNELS, dimensions))

    def forward(self, pictures: Tensor) -> Tensor:
        return normalize(self.head(gem(self.SSM(self.maps(pictures)[1]), SENET_GEM_EXPONENT)))


def build_senet(file: Checkpoint) -> SENet:
    depth, dimensions = detect_depth(file.weights), count_outputs(file, "head.fc.weight", 2048)
    width = count_outputs(file, "SSM.ch_reduction_encoder.weight", 256)
    return load_weights(build_without_memory(lambda: SENet(depth, dimensions, width)), file, "senet")


BUILDERS: dict[str, Callable[[Checkpoint], nn.Module]] = {
    "cvnet": build_cvnet,
    "delg": build_delg,
    "dolg": build_dolg,
    "senet": build_senet,
}
