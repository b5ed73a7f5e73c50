"""ServedGallery, and plain files of a scratch folder: galleries, rows, names and pictures made for this run."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.files.atomic import atomic_write
from kinrank.lazy_import import import_extra
from kinrank.manifold import Manifold
from kinrank.methods import Method
from kinrank.progress import Progress, ProgressOption
from kinrank.web.settings import Files

GALLERY_NAME = "gallery.manifold"
MIN_PICTURE_PIXELS = 96  # on the longest side of a drawn picture, so that the page does not blur it
ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # fixed, so that equal pictures make equal zips, whose thumbnails are reused
SAVE_OPTIONS: dict[str, dict[str, Any]] = {
    ".jpg": {"format": "JPEG", "quality": 90},
    ".png": {"format": "PNG", "compress_level": 1},
}


class ServedGallery(NamedTuple):
    """Gallery to serve.

    Attributes:
        manifold: folder of the prepared gallery.
        title: heading of the page.
        files: files to show with it.
        writable: True if its items can be changed.
        store: URL of the vector database to search.
        encoder: encoder of pictures or texts, see `encoders.Recipe`.
        follows: True if a ledger records the files of which it was made.
    """

    manifold: Path
    title: str
    files: Files = Files()
    writable: bool = False
    store: str | None = None
    encoder: dict[str, Any] | None = None
    follows: bool = False


def build_gallery(rows: ArrayLike, method: Method | None, ids: Any, scratch: Path, progress: ProgressOption) -> Path:
    """Prepare a gallery for this run and return its folder; it cannot be changed later, which makes it smaller."""
    folder = scratch / GALLERY_NAME
    Manifold.build(rows, method, ids=ids, progress=progress, changes=False).save(folder)
    return folder


def write_json(path: Path, content: Any) -> str:
    """Write a list or another JSON value, and return the path."""
    with atomic_write(path) as file:
        file.write(json.dumps(content).encode())
    return str(path)


def write_pictures(
    path: Path, names: Sequence[str], pictures: Iterable[NDArray[np.uint8]], ending: str, progress: ProgressOption
) -> str:
    """Write pictures, grey (height, width) or coloured (height, width, 3), as a zip of .png or .jpg; return the path.

    Small ones are enlarged by a whole factor.
    """
    images = import_extra("PIL.Image", "showing pictures", "web")
    with zipfile.ZipFile(path, "w") as archive:
        for name, pixels in Progress(progress).each("pictures", zip(names, pictures, strict=True), len(names)):
            image, file = images.fromarray(pixels), io.BytesIO()
            factor = -(-MIN_PICTURE_PIXELS // max(image.size))
            if factor > 1:
                image = image.resize((image.width * factor, image.height * factor), images.Resampling.BICUBIC)
            image.save(file, **SAVE_OPTIONS[ending])
            archive.writestr(zipfile.ZipInfo(f"{name}{ending}", ZIP_DATE), file.getvalue())
    return str(path)
