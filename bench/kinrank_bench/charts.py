"""Line charts as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from kinrank.plots import power_ticks, round_ticks, svg_element

WIDTH, HEIGHT = 360.0, 240.0
LEFT, TOP, RIGHT, BOTTOM = 52.0, 14.0, 20.0, 64.0
LETTER_WIDTH = 7.0  # approximate, in the legend
LINE_STYLES = (("after", ""), ("good", "7 4"), ("bad", "2 3"), ("before", "9 3 2 3"))  # colour and dashes per line


@dataclass(frozen=True)
class Series:
    """One line of a chart.

    Attributes:
        name: text in the legend.
        x, y: points, from left to right.
        hollow: per point, True to draw a ring instead of a dot; empty: dots only.
        notes: per point, the tooltip.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    hollow: Sequence[bool] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Axis:
    """One axis: title, True for a logarithmic scale, and a value where it must start, if any."""

    name: str
    logarithmic: bool = False
    start: float | None = None


class Scale:
    """Map from values to positions between two ends, with ticks at round values."""

    def __init__(self, values: Sequence[float], axis: Axis, low: float, high: float) -> None:
        self._log = axis.logarithmic
        known = [value for value in values if math.isfinite(value) and (value > 0 or not self._log)] or [1.0]
        first, last = min(known), max(known)
        if axis.start is not None:
            first = min(first, axis.start)
        self.ticks = power_ticks(first, last) if self._log else round_ticks(first, last)
        first, last = min(first, self.ticks[0]), max(last, self.ticks[-1])
        self._first, self._last = self._transform(first), self._transform(last)
        self._low, self._high = low, high

    def _transform(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self._log else value

    def place(self, value: float) -> float:
        span = self._last - self._first or 1.0
        return self._low + (self._high - self._low) * (self._transform(value) - self._first) / span


def draw_chart(series: Sequence[Series], x: Axis, y: Axis, text: str, guides: Sequence[tuple[float, str]] = ()) -> str:
    """Draw all series over one pair of axes; `guides` are vertical dotted lines with a label each.

    Lines differ by colour and by dashes. `text` is the alternative text.

    Example:
        >>> draw_chart([Series("mAP", [1, 2], [50, 60])], Axis("k"), Axis("%"), "mAP by k").startswith("<svg")
        True
    """
    lines = [line for line in series if len(line.x)]
    across = Scale(
        [value for line in lines for value in line.x] + [guide for guide, _ in guides], x, LEFT, WIDTH - RIGHT
    )
    up = Scale([value for line in lines for value in line.y], y, HEIGHT - BOTTOM, TOP)
    body = _draw_grid(across, up, x, y) + _draw_guides([(across.place(guide), word) for guide, word in guides])
    body += "".join(
        _draw_line(line, across, up, LINE_STYLES[number % len(LINE_STYLES)]) for number, line in enumerate(lines)
    )
    body += _draw_legend([line.name for line in lines])
    return svg_element(WIDTH, HEIGHT, text, body, "chart")


def _draw_grid(across: Scale, up: Scale, x: Axis, y: Axis) -> str:
    parts = []
    floor = HEIGHT - BOTTOM
    for value in up.ticks:
        at = up.place(value)
        parts.append(f'<path d="M{LEFT:g} {at:.1f}H{WIDTH - RIGHT:g}" stroke="var(--grid)"/>')
        parts.append(f'<text x="{LEFT - 7:g}" y="{at + 4:.1f}" text-anchor="end">{_format_tick(value)}</text>')
    for value in across.ticks:
        at = across.place(value)
        parts.append(f'<path d="M{at:.1f} {floor:g}v4" stroke="var(--guide)"/>')
        parts.append(f'<text x="{at:.1f}" y="{floor + 17:g}" text-anchor="middle">{_format_tick(value)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<path d="M{LEFT:g} {floor:g}H{WIDTH - RIGHT:g}" stroke="var(--guide)"/>')
    parts.append(f'<text x="{middle:g}" y="{floor + 34:g}" text-anchor="middle">{escape(x.name)}</text>')
    place = f'transform="translate(12 {(TOP + floor) / 2:g}) rotate(-90)" text-anchor="middle"'
    parts.append(f"<text {place}>{escape(y.name)}</text>")
    return "".join(parts)


def _draw_guides(guides: Sequence[tuple[float, str]]) -> str:
    """Draw dotted lines; of two labels the left one is to the left of its line, so that they do not overlap."""
    parts = []
    labelled = sorted(at for at, word in guides if word)
    for at, word in guides:
        left = at > WIDTH * 0.7 if len(labelled) < 2 else at == labelled[0]
        side, shift = ("end", -4) if left else ("start", 4)
        parts.append(f'<path d="M{at:.1f} {TOP:g}V{HEIGHT - BOTTOM:g}" stroke="var(--guide)" stroke-dasharray="3 3"/>')
        parts.append(f'<text x="{at + shift:.1f}" y="{TOP - 3:g}" text-anchor="{side}">{escape(word)}</text>')
    return "".join(parts)


def _draw_line(series: Series, across: Scale, up: Scale, look: tuple[str, str]) -> str:
    color, dashes = f"var(--{look[0]})", f' stroke-dasharray="{look[1]}"' if look[1] else ""
    places = [(across.place(a), up.place(b)) for a, b in zip(series.x, series.y, strict=True)]
    path = "L".join(f"{a:.1f} {b:.1f}" for a, b in places)
    parts = [f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="2"{dashes}/>']
    for number, (a, b) in enumerate(places):
        fill = "var(--card)" if series.hollow and series.hollow[number] else color
        note = f"<title>{escape(series.notes[number])}</title>" if series.notes else ""
        style = f'r="3.6" fill="{fill}" stroke="{color}" stroke-width="1.6"'
        parts.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" {style}>{note}</circle>')
    return "".join(parts)


def _draw_legend(names: Sequence[str]) -> str:
    """Draw a sample of each line and its name, in one row under the axis."""
    if len(names) < 2 and not any(names):
        return ""
    widths = [36 + LETTER_WIDTH * len(name) for name in names]
    at, parts = LEFT + max(0.0, (WIDTH - LEFT - RIGHT - sum(widths)) / 2), []
    for name, width, (color, dashes) in zip(names, widths, LINE_STYLES * len(names), strict=False):
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        parts.append(
            f'<path d="M{at:.1f} {HEIGHT - 10:g}h18" stroke="var(--{color})" stroke-width="2"{dashed}/>'
            f'<text class="name" x="{at + 22:.1f}" y="{HEIGHT - 6:g}">{escape(name)}</text>'
        )
        at += width
    return "".join(parts)


def _format_tick(value: float) -> str:
    if value and (abs(value) < 1e-3 or abs(value) >= 1e5):
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{round(value, 6):g}"
