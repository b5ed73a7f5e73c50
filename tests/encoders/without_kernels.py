"""torchvision without its compiled part -> a torchvision that can be imported.

timm and open_clip import torchvision for the way they prepare pictures, which is Python. Its compiled operators exist
for builds of torch with CUDA only; where they are missing, the two that are asked for at import are declared, and never
called.
"""

from __future__ import annotations

import importlib
import sys

import torch

MISSING = ("nms", "qnms")
_declared: list[torch.library.Library] = []  # they live as long as this module


def declare() -> None:
    """Do nothing where torchvision is whole, or absent."""
    try:
        importlib.import_module("torchvision")
    except ImportError:
        return
    except RuntimeError:
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in MISSING:
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _declared.append(library)


declare()
