"""Series of points -> a chart of lines as inline SVG, or as an SVG file that stands alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from kinrank.report.html import DARK, LIGHT
from kinrank.report.svg import drawing

WIDTH, HEIGHT = 360.0, 240.0
LEFT, TOP, RIGHT, BOTTOM = 52.0, 14.0, 20.0, 64.0
LETTER = 7.0  # width of a letter of the legend, about
LOOKS = (("after", ""), ("good", "7 4"), ("bad", "2 3"), ("before", "9 3 2 3"))  # colour and dashes of each line
STYLE = ".chart text { font: 12px system-ui, sans-serif; fill: var(--soft); } .chart .name { fill: var(--ink); }"


@dataclass(frozen=True)
class Series:
    """One line of a chart.

    Attributes:
        name: what its legend says.
        x, y: its points, from left to right.
        hollow: for each point, whether it is drawn as a ring; none: all dots are filled.
        notes: for each point, what a pointer that rests on it is told.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    hollow: Sequence[bool] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Axis:
    """One axis: what it is of, whether it grows by factors, and where it has to start, if anywhere."""

    name: str
    logarithmic: bool = False
    start: float | None = None


class Scale:
    """Values -> places between two ends; with ticks at round values."""

    def __init__(self, values: Sequence[float], axis: Axis, low: float, high: float) -> None:
        self._log = axis.logarithmic
        known = [value for value in values if math.isfinite(value) and (value > 0 or not self._log)] or [1.0]
        first, last = min(known), max(known)
        if axis.start is not None:
            first = min(first, axis.start)
        self.ticks = powers(first, last) if self._log else round_values(first, last)
        first, last = min(first, self.ticks[0]), max(last, self.ticks[-1])
        self._first, self._last = self._of(first), self._of(last)
        self._low, self._high = low, high

    def _of(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self._log else value

    def place(self, value: float) -> float:
        span = self._last - self._first or 1.0
        return self._low + (self._high - self._low) * (self._of(value) - self._first) / span


def chart(series: Sequence[Series], x: Axis, y: Axis, text: str, guides: Sequence[tuple[float, str]] = ()) -> str:
    """All series over one pair of axes; `guides` are upright dotted lines with a word each.

    Lines differ by colour and by dashes. `text` says what is shown to those who do not see it.

    Example:
        >>> chart([Series("mAP", [1, 2], [50, 60])], Axis("k"), Axis("%"), "mAP by k").startswith("<svg")
        True
    """
    drawn = [one for one in series if len(one.x)]
    across = Scale([value for one in drawn for value in one.x] + [at for at, _ in guides], x, LEFT, WIDTH - RIGHT)
    up = Scale([value for one in drawn for value in one.y], y, HEIGHT - BOTTOM, TOP)
    body = _grid(across, up, x, y) + _guides([(across.place(at), word) for at, word in guides])
    body += "".join(_line(one, across, up, LOOKS[number % len(LOOKS)]) for number, one in enumerate(drawn))
    body += _legend([one.name for one in drawn])
    return drawing(WIDTH, HEIGHT, text, body, "chart")


def standalone(svg: str) -> str:
    """The same as the text of an .svg file: with the colours of the pages, light or dark as the reader has it."""
    colors = [" ".join(f"--{name}: {color};" for name, color in theme.items()) for theme in (LIGHT, DARK)]
    style = (
        f":root {{ {colors[0]} background: var(--card); }} "
        f"@media (prefers-color-scheme: dark) {{ :root {{ {colors[1]} }} }} {STYLE}"
    )
    head, rest = svg.split(">", 1)
    head = head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return f"{head}><style>{style}</style>{rest}\n"


def _grid(across: Scale, up: Scale, x: Axis, y: Axis) -> str:
    parts = []
    floor = HEIGHT - BOTTOM
    for value in up.ticks:
        at = up.place(value)
        parts.append(f'<path d="M{LEFT:g} {at:.1f}H{WIDTH - RIGHT:g}" stroke="var(--grid)"/>')
        parts.append(f'<text x="{LEFT - 7:g}" y="{at + 4:.1f}" text-anchor="end">{_shown(value)}</text>')
    for value in across.ticks:
        at = across.place(value)
        parts.append(f'<path d="M{at:.1f} {floor:g}v4" stroke="var(--guide)"/>')
        parts.append(f'<text x="{at:.1f}" y="{floor + 17:g}" text-anchor="middle">{_shown(value)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<path d="M{LEFT:g} {floor:g}H{WIDTH - RIGHT:g}" stroke="var(--guide)"/>')
    parts.append(f'<text x="{middle:g}" y="{floor + 34:g}" text-anchor="middle">{escape(x.name)}</text>')
    place = f'transform="translate(12 {(TOP + floor) / 2:g}) rotate(-90)" text-anchor="middle"'
    parts.append(f"<text {place}>{escape(y.name)}</text>")
    return "".join(parts)


def _guides(guides: Sequence[tuple[float, str]]) -> str:
    """Dotted lines; of two words the left one stands to the left of its line, so that they do not meet."""
    parts = []
    worded = sorted(at for at, word in guides if word)
    for at, word in guides:
        left = at > WIDTH * 0.7 if len(worded) < 2 else at == worded[0]
        side, shift = ("end", -4) if left else ("start", 4)
        parts.append(f'<path d="M{at:.1f} {TOP:g}V{HEIGHT - BOTTOM:g}" stroke="var(--guide)" stroke-dasharray="3 3"/>')
        parts.append(f'<text x="{at + shift:.1f}" y="{TOP - 3:g}" text-anchor="{side}">{escape(word)}</text>')
    return "".join(parts)


def _line(one: Series, across: Scale, up: Scale, look: tuple[str, str]) -> str:
    color, dashes = f"var(--{look[0]})", f' stroke-dasharray="{look[1]}"' if look[1] else ""
    places = [(across.place(a), up.place(b)) for a, b in zip(one.x, one.y, strict=True)]
    path = "L".join(f"{a:.1f} {b:.1f}" for a, b in places)
    parts = [f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="2"{dashes}/>']
    for number, (a, b) in enumerate(places):
        fill = "var(--card)" if one.hollow and one.hollow[number] else color
        note = f"<title>{escape(one.notes[number])}</title>" if one.notes else ""
        look_of = f'r="3.6" fill="{fill}" stroke="{color}" stroke-width="1.6"'
        parts.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" {look_of}>{note}</circle>')
    return "".join(parts)


def _legend(names: Sequence[str]) -> str:
    """A sample of each line and its name, in one row under the axis."""
    if len(names) < 2 and not any(names):
        return ""
    widths = [36 + LETTER * len(name) for name in names]
    at, parts = LEFT + max(0.0, (WIDTH - LEFT - RIGHT - sum(widths)) / 2), []
    for name, width, (color, dashes) in zip(names, widths, LOOKS * len(names), strict=False):
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        parts.append(
            f'<path d="M{at:.1f} {HEIGHT - 10:g}h18" stroke="var(--{color})" stroke-width="2"{dashed}/>'
            f'<text class="name" x="{at + 22:.1f}" y="{HEIGHT - 6:g}">{escape(name)}</text>'
        )
        at += width
    return "".join(parts)


def round_values(first: float, last: float) -> list[float]:
    """About five round values around these two."""
    rough = (last - first) / 4 or abs(last) / 4 or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = min((factor * power for factor in (1, 2, 2.5, 5, 10)), key=lambda one: abs(one - rough))
    lowest, highest = math.floor(first / step + 1e-9), math.ceil(last / step - 1e-9)
    return [number * step for number in range(lowest, max(highest, lowest + 1) + 1)]


def powers(first: float, last: float) -> list[float]:
    """Powers of ten around these two; with 2 and 5 between them where that would be few, every other one if many."""
    low, high = math.floor(math.log10(first) + 1e-9), math.ceil(math.log10(last) - 1e-9)
    if high - low > 6:
        return [10.0**number for number in range(low, high + 2, 2)]
    if high - low > 2:
        return [10.0**number for number in range(low, high + 1)]
    fine = [factor * 10.0**number for number in range(low, high + 1) for factor in (1, 2, 5)]
    kept = [value for value in fine if first / 2.6 < value < last * 2.6]
    inner = [value for value in kept if first * 0.999 <= value <= last * 1.001]
    return inner if len(inner) > 2 else kept or [first, last * 1.001]


def _shown(value: float) -> str:
    if value and (abs(value) < 1e-3 or abs(value) >= 1e5):
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{round(value, 6):g}"
