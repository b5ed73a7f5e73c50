"""Measurements -> the picture of accuracy against time, a panel per set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from generator.records import Measurements, Result
from generator.which import title

FAMILIES = {
    "query expansion": (
        "#4477aa",
        "aqe aqewd alpha-qe dqe super-global adba+aqe adbawd+aqewd alpha-dba+alpha-qe ddba+dqe",
    ),
    "context": ("#228833", "knn k-reciprocal sca ecn gnn conaff stml"),
    "diffusion": ("#aa7733", "dfs fsr rdp eir egt bsd bcd cas"),
    "LPMT": ("#cc3311", "lpmt"),
}
COLUMNS = 2


def picture(found: Measurements, path: Path) -> None:
    """Write the picture as SVG without dates, so that equal numbers give equal files."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogFormatter

    plt.rcParams |= {"svg.hashsalt": "kinrank", "font.size": 8, "svg.fonttype": "none"}
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
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)


def _draw(panel: Any, results: dict[str, Result]) -> None:
    if "none" in results:
        panel.axhline(100 * results["none"]["mean"], color="#999999", linestyle="--", linewidth=0.8)
    named = front(results) | {"none", "lpmt"}
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
    """The methods that no other beats in time and accuracy together."""
    return {
        name
        for name, mine in results.items()
        if not any(other["mean"] >= mine["mean"] and other["seconds"] < mine["seconds"] for other in results.values())
    }
