"""weights= of CVNet, SENet, DELG or DOLG -> an encoder: blue first, scales made of the picture, their mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kinrank.encoders.base import Options
from kinrank.encoders.published.boxes import TRUNCATE
from kinrank.encoders.published.encoder import Published, prepared

MEAN = (0.406, 0.456, 0.485)  # of blue, green and red
DEVIATION = (0.225, 0.224, 0.229)
Resize = Callable[[Any, float], Any]


class PyclsEncoder(Published):
    """The vector is the mean of the unit vectors of all scales, brought to unit length again.

    No picture is shrunk unless size= is given: this is what the published programs do.
    """

    box_rule = TRUNCATE

    def __init__(self, name: str, network: Any, options: Options, scales: tuple[float, ...], resize: Resize) -> None:
        super().__init__(name, network, options, scales, None)
        self.resize = resize
        self.facts["depth"] = network.depth

    def vector(self, image: Any) -> Any:
        pixels = self.pixels(image)[..., ::-1]
        vectors = [self.run(self.scaled(pixels, scale)) for scale in self.scales]
        return self._torch.nn.functional.normalize(self._torch.stack(vectors).mean(0), dim=0)

    def scaled(self, pixels: Any, scale: float) -> Any:
        """(3, height, width) what the network gets at that scale, of pixels with blue first."""
        return self.normalised(pixels if scale == 1 else self.resize(pixels, scale), MEAN, DEVIATION)


def opened(name: str, options: Options, scales: tuple[float, ...], resize: Resize) -> PyclsEncoder:
    """The encoder of that name.

    Args:
        name: of the encoder and of its network.
        options: weights, and maybe scales, size and device.
        scales: the published ones.
        resize: how a picture is brought to a scale other than 1.
    """
    module, file = prepared(name, options)
    return PyclsEncoder(name, module.network(file), options, scales, resize)
