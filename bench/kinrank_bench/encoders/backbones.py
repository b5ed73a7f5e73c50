"""Backbones: shared layers, and AlexNet, VGG16 and ResNet with the weight names of torchvision and of pycls."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from kinrank.encoders.descriptors import gem
from kinrank.encoders.torch_checkpoint import Checkpoint, Network

# Depth -> blocks in each of the four stages
RESNET_BLOCKS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
STAGE_WIDTHS = (64, 128, 256, 512)  # of the bottleneck of a block, by stage
EXPANSION = 4
# 0 stands for max-pooling, which halves the map
VGG16_CHANNELS = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512)
ARCHITECTURES = ("alexnet", "vgg16", *(f"resnet{depth}" for depth in RESNET_BLOCKS))
LAST_CHANNELS = EXPANSION * STAGE_WIDTHS[-1]  # of the last map
THIRD_STAGE_CHANNELS = LAST_CHANNELS // 2  # of the previous map, whose sides are twice as long


def build_without_memory(build: Callable[[], Network]) -> Network:
    """Build a network on the meta device: its weights have names and shapes but no memory."""
    with torch.device("meta"):
        return build()


def count_outputs(file: Checkpoint, name: str, otherwise: int) -> int:
    """Return the number of outputs of a layer in the file, or `otherwise` if it has no such layer."""
    weight = file.weights.get(name)
    return int(weight.shape[0]) if weight is not None and weight.ndim > 1 and len(weight) > 0 else otherwise


def make_convolution(inputs: int, outputs: int, side: int, stride: int = 1) -> nn.Conv2d:
    """Create a convolution without bias (a batch norm follows), padded so that only the stride shrinks the map."""
    return nn.Conv2d(inputs, outputs, side, stride=stride, padding=side // 2, bias=False)


def build_named_sequence(**parts: nn.Module) -> nn.Sequential:
    """Create a sequence of layers with the names that they have in a file."""
    return nn.Sequential(OrderedDict(parts))


class Gem(nn.Module):
    """GeM pooling with a learned exponent `p`, one for all channels or one per channel."""

    def __init__(self, exponents: int = 1) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.full((exponents,), 3.0))

    def forward(self, maps: Tensor) -> Any:
        return gem(maps, self.p)


class Head(nn.Module):
    """GeM and a linear layer: the head of CVNet and DELG."""

    def __init__(self, channels: int, dimensions: int) -> None:
        super().__init__()
        self.pool = Gem()
        self.fc = nn.Linear(channels, dimensions)

    def forward(self, maps: Tensor) -> Any:
        return self.fc(self.pool(maps))


class TorchvisionBottleneck(nn.Module):
    """Three convolutions and a shortcut, with torchvision names. The stride is in the second convolution."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = EXPANSION * width
        self.conv1 = make_convolution(inputs, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = make_convolution(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = make_convolution(width, outputs, 1)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(make_convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, maps: Tensor) -> Tensor:
        shortcut = maps if self.downsample is None else self.downsample(maps)
        maps = torch.relu(self.bn1(self.conv1(maps)))
        maps = torch.relu(self.bn2(self.conv2(maps)))
        return torch.relu(self.bn3(self.conv3(maps)) + shortcut)


def build_features(architecture: str) -> tuple[nn.Sequential, int, int]:
    """Return the layers, the number of output channels, and the minimum shorter side of an image in pixels."""
    if architecture == "alexnet":
        return build_alexnet(), 256, 31
    if architecture == "vgg16":
        return build_vgg16(), 512, 16
    return build_resnet(int(architecture.removeprefix("resnet"))), EXPANSION * STAGE_WIDTHS[-1], 1


def build_resnet(depth: int) -> nn.Sequential:
    """Build a stem and four stages: 0 convolution, 1 batch norm, 2 ReLU, 3 max-pooling, 4 to 7 stages."""
    stages, inputs = [], STAGE_WIDTHS[0]
    for number, (count, width) in enumerate(zip(RESNET_BLOCKS[depth], STAGE_WIDTHS, strict=True)):
        first = TorchvisionBottleneck(inputs, width, stride=1 if number == 0 else 2)
        inputs = EXPANSION * width
        stages.append(nn.Sequential(first, *(TorchvisionBottleneck(inputs, width, 1) for _ in range(count - 1))))
    stem = [
        make_convolution(3, STAGE_WIDTHS[0], 7, 2),
        nn.BatchNorm2d(STAGE_WIDTHS[0]),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    return nn.Sequential(*stem, *stages)


def build_vgg16() -> nn.Sequential:
    """Build thirteen convolutions in five groups, without the last max-pooling."""
    layers: list[Any] = []
    inputs = 3
    for outputs in VGG16_CHANNELS:
        if outputs == 0:
            layers.append(nn.MaxPool2d(2, 2))
        else:
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
            inputs = outputs
    return nn.Sequential(*layers)


def build_alexnet() -> nn.Sequential:
    """Build five convolutions, without the last max-pooling."""
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


class PyclsBottleneck(nn.Module):
    """Three convolutions `f` and a shortcut, with pycls names. The stride is in the second convolution."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = EXPANSION * width
        self.changes = stride != 1 or inputs != outputs
        if self.changes:
            self.proj = make_convolution(inputs, outputs, 1, stride)
            self.bn = nn.BatchNorm2d(outputs)
        self.f = build_named_sequence(
            a=make_convolution(inputs, width, 1),
            a_bn=nn.BatchNorm2d(width),
            a_relu=nn.ReLU(),
            b=make_convolution(width, width, 3, stride),
            b_bn=nn.BatchNorm2d(width),
            b_relu=nn.ReLU(),
            c=make_convolution(width, outputs, 1),
            c_bn=nn.BatchNorm2d(outputs),
        )

    def forward(self, maps: Tensor) -> Tensor:
        shortcut = self.bn(self.proj(maps)) if self.changes else maps
        return torch.relu(shortcut + self.f(maps))


class Trunk(nn.Module):
    """ResNet of pycls without head: stem, s1 to s4."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.stem = build_named_sequence(
            conv=make_convolution(3, STAGE_WIDTHS[0], 7, 2),
            bn=nn.BatchNorm2d(STAGE_WIDTHS[0]),
            relu=nn.ReLU(),
            pool=nn.MaxPool2d(3, 2, 1),
        )
        self.s1, self.s2, self.s3, self.s4 = build_stages(depth)

    def maps(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        """Return the maps of the third stage (1024 channels) and of the fourth (2048)."""
        earlier = self.s3(self.s2(self.s1(self.stem(pictures))))
        return earlier, self.s4(earlier)


def build_stages(depth: int) -> list[nn.Sequential]:
    """Build s1 to s4, each a sequence of blocks b1, b2, ..."""
    made, inputs = [], STAGE_WIDTHS[0]
    for stage, (count, width) in enumerate(zip(RESNET_BLOCKS[depth], STAGE_WIDTHS, strict=True)):
        blocks: dict[str, nn.Module] = {}
        for number in range(1, count + 1):
            blocks[f"b{number}"] = PyclsBottleneck(inputs, width, 2 if stage > 0 and number == 1 else 1)
            inputs = EXPANSION * width
        made.append(build_named_sequence(**blocks))
    return made


def detect_depth(names: Iterable[str], prefix: str = "") -> int:
    """Return 50, 101 or 152 from the blocks in a file; 50 for other blocks, which `load_weights` reports."""
    found = {match.groups() for name in names if (match := re.match(re.escape(prefix) + r"s([1-4])\.b(\d+)\.", name))}
    counts = tuple(sum(stage == number for stage, _ in found) for number in "1234")
    return next((depth for depth, blocks in RESNET_BLOCKS.items() if blocks == counts), 50)
