"""A feature map as somebody gives it -> a checked array of numpy or torch, and the module that computes with it."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np

PLACES = (-2, -1)  # the axes of the positions
TINY = 1e-6


def library(array: Any) -> ModuleType:
    """torch for its tensors, numpy for everything else. Only functions that both have are used."""
    torch = sys.modules.get("torch")  # where nobody imported it, nobody has a tensor
    return torch if torch is not None and isinstance(array, torch.Tensor) else np


def checked(maps: Any) -> tuple[Any, ModuleType]:
    """The map or maps as real numbers, and the library for it; numpy computes in float64 whatever was given."""
    kind = library(maps)
    if kind is np:
        maps = np.asarray(maps)
        if maps.dtype.kind not in "fiub":
            raise ValueError(f"maps must hold real numbers; got dtype {maps.dtype}")
        maps = maps.astype(np.float64)
    elif not maps.is_floating_point():
        raise ValueError(f"maps must hold real numbers; got {maps.dtype}: pass maps.float()")
    if maps.ndim not in (3, 4):
        raise ValueError(
            f"maps must have the shape (channels, height, width) or (n, channels, height, width); got {_shape(maps)}"
        )
    if 0 in tuple(maps.shape[-3:]):
        raise ValueError(f"maps must have a channel and a position at least; got shape {_shape(maps)}")
    if not bool(kind.isfinite(maps).all()):
        raise ValueError("maps must be finite; got NaN or Inf: look at the picture and the weights it was made with")
    return maps, kind


def finished(vectors: Any) -> Any:
    """What a descriptor returns: float32 of numpy, or the tensor as it is."""
    return vectors.astype(np.float32) if isinstance(vectors, np.ndarray) else vectors


def unit(vectors: Any, tiny: float = TINY) -> Any:
    """Every vector x of the last axis as x / (|x| + tiny), so that zero stays zero.

    Example:
        >>> unit(np.array([3.0, 4.0]), tiny=0.0)
        array([0.6, 0.8])
    """
    kind = library(vectors)
    vectors = vectors if kind is not np else np.asarray(vectors)
    length = kind.sqrt((vectors * vectors).sum(-1))[..., None]
    return vectors / (length + tiny)


def _shape(maps: Any) -> tuple[int, ...]:
    return tuple(maps.shape)
