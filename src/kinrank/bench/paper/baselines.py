"""A record -> whether its features are those of the paper: printed and measured numbers without re-ranking."""

from __future__ import annotations

from typing import Any

from kinrank.bench.paper.filled import tables
from kinrank.bench.paper.layout import PRINTED, Filled
from kinrank.bench.paper.printed import TABLES

Found = dict[str, Any]


def same_features(record: Found) -> list[str]:
    """A sentence per kind of features that the paper has, too: what it prints without re-ranking, and what is here."""
    filled = {table.key: table for table in tables(record)}
    said = []
    for table in TABLES:
        pairs = _pairs(filled[f"table-{table.number}"]) if table.features else []
        if pairs:
            said.append(f"{table.features} without re-ranking, is it the paper's? {'; '.join(pairs)}.")
    return said


def _pairs(table: Filled) -> list[str]:
    """Printed and measured numbers of the row without re-ranking, where both are there."""
    (cells,) = (line.cells for line in table.lines if line.method == "none")
    both = list(zip(table.heads, cells, strict=True))
    printed = {head.column: cell.mean for head, cell in both if head.block == PRINTED}
    return [
        f"{head.group}, {head.name}: printed {printed[head.column]:.1f}, measured {cell.mean:.1f}"
        for head, cell in both
        if head.block != PRINTED and head.column is not None and cell.mean is not None
    ]


def about_printed(record: Found) -> str:
    """What to think of the printed numbers."""
    words = {one["features"] for one in record["found"]}
    named = [
        f"your {table.features} is {f'its {table.rows[0].name}' if table.kind == 'landmarks' else 'what it took'}"
        for table in TABLES
        if table.features in words
    ]
    if not named:
        return "Printed numbers are the paper's, of features that are not in this folder."
    return f"Printed numbers are the paper's. Whether {', '.join(named)}: compare the rows without re-ranking."
