"""The record of `kinrank bench paper` -> what was found, between the two marks of docs/paper.md."""

from __future__ import annotations

from typing import Any

from generator.pages import table
from generator.records import Measurements
from kinrank.bench.paper.figures import figures
from kinrank.bench.paper.filled import tables
from kinrank.bench.paper.layout import Cell, Filled
from kinrank.bench.paper.orders import Order, orders
from kinrank.bench.paper.page import summary


def parts(found: Measurements) -> list[str]:
    """What LPMT gains, the tables of our features, the verdicts, and what the figures show."""
    record: dict[str, Any] = found.paper
    if not record:
        return [
            "Nothing has been measured yet: `kinrank bench paper --data DIR -o out/paper --record "
            "benchmarks/results.jsonl`, then `make docs`."
        ]
    own = [one for one in tables(record) if one.key.startswith("your-")]
    made = ["\n".join(f"* {sentence}" for sentence in summary(record))]
    for one in own:
        made += [f"### {one.title}", _table(one), *(note for note in one.notes if "refused" in note)]
    for one in orders(record):
        made += [f"### {one.title}", _order(one), "\n".join(f"* {note}" for note in one.notes)]
    drawn = figures(record)
    if drawn:
        made += ["### Figures", "\n".join(f"* {one.title}. {one.caption}" for one in drawn)]
    return [*made, f"Printed by `kinrank bench paper --data DIR`, {found.machines['paper']}."]


def _table(one: Filled) -> str:
    """The rows that were measured; methods that kinrank does not have are on the page itself."""
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


def _order(one: Order) -> str:
    return table([tuple(one.head), *map(tuple, one.rows)])
