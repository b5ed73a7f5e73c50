"""torchvision without its compiled part -> a torchvision that can be imported.

timm and open_clip import torchvision for the way they prepare pictures, which is Python. Its compiled operators exist
for the builds of torch with CUDA only; here the two that are asked for at import are declared, and never called.
"""

from __future__ import annotations

import torch

MISSING = ("nms", "qnms")
_library = torch.library.Library("torchvision", "FRAGMENT")  # lives as long as this module


def declare() -> None:
    for name in MISSING:
        if not hasattr(torch.ops.torchvision, name):
            _library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


declare()
