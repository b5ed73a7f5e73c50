"""weights= of DOLG, global vectors with what local ones add -> an encoder of pictures."""

from __future__ import annotations

from kinrank.encoders.base import Encoder, Options
from kinrank.encoders.published import pycls
from kinrank.encoders.published.resizing import to_size

SCALES = (0.3535, 0.5, 0.7071, 1.0, 1.4142)


def opened(options: Options) -> Encoder:
    """Takes weights=, scales=, size= and device=."""
    return pycls.opened("dolg", options, SCALES, to_size)
