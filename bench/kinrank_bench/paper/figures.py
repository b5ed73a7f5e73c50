"""Figures of the paper, drawn from the curves of a record as inline SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kinrank_bench.charts import Axis, Series, draw_chart
from kinrank_bench.paper.paper_numbers import BEST_PARAMETERS, PAPER_SECONDS
from kinrank_bench.paper.variants import PANELS, default_value

Record = dict[str, Any]
LOGARITHMIC_PARAMETERS = ("mu", "sigma")


@dataclass(frozen=True)
class Figure:
    """One figure: name of its file, number and title, drawing, and caption."""

    key: str
    title: str
    svg: str
    caption: str


def build_figures(record: Record) -> list[Figure]:
    """Build Fig. 4a and 4b, 5a to 5f, and time, for every set with curves."""
    return [*_k_figures(record), *_convergence_figures(record), *_sensitivity_figures(record), *_time_figures(record)]


def _list_set_features(rows: Sequence[Record]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((row["set"], row["features"]) for row in rows))


def _sort_points(rows: Sequence[Record]) -> list[Record]:
    return sorted((row for row in rows if row.get("mean") is not None), key=lambda row: float(row["x"]))


def _k_figures(record: Record) -> Iterator[Figure]:
    rows = [row for row in record["curves"] if row["figure"] == "4a"]
    for name, features in _list_set_features(rows):
        here = [row for row in rows if (row["set"], row["features"]) == (name, features)]
        for truth in dict.fromkeys(row["truth"] for row in here):
            lines = []
            for method in ("BCD", "BSD"):
                points = _sort_points([row for row in here if (row["truth"], row["series"]) == (truth, method)])
                notes = [f"{method}, k {row['x']:g}: {_format_interval(row)}" for row in points]
                lines.append(
                    Series(method, [row["x"] for row in points], [100 * row["mean"] for row in points], (), notes)
                )
            svg = draw_chart(
                lines, Axis("k"), Axis(f"mAP, {truth}, %"), f"mAP of LPMT with BCD and with BSD over k, {truth}"
            )
            yield Figure(
                f"figure-4a-{name}-{features}-{truth}",
                f"Figure 4a. BCD against BSD over k: {name} {features}, {truth}",
                svg,
                "LPMT without its direct comparison, with states from BCD (three graphs) or from BSD (one). Joint.",
            )


def _convergence_figures(record: Record) -> Iterator[Figure]:
    for entry in record["convergence"]:
        points, steps = entry["points"], entry["steps"]
        x = [point["iteration"] for point in points]
        lines = [
            Series("distance to the solution", x, [point["to_target"] for point in points]),
            Series("residual of the equation", x, [point["residual"] for point in points]),
        ]
        ends = [(point["iteration"] + 0.5, "") for point in points[:-1] if point["iteration"] % steps == 0]
        per_cycle = ", ".join(
            f"{100 * point['to_target']:.2g} %" for point in points if point["iteration"] % steps == 0
        )
        svg = draw_chart(lines, Axis("iteration"), Axis("relative norm", True), "Convergence of BCD by iteration", ends)
        part = "" if entry["items"] == entry["of"] else f" {entry['items']:,} of {entry['of']:,} items, evenly spaced."
        yield Figure(
            f"figure-4b-{entry['set']}-{entry['features']}",
            f"Figure 4b. Convergence of BCD: {entry['set']} {entry['features']}",
            svg,
            f"{steps} fixed-point steps, then new weights of the graphs (dotted lines), as in the paper. Remaining "
            f"distance to the solution after each cycle: {per_cycle}.{part}",
        )


def _sensitivity_figures(record: Record) -> Iterator[Figure]:
    rows = [row for row in record["curves"] if row["figure"].startswith("5")]
    for name, features in _list_set_features(rows):
        for parameter, panel in PANELS.items():
            here = [
                row for row in rows if (row["set"], row["features"], row["parameter"]) == (name, features, parameter)
            ]
            if here:
                yield _parameter_figure(name, features, parameter, panel, here)


def _parameter_figure(name: str, features: str, parameter: str, panel: str, rows: Sequence[Record]) -> Figure:
    lines = []
    for truth in dict.fromkeys(row["truth"] for row in rows):
        points = _sort_points([row for row in rows if row["truth"] == truth])
        level = [not _differs(row) for row in points]
        notes = [f"{parameter} {row['x']:g}, {truth}: {_format_interval(row)}" for row in points]
        lines.append(Series(truth, [row["x"] for row in points], [100 * row["mean"] for row in points], level, notes))
    default, best = default_value(parameter), BEST_PARAMETERS.get(parameter)
    guides = [(default, "default")] if best != default else [(default, "default and paper")]
    if best is not None and best != default:
        guides.append((best, "paper"))
    svg = draw_chart(
        lines,
        Axis(parameter, parameter in LOGARITHMIC_PARAMETERS),
        Axis("mAP, %"),
        f"mAP of LPMT by {parameter}, {name}",
        guides,
    )
    return Figure(
        f"figure-5{panel}-{name}-{features}",
        f"Figure 5{panel}. Effect of {parameter}: {name} {features}",
        svg,
        _best_sentence(parameter, rows, best),
    )


def _best_sentence(parameter: str, rows: Sequence[Record], best: float | None) -> str:
    maxima = []
    for truth in dict.fromkeys(row["truth"] for row in rows):
        points = _sort_points([row for row in rows if row["truth"] == truth])
        if points:
            top = max(points, key=lambda row: float(row["mean"]))
            maxima.append(f"{truth} {100 * top['mean']:.1f} at {top['x']:g}")
    paper = f" The paper's best value is {best:g}." if best is not None else " The paper prints no best value."
    rest = "Joint, LPMT with its direct comparison, at its defaults except for this parameter."
    return f"Highest: {', '.join(maxima)}.{paper} {rest}"


def _time_figures(record: Record) -> Iterator[Figure]:
    for entry in record["time"]:
        points = entry["points"]
        notes = [f"{point['candidates']:,} candidates: {point['seconds']:.2f} s" for point in points]
        x, y = [point["candidates"] for point in points], [point["seconds"] for point in points]
        lines = [Series("kinrank, here", x, y, (), notes), Series("paper: under 3 s", [5000], [PAPER_SECONDS], [True])]
        svg = draw_chart(
            lines, Axis("candidates k", True), Axis("seconds per query", True), "Seconds per query by candidates"
        )
        last = points[-1]
        yield Figure(
            f"figure-time-{entry['set']}-{entry['features']}",
            f"Time against k: {entry['set']} {entry['features']}",
            svg,
            f"One query at a time over its k nearest candidates, including the search, median of {entry['queries']} "
            f"queries; {last['seconds']:.2f} s at {last['candidates']:,}. The paper reports under {PAPER_SECONDS:g} s "
            "at 5000 on an unnamed machine. Not joint: each query has its own graph.",
        )


def _format_interval(row: Record) -> str:
    return f"{100 * row['mean']:.1f} ({100 * row['low']:.1f} to {100 * row['high']:.1f})"


def _differs(row: Record) -> bool:
    """True if the paired interval of the difference to the default is on one side of 0."""
    return bool((row.get("difference_low") or 0.0) > 0 or (row.get("difference_high") or 0.0) < 0)
