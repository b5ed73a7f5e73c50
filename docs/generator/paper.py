"""Results between the two marks of docs/paper.md, from the record of `kinrank bench paper`; in short for the README."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from generator.origins import tell_origin
from generator.pages import table
from generator.records import Measurements
from generator.two_lpmts import AS_PUBLISHED, COLUMNS, DEFAULTS
from kinrank_bench.paper.comparison_tables import build_comparison_tables
from kinrank_bench.paper.figures import build_figures
from kinrank_bench.paper.order_checks import OrderTable, build_orders
from kinrank_bench.paper.paper_numbers import MEASURED, PRINTED, Cell, Column, ComparisonTable
from kinrank_bench.paper.paper_page import paper_summary
from kinrank_bench.paper.variants import PAPER_LPMT

BRIEF = ("none", "cas", AS_PUBLISHED, DEFAULTS)


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
    for one in _reproduced_tables(record):
        made += [f"### Reproduced: {one.title}", _side_by_side(one), *one.notes]
    for one in own:
        made += [f"### {one.title}", _table(one), *(note for note in one.notes if "refused" in note)]
    for one in build_orders(record):
        made += [f"### {one.title}", _order(one), "\n".join(f"* {note}" for note in one.notes)]
    drawn = build_figures(record)
    if drawn:
        made += ["### Figures", "\n".join(f"* {one.title}. {one.caption}" for one in drawn)]
    return [*made, f"Printed by `kinrank bench paper --data DIR`. {tell_origin(record)}"]


def reproduced_briefly(found: Measurements) -> list[str]:
    """For the README: printed and measured mAP of a few methods, if features of the paper were measured."""
    made = []
    for one in _reproduced_tables(found.paper):
        made += [
            _side_by_side(one, BRIEF, "mAP"),
            "A table of the paper, reproduced with its kind of features: mAP printed in the paper / measured. "
            f"[All methods](docs/paper.md#results). Printed by `kinrank bench paper`. {tell_origin(found.paper)}",
        ]
    return made


def _reproduced_tables(record: dict[str, Any]) -> list[ComparisonTable]:
    """The paper's tables of methods for which features of the paper were measured."""
    found = [one for one in build_comparison_tables(record) if one.key.startswith("table-")] if record else []
    return [one for one in found if _measured_columns(one) and any(line.method == PAPER_LPMT for line in one.lines)]


def _measured_columns(one: ComparisonTable) -> list[Column]:
    return [head.column for head in one.heads if head.block == MEASURED and head.column is not None]


def _side_by_side(one: ComparisonTable, methods: Sequence[str] = (), measure: str = "") -> str:
    """A cell per method and column: printed / measured, both LPMT next to the printed one; only of these methods and
    this measure, if given."""
    columns = [column for column in _measured_columns(one) if measure in ("", column.measure)]
    heads = [f"{column.group}, {column.name}" for column in columns]
    rows: list[tuple[str, ...]] = [("method", *heads)]
    cells = {
        (line.method, head.block, head.column): cell
        for line in one.lines
        for head, cell in zip(one.heads, line.cells, strict=True)
    }
    for line in one.lines:
        printed = DEFAULTS if line.method == AS_PUBLISHED else line.method  # the paper has one LPMT
        shown = [(cells[printed, PRINTED, column], cells[line.method, MEASURED, column]) for column in columns]
        if any(measured.mean is not None for _, measured in shown) and (not methods or line.method in methods):
            rows.append((COLUMNS.get(line.method, line.name), *(" / ".join(map(_plain, pair)) for pair in shown)))
    return table(rows)


def _plain(cell: Cell) -> str:
    return cell.word if cell.mean is None else f"{cell.mean:.1f}"


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
