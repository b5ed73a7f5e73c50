"""Finished tables rendered as Markdown, LaTeX, CSV or HTML."""

from __future__ import annotations

from html import escape
from itertools import groupby

from kinrank.tables import escape_latex
from kinrank.tables import render_csv as render_plain_csv
from kinrank_bench import tables
from kinrank_bench.paper.paper_numbers import MEASURED, PRINTED, Cell, ColumnHead, ComparisonTable


def render_markdown(table: ComparisonTable) -> str:
    """Render the table with its notes; the heading of a column says whether it is printed or measured."""
    heads = ["method", *(f"{head.block}: {head.absent or _head_text(head)}" for head in table.heads)]
    rows = [[line.name, *map(_cell_text, line.cells)] for line in table.lines]
    return tables.render_markdown([tables.Table(table.title, heads, rows, table.notes)])


def render_latex(table: ComparisonTable) -> str:
    """Render a tabular for booktabs: a row of blocks, one of groups, one of names."""
    blocks = [(block, len(list(run))) for block, run in groupby(table.heads, key=lambda head: head.block)]
    groups = [(group, len(list(run))) for (_, group), run in groupby(table.heads, key=lambda h: (h.block, h.group))]
    spec = "l" + "|".join("c" * count for _, count in blocks)
    lines = [rf"\begin{{tabular}}{{{spec}}}", r"\toprule"]
    lines.append("Method & " + " & ".join(rf"\multicolumn{{{n}}}{{c}}{{{_tex(b)}}}" for b, n in blocks) + r" \\")
    lines.append(" & " + " & ".join(rf"\multicolumn{{{n}}}{{c}}{{{_tex(g)}}}" for g, n in groups) + r" \\")
    lines.append(" & " + " & ".join(_tex(head.name or "absent") for head in table.heads) + r" \\")
    for number, line in enumerate(table.lines):
        if line.ruled or number == 0:
            lines.append(r"\midrule")
        lines.append(" & ".join([_tex(line.name), *map(_tex_cell, line.cells)]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    absences = [head.absent for head in table.heads if head.absent]
    lines = [*(f"% {' '.join(text.split())}" for text in (table.title, *table.notes, *absences)), *lines]
    return "\n".join(lines) + "\n"


def render_csv(table: ComparisonTable) -> str:
    """Render a line per number: its table, block, method, set, features, truth and measure; percent; joint."""
    titles = [
        "table",
        "block",
        "name",
        "method",
        "set",
        "features",
        "distractors",
        "truth",
        "measure",
        "column",
        "mode",
    ]
    rows: list[list[object]] = []
    for line in table.lines:
        for head, cell in zip(table.heads, line.cells, strict=True):
            of, where = head.column, [""] * 5
            if of is not None:
                where = [of.set, of.features, "yes" if of.distractors else "", of.truth, of.measure]
            numbers = [None if value is None else f"{value:.4g}" for value in (cell.mean, cell.low, cell.high)]
            mode = "joint" if head.block == MEASURED else "as printed"
            key = [table.key, head.block, line.name, line.method]
            rows.append([*key, *where, head.name, mode, *numbers, head.absent or cell.word])
    return render_plain_csv([*titles, "mean", "low", "high", "word"], rows)


def render_html(table: ComparisonTable) -> str:
    """Render a <table> with a row of blocks, one of groups and one of names, and the notes below."""
    blocks = [list(run) for _, run in groupby(table.heads, key=lambda head: head.block)]
    single = all(head.block == MEASURED for head in table.heads)
    top = "".join(
        f'<th class="{_block_class(run[0])} first" colspan="{len(run)}" scope="colgroup">{escape(run[0].block)}</th>'
        for run in blocks
    )
    groups, names = [], []
    for block in blocks:
        start = True
        for _, run in groupby(block, key=lambda head: (head.group, head.absent)):
            heads = list(run)
            edge = " first" if start and not single else ""
            start = False
            if heads[0].absent:
                groups.append(f'<th class="absent{edge}" rowspan="2" scope="col">{escape(heads[0].absent)}</th>')
                continue
            kind = _block_class(heads[0]) + edge
            groups.append(f'<th class="{kind}" colspan="{len(heads)}" scope="colgroup">{escape(heads[0].group)}</th>')
            names += [
                f'<th class="{_block_class(head)}{edge if not place else ""}" scope="col">{escape(head.name)}</th>'
                for place, head in enumerate(heads)
            ]
    firsts = set() if single else {sum(map(len, blocks[:number])) for number in range(len(blocks))}
    body = []
    for line in table.lines:
        cells = "".join(
            _html_cell(cell, head, number in firsts)
            for number, (cell, head) in enumerate(zip(line.cells, table.heads, strict=True))
        )
        body.append(f'<tr{" class=ruled" if line.ruled else ""}><th scope="row">{escape(line.name)}</th>{cells}</tr>')
    notes = "".join(f"<li>{escape(note)}</li>" for note in table.notes).replace("95 %", "95&nbsp;%")
    head = f'<tr><th rowspan="3" scope="col">method</th>{top}</tr><tr>{"".join(groups)}</tr><tr>{"".join(names)}</tr>'
    if single:
        head = f'<tr><th rowspan="2" scope="col">method</th>{"".join(groups)}</tr><tr>{"".join(names)}</tr>'
    return (
        f'<section id="{escape(table.key)}"><h3>{escape(table.title)}</h3><div class="scroll" tabindex="0">'
        f"<table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table></div>"
        f'<ul class="notes">{notes}</ul></section>'
    )


def _html_cell(cell: Cell, head: ColumnHead, first: bool) -> str:
    kind = _block_class(head) + (" first" if first else "")
    if cell.mean is None:
        return f'<td class="{kind} word">{escape(cell.word)}</td>'
    number = f"<b>{cell.mean:.1f}</b>" if cell.best else f"{cell.mean:.1f}"
    if cell.low is not None and cell.high is not None:
        number += f"<small>{cell.low:.1f} to {cell.high:.1f}</small>"
    return f'<td class="{kind}">{number}</td>'


def _block_class(head: ColumnHead) -> str:
    return "printed" if head.block == PRINTED else "measured"


def _head_text(head: ColumnHead) -> str:
    return ", ".join(part for part in (head.group, head.name) if part)


def _cell_text(cell: Cell) -> str:
    if cell.mean is None:
        return cell.word
    text = f"{cell.mean:.1f}" if cell.low is None else f"{cell.mean:.1f} ({cell.low:.1f} to {cell.high:.1f})"
    return tables.mark_best(text) if cell.best else text


def _tex_cell(cell: Cell) -> str:
    if cell.mean is None:
        return _tex(cell.word)
    number = rf"\textbf{{{cell.mean:.1f}}}" if cell.best else f"{cell.mean:.1f}"
    return number if cell.low is None else rf"{number} {{\scriptsize({cell.low:.1f} to {cell.high:.1f})}}"


def _tex(text: str) -> str:
    return escape_latex(text).replace("α", r"$\alpha$")
