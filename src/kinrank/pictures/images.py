"""Decoding of untrusted pictures to pixels, or to small JPEG or PNG files. Broken ones raise an InputError."""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from kinrank.errors import InputError
from kinrank.lazy_import import import_extra

PILLOW_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
PICTURE_ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
JPEG, PNG = "image/jpeg", "image/png"
MAX_PIXELS = 80_000_000  # below the limit at which Pillow warns
LARGE_PIXELS = 8_000_000  # pictures of this size are decoded one at a time to limit memory
MAX_UNCHANGED_BYTES = 512 * 2**10  # a longer JPEG with few pixels contains something else
MAX_LOSSLESS_PIXELS = 128 * 128  # up to this size a lossless picture stays lossless

_large_picture_lock = threading.Lock()


def check_pillow() -> None:
    """Raise an error that says how to install Pillow if it is missing."""
    import_extra("PIL.Image", "showing pictures", "web")


def make_thumbnail(content: bytes, size: int) -> tuple[bytes, str]:
    """Shrink a picture to at most `size` pixels on its longest side. Return its bytes and media type.

    Applies the EXIF orientation, takes the first frame of an animation, and makes transparent parts white. A JPEG that
    is small enough is returned unchanged after decoding it once.
    """
    with _open_picture(content) as image:
        return _encode_thumbnail(import_extra("PIL.Image", "showing pictures", "web"), image, content, size)


def decode_picture(content: bytes, least: int | None = None) -> Any:
    """Decode a picture to a Pillow image in RGB: EXIF orientation applied, first frame, on white.

    Args:
        content: the bytes of its file.
        least: number of pixels on the shorter side that are used. A JPEG with more than four times as many is decoded
            at a half, a quarter or an eighth of its size, which is much faster. None decodes all of it.
    """
    with _open_picture(content) as image:
        if least is not None and image.format in ("JPEG", "MPO"):
            shorter = min(image.size)
            wanted = 2 * least / shorter  # twice the needed size, so that shrinking the rest still averages
            if wanted < 1:
                image.draft("RGB", (int(image.size[0] * wanted), int(image.size[1] * wanted)))
        images = import_extra("PIL.Image", "reading pictures", "images")
        image.load()
        return _flatten_on_white(images, _apply_orientation(_convert_colours(images, image)))


@contextlib.contextmanager
def _open_picture(content: bytes) -> Iterator[Any]:
    """Open a picture for a block that decodes it; convert all errors in the block to an InputError."""
    images = import_extra("PIL.Image", "reading pictures", "images")
    if not content:
        raise InputError("it is empty")
    try:
        with images.open(io.BytesIO(content), formats=PILLOW_FORMATS) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise PictureTooLargeError(f"it has {width} x {height} pixels, but at most {MAX_PIXELS} are decoded")
            with _large_picture_lock if width * height > LARGE_PIXELS else contextlib.nullcontext():
                yield image
    except PictureTooLargeError:
        raise
    except MemoryError:
        raise InputError("it cannot be read (there is not enough memory at the moment)") from None
    except (images.DecompressionBombError, images.DecompressionBombWarning):
        raise PictureTooLargeError(f"it has more than {MAX_PIXELS} pixels, which is too many to decode") from None
    except images.UnidentifiedImageError:
        raise InputError(f"it is not one of {', '.join(PILLOW_FORMATS)}") from None
    except Exception as error:  # Pillow raises errors of any type for a damaged picture
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"it is damaged ({type(error).__name__}: {reason})") from error


class PictureTooLargeError(InputError):
    """A picture that is not decoded because of the size in its header."""


def _encode_thumbnail(images: Any, image: Any, content: bytes, size: int) -> tuple[bytes, str]:
    """Return the shrunk picture encoded again, or its own bytes."""
    fits = max(image.size) <= size
    lossy = image.format in ("JPEG", "MPO")
    if (
        fits
        and image.format == "JPEG"
        and image.mode in ("L", "RGB")
        and len(content) <= MAX_UNCHANGED_BYTES
        and _is_upright(image)
    ):
        image.load()
        return content, JPEG
    small = image if lossy else _convert_colours(images, image)
    small.thumbnail((size, size), images.Resampling.BICUBIC, reducing_gap=2.0)  # decodes only the needed part of a JPEG
    small = _flatten_on_white(images, _apply_orientation(small))
    file = io.BytesIO()
    if fits and not lossy and small.size[0] * small.size[1] <= MAX_LOSSLESS_PIXELS:
        small.save(file, "PNG")
        return file.getvalue(), PNG
    small.save(file, "JPEG", quality=85)
    return file.getvalue(), JPEG


def _is_upright(image: Any) -> bool:
    """True if the picture need not be turned; False if unknown."""
    try:
        return int(image.getexif().get(0x0112, 1)) == 1
    except Exception:
        return False


def _apply_orientation(image: Any) -> Any:
    """Turn the picture according to its EXIF data; leave it if the EXIF data are damaged."""
    try:
        return import_extra("PIL.ImageOps", "showing pictures", "web").exif_transpose(image)
    except Exception:
        return image


def _convert_colours(images: Any, image: Any) -> Any:
    """Convert a picture of any mode to RGB, or to RGBA if it has transparent parts."""
    if image.mode in ("I", "F") or image.mode.startswith(
        "I;16"
    ):  # more than 256 greys: scale from darkest to brightest
        values = np.nan_to_num(np.asarray(image, np.float32), posinf=0.0, neginf=0.0)
        low, high = float(values.min()), float(values.max())
        grey = (values - low) * (255.0 / max(high - low, 1e-30))
        return images.fromarray(np.clip(grey, 0, 255).astype(np.uint8)).convert("RGB")
    clear = "A" in image.getbands() or "a" in image.getbands() or "transparency" in image.info
    wanted = "RGBA" if clear else "RGB"
    return image if image.mode == wanted else image.convert(wanted)


def _flatten_on_white(images: Any, image: Any) -> Any:
    """Return the picture in RGB on a white background."""
    if image.mode != "RGBA":
        return image.convert("RGB")
    white = images.new("RGBA", image.size, (255, 255, 255, 255))
    return images.alpha_composite(white, image).convert("RGB")
