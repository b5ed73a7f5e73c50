"""weights= of SENet, a ResNet that looks at its own similarities -> an encoder of pictures."""

from __future__ import annotations

from kinrank.encoders.base import Encoder, Options
from kinrank.encoders.published import pycls
from kinrank.encoders.published.resizing import by_factor

SCALES = (0.7071, 1.0, 1.4142)


def opened(options: Options) -> Encoder:
    """Takes weights=, scales=, size= and device=."""
    return pycls.opened("senet", options, SCALES, by_factor)
