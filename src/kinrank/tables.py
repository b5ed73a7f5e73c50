"""Tables as text for a terminal, and as CSV; texts for LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Sequence

LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "↑": r"$\uparrow$", "↓": r"$\downarrow$", "–": "--", "−": "$-$", "±": r"$\pm$", "×": r"$\times$",
}  # fmt: skip


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


def escape_latex(text: str) -> str:
    """Escape a text for LaTeX."""
    signed = re.sub(r"(?<![\w.)])-(?=\d)", "−", " ".join(text.split()))  # a minus sign instead of a hyphen
    return "".join(LATEX.get(letter, letter) for letter in signed)
