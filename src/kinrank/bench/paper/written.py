"""A record -> a folder: index.html, tables as .md, .tex and .csv, figures as .svg, and the record itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kinrank.bench import tables as plain
from kinrank.bench.paper import texts
from kinrank.bench.paper.figures import figures
from kinrank.bench.paper.filled import tables
from kinrank.bench.paper.orders import PAIR, WHERE, Order, orders
from kinrank.bench.paper.page import page
from kinrank.files.atomic import replacing
from kinrank.report.curves import standalone


def write(record: dict[str, Any], folder: Path) -> list[Path]:
    """Write everything, each file whole or not at all; the paths, the page first.

    Files of an earlier run that this one does not make stay where they are.
    """
    files = {
        "index.html": page(record),
        "record.json": json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n",
    }
    for table in tables(record):
        files[f"tables/{table.key}.md"] = texts.markdown(table)
        files[f"tables/{table.key}.tex"] = texts.latex(table)
        files[f"tables/{table.key}.csv"] = texts.comma_separated(table)
    for order in orders(record):
        pairs = _as_table(order)
        files[f"tables/{order.key}.md"] = plain.markdown([pairs])
        files[f"tables/{order.key}.tex"] = plain.latex([pairs])
        files[f"tables/{order.key}.csv"] = plain.comma_separated(order.head, order.rows)
    for figure in figures(record):
        files[f"figures/{figure.key}.svg"] = standalone(figure.svg)
    paths = []
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(text.encode("utf-8"))
        paths.append(path)
    return paths


def _as_table(order: Order) -> plain.Table:
    return plain.Table(order.title, order.head, order.rows, order.notes, left=len((*PAIR, *WHERE)))
