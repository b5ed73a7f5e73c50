"""A depth -> a ResNet with the names of pycls: stem, s1 to s4; CVNet, SENet, DELG and DOLG are built on it."""

from __future__ import annotations

import re
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from kinrank.encoders.networks.layers import BLOCKS, WIDENING, WIDTHS, convolution, named

CHANNELS = WIDENING * WIDTHS[-1]  # of the last map
EARLIER = CHANNELS // 2  # of the map before, which is twice as large


class Bottleneck(nn.Module):
    """Three convolutions `f` and a shortcut; the stride is in the second convolution."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = WIDENING * width
        self.changes = stride != 1 or inputs != outputs
        if self.changes:
            self.proj = convolution(inputs, outputs, 1, stride)
            self.bn = nn.BatchNorm2d(outputs)
        self.f = named(
            a=convolution(inputs, width, 1),
            a_bn=nn.BatchNorm2d(width),
            a_relu=nn.ReLU(),
            b=convolution(width, width, 3, stride),
            b_bn=nn.BatchNorm2d(width),
            b_relu=nn.ReLU(),
            c=convolution(width, outputs, 1),
            c_bn=nn.BatchNorm2d(outputs),
        )

    def forward(self, maps: Tensor) -> Tensor:
        shortcut = self.bn(self.proj(maps)) if self.changes else maps
        return torch.relu(shortcut + self.f(maps))


class Trunk(nn.Module):
    """A ResNet without its end."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.stem = named(
            conv=convolution(3, WIDTHS[0], 7, 2),
            bn=nn.BatchNorm2d(WIDTHS[0]),
            relu=nn.ReLU(),
            pool=nn.MaxPool2d(3, 2, 1),
        )
        self.s1, self.s2, self.s3, self.s4 = stages(depth)

    def maps(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        """The map of the third stage (1024 channels) and that of the fourth (2048)."""
        earlier = self.s3(self.s2(self.s1(self.stem(pictures))))
        return earlier, self.s4(earlier)


def stages(depth: int) -> list[nn.Sequential]:
    """s1 to s4, each a row of blocks b1, b2, ..."""
    made, inputs = [], WIDTHS[0]
    for stage, (count, width) in enumerate(zip(BLOCKS[depth], WIDTHS, strict=True)):
        blocks: dict[str, nn.Module] = {}
        for number in range(1, count + 1):
            blocks[f"b{number}"] = Bottleneck(inputs, width, 2 if stage > 0 and number == 1 else 1)
            inputs = WIDENING * width
        made.append(named(**blocks))
    return made


def depth_of(names: Iterable[str], prefix: str = "") -> int:
    """50, 101 or 152, by the blocks that a file has weights for; 50 where it has others, which is noticed later."""
    found = {match.groups() for name in names if (match := re.match(re.escape(prefix) + r"s([1-4])\.b(\d+)\.", name))}
    counts = tuple(sum(stage == number for stage, _ in found) for number in "1234")
    return next((depth for depth, blocks in BLOCKS.items() if blocks == counts), 50)
