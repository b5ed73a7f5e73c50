"""A picture and a box of it -> the part inside, by the rule that a family of programs follows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

ROUND, TRUNCATE = "round", "truncate"


def crop(image: Any, box: Sequence[float], rule: str = ROUND) -> Any:
    """The part of a picture of Pillow in a box (left, top, right, bottom) of pixels.

    Boxes of the revisited sets are fractions of pixels. Programs over Pillow round each side, halves to the even number
    ("round"); those over arrays cut the fraction off ("truncate"). Sides beyond the picture are moved to its border.

    Example:
        >>> crop(image, (4.6, 3.5, 60.2, 90.5)).size, crop(image, (4.6, 3.5, 60.2, 90.5), "truncate").size
        ((55, 86), (56, 87))
    """
    if rule not in (ROUND, TRUNCATE):
        raise ValueError(f"rule={rule!r} is not known; give {ROUND} or {TRUNCATE}")
    if len(box) != 4 or not all(math.isfinite(side) for side in box):
        raise ValueError(f"box={tuple(box)} is no box; give left, top, right and bottom in pixels")
    whole = [round(side) if rule == ROUND else int(side) for side in box]
    left, right = (min(max(side, 0), image.width) for side in whole[::2])
    top, bottom = (min(max(side, 0), image.height) for side in whole[1::2])
    if left >= right or top >= bottom:
        raise ValueError(
            f"box={tuple(box)} holds no pixel of a picture of {image.width} x {image.height}; give left < right and "
            "top < bottom, inside of the picture"
        )
    return image.crop((left, top, right, bottom))
