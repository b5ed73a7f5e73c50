"""Numbers -> small drawings as inline SVG, each with a title for those who do not see it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from kinrank.evaluation import Score


def drawing(width: float, height: float, text: str, body: str, kind: str, more: str = "") -> str:
    """An <svg> around a body that is SVG already; `text` is its title, `kind` its CSS class."""
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'{more}role="img" aria-label="{escape(text)}"><title>{escape(text)}</title>{body}</svg>'
    )


def hits_bar(hits: NDArray[np.bool_], text: str) -> str:
    """One bar per rank, left to right: high and green where the answer is right, else low and red."""
    step, height = 10.0, 22.0
    right = "".join(f"M{i * step + 1:g} 0h{step - 2:g}v{height:g}h-{step - 2:g}z" for i in np.flatnonzero(hits))
    wrong = "".join(f"M{i * step + 1:g} 14h{step - 2:g}v8h-{step - 2:g}z" for i in np.flatnonzero(~hits))
    body = f'<path fill="var(--good)" d="{right}"/><path fill="var(--bad)" d="{wrong}"/>'
    return drawing(len(hits) * step, height, text, body, "bar", 'preserveAspectRatio="none" ')


def scatter(before: NDArray[np.float64], after: NDArray[np.float64], text: str) -> str:
    """One dot per query: its value before (across) and after (up), 0 to 1; above the line is better."""
    side, left, bottom = 360.0, 52.0, 46.0
    x, y = left + side * before, 8 + side * (1 - after)
    better = after >= before

    def dots(which: NDArray[np.bool_], color: str) -> str:
        path = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(x[which], y[which], strict=True))
        look = 'stroke-width="4" stroke-linecap="round" stroke-opacity=".6"'
        return f'<path d="{path}" stroke="{color}" {look}/>'

    lines = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        across, up = left + side * share, 8 + side * (1 - share)
        lines.append(f'<path d="M{left:g} {up:g}h{side:g}M{across:g} 8v{side:g}" stroke="var(--grid)"/>')
        lines.append(f'<text x="{left - 8:g}" y="{up + 4:g}" text-anchor="end">{100 * share:g}</text>')
        lines.append(f'<text x="{across:g}" y="{side + 26:g}" text-anchor="middle">{100 * share:g}</text>')
    lines.append(f'<path d="M{left:g} {8 + side:g}L{left + side:g} 8" stroke="var(--guide)" stroke-dasharray="4 4"/>')
    middle = 8 + side / 2
    names = (
        f'<text x="{left + side / 2:g}" y="{side + 48:g}" text-anchor="middle">AP before, %</text>'
        f'<text transform="translate(14 {middle:g}) rotate(-90)" text-anchor="middle">AP after, %</text>'
    )
    body = "".join(lines) + dots(better, "var(--after)") + dots(~better, "var(--bad)") + names
    return drawing(left + side + 14, side + bottom + 12, text, body, "plot")


def dumbbells(names: Sequence[str], before: NDArray[np.float64], after: NDArray[np.float64], text: str) -> str:
    """One row per name: a grey dot before, a coloured dot after, 0 to 1, joined by a line."""
    left, side, step = 92.0, 380.0, 17.0
    height = 12 + step * len(names)
    parts = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        across = left + side * share
        parts.append(f'<path d="M{across:g} 6v{height - 8:g}" stroke="var(--grid)"/>')
        parts.append(f'<text x="{across:g}" y="{height + 16:g}" text-anchor="middle">{100 * share:g}</text>')
    for row, (name, low, high) in enumerate(zip(names, before, after, strict=True)):
        y, color = 14 + step * row, "var(--after)" if high >= low else "var(--bad)"
        a, b = left + side * low, left + side * high
        parts.append(
            f'<text x="{left - 10:g}" y="{y + 4:g}" text-anchor="end">{escape(name)}</text>'
            f'<path d="M{a:.1f} {y:g}H{b:.1f}" stroke="{color}" stroke-width="2" stroke-opacity=".45"/>'
            f'<circle cx="{a:.1f}" cy="{y:g}" r="4.5" fill="var(--before)"/>'
            f'<circle cx="{b:.1f}" cy="{y:g}" r="4.5" fill="{color}"/>'
        )
    parts.append(
        f'<text x="{left + side / 2:g}" y="{height + 36:g}" text-anchor="middle">mean AP of its views, %</text>'
    )
    return drawing(left + side + 14, height + 44, text, "".join(parts), "plot")


def interval(score: Score, low: float, high: float, kind: str) -> str:
    """The mean of a score as a dot on its interval, drawn between the limits `low` and `high`; `kind` is its colour."""
    width, height = 180.0, 24.0
    scale = (width - 12) / max(high - low, 1e-9)
    left, middle, right = (6 + scale * (value - low) for value in (score.low, score.mean, score.high))
    color = f"var(--{escape(kind)})"
    body = (
        f'<path d="M0 12h{width:g}" stroke="var(--grid)"/>'
        f'<path d="M{left:.1f} 12H{right:.1f}" stroke="{color}" stroke-width="3" stroke-linecap="round"/>'
        f'<circle cx="{middle:.1f}" cy="12" r="5" fill="{color}"/>'
    )
    return drawing(width, height, repr(score), body, "interval")
