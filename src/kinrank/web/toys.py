"""Nothing -> a set to look at: toys drawn on a turntable, with names, labels and pictures."""

from __future__ import annotations

from pathlib import Path

from kinrank.datasets.turntable import NAMES, turntable
from kinrank.methods import Method
from kinrank.progress import Progress, Show
from kinrank.report.demo import embed
from kinrank.web.served import Served, built, pictured, written
from kinrank.web.settings import Files

PYTHON = """from kinrank.datasets.turntable import NAMES, turntable
from kinrank.report.demo import embed
images, labels, angles = turntable({arguments})
names = [f"{{NAMES[label]}}_{{angle:03.0f}}" for label, angle in zip(labels, angles)]
manifold = kinrank.Manifold.build(embed(images), {method}ids=names)"""


def toys(scratch: Path, method: Method | None, progress: Show, objects: int = 24, views: int = 72) -> Served:
    """The first toys, each from so many sides: items such as "house_015", labels such as "house"."""
    images, labels, angles = turntable(objects, views, progress=Progress(progress))
    kinds = [NAMES[label] for label in labels.tolist()]
    names = [f"{kind}_{angle:03.0f}" for kind, angle in zip(kinds, angles.tolist(), strict=True)]
    arguments = "" if (objects, views) == (24, 72) else f"{objects}, {views}"
    return Served(
        manifold=built(embed(images), method, names, scratch, progress),
        title=f"{objects} toys on a turntable, {views} views of each",
        python=PYTHON.format(arguments=arguments, method="" if method is None else f"kinrank.{method!r}, "),
        files=Files(
            images=pictured(scratch / "pictures.zip", names, images, ".jpg", progress),
            labels=written(scratch / "labels.json", kinds),
        ),
    )
