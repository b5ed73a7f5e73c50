"""Parts of plots as inline SVG, each with a title as its alternative text; also as standalone files."""

from __future__ import annotations

import math
from html import escape

LIGHT = {
    "ink": "#1c2530", "soft": "#56616e", "line": "#dde3ea", "paper": "#f6f8fa", "card": "#ffffff", "good": "#137a46",
    "bad": "#c5322c", "before": "#7b8695", "after": "#2458c5", "grid": "#e6eaef", "guide": "#8c97a5",
}  # fmt: skip
DARK = {
    "ink": "#e4e9ef", "soft": "#a5b0bd", "line": "#303a46", "paper": "#0f141a", "card": "#182029", "good": "#3cc282",
    "bad": "#ff7b72", "before": "#8d99a9", "after": "#7fa9ff", "grid": "#2a333e", "guide": "#67758a",
}  # fmt: skip
CHART_STYLE = ".chart text { font: 12px system-ui, sans-serif; fill: var(--soft); } .chart .name { fill: var(--ink); }"


def svg_element(width: float, height: float, text: str, body: str, kind: str, more: str = "") -> str:
    """Return an <svg> around a body that is already SVG; `text` is its title, `kind` its CSS class."""
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'{more}role="img" aria-label="{escape(text)}"><title>{escape(text)}</title>{body}</svg>'
    )


def svg_text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    """Return a <text>; `anchor` is "start", "middle" or "end", `kind` its CSS class."""
    css = f'class="{kind}" ' if kind else ""
    return f'<text {css}x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def shorten_text(text: str, most: int) -> str:
    """Cut a text to at most `most` characters."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def draw_interval(values: tuple[float, float, float], low: float, high: float, kind: str, text: str) -> str:
    """Draw (low, mean, high) as a dot on an interval, between the limits `low` and `high`; `kind` is its colour."""
    width, height = 180.0, 24.0
    scale = (width - 12) / max(high - low, 1e-9)
    left, middle, right = (6 + scale * (value - low) for value in values)
    color = f"var(--{escape(kind)})"
    body = (
        f'<path d="M0 12h{width:g}" stroke="var(--grid)"/>'
        f'<path d="M{left:.1f} 12H{right:.1f}" stroke="{color}" stroke-width="3" stroke-linecap="round"/>'
        f'<circle cx="{middle:.1f}" cy="12" r="5" fill="{color}"/>'
    )
    return svg_element(width, height, text, body, "interval")


def css_colors(theme: dict[str, str]) -> str:
    """Return a theme as CSS variables."""
    return " ".join(f"--{name}: {color};" for name, color in theme.items())


def standalone_svg(svg: str) -> str:
    """Return the content of an .svg file, with the light or dark colours of the pages."""
    style = (
        f":root {{ {css_colors(LIGHT)} background: var(--card); }} "
        f"@media (prefers-color-scheme: dark) {{ :root {{ {css_colors(DARK)} }} }} {CHART_STYLE}"
    )
    head, rest = svg.split(">", 1)
    head = head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return f"{head}><style>{style}</style>{rest}\n"


def round_ticks(first: float, last: float) -> list[float]:
    """Return about five round values around the two limits."""
    rough = (last - first) / 4 or abs(last) / 4 or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = min((factor * power for factor in (1, 2, 2.5, 5, 10)), key=lambda candidate: abs(candidate - rough))
    lowest, highest = math.floor(first / step + 1e-9), math.ceil(last / step - 1e-9)
    return [number * step for number in range(lowest, max(highest, lowest + 1) + 1)]


def power_ticks(first: float, last: float) -> list[float]:
    """Return powers of ten around the two limits; also 2 and 5 times them if few, every other one if many."""
    low, high = math.floor(math.log10(first) + 1e-9), math.ceil(math.log10(last) - 1e-9)
    if high - low > 6:
        return [10.0**number for number in range(low, high + 2, 2)]
    if high - low > 2:
        return [10.0**number for number in range(low, high + 1)]
    fine = [factor * 10.0**number for number in range(low, high + 1) for factor in (1, 2, 5)]
    kept = [value for value in fine if first / 2.6 < value < last * 2.6]
    inner = [value for value in kept if first * 0.999 <= value <= last * 1.001]
    return inner if len(inner) > 2 else kept or [first, last * 1.001]
