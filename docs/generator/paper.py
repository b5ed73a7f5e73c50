"""Results between the two marks of docs/paper.md, from the record of `kinrank bench paper`."""

from __future__ import annotations

from typing import Any

from generator.origins import tell_origin
from generator.pages import table
from generator.records import Measurements
from kinrank_bench.paper.comparison_tables import build_comparison_tables
from kinrank_bench.paper.figures import build_figures
from kinrank_bench.paper.order_checks import OrderTable, build_orders
from kinrank_bench.paper.paper_numbers import Cell, ComparisonTable
from kinrank_bench.paper.paper_page import paper_summary


def parts(found: Measurements) -> list[str]:
    """The gains of LPMT, the tables of our features, the verdicts, and the captions of the figures."""
    record: dict[str, Any] = found.paper
    if not record:
        return [
            "Nothing has been measured yet: `kinrank bench paper --data DIR -o out/paper --record "
            "benchmarks/results.jsonl`, then `make docs`."
        ]
    own = [one for one in build_comparison_tables(record) if one.key.startswith("your-")]
    made = ["\n".join(f"* {sentence}" for sentence in paper_summary(record))]
    for one in own:
        made += [f"### {one.title}", _table(one), *(note for note in one.notes if "refused" in note)]
    for one in build_orders(record):
        made += [f"### {one.title}", _order(one), "\n".join(f"* {note}" for note in one.notes)]
    drawn = build_figures(record)
    if drawn:
        made += ["### Figures", "\n".join(f"* {one.title}. {one.caption}" for one in drawn)]
    return [*made, f"Printed by `kinrank bench paper --data DIR`. {tell_origin(record)}"]


def _table(one: ComparisonTable) -> str:
    """The measured rows; methods that kinrank does not implement are on the page itself."""
    rows: list[tuple[str, ...]] = [("method", *(f"{head.group}, {head.name}" for head in one.heads))]
    for line in one.lines:
        if any(cell.mean is not None for cell in line.cells):
            rows.append((line.name, *map(_cell, line.cells)))
    return table(rows)


def _cell(cell: Cell) -> str:
    if cell.mean is None:
        return cell.word
    mark = "**" if cell.best else ""
    return f"{mark}{cell.mean:.1f}{mark} ({cell.low:.1f} to {cell.high:.1f})"


def _order(one: OrderTable) -> str:
    return table([one.table.head, *one.table.rows])
