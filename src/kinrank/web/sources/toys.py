"""Nothing -> a set to look at: toys drawn on a turntable, with names, labels and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.datasets.turntable import NAMES, turntable
from kinrank.encoders import Recipe
from kinrank.methods import Method
from kinrank.progress import Progress, Show
from kinrank.report.demo import embed
from kinrank.web.settings import Files
from kinrank.web.sources.served import Served, built, pictured, written

PIXELS = 64  # on a side of the pictures that are drawn


def toys(scratch: Path, method: Method | None, progress: Show, objects: int = 24, views: int = 72) -> Served:
    """The first toys, each from so many sides: items such as "house_015", labels such as "house"."""
    images, labels, angles = turntable(objects, views, PIXELS, progress=Progress(progress))
    kinds = [NAMES[label] for label in labels.tolist()]
    names = [f"{kind}_{angle:03.0f}" for kind, angle in zip(kinds, angles.tolist(), strict=True)]
    return Served(
        manifold=built(embed(images), method, names, scratch, progress),
        title=f"{objects} toys on a turntable, {views} views of each",
        encoder=Recipe("kinrank.web.sources.toys:embedded").to_dict(),
        files=Files(
            images=pictured(scratch / "pictures.zip", names, images, ".jpg", progress),
            labels=written(scratch / "labels.json", kinds),
        ),
    )


def embedded(image: Any) -> NDArray[np.float32]:
    """The vector of any picture, as toys have it: so that one of them can be dropped on the page."""
    vector: NDArray[np.float32] = embed(np.asarray(image.resize((PIXELS, PIXELS)), np.uint8)[None])[0]
    return vector
