"""Plots of the report as inline SVG: scores by time, changes, and maps."""

from __future__ import annotations

import math
from html import escape

import numpy as np
from numpy.typing import NDArray

from kinrank.evaluation.trials import BASELINE, Trial, Trials
from kinrank.plots import power_ticks, round_ticks, shorten_text, svg_element, svg_text
from kinrank.report.evidence.item_maps import Groups, Map

HUES = (214, 28, 145, 350, 270, 185, 52, 315, 95, 240)
GROUP_STYLE_COUNT = 4 * len(HUES)  # distinguishable by hue, lightness and shape
MAP_SIDE = 560.0
LABEL_SPACING = 19.0  # pixels
MAX_LABEL_CHARACTERS = 22
BARS, BINS = 5000, 1000  # above BARS queries, BINS bars show several queries each


def draw_scores_by_time(trials: Trials, shown: str) -> str:
    """Draw a point per method: milliseconds per query across, first measure with its interval upwards."""
    measure = trials.measures[0]
    known = [trial for trial in trials if not math.isnan(trial.scores[measure].mean)]
    times = [max(1000 * trial.seconds, 1e-6) for trial in known]
    low = min(100 * trial.scores[measure].low for trial in known)
    high = max(100 * trial.scores[measure].high for trial in known)
    levels = round_ticks(low, high)
    low, high = levels[0], levels[-1]
    left, top, width, height = 58.0, 14.0, 560.0, 260.0
    first, last = math.log10(min(times)) - 0.15, math.log10(max(times)) + 0.35

    def across(time: float) -> float:
        return left + width * (math.log10(time) - first) / (last - first)

    def up(value: float) -> float:
        return top + height * (high - value) / (high - low)

    parts = []
    for value in levels:
        y = up(value)
        parts.append(f'<path d="M{left:g} {y:.1f}h{width:g}" stroke="var(--grid)"/>')
        parts.append(f'<text x="{left - 8:g}" y="{y + 4:.1f}" text-anchor="end">{round(value, 6):g}</text>')
    for tick in (tick for tick in power_ticks(10**first, 10**last) if first <= math.log10(tick) <= last):
        x = across(tick)
        parts.append(f'<path d="M{x:.1f} {top:g}v{height:g}" stroke="var(--grid)"/>')
        parts.append(f'<text x="{x:.1f}" y="{top + height + 21:g}" text-anchor="middle">{tick:g}</text>')
    places: list[tuple[float, float]] = []
    for trial, time in sorted(zip(known, times, strict=True), key=lambda pair: -pair[0].scores[measure].mean):
        score, x = trial.scores[measure], across(time)
        color = _point_color(trial, measure, shown)
        ends, y = (up(100 * score.high), up(100 * score.low)), up(100 * score.mean)
        label = y + 4
        while any(abs(label - other) < LABEL_SPACING and abs(x - near) < 110 for near, other in places):
            label += LABEL_SPACING
        places.append((x, label))
        parts.append(
            f"<g><title>{escape(trial.method)}: {escape(repr(score))}, {time:.3g} ms per query</title>"
            f'<path d="M{x:.1f} {ends[0]:.1f}V{ends[1]:.1f}" stroke="{color}" stroke-width="2"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5" fill="{color}"/>'
            f"{svg_text(x + 10, label, shorten_text(trial.method, MAX_LABEL_CHARACTERS), 'start', 'name')}</g>"
        )
    parts.append(
        f'<text x="{left + width / 2:g}" y="{top + height + 46:g}" text-anchor="middle">milliseconds per query</text>'
        f'<text transform="translate(16 {top + height / 2:g}) rotate(-90)" text-anchor="middle">{escape(measure)}, %'
        "</text>"
    )
    text = f"{measure} and time per query of {len(known)} methods, with {100 * trials.confidence:g} % intervals"
    return svg_element(left + width + 20, top + height + 56, text, "".join(parts), "plot")


def _point_color(trial: Trial, measure: str, shown: str) -> str:
    if trial.method == BASELINE:
        return "var(--before)"
    if trial.gains[measure].high < 0:
        return "var(--bad)"
    return "var(--after)" if trial.method == shown else "var(--good)" if trial.gains[measure].low > 0 else "var(--soft)"


def bin_changes(change: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return bars for sorted changes, and the position of the query of each bar; many queries share bars."""
    if len(change) <= BARS:
        return change, np.arange(len(change))
    edges = np.linspace(0, len(change), BINS + 1).astype(np.int64)
    sums = np.add.reduceat(change, edges[:-1])
    return sums / np.diff(edges), (edges[:-1] + edges[1:]) // 2


def draw_change_bars(change: NDArray[np.float64], text: str) -> str:
    """Draw a bar per value, in the given order: up and green for a gain, down and red for a loss."""
    width, height = 1000.0, 200.0
    low, high = change_limits(change)
    scale, zero = height / (high - low), height * high / (high - low)
    step = width / max(len(change), 1)
    room = 0.15 * step if step > 3 else 0.0
    paths = {"good": "", "bad": ""}
    for place in np.flatnonzero(np.abs(change) > 1e-9).tolist():
        tall = scale * float(change[place])
        bar = f"M{place * step + room:.2f} {zero:.1f}h{step - 2 * room:.2f}v{-tall:.1f}h{2 * room - step:.2f}z"
        paths["good" if tall > 0 else "bad"] += bar
    body = "".join(f'<path fill="var(--{color})" d="{path}"/>' for color, path in paths.items() if path)
    body += f'<path d="M0 {zero:.1f}H{width:g}" stroke="var(--guide)" vector-effect="non-scaling-stroke"/>'
    body += f'<path class="cursor" d="M0 0V{height:g}" vector-effect="non-scaling-stroke"/>'
    return svg_element(width, height, text, body, "bars", 'preserveAspectRatio="none" ')


def change_limits(change: NDArray[np.float64]) -> tuple[float, float]:
    """Return the lowest and highest value of the bars; 0 is always within."""
    low, high = min(0.0, float(change.min(initial=0.0))), max(0.0, float(change.max(initial=0.0)))
    return (low, high) if high > low else (-0.01, 0.01)


def draw_map(drawn: Map, sample: NDArray[np.int64], groups: Groups) -> str:
    """Draw a dot per item in the colour of its group; items without group are small, grey and below."""
    points = 14 + (MAP_SIDE - 28) * drawn.points
    parts = []
    of = groups.of[sample]
    for group in [-1, *np.unique(of[of >= 0]).tolist()]:
        inside = np.flatnonzero(of == group)
        if not len(inside):
            continue
        path = "".join(f"M{x:.0f} {MAP_SIDE - y:.0f}h0" for x, y in points[inside].tolist())
        if group < 0:
            parts.append(f'<path class="other" d="{path}"><title>none of these</title></path>')
        else:
            name = escape(groups.names[group])
            parts.append(f'<path class="g{group} {group_class(group)}" d="{path}"><title>{name}</title></path>')
    text = f"{drawn.title}: {len(sample)} items, similar ones near each other"
    return svg_element(MAP_SIDE, MAP_SIDE, text, "".join(parts), "map")


def group_class(group: int) -> str:
    """Return the CSS class of a group, which sets hue, lightness and shape."""
    return f"look{group % GROUP_STYLE_COUNT}"


def group_styles(count: int) -> str:
    """Return the styles of `count` groups."""
    rules = [
        ".map path { fill: none; stroke-width: 7; stroke-linecap: round; stroke-opacity: .85; }",
        ".map .other { stroke: var(--guide); stroke-width: 3.5; stroke-opacity: .35; }",
    ]
    for number in range(min(count, GROUP_STYLE_COUNT)):
        hue, rest = HUES[number % len(HUES)], number // len(HUES)
        light = (50, 66)[rest % 2] if hue not in (52, 95) else (42, 58)[rest % 2]
        color = f"hsl({hue}, 68%, {light}%)"
        square = rest >= 2
        shape = " stroke-linecap: square; stroke-width: 5.5;" if square else ""
        corner = " border-radius: 2px;" if square else ""
        rules.append(
            f".map .look{number} {{ stroke: {color};{shape} }}\n.swatch.look{number} {{ background: {color};{corner} }}"
        )
    return "\n".join(rules) + "\n"
