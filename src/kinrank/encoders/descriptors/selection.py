"""A feature map -> a vector in which some positions and some channels count more than others: CroW and SCDA."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.encoders.descriptors.maps import PLACES, TINY, checked, finished

CHANNELS = -3


def crow(maps: Any) -> Any:
    """CroW: a sum over positions in which strong positions count more, and then rare channels.

    With S the sum of the channels at every position, positions weigh (S / |S|)^(1/2). With q_c the share of positions
    where channel c is not zero, plus 1e-6, channels weigh log(sum of q / q_c).

    Example:
        >>> crow(np.ones((2, 1, 1)))
        array([0.6931472, 0.6931472], dtype=float32)
    """
    maps, kind = checked(maps)
    if bool((maps < 0).any()):
        raise ValueError("maps must not be negative for crow; pass what comes out of a ReLU")
    strength = maps.sum(CHANNELS)
    length = kind.sqrt((strength**2).sum(PLACES))[..., None, None]
    places = kind.sqrt(strength / kind.where(length > 0, length, kind.ones_like(length)))
    sums = (maps * places[..., None, :, :]).sum(PLACES)
    share = kind.where(maps != 0, kind.ones_like(maps), kind.zeros_like(maps)).mean(PLACES) + TINY
    return finished(sums * kind.log(share.sum(-1)[..., None] / share))


def scda(maps: Any) -> Any:
    """SCDA: mean and maximum of every channel over the largest object of the map, one after the other: 2 c numbers.

    The mean divides by all positions, not by those of the object, as PyRetri does.

    Example:
        >>> scda(np.array([[[0.0, 6.0], [0.0, 0.0]]]))
        array([1.5, 6. ], dtype=float32)
    """
    maps, kind = checked(maps)
    keep = scda_mask(maps)
    kept = keep[..., None, :, :] if kind is np else kind.as_tensor(keep, device=maps.device)[..., None, :, :]
    means = kind.where(kept, maps, kind.zeros_like(maps)).mean(PLACES)
    peaks = kind.amax(kind.where(kept, maps, kind.full_like(maps, -np.inf)), PLACES)
    return finished(kind.concatenate([means, peaks], -1))


def scda_mask(maps: Any) -> NDArray[np.bool_]:
    """The largest object: (h, w) or (n, h, w), True where the sum of the channels is above its mean.

    Positions that touch by a side belong together; of the largest groups the first in reading order wins. Where no
    position is above the mean, because all are alike, the object is the whole map.
    """
    maps, kind = checked(maps)
    sums = maps.sum(CHANNELS)
    strength: NDArray[np.float64] = sums if kind is np else sums.detach().cpu().numpy()
    keep = np.zeros(strength.shape, bool)
    for index in np.ndindex(strength.shape[:-2]):
        keep[index] = _largest(strength[index] > strength[index].mean())
    return keep


def _largest(above: NDArray[np.bool_]) -> NDArray[np.bool_]:
    from scipy import ndimage

    groups, count = ndimage.label(above)
    if count == 0:
        return np.ones_like(above)
    sizes = np.bincount(groups.ravel())[1:]
    found: NDArray[np.bool_] = groups == 1 + int(sizes.argmax())
    return found
