"""Image resizing with the same results as OpenCV.

Published descriptors depend on the interpolation: another one changes a vector by up to 1 % of its largest number.
Images are arrays (height, width, channels).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
WEIGHT_UNITS = 2048  # denominator of the integer weights of a linear resize
MIN_SHARE = 1e-3  # of a pixel; smaller shares are left out of an area


def resize_by_factor(pixels: Bytes, factor: float) -> Bytes:
    """Resize by area if the factor is < 1, otherwise linearly, rounded to integers. The step is 1 / factor."""
    size = target_size(pixels, factor)
    if size == pixels.shape[:2]:
        return pixels
    return _resize_by_area(pixels, size, 1 / factor) if factor < 1 else _resize_linear(pixels, size, 1 / factor)


def resize_to_size(pixels: Bytes, factor: float) -> Floats:
    """Resize linearly to the rounded size, without rounding to integers. The step is the ratio of the sizes."""
    values, (height, width) = pixels.astype(np.float32), target_size(pixels, factor)
    upper, lower, down = _interpolation_points(pixels.shape[0], height, pixels.shape[0] / height)
    left, right, across = _interpolation_points(pixels.shape[1], width, pixels.shape[1] / width)
    across, down = across[:, None], down[:, None, None]
    rows = values[:, left] * (1 - across) + values[:, right] * across
    return (rows[upper] * (1 - down) + rows[lower] * down).astype(np.float32)


def target_size(pixels: NDArray[Any], factor: float) -> tuple[int, int]:
    """Return height and width times the factor, rounded, halves to even, at least one pixel."""
    height, width = pixels.shape[:2]
    return max(1, round(height * factor)), max(1, round(width * factor))


def _resize_by_area(pixels: Bytes, size: tuple[int, int], step: float) -> Bytes:
    """Average the area that each new pixel covers. Sum in float32 in the order of OpenCV, because ties are common."""
    columns, across = _area_shares(pixels.shape[1], size[1], step)
    rows, down = _area_shares(pixels.shape[0], size[0], step)
    values = pixels.astype(np.float32)
    narrow = np.zeros((len(values), *size[1:], *values.shape[2:]), np.float32)
    for k in range(columns.shape[1]):
        narrow += values[:, columns[:, k]] * across[:, k, None]
    means = np.zeros((*size, *values.shape[2:]), np.float32)
    for k in range(rows.shape[1]):
        means += narrow[rows[:, k]] * down[:, k, None, None]
    return _to_grey_levels(np.floor(means + np.float32(0.5)) if step == 2 else np.rint(means))


def _area_shares(source: int, size: int, step: float) -> tuple[NDArray[np.intp], Floats]:
    """Return (size, t) the old pixels that each new pixel covers, and their shares of it."""
    start = np.arange(size)[:, None] * step
    end = np.minimum(start + step, source)
    pixels = np.floor(start).astype(np.intp) + np.arange(math.ceil(step) + 1)
    filled = np.minimum(end, pixels + 1) - np.maximum(start, pixels)
    shares = np.where(filled > MIN_SHARE, filled, 0) / (end - start)
    return np.minimum(pixels, source - 1), shares.astype(np.float32)


def _resize_linear(pixels: Bytes, size: tuple[int, int], step: float) -> Bytes:
    """Resize linearly with integer weights in 1/2048, dropping some bits between the two directions."""
    upper, lower, down = _interpolation_points(pixels.shape[0], size[0], step)
    left, right, across = _interpolation_points(pixels.shape[1], size[1], step)
    across = np.where(left == right, np.float32(0), across)  # at the borders, in this direction only
    values = pixels.astype(np.int32)
    rows = values[:, left] * _to_units(1 - across)[:, None] + values[:, right] * _to_units(across)[:, None]
    above = (_to_units(1 - down)[:, None, None] * (rows[upper] >> 4)) >> 16
    below = (_to_units(down)[:, None, None] * (rows[lower] >> 4)) >> 16
    return _to_grey_levels((above + below + 2) >> 2)


def _interpolation_points(source: int, size: int, step: float) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Return the two old pixels around each new pixel, and its relative position between them."""
    position = ((np.arange(size) + 0.5) * step - 0.5).astype(np.float32)
    first = np.floor(position)
    before = np.clip(first, 0, source - 1).astype(np.intp)
    after = np.clip(first + 1, 0, source - 1).astype(np.intp)
    return before, after, position - first


def _to_units(weights: Floats) -> NDArray[np.int32]:
    found: NDArray[np.int32] = np.rint(weights * np.float32(WEIGHT_UNITS)).astype(np.int32)
    return found


def _to_grey_levels(values: NDArray[Any]) -> Bytes:
    found: Bytes = np.clip(values, 0, 255).astype(np.uint8)
    return found
