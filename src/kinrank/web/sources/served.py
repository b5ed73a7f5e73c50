"""What is served: vectors, names and pictures made on the spot -> plain files in a scratch folder."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.deferred import needed
from kinrank.files.atomic import replacing
from kinrank.manifold import Manifold
from kinrank.methods import Method
from kinrank.progress import Progress, Show
from kinrank.web.settings import Files

NAME = "gallery.manifold"
SIDE = 96  # pixels that a drawn picture gets at least, so that a page need not blur it
WHEN = (1980, 1, 1, 0, 0, 0)  # the same pictures make the same zip, whose thumbnails are found again
WRITTEN: dict[str, dict[str, Any]] = {
    ".jpg": {"format": "JPEG", "quality": 90},
    ".png": {"format": "PNG", "compress_level": 1},
}


class Served(NamedTuple):
    """What a source turned out to be.

    Attributes:
        manifold: the folder of the prepared gallery.
        title: what the page is headed with.
        files: what it brings along.
        writable: whether its items can be changed.
        store: the vector database that it is searched in.
        follows: whether a ledger keeps account of what it was made of.
        encoder: what makes a vector of a picture or a text, see `encoders.Recipe`.
    """

    manifold: Path
    title: str
    files: Files = Files()
    writable: bool = False
    store: str | None = None
    encoder: dict[str, Any] | None = None
    follows: bool = False


def built(rows: ArrayLike, method: Method | None, ids: Any, scratch: Path, progress: Show) -> Path:
    """The folder of a gallery prepared for this run; it cannot be changed later, which makes it smaller."""
    folder = scratch / NAME
    Manifold.build(rows, method, ids, progress=progress, changes=False).save(folder)
    return folder


def written(path: Path, entries: Any) -> str:
    """A list, or whatever JSON can hold, as a .json; its path."""
    with replacing(path) as file:
        file.write(json.dumps(entries).encode())
    return str(path)


def saved(path: Path, rows: NDArray[Any]) -> str:
    """Rows as a .npy; its path."""
    np.save(path, np.ascontiguousarray(rows))
    return str(path)


def pictured(
    path: Path, names: Sequence[str], pictures: Iterable[NDArray[np.uint8]], ending: str, progress: Show
) -> str:
    """Pictures, grey (height, width) or coloured (height, width, 3), as a zip of .png or .jpg; its path.

    Small ones are drawn larger, by a whole factor.
    """
    images = needed("PIL.Image", "showing pictures", "web")
    with zipfile.ZipFile(path, "w") as archive:
        for name, pixels in Progress(progress).each("pictures", zip(names, pictures, strict=True), len(names)):
            image, file = images.fromarray(pixels), io.BytesIO()
            factor = -(-SIDE // max(image.size))
            if factor > 1:
                image = image.resize((image.width * factor, image.height * factor), images.Resampling.BICUBIC)
            image.save(file, **WRITTEN[ending])
            archive.writestr(zipfile.ZipInfo(f"{name}{ending}", WHEN), file.getvalue())
    return str(path)
