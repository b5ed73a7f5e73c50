"""Encoders over published retrieval networks: cirtorch, and CVNet, DELG, DOLG and SENet, which are based on pycls."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from kinrank.encoders.base import PICTURES, Encoder, Options, check_rows, weights_checksum
from kinrank.encoders.torch_utils import select_device
from kinrank.errors import InputError, UnreadableFileError
from kinrank.lazy_import import import_extra
from kinrank.memory_limit import default_limit_bytes, format_bytes
from kinrank.vector_input import Vectors
from kinrank_bench.encoders.opencv_resize import resize_by_factor, resize_to_size

if TYPE_CHECKING:
    from kinrank.encoders.torch_checkpoint import Checkpoint

BYTES_PER_PIXEL = 280  # of a ResNet at its widest map; a VGG needs 780
OPTION_NAMES = ("weights", "scales", "size", "device")
ROUND, TRUNCATE = "round", "truncate"
CIRTORCH_SIDE_PIXELS = 1024
ROOT = 2**0.5
TRAINED_SCALES = (1.0, ROOT, 1 / ROOT)  # of networks that end with their own whitening
OTHER_SCALES = (1.0, 1 / ROOT, 0.5)
NO_WHITENING = "none"
MEAN = (0.406, 0.456, 0.485)  # blue, green, red
DEVIATION = (0.225, 0.224, 0.229)
THREE_SCALES = (0.7071, 1.0, 1.4142)
FIVE_SCALES = (0.3535, 0.5, 0.7071, 1.0, 1.4142)
Resize = Callable[[Any, float], Any]


class RetrievalEncoder(Encoder):
    """Resizes, normalises and encodes one image after the other, at several scales.

    Attributes:
        box_rule: conversion of query boxes to whole pixels; see `crop_box`.
        network: a torch module with `dimensions` and `least`, the minimum shorter side in pixels.
    """

    kinds = (PICTURES,)
    box_rule = ROUND

    def __init__(self, name: str, network: Any, options: Options, scales: tuple[float, ...], size: int | None) -> None:
        user = f"the encoder {name}"
        self._torch, self._images = import_extra("torch", user, "torch"), import_extra("PIL.Image", user, "images")
        self.name, self.scales, self.size = name, options.scales or scales, options.size or size
        self.device = select_device(options.device, name)
        self.network = network.to(self.device)
        self.dimensions = network.dimensions
        self.facts = {
            "encoder": name,
            "weights": weights_checksum(str(options.weights)),
            "scales": list(self.scales),
            "size": self.size,
            "boxes": self.box_rule,
            "torch": str(self._torch.__version__).split("+")[0],
            "pillow": import_extra("PIL", user, "images").__version__,
        }

    def crop(self, image: Any, box: Sequence[float]) -> Any:
        """Crop an image to a box, and shrink the part by the factor of the whole image."""
        part = crop_box(image, box, self.box_rule)
        return part if self.size is None else self._shrink(part, self.size * max(part.size) / max(image.size))

    def pictures(self, images: Sequence[Any]) -> Vectors:
        with self._torch.inference_mode():
            made = [self.vector(image).cpu().numpy() for image in images]
        return check_rows(np.array(made, np.float32).reshape(-1, self.dimensions), len(images), self.dimensions)

    def vector(self, image: Any) -> Any:
        """Return the (d,) vector of one image as a tensor."""
        raise NotImplementedError

    def run(self, picture: Any) -> Any:
        """Return the (d,) output of the network for one image, a tensor (3, height, width)."""
        height, width = picture.shape[1:]
        if min(height, width) < self.network.least:
            raise InputError(
                f"an image of {width} x {height} pixels is too small for the network of {self.name}, which needs "
                f"{self.network.least} on the shorter side",
                remedy="give larger images or other `scales`",
            )
        needs, free = height * width * BYTES_PER_PIXEL, default_limit_bytes()
        if needs > free:
            raise InputError(
                f"an image of {width} x {height} pixels needs {format_bytes(needs)} in the network of {self.name}, but "
                f"{format_bytes(free)} are free",
                remedy="give `size` or smaller `scales`",
            )
        return self.network(picture[None].to(self.device))[0]

    def normalise(self, pixels: Any, mean: Sequence[float], deviation: Sequence[float]) -> Any:
        """Normalise (height, width, 3) pixels from 0 to 255 to (3, height, width)."""
        share = np.asarray(pixels, np.float32) / np.float32(255)
        values = (share - np.array(mean, np.float32)) / np.array(deviation, np.float32)
        return self._torch.from_numpy(np.ascontiguousarray(values.transpose(2, 0, 1)))

    def pixels(self, image: Any) -> Any:
        """Return the (height, width, 3) RGB pixels of an image, shrunk to `size` if it is larger."""
        small = image if self.size is None else self._shrink(image, self.size)
        return np.asarray(small if small.mode == "RGB" else small.convert("RGB"))

    def _shrink(self, image: Any, longest: float) -> Any:
        if max(image.size) <= math.floor(longest):
            return image
        small = image.copy()
        longest = max(1.0, longest)
        small.thumbnail((longest, longest), self._images.Resampling.LANCZOS)
        return small


def read_network_file(name: str, options: Options, *more: str) -> Checkpoint:
    """Check the options and read the weight file of a network."""
    options.allow_only(name, *OPTION_NAMES, *more)
    if options.weights is None:
        raise InputError(f"the encoder {name} needs `weights`, the file that its authors published")
    select_device(options.device, name)  # fail before reading a large file
    from kinrank.encoders.torch_checkpoint import read_checkpoint  # imports torch

    return read_checkpoint(options.weights)


def crop_box(image: Any, box: Sequence[float], rule: str = ROUND) -> Any:
    """Crop a Pillow image to a box (left, top, right, bottom) in pixels.

    Boxes of the revisited sets have fractional pixels. Programs that use Pillow round each side, halves to even
    ("round"); programs that use arrays truncate ("truncate"). Sides outside the image are moved to its border.

    Example:
        >>> crop(image, (4.6, 3.5, 60.2, 90.5)).size, crop(image, (4.6, 3.5, 60.2, 90.5), "truncate").size
        ((55, 86), (56, 87))
    """
    if rule not in (ROUND, TRUNCATE):
        raise InputError(parameter="rule", given=rule, allowed=f"{ROUND} or {TRUNCATE}")
    if len(box) != 4 or not all(math.isfinite(side) for side in box):
        raise InputError(
            "is not a box", parameter="box", given=tuple(box), allowed="left, top, right and bottom in pixels"
        )
    whole = [round(side) if rule == ROUND else int(side) for side in box]
    left, right = (min(max(side, 0), image.width) for side in whole[::2])
    top, bottom = (min(max(side, 0), image.height) for side in whole[1::2])
    if left >= right or top >= bottom:
        raise InputError(
            f"contains no pixel of an image of {image.width} x {image.height}",
            parameter="box",
            given=tuple(box),
            allowed="left < right and top < bottom, inside the image",
        )
    return image.crop((left, top, right, bottom))


class CirtorchEncoder(RetrievalEncoder):
    """Combines the vectors v of several scales as (mean of v^q)^(1/q), where q is the exponent of GeM or 1.

    The normalised tensor, not the image, is resized to each scale.
    """

    box_rule = ROUND

    def __init__(self, network: Any, options: Options, meta: Mapping[str, Any]) -> None:
        scales = TRAINED_SCALES if network.trained_whitening else OTHER_SCALES
        super().__init__("cirtorch", network, options, scales, CIRTORCH_SIDE_PIXELS)
        self.mean, self.deviation = meta["mean"], meta["std"]
        self.centre: Any = None
        described = [meta["architecture"], meta["pooling"]]
        described += [word for word in ("regional", "whitening") if meta.get(word)]
        self.facts |= {"network": "-".join(described), "whitening": NO_WHITENING}

    def whiten(self, name: str, centre: Any, directions: Any) -> None:
        """Whiten vectors from now on: y = P (x - m), normalised."""
        self.centre, self.directions = (self._torch.from_numpy(part).to(self.device) for part in (centre, directions))
        self.dimensions = len(directions)
        self.facts["whitening"] = name

    def vector(self, image: Any) -> Any:
        picture = self.normalise(self.pixels(image), self.mean, self.deviation)
        made = self.run(picture) if self.scales == (1.0,) else self.combine_scales(picture)
        if self.centre is None:
            return made
        white = self.directions @ (made.double() - self.centre)
        return white / (white.norm() + 1e-6)

    def combine_scales(self, picture: Any) -> Any:
        power = self.network.power
        total = sum(self.run(self.scale_input(picture, scale)) ** power for scale in self.scales)
        vector = (total / len(self.scales)) ** (1 / power)
        return vector / vector.norm()

    def scale_input(self, picture: Any, scale: float) -> Any:
        """Resize the tensor linearly. Sizes are truncated, not rounded, and at least one."""
        if scale == 1:
            return picture
        resize = self._torch.nn.functional.interpolate
        size = [int(side * scale) for side in picture.shape[1:]]
        target = {"scale_factor": scale} if min(size) > 0 else {"size": [max(1, side) for side in size]}
        return resize(picture[None], **target, mode="bilinear", align_corners=False)[0]


def open_cirtorch(options: Options) -> Encoder:
    """Open the encoder. Options: weights, scales, size, device, whitening ("none" or a name in the file)."""
    file = read_network_file("cirtorch", options, "whitening")
    from kinrank_bench.encoders.cirtorch_network import build_cirtorch  # imports torch

    network = build_cirtorch(file)
    _read_three_numbers(file, "mean")
    _read_three_numbers(file, "std")
    encoder = CirtorchEncoder(network, options, file.meta)
    if options.whitening not in (None, NO_WHITENING):
        scales = "ms" if len(encoder.scales) > 1 else "ss"
        name = str(options.whitening)
        encoder.whiten(f"{name} {scales}", *_read_whitening(file, name, scales, encoder.dimensions))
    return encoder


def _read_three_numbers(file: Any, name: str) -> None:
    given = file.meta.get(name)
    numbers = isinstance(given, (list, tuple)) and len(given) == 3 and all(isinstance(n, (int, float)) for n in given)
    if not numbers or not np.isfinite(given).all() or (name == "std" and min(given) <= 0):
        raise UnreadableFileError(
            f"{file.path} must have the {name} of three colours in its part meta; got {given!r:.60}"
        )


def _read_whitening(file: Any, name: str, scales: str, dimensions: int) -> tuple[Any, Any]:
    """Read m (d,) and P (e, d) of a whitening in the file; "ms" is for several scales and "ss" for one."""
    from kinrank.encoders.torch_checkpoint import unwrap_array

    known = file.meta.get("Lw")
    known = known if isinstance(known, Mapping) else {}
    if name not in known:
        raise InputError(
            f"is not in {file.path}",
            parameter="whitening",
            given=name,
            allowed=f"one of {', '.join(map(str, known))} or {NO_WHITENING}"
            if known
            else f"{NO_WHITENING}, because the file has none",
        )
    found = known[name].get(scales) if isinstance(known[name], Mapping) else None
    parts = [unwrap_array(found.get(part)) for part in "mP"] if isinstance(found, Mapping) else []
    if not all(isinstance(part, np.ndarray) and part.dtype.kind == "f" for part in parts) or not parts:
        raise UnreadableFileError(
            f"{file.path} has no arrays m and P for the whitening {name} {scales}", remedy="choose another one"
        )
    centre, directions = parts[0].astype(np.float64).reshape(-1), parts[1].astype(np.float64)
    if centre.shape != (dimensions,) or directions.ndim != 2 or directions.shape[1] != dimensions:
        raise UnreadableFileError(
            f"{file.path} has the whitening {name} for other vectors: m {parts[0].shape} and P {directions.shape}, but "
            f"the network returns {dimensions} numbers"
        )
    return centre, directions


class PyclsEncoder(RetrievalEncoder):
    """Encoder with BGR pixels, whose vector is the normalised mean of the unit vectors of all scales.

    The image itself is resized to each scale. As in the published programs, images are not shrunk unless `size` is set.
    """

    box_rule = TRUNCATE

    def __init__(self, name: str, network: Any, options: Options, scales: tuple[float, ...], resize: Resize) -> None:
        super().__init__(name, network, options, scales, None)
        self.resize = resize
        self.facts["depth"] = network.depth

    def vector(self, image: Any) -> Any:
        pixels = self.pixels(image)[..., ::-1]
        vectors = [self.run(self.scale_input(pixels, scale)) for scale in self.scales]
        return self._torch.nn.functional.normalize(self._torch.stack(vectors).mean(0), dim=0)

    def scale_input(self, pixels: Any, scale: float) -> Any:
        """Return the (3, height, width) input of the network at a scale, from BGR pixels."""
        return self.normalise(pixels if scale == 1 else self.resize(pixels, scale), MEAN, DEVIATION)


def open_pycls(name: str, scales: tuple[float, ...], resize: Resize, options: Options) -> PyclsEncoder:
    """Open an encoder. Options: weights, scales, size, device.

    Args:
        name: name of the encoder and of its network.
        scales: scales of the publication, used by default.
        resize: function that resizes an image to a scale other than 1.
        options: options of the user.
    """
    file = read_network_file(name, options)
    from kinrank_bench.encoders.pycls_networks import BUILDERS  # imports torch

    return PyclsEncoder(name, BUILDERS[name](file), options, scales, resize)


open_cvnet = partial(open_pycls, "cvnet", THREE_SCALES, resize_by_factor)
open_delg = partial(open_pycls, "delg", THREE_SCALES, resize_to_size)
open_dolg = partial(open_pycls, "dolg", FIVE_SCALES, resize_to_size)
open_senet = partial(open_pycls, "senet", THREE_SCALES, resize_by_factor)
