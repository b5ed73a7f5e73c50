"""The bytes of a picture, which may be anything -> its pixels, or a small JPEG or PNG; a ValueError if it is broken."""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from kinrank.deferred import needed

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
JPEG, PNG = "image/jpeg", "image/png"
MOST_PIXELS = 80_000_000  # below where Pillow itself begins to warn
LARGE = 8_000_000  # pixels; of such pictures one at a time is decoded, so that memory suffices
AS_IT_IS = 512 * 2**10  # bytes; a longer JPEG of few pixels carries something else
DRAWN = 128 * 128  # pixels up to which a picture without JPEG's losses stays without

_one_large = threading.Lock()


def check_installed() -> None:
    """An ImportError that says what to install, where Pillow is missing."""
    needed("PIL.Image", "showing pictures", "web")


def shrunk(content: bytes, size: int) -> tuple[bytes, str]:
    """The picture with `size` pixels on its longest side, or as many as it has if these are fewer; its media type.

    Turned as its EXIF says, the first frame of an animation, transparent parts white. A JPEG that is small enough is
    given back as it is, once it was decoded.
    """
    with _opened(content) as image:
        return _encoded(needed("PIL.Image", "showing pictures", "web"), image, content, size)


def decoded(content: bytes, least: int | None = None) -> Any:
    """The picture as Pillow's, in RGB: turned as its EXIF says, the first frame of an animation, on white.

    Args:
        content: the bytes of its file.
        least: pixels of the shorter side that are made use of; a JPEG with more than four times as many is decoded at a
            half, a quarter or an eighth of its size, which is much faster. None decodes all of it.
    """
    with _opened(content) as image:
        if least is not None and image.format in ("JPEG", "MPO"):
            shorter = min(image.size)
            wanted = 2 * least / shorter  # twice of what is needed, so that shrinking the rest still averages
            if wanted < 1:
                image.draft("RGB", (int(image.size[0] * wanted), int(image.size[1] * wanted)))
        images = needed("PIL.Image", "reading pictures", "images")
        image.load()
        return _on_white(images, _turned(_with_plain_colours(images, image)))


@contextlib.contextmanager
def _opened(content: bytes) -> Iterator[Any]:
    """The picture for a block that decodes it; whatever goes wrong there becomes a ValueError that says what."""
    images = needed("PIL.Image", "reading pictures", "images")
    if not content:
        raise ValueError("it is empty")
    try:
        with images.open(io.BytesIO(content), formats=FORMATS) as image:
            width, height = image.size
            if width * height > MOST_PIXELS:
                raise TooLarge(f"it has {width} x {height} pixels, more than the {MOST_PIXELS} that are decoded")
            with _one_large if width * height > LARGE else contextlib.nullcontext():
                yield image
    except TooLarge:
        raise
    except MemoryError:
        raise ValueError("it cannot be read (there is not enough memory at the moment)") from None
    except (images.DecompressionBombError, images.DecompressionBombWarning):
        raise TooLarge(f"it has more than the {MOST_PIXELS} pixels that are decoded") from None
    except images.UnidentifiedImageError:
        raise ValueError(f"it is none of {', '.join(FORMATS)}") from None
    except Exception as error:  # Pillow has errors of every kind for a damaged picture
        said = " ".join(str(error).split())[:120]
        raise ValueError(f"it is damaged ({type(error).__name__}: {said})") from error


class TooLarge(ValueError):
    """A picture that is not decoded, because of what its head says."""


def _encoded(images: Any, image: Any, content: bytes, size: int) -> tuple[bytes, str]:
    """The picture made small and written again, or its own bytes."""
    fits = max(image.size) <= size
    lossy = image.format in ("JPEG", "MPO")
    if fits and image.format == "JPEG" and image.mode in ("L", "RGB") and len(content) <= AS_IT_IS and _upright(image):
        image.load()
        return content, JPEG
    small = image if lossy else _with_plain_colours(images, image)
    small.thumbnail((size, size), images.Resampling.BICUBIC, reducing_gap=2.0)  # of a JPEG, decodes only what it needs
    small = _on_white(images, _turned(small))
    file = io.BytesIO()
    if fits and not lossy and small.size[0] * small.size[1] <= DRAWN:
        small.save(file, "PNG")
        return file.getvalue(), PNG
    small.save(file, "JPEG", quality=85)
    return file.getvalue(), JPEG


def _upright(image: Any) -> bool:
    """Whether it need not be turned; False where nobody can say."""
    try:
        return int(image.getexif().get(0x0112, 1)) == 1
    except Exception:
        return False


def _turned(image: Any) -> Any:
    """As its EXIF says; a picture whose EXIF is damaged stays as it is."""
    try:
        return needed("PIL.ImageOps", "showing pictures", "web").exif_transpose(image)
    except Exception:
        return image


def _with_plain_colours(images: Any, image: Any) -> Any:
    """A picture of any mode as RGB, or as RGBA where parts of it are transparent."""
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):  # more than 256 greys: between darkest and brightest
        values = np.nan_to_num(np.asarray(image, np.float32), posinf=0.0, neginf=0.0)
        low, high = float(values.min()), float(values.max())
        grey = (values - low) * (255.0 / max(high - low, 1e-30))
        return images.fromarray(np.clip(grey, 0, 255).astype(np.uint8)).convert("RGB")
    clear = "A" in image.getbands() or "a" in image.getbands() or "transparency" in image.info
    wanted = "RGBA" if clear else "RGB"
    return image if image.mode == wanted else image.convert(wanted)


def _on_white(images: Any, image: Any) -> Any:
    if image.mode != "RGBA":
        return image.convert("RGB")
    white = images.new("RGBA", image.size, (255, 255, 255, 255))
    return images.alpha_composite(white, image).convert("RGB")
