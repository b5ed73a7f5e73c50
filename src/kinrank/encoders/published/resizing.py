"""Pixels and a factor -> fewer or more pixels, the same numbers that OpenCV makes of them.

Published descriptors depend on how a picture was resized: another interpolation moves a vector by up to a hundredth of
its largest number. Pictures are arrays (height, width, channels).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
UNITS = 2048  # of the whole-number weights of a linear resize
LEAST_SHARE = 1e-3  # of a pixel; less of it is left out of an area


def by_factor(pixels: Bytes, factor: float) -> Bytes:
    """By areas where it gets smaller, linearly where it gets larger, rounded to whole greys; the step is 1 / factor."""
    size = target(pixels, factor)
    if size == pixels.shape[:2]:
        return pixels
    return _by_areas(pixels, size, 1 / factor) if factor < 1 else _in_units(pixels, size, 1 / factor)


def to_size(pixels: Bytes, factor: float) -> Floats:
    """Linearly to the rounded size, not rounded to whole greys; the step is the ratio of the sizes."""
    values, (height, width) = pixels.astype(np.float32), target(pixels, factor)
    upper, lower, down = _between(pixels.shape[0], height, pixels.shape[0] / height)
    left, right, across = _between(pixels.shape[1], width, pixels.shape[1] / width)
    across, down = across[:, None], down[:, None, None]
    rows = values[:, left] * (1 - across) + values[:, right] * across
    return (rows[upper] * (1 - down) + rows[lower] * down).astype(np.float32)


def target(pixels: NDArray[Any], factor: float) -> tuple[int, int]:
    """Height and width times the factor, rounded, halves to the even number; one pixel at least."""
    height, width = pixels.shape[:2]
    return max(1, round(height * factor)), max(1, round(width * factor))


def _by_areas(pixels: Bytes, size: tuple[int, int], step: float) -> Bytes:
    """Every new pixel is the mean of the area it covers; in float32 and one after the other, as ties are common."""
    columns, across = _shares(pixels.shape[1], size[1], step)
    rows, down = _shares(pixels.shape[0], size[0], step)
    values = pixels.astype(np.float32)
    narrow = np.zeros((len(values), *size[1:], *values.shape[2:]), np.float32)
    for k in range(columns.shape[1]):
        narrow += values[:, columns[:, k]] * across[:, k, None]
    means = np.zeros((*size, *values.shape[2:]), np.float32)
    for k in range(rows.shape[1]):
        means += narrow[rows[:, k]] * down[:, k, None, None]
    return _greys(np.floor(means + np.float32(0.5)) if step == 2 else np.rint(means))


def _shares(source: int, size: int, step: float) -> tuple[NDArray[np.intp], Floats]:
    """(size, t) which old pixels a new one covers, and how much of it each of them fills."""
    start = np.arange(size)[:, None] * step
    end = np.minimum(start + step, source)
    pixels = np.floor(start).astype(np.intp) + np.arange(math.ceil(step) + 1)
    filled = np.minimum(end, pixels + 1) - np.maximum(start, pixels)
    shares = np.where(filled > LEAST_SHARE, filled, 0) / (end - start)
    return np.minimum(pixels, source - 1), shares.astype(np.float32)


def _in_units(pixels: Bytes, size: tuple[int, int], step: float) -> Bytes:
    """Linear, with weights in 2048ths and some bits dropped between the two directions."""
    upper, lower, down = _between(pixels.shape[0], size[0], step)
    left, right, across = _between(pixels.shape[1], size[1], step)
    across = np.where(left == right, np.float32(0), across)  # at the borders, and only in this direction
    values = pixels.astype(np.int32)
    rows = values[:, left] * _units(1 - across)[:, None] + values[:, right] * _units(across)[:, None]
    above = (_units(1 - down)[:, None, None] * (rows[upper] >> 4)) >> 16
    below = (_units(down)[:, None, None] * (rows[lower] >> 4)) >> 16
    return _greys((above + below + 2) >> 2)


def _between(source: int, size: int, step: float) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """The two old pixels that a new one lies between, and how far it is from the first to the second."""
    position = ((np.arange(size) + 0.5) * step - 0.5).astype(np.float32)
    first = np.floor(position)
    before = np.clip(first, 0, source - 1).astype(np.intp)
    after = np.clip(first + 1, 0, source - 1).astype(np.intp)
    return before, after, position - first


def _units(weights: Floats) -> NDArray[np.int32]:
    found: NDArray[np.int32] = np.rint(weights * np.float32(UNITS)).astype(np.int32)
    return found


def _greys(values: NDArray[Any]) -> Bytes:
    found: Bytes = np.clip(values, 0, 255).astype(np.uint8)
    return found
