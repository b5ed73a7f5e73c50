"""Pictures of toys on a turntable, rendered from a seed: a set whose relevant items lie along closed curves.

Every toy is seen from all around, so its pictures form a loop: neighbouring angles look alike, the far side does not. A
plain search finds only the neighbours; a method that follows the manifold gets around the toy.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.datasets._raycast import Solid, View, draw_solids, shadow_factors
from kinrank.errors import InputError
from kinrank.progress import SILENT, Progress

PLANES = {  # of the solids with plane faces
    "box": ((1, 0, 0, 1), (-1, 0, 0, 1), (0, 0, 1, 1), (0, 0, -1, 1), (0, 1, 0, 1), (0, -1, 0, 1)),
    "pyramid": ((2, 1, 0, 1), (-2, 1, 0, 1), (0, 1, 2, 1), (0, 1, -2, 1), (0, -1, 0, 1)),
    "gable": ((2, 1, 0, 1), (-2, 1, 0, 1), (0, 0, 1, 1), (0, 0, -1, 1), (0, -1, 0, 1)),
}
SUPERSAMPLE = 2  # rays per pixel and side, averaged, so that edges move smoothly from view to view
OFF_CENTER = 0.28  # toys are off the centre of the turntable, so that the far side also appears in another place
VIEWS_PER_BLOCK = 8  # rendered together, so that their arrays stay in the processor's cache


def _read_toys() -> dict[str, tuple[Solid, ...]]:
    """Read the toys, each made of a few solids in one or two named colours, which are mixed by the texture."""
    content = json.loads(Path(__file__).with_name("toys.json").read_text("utf-8"))

    def paint(shape: str, at: list[float], half: list[float], colors: str, **more: Any) -> Solid:
        first, _, second = colors.partition(" ")
        pair = tuple(content["colors"][first]), tuple(content["colors"][second or first])
        kind = "planes" if shape in PLANES else shape
        return Solid(
            kind, (at[0], at[1], at[2]), (half[0], half[1], half[2]), pair, planes=PLANES.get(shape, ()), **more
        )

    return {name: tuple(paint(**part) for part in parts) for name, parts in content["toys"].items()}


TOYS = _read_toys()
TOY_NAMES = tuple(TOYS)


class Turntable(NamedTuple):
    """images (n, size, size, 3) uint8, labels (n,) int64 (the toy, see TOY_NAMES), angles (n,) in degrees."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    angles: NDArray[np.float32]


def turntable(
    objects: int = 24, views: int = 72, size: int = 64, seed: int = 0, progress: Progress = SILENT
) -> Turntable:
    """Render the first `objects` toys from `views` equally spaced angles, item number = toy * views + view.

    Position, scale and light vary a little from picture to picture; every picture has a different cluttered background,
    so that only the toy itself distinguishes two pictures. Equal arguments give identical bits.

    Example:
        >>> images, labels, angles = turntable(objects=2, views=4, size=16)
        >>> images.shape
        (8, 16, 16, 3)
    """
    if not 1 <= objects <= len(TOYS):
        raise InputError(parameter="objects", given=objects, allowed=f"a whole number from 1 to {len(TOYS)}")
    if views < 1:
        raise InputError(parameter="views", given=views, allowed="a whole number >= 1")
    if not 8 <= size <= 512:
        raise InputError(parameter="size", given=size, allowed="a whole number of pixels from 8 to 512")
    angles = np.arange(views, dtype=np.float32) * np.float32(360.0 / views)
    images = np.empty((objects, views, size, size, 3), np.uint8)
    for toy in progress.each("draw", range(objects), objects):
        random = np.random.default_rng([seed, toy])
        jitter = _jitter_views(random, angles)
        for start in range(0, views, VIEWS_PER_BLOCK):
            block = slice(start, min(start + VIEWS_PER_BLOCK, views))
            images[toy, block] = _draw_pictures(TOY_NAMES[toy], jitter.select(block), size, random)
    labels = np.repeat(np.arange(objects, dtype=np.int64), views)
    return Turntable(images.reshape(-1, size, size, 3), labels, np.tile(angles, objects))


def _jitter_views(random: np.random.Generator, angles: NDArray[np.float32]) -> View:
    """Return the views: exact angles, with position, scale and light slightly varied."""
    count = len(angles)

    def around(middle: float, spread: float) -> NDArray[np.float32]:
        return random.uniform(middle - spread, middle + spread, count).astype(np.float32)

    return View(
        angle=np.radians(angles),
        away=np.full(count, OFF_CENTER, np.float32),
        right=around(0.0, 0.03),
        up=around(0.0, 0.03),
        scale=around(1.0, 0.03),
        light_side=np.radians(around(-40.0, 10.0)),
        light_height=np.radians(around(45.0, 6.0)),
        gain=around(1.0, 0.10),
    )


def _draw_pictures(name: str, view: View, size: int, random: np.random.Generator) -> NDArray[np.uint8]:
    """Return (views, size, size, 3): the toy rendered finely over clutter, averaged to pixels, with noise."""
    count = len(view.angle)
    table = _draw_clutter(random, count, size) * shadow_factors(view, size)
    canvas = np.repeat(np.repeat(table, SUPERSAMPLE, axis=1), SUPERSAMPLE, axis=2)
    draw_solids(TOYS[name], view, canvas)
    blocks = canvas.reshape(count, size, SUPERSAMPLE, size, SUPERSAMPLE, 3)
    picture = blocks[:, :, 0] + blocks[:, :, 1]
    picture = (picture[:, :, :, 0] + picture[:, :, :, 1]) * np.float32(1 / SUPERSAMPLE**2)
    picture *= view.gain[:, None, None, None]
    picture += np.float32(0.03) * random.standard_normal(picture.shape, dtype=np.float32)
    pixels: NDArray[np.uint8] = (np.clip(picture, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
    return pixels


def _draw_clutter(random: np.random.Generator, count: int, size: int) -> NDArray[np.float32]:
    """Return (count, size, size, 3): a tinted wall with random discs, boxes and stripes, new in every picture."""
    step = ((np.arange(size, dtype=np.float32) + 0.5) / size * 2 - 1)[None, :]
    across, down = step[:, None, :], step[:, :, None]
    canvas = np.empty((count, size, size, 3), np.float32)
    canvas[:] = random.uniform(0.44, 0.58, (count, 1, 1, 3))
    canvas += (0.08 * random.uniform(-1, 1, count))[:, None, None, None] * down[..., None]

    def pick(low: float, high: float) -> NDArray[np.float32]:
        return random.uniform(low, high, (count, 1, 1)).astype(np.float32)

    for shape in range(6):
        x, y, reach = across - pick(-1, 1), down - pick(-1, 1), pick(0.1, 0.4)
        if shape % 3 == 0:
            inside = np.hypot(x, y) - reach
        elif shape % 3 == 1:
            inside = np.maximum(np.abs(x) - reach, np.abs(y) - pick(0.1, 0.5))
        else:
            turn = pick(0, np.pi)
            inside = np.abs(np.cos(turn) * x + np.sin(turn) * y) - reach * np.float32(0.3)
        cover = np.clip(0.5 - inside * 12, 0.0, 1.0)[..., None]
        canvas += cover * random.uniform(-0.13, 0.13, (count, 1, 1, 3)).astype(np.float32)
    return canvas
