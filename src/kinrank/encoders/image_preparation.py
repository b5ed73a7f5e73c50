"""Image preprocessing: resizing, cropping, scaling and layout of the input of a network."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InputError

INTERPOLATIONS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3}  # constants of Pillow
RESIZE_MODES = ("shorter", "exact", "longest", "longest-pad")
MAX_ASPECT_RATIO = 4  # longer images are cropped to limit memory
MAX_SIDE_PIXELS = 8192
Pixels = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Preprocessing:
    """Preprocessing of an image for a network. The defaults are those of ImageNet.

    If the network reads any size ("longest", or "shorter" without a crop), a part of an image, cropped to a box, gets
    the scale of the whole image. Otherwise it fills the input like an image, which retrieves more; see decision 14.

    Attributes:
        size: output size in pixels, one number or (height, width).
        resize: "shorter" fits the shorter side and crops the middle of the longer one; "exact" squeezes the whole image
            into the size; "longest" fits the longer side and keeps the shape, for networks that read any size;
            "longest-pad" fits the longer side and pads with the mean.
        crop: for "shorter": true, or the share of the shorter side to keep, such as 0.875; false keeps the whole image,
            for networks that read any size.
        interpolation: interpolation of Pillow.
        channels: "RGB" or "BGR"; `mean` and `std` have this order.
        scale, mean, std: a pixel of 0 to 255 becomes (pixel / scale - mean) / std.
        layout: "NCHW" (channels first) or "NHWC" (channels last).
    """

    size: int | tuple[int, int] = 224
    resize: str = "shorter"
    crop: bool | float = True
    interpolation: str = "bilinear"
    channels: str = "RGB"
    scale: float = 255
    mean: float | tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: float | tuple[float, float, float] = (0.229, 0.224, 0.225)
    layout: str = "NCHW"

    def __post_init__(self) -> None:
        _check_choice("resize", self.resize, RESIZE_MODES)
        _check_choice("interpolation", self.interpolation, tuple(INTERPOLATIONS))
        _check_choice("channels", self.channels, ("RGB", "BGR"))
        _check_choice("layout", self.layout, ("NCHW", "NHWC"))
        sides = self.size if isinstance(self.size, (list, tuple)) else (self.size, self.size)
        if len(sides) != 2 or not all(type(side) is int and 1 <= side <= MAX_SIDE_PIXELS for side in sides):
            raise InputError(
                parameter="size", given=self.size, allowed=f"pixels from 1 to {MAX_SIDE_PIXELS}, or [height, width]"
            )
        if self.resize == "longest" and sides[0] != sides[1]:
            raise InputError(parameter="size", given=self.size, allowed="one number, the pixels on the longest side")
        if type(self.crop) is not bool and not (_is_number(self.crop) and 0 < self.crop <= 1):
            raise InputError(parameter="crop", given=self.crop, allowed="true, false or a share > 0 and <= 1")
        for name in ("scale", "mean", "std"):
            value = getattr(self, name)
            numbers = value if isinstance(value, (list, tuple)) and name != "scale" else (value,)
            if len(numbers) not in (1, 3) or not all(_is_number(number) for number in numbers):
                several = "" if name == "scale" else ", or one for each of three channels"
                raise InputError(parameter=name, given=value, allowed=f"a finite number{several}")
            if name != "mean" and 0 in numbers:
                raise InputError(
                    parameter=name, given=value, allowed="numbers other than 0, because pixels are divided by it"
                )

    def facts(self) -> dict[str, Any]:
        """Return all settings as plain values."""
        values = {name: getattr(self, name) for name in KEYS}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width."""
        return (self.size, self.size) if isinstance(self.size, int) else (self.size[0], self.size[1])

    @property
    def reads(self) -> int:
        """Number of pixels on the shorter side of an image that are used."""
        return round(max(self.shape) / self._share)

    @property
    def _share(self) -> float:
        return 1.0 if self.resize != "shorter" or isinstance(self.crop, bool) else self.crop

    def array(self, image: Any) -> Pixels:
        """Convert an RGB image of Pillow to (1, 3, height, width), or to (1, height, width, 3) for "NHWC"."""
        pixels = np.asarray(self._resize(image), np.float32)
        if self.channels == "BGR":
            pixels = pixels[..., ::-1]
        mean, std = np.asarray(self.mean, np.float32), np.asarray(self.std, np.float32)
        made = (pixels / np.float32(self.scale) - mean) / std
        if self.resize == "longest-pad":
            made = _pad_to_size(made, *self.shape)
        return np.ascontiguousarray(made[None] if self.layout == "NHWC" else made.transpose(2, 0, 1)[None])

    def _resize(self, image: Any) -> Any:
        (height, width), how = self.shape, INTERPOLATIONS[self.interpolation]
        if self.resize == "exact":
            return image.resize((width, height), how)
        any_size = self.resize == "longest" or (self.resize == "shorter" and self.crop is False)
        whole = getattr(image, "whole_size", image.size) if any_size else image.size
        across, down = width / whole[0], height / whole[1]
        if self.resize in ("longest", "longest-pad"):
            factor = min(across, down)
            inner = (max(1, round(image.width * factor)), max(1, round(image.height * factor)))
            return image.resize(inner, how)
        factor = max(across, down) / self._share
        if self.crop is False:
            width = max(1, min(round(image.width * factor), MAX_ASPECT_RATIO * width))
            height = max(1, min(round(image.height * factor), MAX_ASPECT_RATIO * height))
        # resize the middle only: this gives the same pixels as resizing the whole image, also for long images
        seen = (min(width / factor, image.width), min(height / factor, image.height))
        left, top = (image.width - seen[0]) / 2, (image.height - seen[1]) / 2
        return image.resize((width, height), how, box=(left, top, left + seen[0], top + seen[1]))


KEYS = tuple(field.name for field in fields(Preprocessing))


def _pad_to_size(pixels: Pixels, height: int, width: int) -> Pixels:
    """Pad with zeros on all sides. Zero is the mean, which has been subtracted."""
    made = np.zeros((height, width, 3), np.float32)
    top, left = (height - pixels.shape[0]) // 2, (width - pixels.shape[1]) // 2
    made[top : top + pixels.shape[0], left : left + pixels.shape[1]] = pixels
    return made


def _check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(parameter=name, given=value, allowed=" or ".join(allowed))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and bool(np.isfinite(value))
