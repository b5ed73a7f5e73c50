"""The curves of a record -> figures in the paper's order, as inline SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kinrank.bench.paper.printed import BEST, SECONDS
from kinrank.bench.paper.variants import PANELS, default_of
from kinrank.report.curves import Axis, Series, chart

Found = dict[str, Any]
FACTORS = ("mu", "sigma")  # parameters whose values grow by factors


@dataclass(frozen=True)
class Figure:
    """One drawing: the name of its file, its number and title, the drawing, and what it shows."""

    key: str
    title: str
    svg: str
    caption: str


def figures(record: Found) -> list[Figure]:
    """Fig. 4a and 4b, 5a to 5f, and time, for every set and features that were looked into."""
    return [*_over_k(record), *_converging(record), *_sensitivity(record), *_time(record)]


def _subjects(rows: Sequence[Found]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((row["set"], row["features"]) for row in rows))


def _points(rows: Sequence[Found]) -> list[Found]:
    return sorted((row for row in rows if row.get("mean") is not None), key=lambda row: float(row["x"]))


def _over_k(record: Found) -> Iterator[Figure]:
    rows = [row for row in record["curves"] if row["figure"] == "4a"]
    for name, features in _subjects(rows):
        here = [row for row in rows if (row["set"], row["features"]) == (name, features)]
        for truth in dict.fromkeys(row["truth"] for row in here):
            lines = []
            for method in ("BCD", "BSD"):
                points = _points([row for row in here if (row["truth"], row["series"]) == (truth, method)])
                notes = [f"{method}, k {row['x']:g}: {_said(row)}" for row in points]
                lines.append(
                    Series(method, [row["x"] for row in points], [100 * row["mean"] for row in points], (), notes)
                )
            svg = chart(
                lines, Axis("k"), Axis(f"mAP, {truth}, %"), f"mAP of LPMT with BCD and with BSD over k, {truth}"
            )
            yield Figure(
                f"figure-4a-{name}-{features}-{truth}",
                f"Figure 4a. BCD against BSD over k: {name} {features}, {truth}",
                svg,
                "LPMT without its direct comparison, its states made of BCD (three graphs) or of BSD (one). Joint.",
            )


def _converging(record: Found) -> Iterator[Figure]:
    for one in record["convergence"]:
        points, steps = one["points"], one["steps"]
        x = [point["iteration"] for point in points]
        lines = [
            Series("to the solution", x, [point["to_target"] for point in points]),
            Series("missed by the equation", x, [point["residual"] for point in points]),
        ]
        ends = [(point["iteration"] + 0.5, "") for point in points[:-1] if point["iteration"] % steps == 0]
        per_cycle = ", ".join(
            f"{100 * point['to_target']:.2g} %" for point in points if point["iteration"] % steps == 0
        )
        svg = chart(lines, Axis("iteration"), Axis("relative norm", True), "Convergence of BCD by iteration", ends)
        part = "" if one["items"] == one["of"] else f" {one['items']:,} of {one['of']:,} items, evenly taken."
        yield Figure(
            f"figure-4b-{one['set']}-{one['features']}",
            f"Figure 4b. Convergence of BCD: {one['set']} {one['features']}",
            svg,
            f"{steps} fixed-point steps, then new weights of the graphs (dotted lines), as in the paper. Left of the "
            f"way to the solution after each cycle: {per_cycle}.{part}",
        )


def _sensitivity(record: Found) -> Iterator[Figure]:
    rows = [row for row in record["curves"] if row["figure"].startswith("5")]
    for name, features in _subjects(rows):
        for parameter, panel in PANELS.items():
            here = [
                row for row in rows if (row["set"], row["features"], row["parameter"]) == (name, features, parameter)
            ]
            if here:
                yield _panel(name, features, parameter, panel, here)


def _panel(name: str, features: str, parameter: str, panel: str, rows: Sequence[Found]) -> Figure:
    lines = []
    for truth in dict.fromkeys(row["truth"] for row in rows):
        points = _points([row for row in rows if row["truth"] == truth])
        level = [not _differs(row) for row in points]
        notes = [f"{parameter} {row['x']:g}, {truth}: {_said(row)}" for row in points]
        lines.append(Series(truth, [row["x"] for row in points], [100 * row["mean"] for row in points], level, notes))
    default, best = default_of(parameter), BEST.get(parameter)
    guides = [(default, "default")] if best != default else [(default, "default and paper")]
    if best is not None and best != default:
        guides.append((best, "paper"))
    svg = chart(
        lines, Axis(parameter, parameter in FACTORS), Axis("mAP, %"), f"mAP of LPMT by {parameter}, {name}", guides
    )
    return Figure(
        f"figure-5{panel}-{name}-{features}",
        f"Figure 5{panel}. Effect of {parameter}: {name} {features}",
        svg,
        _best_sentence(parameter, rows, best),
    )


def _best_sentence(parameter: str, rows: Sequence[Found], best: float | None) -> str:
    said = []
    for truth in dict.fromkeys(row["truth"] for row in rows):
        points = _points([row for row in rows if row["truth"] == truth])
        if points:
            top = max(points, key=lambda row: float(row["mean"]))
            said.append(f"{truth} {100 * top['mean']:.1f} at {top['x']:g}")
    paper = f" The paper's best value is {best:g}." if best is not None else " The paper prints no best value."
    rest = "Joint, LPMT with its direct comparison, at its defaults but for this parameter."
    return f"Highest: {', '.join(said)}.{paper} {rest}"


def _time(record: Found) -> Iterator[Figure]:
    for one in record["time"]:
        points = one["points"]
        notes = [f"{point['candidates']:,} candidates: {point['seconds']:.2f} s" for point in points]
        x, y = [point["candidates"] for point in points], [point["seconds"] for point in points]
        lines = [Series("kinrank, here", x, y, (), notes), Series("paper: under 3 s", [5000], [SECONDS], [True])]
        svg = chart(
            lines, Axis("candidates k", True), Axis("seconds per query", True), "Seconds per query by candidates"
        )
        last = points[-1]
        yield Figure(
            f"figure-time-{one['set']}-{one['features']}",
            f"Time against k: {one['set']} {one['features']}",
            svg,
            f"One query at a time over its k nearest candidates, their search included, median of {one['queries']} "
            f"queries; {last['seconds']:.2f} s at {last['candidates']:,}. The paper says under {SECONDS:g} s at 5000, "
            "on a machine it does not name. Not joint: each query has a graph of its own.",
        )


def _said(row: Found) -> str:
    return f"{100 * row['mean']:.1f} ({100 * row['low']:.1f} to {100 * row['high']:.1f})"


def _differs(row: Found) -> bool:
    """Whether the paired interval of the difference to the default lies on one side of 0."""
    return bool((row.get("difference_low") or 0.0) > 0 or (row.get("difference_high") or 0.0) < 0)
