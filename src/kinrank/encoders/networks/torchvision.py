"""The name of an architecture -> its layers up to the last map, in the order and with the names of torchvision."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from kinrank.encoders.networks.layers import BLOCKS, WIDENING, WIDTHS, convolution

VGG16 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512)  # channels; 0 halves the map
ARCHITECTURES = ("alexnet", "vgg16", *(f"resnet{depth}" for depth in BLOCKS))


class Bottleneck(nn.Module):
    """Three convolutions and a shortcut; the stride is in the second, the one that looks at neighbours."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = WIDENING * width
        self.conv1 = convolution(inputs, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = convolution(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = convolution(width, outputs, 1)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, maps: Tensor) -> Tensor:
        shortcut = maps if self.downsample is None else self.downsample(maps)
        maps = torch.relu(self.bn1(self.conv1(maps)))
        maps = torch.relu(self.bn2(self.conv2(maps)))
        return torch.relu(self.bn3(self.conv3(maps)) + shortcut)


def features(architecture: str) -> tuple[nn.Sequential, int, int]:
    """The layers, how many channels come out, and how many pixels the shorter side of a picture needs."""
    if architecture == "alexnet":
        return alexnet(), 256, 31
    if architecture == "vgg16":
        return vgg16(), 512, 16
    return resnet(int(architecture.removeprefix("resnet"))), WIDENING * WIDTHS[-1], 1


def resnet(depth: int) -> nn.Sequential:
    """Stem and four stages: 0 convolution, 1 batch norm, 2 ReLU, 3 max-pooling, 4 to 7 the stages."""
    stages, inputs = [], WIDTHS[0]
    for number, (count, width) in enumerate(zip(BLOCKS[depth], WIDTHS, strict=True)):
        first = Bottleneck(inputs, width, stride=1 if number == 0 else 2)
        inputs = WIDENING * width
        stages.append(nn.Sequential(first, *(Bottleneck(inputs, width, 1) for _ in range(count - 1))))
    stem = [convolution(3, WIDTHS[0], 7, 2), nn.BatchNorm2d(WIDTHS[0]), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *stages)


def vgg16() -> nn.Sequential:
    """Thirteen convolutions in five groups, without the max-pooling that follows the last."""
    layers: list[Any] = []
    inputs = 3
    for outputs in VGG16:
        if outputs == 0:
            layers.append(nn.MaxPool2d(2, 2))
        else:
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
            inputs = outputs
    return nn.Sequential(*layers)


def alexnet() -> nn.Sequential:
    """Five convolutions, without the max-pooling that follows the last."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 11, stride=4, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1),
        nn.ReLU(),
    )
