"""Image descriptors: pooling of a feature map to one vector, as in papers on image retrieval.

A map is an array of shape (c, h, w): c channels at h x w positions. Several maps of one shape are (n, c, h, w). numpy
arrays and torch tensors are accepted, and the result has the same type: (c,) or (n, c), not normalised. `unit`
normalises it.

Example:
    >>> DESCRIPTORS["gem"](np.ones((512, 7, 7)), p=3.0).shape
    (512,)
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError

CHANNEL_AXIS = -3
SPATIAL_AXES = (-2, -1)  # axes of the positions
EPSILON = 1e-6
TARGET_OVERLAP = 0.4  # of neighbouring squares of the first level
Region = tuple[int, int, int, int]


def array_library(array: Any) -> ModuleType:
    """Return torch for its tensors and numpy for everything else. Callers use only functions that both have."""
    torch = sys.modules.get("torch")  # there are no tensors if it is not imported
    return torch if torch is not None and isinstance(array, torch.Tensor) else np


def check_maps(maps: Any) -> tuple[Any, ModuleType]:
    """Return validated maps of real numbers, and their library. numpy arrays become float64."""
    kind = array_library(maps)
    if kind is np:
        maps = np.asarray(maps)
        if maps.dtype.kind not in "fiub":
            raise InputError(f"must contain real numbers; got dtype {maps.dtype}", parameter="maps")
        maps = maps.astype(np.float64)
    elif not maps.is_floating_point():
        raise InputError(f"must contain real numbers; got {maps.dtype}", parameter="maps", remedy="pass maps.float()")
    if maps.ndim not in (3, 4):
        raise InputError(
            f"must have shape (channels, height, width) or (n, channels, height, width); got {tuple(maps.shape)}",
            parameter="maps",
        )
    if 0 in tuple(maps.shape[-3:]):
        raise InputError(
            f"must have at least one channel and one position; got shape {tuple(maps.shape)}", parameter="maps"
        )
    if not bool(kind.isfinite(maps).all()):
        raise InputError("must be finite; got NaN or Inf", parameter="maps", remedy="check the image and the weights")
    return maps, kind


def to_result(vectors: Any) -> Any:
    """Return numpy vectors as float32, and tensors unchanged."""
    return vectors.astype(np.float32) if isinstance(vectors, np.ndarray) else vectors


def unit(vectors: Any, tiny: float = EPSILON) -> Any:
    """Normalise each vector x of the last axis: x / (|x| + tiny). Zero stays zero.

    Example:
        >>> unit(np.array([3.0, 4.0]), tiny=0.0)
        array([0.6, 0.8])
    """
    kind = array_library(vectors)
    vectors = vectors if kind is not np else np.asarray(vectors)
    length = kind.sqrt((vectors * vectors).sum(-1))[..., None]
    return vectors / (length + tiny)


def mac(maps: Any) -> Any:
    """Return MAC: the maximum of every channel, v_c = max over positions of x_c.

    Example:
        >>> mac(np.arange(8.0).reshape(2, 2, 2))
        array([3., 7.], dtype=float32)
    """
    maps, kind = check_maps(maps)
    return to_result(kind.amax(maps, SPATIAL_AXES))


def spoc(maps: Any, centre_prior: bool = False) -> Any:
    """Return SPoC: the mean of every channel, or with the centre prior of its paper a weighted sum.

    The prior is exp(-d^2 / (2 s^2)), where d is the distance of a position from the centre and s a sixth of the shorter
    side.

    Example:
        >>> spoc(np.arange(8.0).reshape(2, 2, 2))
        array([1.5, 5.5], dtype=float32)
    """
    maps, kind = check_maps(maps)
    if not centre_prior:
        return to_result(maps.mean(SPATIAL_AXES))
    prior = center_weights(*maps.shape[-2:])
    return to_result((maps * _to_library(prior, maps, kind)).sum(SPATIAL_AXES))


def gem(maps: Any, p: Any = 3.0) -> Any:
    """Return GeM: v_c = (mean over positions of max(x_c, 1e-6)^p)^(1/p), between the mean (p = 1) and the maximum.

    Args:
        maps: (c, h, w) or (n, c, h, w).
        p: exponent > 0; one number, or one per channel.

    Example:
        >>> gem(np.arange(8.0).reshape(2, 2, 2), p=1.0)
        array([1.5000002, 5.5      ], dtype=float32)
    """
    maps, kind = check_maps(maps)
    power = broadcast_exponents(p, maps)
    values = kind.clip(maps, EPSILON, None)
    peaks = kind.amax(values, SPATIAL_AXES)[
        ..., None, None
    ]  # powers of values relative to the peak neither overflow nor vanish
    means = ((values / peaks) ** power).mean(SPATIAL_AXES)[..., None, None]
    return to_result((peaks * means ** (1.0 / power))[..., 0, 0])


def broadcast_exponents(p: Any, maps: Any) -> Any:
    """Return the exponents with shape (1, 1, 1) or (c, 1, 1), in the library of the maps."""
    kind = array_library(maps)
    power = p if kind is not np and array_library(p) is kind else np.asarray(p, np.float64)
    channels, shape = maps.shape[-3], tuple(power.shape)
    if shape not in ((), (1,), (channels,)):
        raise InputError(f"must be one number or one per channel ({channels}); got shape {shape}", parameter="p")
    wrong = [value for value in power.reshape(-1).tolist() if not 0 < value < np.inf]
    if wrong:
        raise InputError(f"must be > 0 and finite; got {wrong[0]}", parameter="p")
    return _to_library(power.reshape(-1, 1, 1), maps, kind)


def center_weights(height: int, width: int) -> Any:
    """Return (height, width) Gaussian weights around the centre of the map."""
    deviation = min(height, width) / 6
    rows = np.arange(height)[:, None] - (height - 1) / 2
    columns = np.arange(width)[None, :] - (width - 1) / 2
    return np.exp(-(rows**2 + columns**2) / (2 * deviation**2))


def _to_library(values: Any, maps: Any, kind: ModuleType) -> Any:
    """Convert numbers to the library, type and device of the maps."""
    return values if kind is np else kind.as_tensor(values, dtype=maps.dtype, device=maps.device)


def crow(maps: Any) -> Any:
    """Return CroW: a sum over positions with larger weights for strong positions and for rare channels.

    With S the sum of the channels at each position, the weight of a position is (S / |S|)^(1/2). With q_c the share of
    positions where channel c is not zero, plus 1e-6, the weight of a channel is log(sum of q / q_c).

    Example:
        >>> crow(np.ones((2, 1, 1)))
        array([0.6931472, 0.6931472], dtype=float32)
    """
    maps, kind = check_maps(maps)
    if bool((maps < 0).any()):
        raise InputError("must not be negative for crow", parameter="maps", remedy="pass the output of a ReLU")
    strength = maps.sum(CHANNEL_AXIS)
    length = kind.sqrt((strength**2).sum(SPATIAL_AXES))[..., None, None]
    places = kind.sqrt(strength / kind.where(length > 0, length, kind.ones_like(length)))
    sums = (maps * places[..., None, :, :]).sum(SPATIAL_AXES)
    share = kind.where(maps != 0, kind.ones_like(maps), kind.zeros_like(maps)).mean(SPATIAL_AXES) + EPSILON
    return to_result(sums * kind.log(share.sum(-1)[..., None] / share))


def scda(maps: Any) -> Any:
    """Return SCDA: mean and maximum of every channel over the largest object of the map, concatenated: 2 c numbers.

    As in PyRetri, the mean divides by the number of all positions, not of those in the object.

    Example:
        >>> scda(np.array([[[0.0, 6.0], [0.0, 0.0]]]))
        array([1.5, 6. ], dtype=float32)
    """
    maps, kind = check_maps(maps)
    keep = scda_mask(maps)
    kept = keep[..., None, :, :] if kind is np else kind.as_tensor(keep, device=maps.device)[..., None, :, :]
    means = kind.where(kept, maps, kind.zeros_like(maps)).mean(SPATIAL_AXES)
    peaks = kind.amax(kind.where(kept, maps, kind.full_like(maps, -np.inf)), SPATIAL_AXES)
    return to_result(kind.concatenate([means, peaks], -1))


def scda_mask(maps: Any) -> NDArray[np.bool_]:
    """Return the (h, w) or (n, h, w) mask of the largest object: connected positions with a sum of channels above its
    mean.

    Positions that share a side are connected. Among objects of equal size the first in reading order is selected. If no
    position is above the mean, because all are equal, the mask covers the whole map.
    """
    maps, kind = check_maps(maps)
    sums = maps.sum(CHANNEL_AXIS)
    strength: NDArray[np.float64] = sums if kind is np else sums.detach().cpu().numpy()
    keep = np.zeros(strength.shape, bool)
    for index in np.ndindex(strength.shape[:-2]):
        keep[index] = _largest_component(strength[index] > strength[index].mean())
    return keep


def _largest_component(above: NDArray[np.bool_]) -> NDArray[np.bool_]:
    from scipy import ndimage

    groups, count = ndimage.label(above)
    if count == 0:
        return np.ones_like(above)
    sizes = np.bincount(groups.ravel())[1:]
    found: NDArray[np.bool_] = groups == 1 + int(sizes.argmax())
    return found


def rmac_regions(height: int, width: int, levels: int = 3) -> tuple[Region, ...]:
    """Return the regions (row, column, height, width) of a map: first the whole map, then squares, level by level.

    Level l has squares of side floor(2 w / (l + 1)), where w is the shorter side: l of them along the shorter side and
    l + m along the longer one. m makes the overlap at level 1 as close to 0.4 as possible. Everything is computed in
    float32, as in the program of the published results. For some sizes exact arithmetic would give other squares.

    Example:
        >>> rmac_regions(2, 3, levels=1)
        ((0, 0, 2, 3), (0, 0, 2, 2), (0, 1, 2, 2))
    """
    if not all(isinstance(value, (int, np.integer)) and value > 0 for value in (height, width, levels)):
        raise InputError(
            f"`height`, `width` and `levels` must be integers > 0; got height={height!r}, width={width!r}, "
            f"levels={levels!r}"
        )
    height, width = int(height), int(width)
    short = min(height, width)
    more = _count_extra(max(height, width), short)
    regions = [(0, 0, height, width)]
    for level in range(1, levels + 1):
        side = 2 * short // (level + 1)
        if side == 0:  # also at all further levels
            break
        rows = _region_starts(height, side, level + (more if height > width else 0))
        columns = _region_starts(width, side, level + (more if width > height else 0))
        regions += [(row, column, side, side) for row in rows for column in columns]
    return tuple(regions)


def _count_extra(long: int, short: int) -> int:
    """Return the number of additional squares along the longer side, 1 to 6."""
    gaps = np.arange(1, 7, dtype=np.float32)
    steps = (np.float32(1) / gaps) * np.float32(long - short)  # not a division: there are near ties
    overlaps = (np.float32(short**2) - np.float32(short) * steps) / np.float32(short**2)
    return int(np.abs(overlaps - np.float32(TARGET_OVERLAP)).argmin()) + 1


def _region_starts(size: int, side: int, count: int) -> list[int]:
    """Return the start positions of the squares of one level along one side."""
    step = np.float32(size - side) / np.float32(count - 1) if count > 1 else np.float32(0)
    half = np.float32(np.floor(side / 2 - 1))  # offset of the centres, which are rounded
    starts = np.floor(half + np.arange(count, dtype=np.float32) * step) - half
    return [int(start) for start in starts]


def regional(maps: Any, pool: Callable[[Any], Any], levels: int = 3) -> Any:
    """Return (..., r, c) the normalised pooled vector of every region."""
    maps, kind = check_maps(maps)
    parts = [
        pool(maps[..., row : row + height, column : column + width])
        for row, column, height, width in rmac_regions(maps.shape[-2], maps.shape[-1], levels)
    ]
    return unit(kind.stack(parts, -2))


def rmac(maps: Any, levels: int = 3) -> Any:
    """Return R-MAC: the sum of the normalised MAC vectors of the regions in `rmac_regions`.

    Example:
        >>> rmac(np.ones((4, 2, 3)), levels=1)
        array([1.4999993, 1.4999993, 1.4999993, 1.4999993], dtype=float32)
    """
    maps, kind = check_maps(maps)
    return to_result(regional(maps, lambda part: kind.amax(part, SPATIAL_AXES), levels).sum(-2))


DESCRIPTORS: dict[str, Callable[..., Any]] = {
    "mac": mac,
    "spoc": spoc,
    "gem": gem,
    "rmac": rmac,
    "crow": crow,
    "scda": scda,
}
