"""A network and how pictures are brought to it -> an encoder: what all published encoders share."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from kinrank.deferred import needed
from kinrank.encoders.base import PICTURES, Encoder, Options, checksum, rows
from kinrank.encoders.on_torch import device_of, weights_of
from kinrank.encoders.published.boxes import ROUND, crop
from kinrank.features import Vectors
from kinrank.memory import allowed_bytes, in_words

PER_PIXEL = 280  # bytes that a ResNet needs at its widest; a VGG needs 780
TAKEN = ("weights", "scales", "size", "device")


class Published(Encoder):
    """Resizes, normalises and runs one picture after the other, at several scales.

    Attributes:
        box_rule: how the box of a query becomes whole pixels; see `crop`.
        network: a module of torch with `dimensions` and `least`, the pixels that a shorter side needs.
    """

    kinds = (PICTURES,)
    box_rule = ROUND

    def __init__(self, name: str, network: Any, options: Options, scales: tuple[float, ...], size: int | None) -> None:
        user = f"the encoder {name}"
        self._torch, self._images = needed("torch", user, "torch"), needed("PIL.Image", user, "images")
        self.name, self.scales, self.size = name, options.scales or scales, options.size or size
        self.device = device_of(options.device, name)
        self.network = network.to(self.device)
        self.dimensions = network.dimensions
        self.facts = {
            "encoder": name,
            "weights": checksum(str(options.weights)),
            "scales": list(self.scales),
            "size": self.size,
            "boxes": self.box_rule,
            "torch": str(self._torch.__version__).split("+")[0],
            "pillow": needed("PIL", user, "images").__version__,
        }

    def cropped(self, image: Any, box: Sequence[float]) -> Any:
        """The part in the box, shrunk by the factor by which the whole picture would have been."""
        part = crop(image, box, self.box_rule)
        return part if self.size is None else self._shrunk(part, self.size * max(part.size) / max(image.size))

    def pictures(self, images: Sequence[Any]) -> Vectors:
        with self._torch.inference_mode():
            made = [self.vector(image).cpu().numpy() for image in images]
        return rows(np.array(made, np.float32).reshape(-1, self.dimensions), len(images), self.dimensions)

    def vector(self, image: Any) -> Any:
        """(d,) the vector of one picture, as a tensor."""
        raise NotImplementedError

    def run(self, picture: Any) -> Any:
        """(d,) what the network returns for one picture, a tensor (3, height, width)."""
        height, width = picture.shape[1:]
        if min(height, width) < self.network.least:
            raise ValueError(
                f"a picture of {width} x {height} pixels is too small for the network of {self.name}, which needs "
                f"{self.network.least} on the shorter side; give larger pictures or other scales="
            )
        needs, free = height * width * PER_PIXEL, allowed_bytes()
        if needs > free:
            raise ValueError(
                f"a picture of {width} x {height} pixels needs {in_words(needs)} in the network of {self.name}, and "
                f"{in_words(free)} are free; give size= or smaller scales="
            )
        return self.network(picture[None].to(self.device))[0]

    def normalised(self, pixels: Any, mean: Sequence[float], deviation: Sequence[float]) -> Any:
        """(3, height, width) of (height, width, 3) pixels from 0 to 255."""
        share = np.asarray(pixels, np.float32) / np.float32(255)
        values = (share - np.array(mean, np.float32)) / np.array(deviation, np.float32)
        return self._torch.from_numpy(np.ascontiguousarray(values.transpose(2, 0, 1)))

    def pixels(self, image: Any) -> Any:
        """(height, width, 3) the picture in RGB, shrunk to `size` if that is smaller."""
        small = image if self.size is None else self._shrunk(image, self.size)
        return np.asarray(small if small.mode == "RGB" else small.convert("RGB"))

    def _shrunk(self, image: Any, longest: float) -> Any:
        if max(image.size) <= math.floor(longest):
            return image
        small = image.copy()
        longest = max(1.0, longest)
        small.thumbnail((longest, longest), self._images.Resampling.LANCZOS)
        return small


def prepared(name: str, options: Options, *more: str) -> tuple[ModuleType, Any]:
    """The module of that network, and the content of the file of weights; a sentence for whatever was given wrongly."""
    options.only(name, *TAKEN, *more)
    if options.weights is None:
        raise ValueError(f"the encoder {name} needs weights=, the file that its authors published")
    device_of(options.device, name)  # said before a large file is read
    module = importlib.import_module(f"kinrank.encoders.networks.{name}")
    return module, weights_of(Path(options.weights))
