"""Ray caster for solids, one ray per pixel, in numpy only.

The camera looks along parallel rays, slightly from above, at convex solids: a ray enters each solid at most once, at a
depth with a closed form.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
ELEVATION = np.radians(24.0)  # of the camera above the table
HALF_FRAME = 1.45  # half the width of the picture in units of the toys, which are within [-1, 1]
FAR = np.float32(1e6)


class Solid(NamedTuple):
    """A solid in a box: `at` its centre, `half` its half sides, `planes` or a round `kind`, and its paint.

    kind: "planes" (n . q <= b for every row of planes, q = coordinates of the box in [-1, 1]), "ball", or "tube" (round
    around `axis`, radius from `bottom` to `top`). `turn` is the rotation about the vertical, in degrees.
    """

    kind: str
    at: tuple[float, float, float]
    half: tuple[float, float, float]
    colors: tuple[tuple[float, float, float], tuple[float, float, float]]
    texture: str = "plain"
    frequency: float = 10.0
    turn: float = 0.0
    axis: int = 1
    bottom: float = 1.0
    top: float = 1.0
    planes: tuple[tuple[float, float, float, float], ...] = ()


@dataclass(frozen=True, eq=False)
class View:
    """Camera and light of the pictures, (count,) each; angles in radians, lengths in units of the toys.

    `away`: distance of the toy from the centre of the turntable; `right`, `up`: offset of the camera.
    """

    angle: Floats
    away: Floats
    right: Floats
    up: Floats
    scale: Floats
    light_side: Floats
    light_height: Floats
    gain: Floats

    def select(self, which: slice) -> View:
        return View(**{field.name: getattr(self, field.name)[which] for field in fields(self)})


def draw_solids(parts: tuple[Solid, ...], view: View, canvas: Floats) -> None:
    """Draw the solids over the canvas (count, fine, fine, 3), in place."""
    count, fine = canvas.shape[:2]
    step = ((np.arange(fine, dtype=np.float32) + 0.5) / fine * 2 - 1) * np.float32(HALF_FRAME)
    right = step[None, None, :] / view.scale[:, None, None] - view.right[:, None, None]
    up = -step[None, :, None] / view.scale[:, None, None] - view.up[:, None, None]
    depth = np.full((count, fine, fine), FAR)
    for part in parts:
        columns, rows = _window(part, view, right, up)
        within = np.index_exp[:, rows, columns]
        _draw_part(part, view, right[:, :, columns], up[:, rows], depth[within], canvas[within])


def shadow_factors(view: View, size: int) -> Floats:
    """Return (count, size, size, 1) factors that darken the table under a toy."""
    step = ((np.arange(size, dtype=np.float32) + 0.5) / size * 2 - 1) * np.float32(HALF_FRAME)
    sine, cosine = np.float32(np.sin(ELEVATION)), np.float32(np.cos(ELEVATION))
    aside, near = _rotate(-view.angle, view.away, np.float32(0.0))
    right = step[None, :] - view.right[:, None] - aside[:, None]
    up = (-step[None, :] - view.up[:, None] + cosine) / sine + near[:, None]
    across, down = np.exp(np.float32(-1.6) * right**2), np.exp(np.float32(-1.6) * up**2)
    factors: Floats = 1 - np.float32(0.45) * (down[:, :, None] * across[:, None, :])[..., None]
    return factors


def _window(part: Solid, view: View, right: Floats, up: Floats) -> tuple[slice, slice]:
    """Return columns and rows outside of which no ray of these views can hit the solid."""
    sine, cosine = np.sin(ELEVATION), np.cos(ELEVATION)
    aside, near = _rotate(-view.angle, part.at[0] + view.away, part.at[2])
    around = float(np.hypot(part.half[0], part.half[2]))
    height = cosine * part.at[1] - sine * near
    reach = cosine * part.half[1] + sine * around
    columns = np.flatnonzero((np.abs(right[:, 0] - aside[:, None]) <= around).any(axis=0))
    rows = np.flatnonzero((np.abs(up[:, :, 0] - height[:, None]) <= reach).any(axis=0))
    return _span(columns), _span(rows)


def _span(numbers: NDArray[np.int64]) -> slice:
    return slice(int(numbers[0]), int(numbers[-1]) + 1) if numbers.size else slice(0, 0)


def _light_direction(view: View, angle: Floats) -> Floats:
    """Return (count, 3) directions towards the light, which is fixed next to the camera, in the frame of a solid."""
    flat = np.cos(view.light_height)
    x, z = _rotate(angle, np.sin(view.light_side) * flat, np.cos(view.light_side) * flat)
    return np.stack([x, np.sin(view.light_height), z], axis=1)


def _rotate(angle: Any, x: Any, z: Any) -> tuple[Any, Any]:
    """Return coordinates on the table in a frame rotated by `angle`; broadcasts over rays."""
    cosine, sine = np.cos(angle), np.sin(angle)
    return cosine * x - sine * z, sine * x + cosine * z


def _draw_part(part: Solid, view: View, right: Floats, up: Floats, depth: Floats, canvas: Floats) -> None:
    """Draw one solid where its rays hit it in front of everything drawn before."""
    turn, spot = np.float32(np.radians(part.turn)), np.asarray(part.at, np.float32)
    angle = (view.angle + turn)[:, None, None]
    sine, cosine = np.float32(np.sin(ELEVATION)), np.float32(np.cos(ELEVATION))
    # right * (1, 0, 0) + up * (0, cosine, -sine) + depth * (0, -sine, -cosine), turned into the part's frame
    x, z = _rotate(angle, right, -sine * up)
    dx, dz = _rotate(angle, np.float32(0.0), -cosine)
    half = np.asarray(part.half, np.float32)
    middle_x, middle_z = _rotate(turn, spot[0] + view.away[:, None, None], spot[2])
    start = [(x - middle_x) / half[0], (cosine * up - spot[1]) / half[1], (z - middle_z) / half[2]]
    along = [dx / half[0], np.full_like(dx, -sine / half[1]), dz / half[2]]
    reach = {"planes": _meet_planes, "ball": _meet_ball, "tube": _meet_tube}[part.kind](part, start, along)
    seen = reach < depth
    depth[seen] = near = reach[seen]
    picture = np.nonzero(seen)[0]
    point = [np.broadcast_to(s, seen.shape)[seen] + near * a[picture, 0, 0] for s, a in zip(start, along, strict=True)]
    normal = np.stack(_normal(part, point), axis=1) / half
    normal /= np.sqrt(np.einsum("ij,ij->i", normal, normal))[:, None]
    lit = np.einsum("ij,ij->i", normal, _light_direction(view, angle[:, 0, 0])[picture])
    bright = np.float32(0.42) + np.float32(0.68) * np.maximum(lit, 0)
    first, second = np.asarray(part.colors, np.float32)
    mix = _texture_mix(part, [p * h for p, h in zip(point, half, strict=True)])[:, None]
    canvas[seen] = (first + (second - first) * mix) * bright[:, None]


def _meet_planes(part: Solid, start: list[Floats], along: list[Floats]) -> Floats:
    """Return the depth at which each ray enters the last half space; FAR if it has left another one before."""
    shape = np.broadcast_shapes(start[0].shape, start[1].shape)
    enter, leave = np.full(shape, -FAR), np.full(shape, FAR)
    for a, b, c, bound in part.planes:
        towards = a * along[0] + b * along[1] + c * along[2]
        towards = np.where(np.abs(towards) < 1e-5, np.float32(1e-5), towards)
        used = [np.float32(factor) * row for factor, row in zip((a, b, c), start, strict=True) if factor]
        gap = (np.float32(bound) - sum(used)) / towards
        facing = towards < 0  # per view: a ray enters where it runs against the normal
        np.maximum(enter, np.where(facing, gap, -FAR), out=enter)
        np.minimum(leave, np.where(facing, FAR, gap), out=leave)
    return np.where(enter < leave, enter, FAR)


def _meet_ball(part: Solid, start: list[Floats], along: list[Floats]) -> Floats:
    """Return the nearer root of |start + depth * along|^2 = 1."""
    square = along[0] ** 2 + along[1] ** 2 + along[2] ** 2
    middle = start[0] * along[0] + start[1] * along[1] + start[2] * along[2]
    rest = start[0] ** 2 + start[1] ** 2 + start[2] ** 2 - 1
    inside = middle**2 - square * rest
    reach: Floats = np.where(inside > 0, (-middle - np.sqrt(np.maximum(inside, 0))) / square, FAR)
    return reach


def _meet_tube(part: Solid, start: list[Floats], along: list[Floats]) -> Floats:
    """Return the nearest of the roots of x^2 + z^2 = (m + k s)^2, |s| <= 1, and of the end that faces the ray."""
    first, second = [axis for axis in range(3) if axis != part.axis]
    x, s, z = start[first], start[part.axis], start[second]
    dx, ds, dz = along[first], along[part.axis], along[second]
    m, k = np.float32((part.top + part.bottom) / 2), np.float32((part.top - part.bottom) / 2)
    square = dx**2 + dz**2 - (k * ds) ** 2
    square = np.where(np.abs(square) < 1e-4, np.float32(1e-4), square)
    radius = m + k * s
    middle = x * dx + z * dz - k * ds * radius
    inside = middle**2 - square * (x**2 + z**2 - radius**2)
    root = np.sqrt(np.maximum(inside, 0))
    reach = np.full(inside.shape, FAR)
    for sign in (-1.0, 1.0) if k else (-1.0,):
        depth = (-middle + np.float32(sign) * root) / square
        height = s + depth * ds
        valid = (inside > 0) & (np.abs(height) <= 1) & (depth < reach)
        reach = np.where(valid, depth, reach)
    end = np.where(ds > 0, np.float32(-1), np.float32(1))
    safe = np.where(np.abs(ds) < 1e-5, np.float32(1e-5), ds)
    depth = (end - s) / safe
    valid = ((x + depth * dx) ** 2 + (z + depth * dz) ** 2 <= (m + k * end) ** 2) & (depth < reach)
    return np.where(valid, depth, reach)


def _normal(part: Solid, point: list[Floats]) -> list[Floats]:
    """Return the outward normal, in the coordinates of the box, of points on the surface of the solid."""
    if part.kind == "ball":
        return point
    if part.kind == "planes":
        planes = np.asarray(part.planes, np.float32)
        beyond = np.stack(point, axis=1) @ planes[:, :3].T - planes[:, 3]
        return list(planes[np.argmax(beyond, axis=1), :3].T)
    m, k = (part.top + part.bottom) / 2, (part.top - part.bottom) / 2
    height = point[part.axis]
    on_end = np.abs(height) > 0.9999
    normal = [np.where(on_end, np.float32(0), coordinate) for coordinate in point]
    normal[part.axis] = np.where(on_end, np.sign(height), (-k * (m + k * height)).astype(np.float32))
    return normal


def _texture_mix(part: Solid, point: list[Floats]) -> Floats:
    """Return the share of the second colour at each point, 0 to 1; points in units of the toys."""
    x, y, z = point
    rate = np.float32(part.frequency)
    if part.texture == "plain":
        return np.zeros_like(x)
    if part.texture == "rings":
        wave = np.sin(rate * y)
    elif part.texture == "stripes":
        wave = np.sin(rate * (x + z))
    elif part.texture == "checks":
        wave = np.sin(rate * x + 0.8) * np.sin(rate * y + 0.8) * np.sin(rate * z + 0.8) * 3
    elif part.texture == "dots":
        wave = np.sin(rate * x) + np.sin(rate * y) + np.sin(rate * z) - np.float32(0.9)
    elif part.texture == "sectors":
        wave = np.sin(rate * np.arctan2(x, z))
    elif part.texture == "halves":
        wave = rate * (x + np.float32(0.35) * z)
    elif part.texture == "marble":
        wave = np.sin(rate * x + 2 * np.sin(rate * np.float32(0.7) * y + 2 * np.sin(rate * np.float32(0.6) * z)))
    else:
        raise RuntimeError(f"texture {part.texture!r} is not defined")
    mix: Floats = np.clip(np.float32(0.5) + np.float32(2.0) * wave, 0.0, 1.0)
    return mix
