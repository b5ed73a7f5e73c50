"""Descriptors of a feature map, position by position, as literal transcriptions of their definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Map = NDArray[np.float32]
Vector = list[float]


def positions(channel: Map) -> Iterator[float]:
    for row in channel:
        for value in row:
            yield float(value)


def length(vector: Sequence[float]) -> float:
    return sum(value * value for value in vector) ** 0.5


def unit(vector: Sequence[float]) -> Vector:
    return [value / (length(vector) + 1e-6) for value in vector]


def mac(feature: Map) -> Vector:
    return [max(positions(channel)) for channel in feature]


def spoc(feature: Map) -> Vector:
    return [sum(positions(channel)) / channel.size for channel in feature]


def spoc_with_centre_prior(feature: Map) -> Vector:
    _, height, width = feature.shape
    deviation = min(height, width) / 2 / 3
    out = []
    for channel in feature:
        total = 0.0
        for i in range(height):
            for j in range(width):
                square = (i - (height - 1) / 2) ** 2 + (j - (width - 1) / 2) ** 2
                total += float(channel[i, j]) * float(np.exp(-square / (2 * deviation**2)))
        out.append(total)
    return out


def gem(feature: Map, p: float | Sequence[float] = 3.0) -> Vector:
    powers = list(p) if isinstance(p, Sequence) else [p] * len(feature)
    out = []
    for channel, power in zip(feature, powers, strict=True):
        mean = sum(max(value, 1e-6) ** power for value in positions(channel)) / channel.size
        out.append(mean ** (1 / power))
    return out


def rmac_regions(height: int, width: int, levels: int = 3) -> list[tuple[int, int, int, int]]:
    """In exact arithmetic, which for a few sizes differs from the float32 of the published program."""
    from fractions import Fraction

    short, long = min(height, width), max(height, width)
    misses = []
    for count in range(2, 8):
        step = Fraction(long - short, count - 1)
        misses.append(abs((short**2 - short * step) / short**2 - Fraction(4, 10)))
    more = misses.index(min(misses)) + 1
    out = [(0, 0, height, width)]
    for level in range(1, levels + 1):
        side = 2 * short // (level + 1)
        if side == 0:
            continue
        down = level + (more if height > width else 0)
        across = level + (more if width > height else 0)
        for i in range(down):
            for j in range(across):
                row = i * (height - side) // (down - 1) if down > 1 else 0
                column = j * (width - side) // (across - 1) if across > 1 else 0
                out.append((row, column, side, side))
    return out


def regional(feature: Map, pool: Callable[[Map], Vector], levels: int = 3) -> list[Vector]:
    return [
        unit(pool(feature[:, row : row + height, column : column + width]))
        for row, column, height, width in rmac_regions(feature.shape[1], feature.shape[2], levels)
    ]


def rmac(feature: Map, levels: int = 3) -> Vector:
    return [sum(values) for values in zip(*regional(feature, mac, levels), strict=True)]


def crow(feature: Map) -> Vector:
    channels, height, width = feature.shape
    strength = [[sum(float(feature[c, i, j]) for c in range(channels)) for j in range(width)] for i in range(height)]
    norm = length([value for row in strength for value in row])
    share = [sum(value != 0 for value in positions(channel)) / channel.size + 1e-6 for channel in feature]
    out = []
    for c in range(channels):
        total = 0.0
        for i in range(height):
            for j in range(width):
                total += float(feature[c, i, j]) * ((strength[i][j] / norm) ** 0.5 if norm > 0 else 0.0)
        out.append(total * float(np.log(sum(share) / share[c])))
    return out


def scda_mask(feature: Map) -> NDArray[np.bool_]:
    """Return the largest connected group above the mean, by walking from one position to the next."""
    strength = feature.astype(float).sum(axis=0)
    above = strength > strength.mean()
    largest: set[tuple[int, int]] = set()
    seen: set[tuple[int, int]] = set()
    for start in zip(*np.nonzero(above), strict=True):
        group, waiting = set(), [(int(start[0]), int(start[1]))]
        while waiting:
            i, j = waiting.pop()
            if (i, j) in seen or not (0 <= i < above.shape[0] and 0 <= j < above.shape[1]) or not above[i, j]:
                continue
            seen.add((i, j))
            group.add((i, j))
            waiting += [(i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)]
        if len(group) > len(largest):
            largest = group
    mask = np.zeros_like(above)
    for place in largest:
        mask[place] = True
    return mask if largest else np.ones_like(above)


def scda(feature: Map) -> Vector:
    mask = scda_mask(feature)
    means = [sum(float(value) for value in channel[mask]) / channel.size for channel in feature]
    return means + [max(float(value) for value in channel[mask]) for channel in feature]
