"""A feature map -> the maximum, the mean or a power mean of every channel."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from kinrank.encoders.descriptors.maps import PLACES, TINY, checked, finished, library


def mac(maps: Any) -> Any:
    """MAC: the largest value of every channel, v_c = max over positions of x_c.

    Example:
        >>> mac(np.arange(8.0).reshape(2, 2, 2))
        array([3., 7.], dtype=float32)
    """
    maps, kind = checked(maps)
    return finished(kind.amax(maps, PLACES))


def spoc(maps: Any, centre_prior: bool = False) -> Any:
    """SPoC: the mean of every channel; or, with the prior of its paper, a sum in which the middle counts most.

    The prior is exp(-d^2 / (2 s^2)) with d the distance of a position from the centre and s a sixth of the short side.

    Example:
        >>> spoc(np.arange(8.0).reshape(2, 2, 2))
        array([1.5, 5.5], dtype=float32)
    """
    maps, kind = checked(maps)
    if not centre_prior:
        return finished(maps.mean(PLACES))
    prior = centred(*maps.shape[-2:])
    return finished((maps * _like(prior, maps, kind)).sum(PLACES))


def gem(maps: Any, p: Any = 3.0) -> Any:
    """GeM: v_c = (mean over positions of max(x_c, 1e-6)^p)^(1/p); between the mean (p = 1) and the maximum.

    Args:
        maps: (c, h, w) or (n, c, h, w).
        p: above 0; one number, or one for every channel.

    Example:
        >>> gem(np.arange(8.0).reshape(2, 2, 2), p=1.0)
        array([1.5000002, 5.5      ], dtype=float32)
    """
    maps, kind = checked(maps)
    power = exponents(p, maps)
    values = kind.clip(maps, TINY, None)
    peaks = kind.amax(values, PLACES)[..., None, None]  # powers of shares of it neither overflow nor vanish
    means = ((values / peaks) ** power).mean(PLACES)[..., None, None]
    return finished((peaks * means ** (1.0 / power))[..., 0, 0])


def exponents(p: Any, maps: Any) -> Any:
    """The exponent as a number or as (c, 1, 1), of the library of the maps."""
    kind = library(maps)
    power = p if kind is not np and library(p) is kind else np.asarray(p, np.float64)
    channels, shape = maps.shape[-3], tuple(power.shape)
    if shape not in ((), (1,), (channels,)):
        raise ValueError(f"p must be one number or one for each of the {channels} channels; got shape {shape}")
    wrong = [value for value in power.reshape(-1).tolist() if not 0 < value < np.inf]
    if wrong:
        raise ValueError(f"p must be above 0 and finite; got {wrong[0]}")
    return _like(power.reshape(-1, 1, 1), maps, kind)


def centred(height: int, width: int) -> Any:
    """(height, width) weights that fall from the centre of the map as a bell does."""
    deviation = min(height, width) / 6
    rows = np.arange(height)[:, None] - (height - 1) / 2
    columns = np.arange(width)[None, :] - (width - 1) / 2
    return np.exp(-(rows**2 + columns**2) / (2 * deviation**2))


def _like(values: Any, maps: Any, kind: ModuleType) -> Any:
    """Numbers as an array of the library, the type and the device of the maps."""
    return values if kind is np else kind.as_tensor(values, dtype=maps.dtype, device=maps.device)
