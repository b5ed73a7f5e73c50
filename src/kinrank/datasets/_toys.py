"""Two dozen toys, each a handful of painted solids: what stands on the turntable."""

from __future__ import annotations

from typing import Any

from kinrank.datasets._raycast import Part

Triple = tuple[float, float, float]
SQUARE = ((1, 0, 0, 1), (-1, 0, 0, 1), (0, 0, 1, 1), (0, 0, -1, 1), (0, 1, 0, 1), (0, -1, 0, 1))
PYRAMID = ((2, 1, 0, 1), (-2, 1, 0, 1), (0, 1, 2, 1), (0, 1, -2, 1), (0, -1, 0, 1))
GABLE = ((2, 1, 0, 1), (-2, 1, 0, 1), (0, 0, 1, 1), (0, 0, -1, 1), (0, -1, 0, 1))
COLORS: dict[str, Triple] = {
    "red": (0.82, 0.20, 0.18), "brick": (0.66, 0.32, 0.24), "orange": (0.93, 0.55, 0.18),
    "yellow": (0.95, 0.82, 0.30), "cream": (0.93, 0.88, 0.74), "white": (0.95, 0.95, 0.93),
    "green": (0.30, 0.62, 0.30), "forest": (0.13, 0.38, 0.22), "lime": (0.65, 0.80, 0.30),
    "blue": (0.20, 0.42, 0.78), "navy": (0.12, 0.18, 0.38), "sky": (0.55, 0.78, 0.92),
    "purple": (0.50, 0.28, 0.62), "pink": (0.93, 0.58, 0.66), "brown": (0.45, 0.29, 0.17),
    "wood": (0.72, 0.52, 0.32), "grey": (0.55, 0.56, 0.58), "dark": (0.13, 0.13, 0.15),
    "teal": (0.16, 0.56, 0.56),
}  # fmt: skip


def _part(
    kind: str,
    at: Triple,
    half: Triple,
    colors: str,
    texture: str = "plain",
    frequency: float = 10.0,
    **more: Any,
) -> Part:
    """A solid painted in one or two named colours ("red", "cream brick"), mixed by the texture."""
    first, _, second = colors.partition(" ")
    pair = (COLORS[first], COLORS[second or first])
    return Part(kind, at, half, pair, texture, frequency, **more)


def box(at: Triple, half: Triple, colors: str, *paint: Any, **more: Any) -> Part:
    return _part("planes", at, half, colors, *paint, planes=SQUARE, **more)


def pyramid(at: Triple, half: Triple, colors: str, *paint: Any, **more: Any) -> Part:
    return _part("planes", at, half, colors, *paint, planes=PYRAMID, **more)


def gable(at: Triple, half: Triple, colors: str, *paint: Any, **more: Any) -> Part:
    return _part("planes", at, half, colors, *paint, planes=GABLE, **more)


def ball(at: Triple, half: Triple, colors: str, *paint: Any, **more: Any) -> Part:
    return _part("ball", at, half, colors, *paint, **more)


def tube(at: Triple, half: Triple, colors: str, *paint: Any, **more: Any) -> Part:
    return _part("tube", at, half, colors, *paint, **more)


def _wheels(x: float, z: float, radius: float, colors: str = "dark grey") -> tuple[Part, ...]:
    """Four wheels with their axles along z."""
    spots = [(sx * x, -1 + radius, sz * z) for sx in (-1, 1) for sz in (-1, 1)]
    return tuple(tube(spot, (radius, radius, 0.09), colors, "rings", 9.0, axis=2) for spot in spots)


TOYS: dict[str, tuple[Part, ...]] = {
    "house": (
        box((0, -0.45, 0), (0.62, 0.55, 0.78), "cream brick", "rings", 24.0),
        gable((0, 0.38, 0), (0.8, 0.32, 0.9), "red brown", "rings", 22.0),
        box((0, -0.65, 0.78), (0.16, 0.34, 0.05), "brown"),
        box((0.64, -0.35, 0.1), (0.04, 0.2, 0.3), "sky"),
        box((-0.35, 0.5, -0.4), (0.12, 0.35, 0.12), "grey"),
    ),
    "mug": (
        tube((0, -0.3, 0), (0.62, 0.7, 0.62), "white blue", "dots", 9.0),
        tube((0, 0.395, 0), (0.53, 0.02, 0.53), "brown"),
        tube((0.72, -0.3, 0), (0.32, 0.42, 0.1), "blue", axis=2),
    ),
    "rocket": (
        tube((0, -0.1, 0), (0.36, 0.65, 0.36), "white red", "halves", 8.0),
        tube((0, 0.8, 0), (0.36, 0.28, 0.36), "red", top=0.05),
        box((0.45, -0.68, 0), (0.28, 0.3, 0.05), "red"),
        box((-0.22, -0.68, 0.4), (0.28, 0.3, 0.05), "blue", turn=-60.0),
        box((-0.22, -0.68, -0.4), (0.28, 0.3, 0.05), "navy", turn=60.0),
        ball((0, 0.2, 0.32), (0.16, 0.16, 0.1), "sky"),
    ),
    "car": (
        box((0, -0.55, 0), (0.98, 0.24, 0.46), "red orange", "halves", 6.0),
        box((-0.1, -0.12, 0), (0.5, 0.22, 0.4), "sky dark", "stripes", 5.0),
        box((-0.1, 0.12, 0), (0.54, 0.04, 0.44), "red"),
        ball((0.96, -0.5, 0.28), (0.08, 0.1, 0.1), "yellow"),
        ball((0.96, -0.5, -0.28), (0.08, 0.1, 0.1), "yellow"),
        *_wheels(0.58, 0.44, 0.25),
    ),
    "snowman": (
        ball((0, -0.55, 0), (0.5, 0.46, 0.5), "white sky", "marble", 3.0),
        ball((0, 0.12, 0), (0.36, 0.34, 0.36), "white"),
        ball((0, 0.6, 0), (0.26, 0.25, 0.26), "white"),
        tube((0, 0.88, 0), (0.24, 0.14, 0.24), "dark"),
        tube((0, 0.58, 0.42), (0.08, 0.08, 0.22), "orange", axis=2, top=0.1),
        tube((0, 0.38, 0), (0.29, 0.07, 0.29), "red green", "sectors", 6.0),
        box((0.55, 0.2, 0), (0.3, 0.04, 0.04), "brown"),
    ),
    "tree": (
        tube((0, -0.75, 0), (0.16, 0.25, 0.16), "brown"),
        tube((0, -0.25, 0), (0.72, 0.32, 0.72), "forest lime", "dots", 11.0, top=0.3),
        tube((0, 0.22, 0), (0.55, 0.3, 0.55), "green red", "dots", 12.0, top=0.25),
        tube((0, 0.66, 0), (0.38, 0.3, 0.38), "forest yellow", "dots", 13.0, top=0.0),
    ),
    "lighthouse": (
        tube((0, -0.2, 0), (0.42, 0.8, 0.42), "white red", "rings", 9.0, top=0.6),
        tube((0, 0.62, 0), (0.34, 0.05, 0.34), "dark"),
        tube((0, 0.76, 0), (0.2, 0.14, 0.2), "yellow"),
        tube((0, 0.98, 0), (0.26, 0.12, 0.26), "red", top=0.0),
        box((0.2, -0.78, 0.45), (0.36, 0.22, 0.28), "wood brown", "rings", 20.0),
    ),
    "chair": (
        box((0, -0.3, 0), (0.5, 0.07, 0.5), "teal"),
        box((-0.45, 0.3, 0), (0.06, 0.6, 0.5), "teal wood", "rings", 14.0),
        *(box((sx * 0.42, -0.68, sz * 0.42), (0.06, 0.32, 0.06), "brown")
          for sx in (-1, 1) for sz in (-1, 1)),
    ),
    "robot": (
        box((0, -0.2, 0), (0.42, 0.4, 0.28), "grey blue", "halves", 5.0),
        box((0, 0.48, 0), (0.28, 0.22, 0.26), "grey"),
        ball((-0.12, 0.52, 0.26), (0.08, 0.08, 0.05), "yellow"),
        ball((0.12, 0.52, 0.26), (0.08, 0.08, 0.05), "yellow"),
        tube((0, 0.83, 0), (0.04, 0.15, 0.04), "red"),
        box((0.54, -0.15, 0), (0.1, 0.36, 0.12), "orange"),
        box((-0.54, -0.15, 0), (0.1, 0.36, 0.12), "orange"),
        box((0.2, -0.8, 0), (0.13, 0.2, 0.18), "dark"),
        box((-0.2, -0.8, 0), (0.13, 0.2, 0.18), "dark"),
    ),
    "mushroom": (
        tube((0, -0.5, 0), (0.26, 0.5, 0.26), "cream", top=0.75),
        ball((0, 0.15, 0), (0.8, 0.45, 0.8), "red white", "dots", 6.5),
        ball((0.45, -0.8, 0.35), (0.24, 0.18, 0.24), "orange white", "dots", 14.0),
    ),
    "castle": (
        box((0, -0.45, 0), (0.6, 0.5, 0.6), "brick cream", "rings", 16.0),
        tube((0.6, -0.2, 0.6), (0.24, 0.8, 0.24), "cream brick", "rings", 16.0),
        tube((-0.6, -0.2, -0.6), (0.24, 0.8, 0.24), "cream brick", "rings", 16.0),
        tube((0.6, 0.8, 0.6), (0.3, 0.26, 0.3), "blue", top=0.0),
        tube((-0.6, 0.8, -0.6), (0.3, 0.26, 0.3), "purple", top=0.0),
        box((0, -0.7, 0.62), (0.18, 0.3, 0.03), "brown"),
    ),
    "duck": (
        ball((-0.1, -0.55, 0), (0.75, 0.42, 0.5), "yellow orange", "halves", 2.0),
        ball((0.42, 0.12, 0), (0.34, 0.34, 0.32), "yellow"),
        ball((0.78, 0.08, 0), (0.22, 0.07, 0.16), "orange"),
        ball((0.58, 0.24, 0.24), (0.07, 0.07, 0.07), "dark"),
        ball((0.58, 0.24, -0.24), (0.07, 0.07, 0.07), "dark"),
        ball((-0.2, -0.45, 0.42), (0.4, 0.22, 0.15), "cream"),
        ball((-0.75, -0.3, 0), (0.22, 0.14, 0.16), "yellow"),
    ),
    "bus": (
        box((0, -0.25, 0), (0.95, 0.55, 0.4), "yellow"),
        box((0, 0.05, 0), (0.9, 0.16, 0.42), "sky dark", "checks", 7.0),
        box((0.94, -0.15, 0), (0.03, 0.35, 0.3), "sky"),
        box((0, -0.45, 0.4), (0.9, 0.06, 0.02), "red"),
        box((-0.1, 0.34, 0), (0.6, 0.06, 0.25), "blue"),
        *_wheels(0.6, 0.38, 0.22),
    ),
    "cactus": (
        tube((0, -0.78, 0), (0.46, 0.22, 0.46), "brick orange", "rings", 30.0, bottom=0.75),
        tube((0, 0.0, 0), (0.24, 0.62, 0.24), "green forest", "sectors", 9.0),
        ball((0, 0.62, 0), (0.24, 0.24, 0.24), "green forest", "sectors", 9.0),
        tube((0.42, 0.0, 0), (0.24, 0.11, 0.11), "green", axis=0),
        tube((0.58, 0.2, 0), (0.13, 0.3, 0.13), "green forest", "sectors", 6.0),
        ball((0.58, 0.5, 0), (0.15, 0.15, 0.15), "pink"),
        tube((-0.34, 0.22, 0.1), (0.2, 0.1, 0.1), "forest", axis=0),
        tube((-0.48, 0.38, 0.1), (0.11, 0.24, 0.11), "green"),
    ),
    "lamp": (
        tube((0, -0.92, 0), (0.45, 0.08, 0.45), "dark"),
        tube((0, -0.4, 0), (0.07, 0.55, 0.07), "wood"),
        tube((0, 0.45, 0), (0.66, 0.42, 0.66), "orange cream", "sectors", 4.0, top=0.5),
        ball((0.3, -0.78, 0.2), (0.12, 0.1, 0.12), "red"),
    ),
    "boat": (
        box((0, -0.72, 0), (0.72, 0.24, 0.36), "blue white", "rings", 14.0),
        pyramid((0.82, -0.66, 0), (0.3, 0.3, 0.36), "blue"),
        box((-0.25, -0.35, 0), (0.3, 0.16, 0.24), "white sky", "checks", 9.0),
        tube((0.15, 0.2, 0), (0.05, 0.75, 0.05), "brown"),
        gable((0.17, 0.3, 0), (0.5, 0.55, 0.03), "cream red", "rings", 8.0),
    ),
    "temple": (
        box((0, -0.9, 0), (0.85, 0.1, 0.6), "cream"),
        *(tube((sx * 0.6, -0.3, sz * 0.4), (0.11, 0.52, 0.11), "white grey", "sectors", 6.0)
          for sx in (-1, 0, 1) for sz in (-1, 1)),
        box((0, 0.28, 0), (0.8, 0.08, 0.56), "cream"),
        gable((0, 0.56, 0), (0.85, 0.22, 0.58), "brick cream", "rings", 20.0, turn=0.0),
        ball((-0.1, -0.5, 0), (0.2, 0.32, 0.2), "teal"),
    ),
    "sofa": (
        box((0, -0.62, 0.05), (0.85, 0.22, 0.45), "purple"),
        box((0, -0.15, -0.38), (0.85, 0.5, 0.14), "purple pink", "stripes", 9.0),
        box((0.85, -0.45, 0.05), (0.13, 0.38, 0.48), "purple"),
        box((-0.85, -0.45, 0.05), (0.13, 0.38, 0.48), "purple"),
        box((0.42, -0.22, -0.05), (0.22, 0.22, 0.1), "yellow orange", "checks", 12.0, turn=20.0),
    ),
    "fish": (
        ball((0.1, -0.2, 0), (0.72, 0.46, 0.3), "orange white", "halves", 3.0),
        pyramid((-0.75, -0.15, 0), (0.3, 0.4, 0.06), "red"),
        pyramid((0.05, 0.32, 0), (0.35, 0.26, 0.06), "red"),
        ball((0.52, -0.1, 0.2), (0.1, 0.1, 0.1), "white"),
        ball((0.52, -0.1, -0.2), (0.1, 0.1, 0.1), "white"),
        ball((0.57, -0.1, 0.28), (0.05, 0.05, 0.05), "dark"),
        ball((0.57, -0.1, -0.28), (0.05, 0.05, 0.05), "dark"),
        tube((0, -0.82, 0), (0.12, 0.2, 0.12), "wood"),
    ),
    "die": (
        box((0, -0.35, 0), (0.62, 0.62, 0.62), "white"),
        *(ball((x, y - 0.35, 0.6), (0.12, 0.12, 0.06), "red") for x, y in ((-0.3, 0.3), (0, 0), (0.3, -0.3))),
        *(ball((0.6, y - 0.35, z), (0.06, 0.12, 0.12), "dark") for y in (-0.3, 0.3) for z in (-0.3, 0.3)),
        *(ball((x, y - 0.35, -0.6), (0.12, 0.12, 0.06), "blue") for y in (-0.3, 0, 0.3) for x in (-0.3, 0.3)),
        ball((-0.6, -0.35, 0), (0.06, 0.2, 0.2), "red"),
    ),
    "hourglass": (
        box((0, -0.93, 0), (0.5, 0.07, 0.5), "brown"),
        tube((0, -0.42, 0), (0.42, 0.44, 0.42), "yellow sky", "halves", 5.0, top=0.15),
        tube((0, 0.42, 0), (0.42, 0.42, 0.42), "sky cream", "rings", 6.0, bottom=0.15),
        box((0, 0.9, 0), (0.5, 0.07, 0.5), "brown"),
        tube((0.42, 0, 0.42), (0.06, 0.86, 0.06), "wood"),
        tube((-0.42, 0, -0.42), (0.06, 0.86, 0.06), "wood"),
    ),
    "satellite": (
        tube((0, -0.1, 0), (0.26, 0.42, 0.26), "yellow brown", "checks", 10.0),
        box((0.68, -0.1, 0), (0.4, 0.3, 0.04), "navy blue", "checks", 14.0),
        box((-0.68, -0.1, 0), (0.4, 0.3, 0.04), "navy blue", "checks", 14.0),
        tube((0, 0.5, 0.1), (0.34, 0.14, 0.34), "white", bottom=0.2),
        tube((0, -0.75, 0), (0.08, 0.28, 0.08), "grey"),
        box((0, -0.1, 0.3), (0.12, 0.12, 0.1), "red"),
    ),
    "gift": (
        box((0, -0.4, 0), (0.65, 0.55, 0.55), "teal navy", "halves", 4.0),
        box((0, -0.4, 0), (0.14, 0.57, 0.57), "pink"),
        box((0, -0.4, 0), (0.67, 0.57, 0.12), "red"),
        ball((0.22, 0.26, 0), (0.25, 0.14, 0.12), "pink"),
        ball((-0.22, 0.26, 0.05), (0.25, 0.14, 0.12), "red"),
    ),
    "pyramid": (
        pyramid((0, -0.25, 0), (0.9, 0.75, 0.9), "wood yellow", "rings", 26.0),
        box((0.35, -0.72, 0.55), (0.2, 0.2, 0.3), "brown dark", "rings", 30.0),
        tube((-0.75, -0.6, 0.6), (0.06, 0.4, 0.06), "brown"),
        ball((-0.75, -0.15, 0.6), (0.28, 0.14, 0.28), "green"),
        ball((0.7, -0.8, -0.6), (0.3, 0.18, 0.2), "wood"),
    ),
}  # fmt: skip
