"""A picture -> the numbers that a network reads: resized, cropped, scaled, and in the order it expects."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

INTERPOLATIONS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3}  # the numbers by which Pillow knows them
RESIZES = ("shorter", "exact", "longest-pad")
LONGEST = 4  # times the shorter side; what a picture has beyond that is cut off, so that memory suffices
LARGEST = 8192  # pixels of a side
Pixels = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Preprocessing:
    """What is done to a picture before a network sees it; the defaults are those of ImageNet.

    Attributes:
        size: pixels that come out, as one number or as (height, width).
        resize: "shorter" makes the shorter side fit and crops the middle of the longer one; "exact" squeezes the whole
            picture into the size; "longest-pad" makes the longer side fit and fills up with the mean.
        crop: for "shorter": true, or the share of the shorter side that stays, such as 0.875; false keeps the whole
            picture, which is for networks that read any size.
        interpolation: how Pillow resizes.
        channels: "RGB" or "BGR"; mean and std are given in this order.
        scale, mean, std: a pixel of 0 to 255 becomes (pixel / scale - mean) / std.
        layout: "NCHW" has the channels first, "NHWC" last.
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
        _choice("resize", self.resize, RESIZES)
        _choice("interpolation", self.interpolation, tuple(INTERPOLATIONS))
        _choice("channels", self.channels, ("RGB", "BGR"))
        _choice("layout", self.layout, ("NCHW", "NHWC"))
        sides = self.size if isinstance(self.size, (list, tuple)) else (self.size, self.size)
        if len(sides) != 2 or not all(type(side) is int and 1 <= side <= LARGEST for side in sides):
            raise ValueError(f"size={self.size!r} is not allowed; give pixels, 1 to {LARGEST}, or [height, width]")
        if type(self.crop) is not bool and not (_is_number(self.crop) and 0 < self.crop <= 1):
            raise ValueError(f"crop={self.crop!r} is not allowed; give true, false or a share above 0 and up to 1")
        for name in ("scale", "mean", "std"):
            value = getattr(self, name)
            numbers = value if isinstance(value, (list, tuple)) and name != "scale" else (value,)
            if len(numbers) not in (1, 3) or not all(_is_number(number) for number in numbers):
                several = "" if name == "scale" else ", or one for each of three channels"
                raise ValueError(f"{name}={value!r} is not allowed; give a finite number{several}")
            if name != "mean" and 0 in numbers:
                raise ValueError(f"{name}={value!r} is not allowed; pixels are divided by it, so give another than 0")

    def facts(self) -> dict[str, Any]:
        """Everything that decides the numbers, as plain values."""
        values = {name: getattr(self, name) for name in KEYS}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width."""
        return (self.size, self.size) if isinstance(self.size, int) else (self.size[0], self.size[1])

    @property
    def reads(self) -> int:
        """Pixels of a picture's shorter side that count."""
        return round(max(self.shape) / self._share)

    @property
    def _share(self) -> float:
        return 1.0 if self.resize != "shorter" or isinstance(self.crop, bool) else self.crop

    def array(self, image: Any) -> Pixels:
        """(1, 3, height, width) the numbers of an RGB picture of Pillow, or (1, height, width, 3)."""
        pixels = np.asarray(self._resized(image), np.float32)
        if self.channels == "BGR":
            pixels = pixels[..., ::-1]
        mean, std = np.asarray(self.mean, np.float32), np.asarray(self.std, np.float32)
        made = (pixels / np.float32(self.scale) - mean) / std
        if self.resize == "longest-pad":
            made = _padded(made, *self.shape)
        return np.ascontiguousarray(made[None] if self.layout == "NHWC" else made.transpose(2, 0, 1)[None])

    def _resized(self, image: Any) -> Any:
        (height, width), how = self.shape, INTERPOLATIONS[self.interpolation]
        if self.resize == "exact":
            return image.resize((width, height), how)
        across, down = width / image.width, height / image.height
        if self.resize == "longest-pad":
            factor = min(across, down)
            inner = (max(1, round(image.width * factor)), max(1, round(image.height * factor)))
            return image.resize(inner, how)
        factor = max(across, down) / self._share
        if self.crop is False:
            width = min(max(width, round(image.width * factor)), LONGEST * width)
            height = min(max(height, round(image.height * factor)), LONGEST * height)
        # the middle is resized alone: the same pixels as when all is resized first, however long the picture is
        seen = (min(width / factor, image.width), min(height / factor, image.height))
        left, top = (image.width - seen[0]) / 2, (image.height - seen[1]) / 2
        return image.resize((width, height), how, box=(left, top, left + seen[0], top + seen[1]))


KEYS = tuple(field.name for field in fields(Preprocessing))


def _padded(pixels: Pixels, height: int, width: int) -> Pixels:
    """The pixels in the middle of zeros: the mean, once it was subtracted."""
    made = np.zeros((height, width, 3), np.float32)
    top, left = (height - pixels.shape[0]) // 2, (width - pixels.shape[1]) // 2
    made[top : top + pixels.shape[0], left : left + pixels.shape[1]] = pixels
    return made


def _choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name}={value!r} is not allowed; give {' or '.join(allowed)}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and bool(np.isfinite(value))
