"""The feature map of a network -> one vector, as papers on image retrieval do it.

A map is an array of shape (c, h, w), c channels at h x w positions; several maps of one shape are (n, c, h, w). Both
numpy arrays and tensors of torch are taken, and the same kind comes back: (c,) or (n, c), as it leaves the pooling,
before it is brought to unit length. `unit` does that.

Example:
    >>> DESCRIPTORS["gem"](np.ones((512, 7, 7)), p=3.0).shape
    (512,)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kinrank.encoders.descriptors.maps import unit
from kinrank.encoders.descriptors.pooling import gem, mac, spoc
from kinrank.encoders.descriptors.regions import regional, rmac, rmac_regions
from kinrank.encoders.descriptors.selection import crow, scda, scda_mask

DESCRIPTORS: dict[str, Callable[..., Any]] = {
    "mac": mac,
    "spoc": spoc,
    "gem": gem,
    "rmac": rmac,
    "crow": crow,
    "scda": scda,
}

__all__ = [
    "DESCRIPTORS",
    "crow",
    "gem",
    "mac",
    "regional",
    "rmac",
    "rmac_regions",
    "scda",
    "scda_mask",
    "spoc",
    "unit",
]
