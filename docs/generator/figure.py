"""Figures of measurements: accuracy against time, a panel per set; online accuracy by observed queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from generator.accuracy import title
from generator.records import Measurements, Result
from generator.two_lpmts import AS_PUBLISHED, DEFAULTS

FAMILIES = {
    "query expansion": (
        "#4477aa",
        "aqe aqewd alpha-qe dqe super-global adba+aqe adbawd+aqewd alpha-dba+alpha-qe ddba+dqe",
    ),
    "context": ("#228833", "knn k-reciprocal sca ecn gnn conaff stml"),
    "diffusion": ("#aa7733", "dfs fsr rdp eir egt bsd bcd cas"),
    "learned": ("#aa3377", "gss csa ssr lattqe lattdba+lattqe"),
    "LPMT": ("#cc3311", f"{DEFAULTS} {AS_PUBLISHED}"),
}
COLUMNS = 2
SHARES = {"none": 0, "a quarter": 25, "half": 50, "all others": 100}
OTHERS = ("unrelated", "repeated")


def draw_accuracy(found: Measurements, path: Path) -> None:
    """Accuracy against time, as SVG."""
    plt = _pyplot()
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogFormatter

    rows = -(-len(found.panels) // COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(9, 3.1 * rows), squeeze=False, layout="constrained")
    for panel, key in zip(axes.ravel(), found.panels, strict=False):
        _draw(panel, found.scores[key])
        panel.set(xscale="log", title=title(key), xlabel="seconds", ylabel="mAP, %")
        panel.margins(x=0.12)
        panel.xaxis.set_major_formatter("{x:g}")
        panel.xaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.2, 0.4)))
        panel.tick_params(which="both", axis="x", labelsize=6)
    for panel in axes.ravel()[len(found.panels) :]:
        panel.axis("off")
    handles = [
        Line2D([], [], marker="o", linestyle="", color=colour, label=family) for family, (colour, _) in FAMILIES.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    _save(figure, path)


def draw_observed_queries(found: Measurements, path: Path) -> None:
    """Online mAP against the share of the other queries that were observed, a line per set and truth, as SVG."""
    plt = _pyplot()
    figure, (lines, bars) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", width_ratios=(3, 2))
    for number, (key, results) in enumerate(found.remembered.items()):
        colour, label = f"C{number}", title((*key, "mAP"))
        known = [(share, results[name]) for name, share in SHARES.items() if name in results]
        lines.plot(
            [share for share, _ in known], [100 * row["mean"] for _, row in known], "o-", color=colour, label=label,
            markersize=3,
        )  # fmt: skip
        for place, name in enumerate(OTHERS):
            row = results.get(name)
            if row is not None:
                at = place + 0.1 * (number - (len(found.remembered) - 1) / 2)
                change, low, high = (100 * row[part] for part in ("change", "change_low", "change_high"))
                bars.plot([at, at], [low, high], color=colour, linewidth=1, alpha=0.5)
                bars.plot([at], [change], "o", color=colour, markersize=3)
    lines.set(xlabel="observed, % of the other queries", ylabel="mAP of a new query, %", xticks=[*SHARES.values()])
    bars.axhline(0, color="#999999", linestyle="--", linewidth=0.8)
    bars.set(ylabel="change of mAP, with 95 % intervals", xticks=range(len(OTHERS)))
    bars.set_xticklabels(OTHERS)
    bars.margins(x=0.2)
    figure.legend(*lines.get_legend_handles_labels(), loc="outside lower center", ncols=len(found.remembered))
    _save(figure, path)


def _pyplot() -> Any:
    """matplotlib's pyplot, set up to write reproducible SVG files."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams |= {"svg.hashsalt": "kinrank", "font.size": 8, "svg.fonttype": "none"}
    return plt


def _save(figure: Any, path: Path) -> None:
    import matplotlib.pyplot as plt

    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)


def _draw(panel: Any, results: dict[str, Result]) -> None:
    if "none" in results:
        panel.axhline(100 * results["none"]["mean"], color="#999999", linestyle="--", linewidth=0.8)
    named = front(results) | {"none", DEFAULTS, AS_PUBLISHED}
    for name, result in results.items():
        colour = _colour(name)
        x, y = result["seconds"], 100 * result["mean"]
        interval = [100 * result["low"], 100 * result["high"]]
        panel.plot([x, x], interval, color=colour, linewidth=0.6, alpha=0.35)
        panel.plot([x], [y], "o", color=colour, markersize=6 if name == "lpmt" else 4)
        if name in named:
            panel.annotate(name, (x, y), xytext=(4, 4), textcoords="offset points", fontsize=7)


def _colour(name: str) -> str:
    return next((colour for colour, names in FAMILIES.values() if name in names.split()), "#999999")


def front(results: dict[str, Result]) -> set[str]:
    """The methods that no other method beats in both time and accuracy."""
    return {
        name
        for name, mine in results.items()
        if not any(other["mean"] >= mine["mean"] and other["seconds"] < mine["seconds"] for other in results.values())
    }
