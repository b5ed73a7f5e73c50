"""A feature map -> the squares that R-MAC looks at, and the sum of one unit vector for each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinrank.encoders.descriptors.maps import PLACES, checked, finished, unit

OVERLAP = 0.4  # that neighbouring squares of the first level should share
Region = tuple[int, int, int, int]


def rmac_regions(height: int, width: int, levels: int = 3) -> tuple[Region, ...]:
    """The regions (row, column, height, width) of a map: first the whole of it, then the squares, level by level.

    Level l has squares of side floor(2 w / (l + 1)), w the short side: l of them along the short side and l + m along
    the long one, m chosen so that those of level 1 overlap by 0.4 as nearly as possible. Everything is computed in
    float32, as in the program that the published numbers come from: in some sizes exact arithmetic gives other squares.

    Example:
        >>> rmac_regions(2, 3, levels=1)
        ((0, 0, 2, 3), (0, 0, 2, 2), (0, 1, 2, 2))
    """
    if not all(isinstance(value, (int, np.integer)) and value > 0 for value in (height, width, levels)):
        raise ValueError(
            f"height, width and levels must be whole numbers above 0; got height={height!r}, width={width!r}, "
            f"levels={levels!r}"
        )
    height, width = int(height), int(width)
    short = min(height, width)
    more = _more(max(height, width), short)
    regions = [(0, 0, height, width)]
    for level in range(1, levels + 1):
        side = 2 * short // (level + 1)
        if side == 0:  # and in all further levels
            break
        rows = _starts(height, side, level + (more if height > width else 0))
        columns = _starts(width, side, level + (more if width > height else 0))
        regions += [(row, column, side, side) for row in rows for column in columns]
    return tuple(regions)


def _more(long: int, short: int) -> int:
    """How many squares more the long side gets, 1 to 6."""
    gaps = np.arange(1, 7, dtype=np.float32)
    steps = (np.float32(1) / gaps) * np.float32(long - short)  # not a quotient: there are near ties
    overlaps = (np.float32(short**2) - np.float32(short) * steps) / np.float32(short**2)
    return int(np.abs(overlaps - np.float32(OVERLAP)).argmin()) + 1


def _starts(size: int, side: int, count: int) -> list[int]:
    """Where the squares of one level begin along one side."""
    step = np.float32(size - side) / np.float32(count - 1) if count > 1 else np.float32(0)
    half = np.float32(np.floor(side / 2 - 1))  # of the centres, which are what is rounded
    starts = np.floor(half + np.arange(count, dtype=np.float32) * step) - half
    return [int(start) for start in starts]


def regional(maps: Any, pool: Callable[[Any], Any], levels: int = 3) -> Any:
    """(..., r, c) the pooled vector of every region, brought to unit length."""
    maps, kind = checked(maps)
    parts = [
        pool(maps[..., row : row + height, column : column + width])
        for row, column, height, width in rmac_regions(maps.shape[-2], maps.shape[-1], levels)
    ]
    return unit(kind.stack(parts, -2))


def rmac(maps: Any, levels: int = 3) -> Any:
    """R-MAC: the sum of the unit MAC vectors of the whole map and of squares of several sizes; see `rmac_regions`.

    Example:
        >>> rmac(np.ones((4, 2, 3)), levels=1)
        array([1.4999993, 1.4999993, 1.4999993, 1.4999993], dtype=float32)
    """
    maps, kind = checked(maps)
    return finished(regional(maps, lambda part: kind.amax(part, PLACES), levels).sum(-2))
