"""Makes torchvision importable without its compiled operators.

timm and open_clip import torchvision for its preprocessing, which is written in Python. Its compiled operators exist
only for builds of torch with CUDA. If they are missing, this module declares the two that are needed for the import.
They are never called.
"""

from __future__ import annotations

import importlib
import sys

import torch

MISSING = ("nms", "qnms")
_declared: list[torch.library.Library] = []  # kept alive by this module


def declare() -> None:
    """Do nothing if torchvision is complete or not installed."""
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
