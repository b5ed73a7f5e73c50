"""Demo: the report on rendered toys, in under a minute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kinrank.datasets.turntable import TOY_NAMES, turntable
from kinrank.display import Display
from kinrank.evaluation import Truth
from kinrank.progress import Progress, ProgressOption
from kinrank.report.evidence import Evidence, ReportInput, report_page
from kinrank.report.html import encode_png, read_asset, reduce_shades


def run_demo(
    output: str | Path,
    progress: ProgressOption = None,
    *,
    objects: int = 24,
    views: int = 72,
    seed: int = 0,
) -> Evidence:
    """Render the turntable, rank it without and with LPMT, and write the report.

    Args:
        output: HTML file to write; a folder gets index.html.
        progress: True for a bar, or a callable `f(label, done, total)`.
        objects, views, seed: of the set, see `kinrank.datasets.turntable`.

    Returns:
        The contents of the page; `evidence.trials` has the numbers.

    Example:
        >>> run_demo("demo.html").trials
    """
    images, labels, angles = turntable(objects, views, seed=seed, progress=Progress(progress))
    vectors = embed_pixels(images)
    pictures = reduce_shades(images)
    display = Display.of(
        names=[f"{TOY_NAMES[label]} at {angle:g}°" for label, angle in zip(labels, angles, strict=True)],
        labels=[TOY_NAMES[label] for label in labels],
        draw=lambda item: (encode_png(pictures[item]), "image/png"),
    )
    introduction = (
        f"<p>{objects} toys, {views} views each: {len(images):,} pictures. Every picture is a query; the other "
        f"{views - 1} views of the same toy are right answers. Plain search compares raw pixels, so it finds the "
        "neighbouring angles and then loses the toy. LPMT follows the chain of views around it.</p>"
    )
    material = ReportInput(
        queries=None,
        gallery=vectors,
        truth=Truth.from_labels(labels),
        measures=("mAP", "R@1"),
        items=display,
        title=f"Walking around {objects} toys",
        introduction=introduction,
        closing=read_asset("demo_closing.html"),
    )
    return report_page(output, material, ["lpmt"], progress=progress)


def embed_pixels(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Turn (n, size, size, 3) images into (n, 3 * (size // 2)^2) raw pixels, averaged two by two, minus their mean.

    Nothing is learned: vectors are near if pixels are.
    """
    count, size = images.shape[:2]
    half = size // 2
    even = images[:, : 2 * half, : 2 * half].reshape(count, half, 2, half, 2, 3)
    pixels = even.mean(axis=(2, 4), dtype=np.float32).reshape(count, -1)
    return np.asarray(pixels - pixels.mean(axis=1, keepdims=True), np.float32)
