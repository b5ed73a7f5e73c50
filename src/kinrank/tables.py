"""Tables as text for a terminal, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Sequence


def align_columns(rows: Iterable[Sequence[object]], right: Collection[int] = ()) -> str:
    """Format rows of text in columns, the heading first. Columns with numbers in `right` are aligned right."""
    cells = [list(map(str, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def render_csv(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Render CSV, one row per line; None becomes an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([["" if cell is None else cell for cell in row] for row in rows])
    return text.getvalue()
