"""Tables of measured numbers -> Markdown, LaTeX or CSV, the same cells in each."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

BEST = "**"  # around a cell: the best of its column
LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "↑": r"$\uparrow$", "↓": r"$\downarrow$", "–": "--", "−": "$-$", "±": r"$\pm$", "×": r"$\times$",
}  # fmt: skip


@dataclass(frozen=True)
class Table:
    """Rows of text under a heading.

    Attributes:
        title: what the numbers are, in a line.
        head: the names of the columns.
        rows: one text per column; a text between two pairs of asterisks is the best of its column.
        notes: sentences below the table.
        left: how many of the first columns hold words, and begin at the left; the others hold numbers.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = field(default=())
    left: int = 1


def best(text: str) -> str:
    """A cell that is marked as the best of its column."""
    return f"{BEST}{text}{BEST}"


def plain(cell: str) -> tuple[str, bool]:
    """The text of a cell, and whether it is the best of its column."""
    marked = len(cell) > 2 * len(BEST) and cell.startswith(BEST) and cell.endswith(BEST)
    return (cell[len(BEST) : -len(BEST)], True) if marked else (cell, False)


def markdown(tables: Sequence[Table]) -> str:
    """One section per table."""
    parts = []
    for table in tables:
        rule = ["---" if place < table.left else "---:" for place in range(len(table.head))]
        lines = ["| " + " | ".join(map(_markdown, table.head)) + " |", "|" + "|".join(rule) + "|"]
        for row in table.rows:
            cells = [(_markdown(text), top) for text, top in map(plain, row)]
            lines.append("| " + " | ".join(best(text) if top else text for text, top in cells) + " |")
        parts += [f"## {_markdown(table.title)}", "\n".join(lines), *map(_markdown, table.notes)]
    return "\n\n".join(parts) + "\n"


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", " ".join(text.split()))


def latex(tables: Sequence[Table]) -> str:
    """One table environment per table, to be read with `\\input`; no package is needed."""
    parts = []
    for table in tables:
        columns = "l" * table.left + "r" * (len(table.head) - table.left)
        lines = [
            r"\begin{table}",
            rf"\caption{{{escaped(table.title)}.}}",
            r"\centering",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\hline",
            " & ".join(map(escaped, table.head)) + r" \\",
            r"\hline",
        ]
        for row in table.rows:
            cells = [(escaped(text), top) for text, top in map(plain, row)]
            lines.append(" & ".join(rf"\textbf{{{text}}}" if top else text for text, top in cells) + r" \\")
        lines += [r"\hline", r"\end{tabular}"]
        if table.notes:
            lines += [r"\par\smallskip", "\n".join(rf"{{\footnotesize {escaped(note)}\par}}" for note in table.notes)]
        parts.append("\n".join([*lines, r"\end{table}"]))
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """A text as LaTeX prints it, whatever characters it has."""
    signed = re.sub(r"(?<![\w.)])-(?=\d)", "−", " ".join(text.split()))  # a minus, no hyphen
    return "".join(LATEX.get(letter, letter) for letter in signed)


def comma_separated(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """CSV, one row per line; nothing where there is no value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([["" if cell is None else cell for cell in row] for row in rows])
    return text.getvalue()
