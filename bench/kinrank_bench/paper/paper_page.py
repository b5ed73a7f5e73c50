"""Page and files of the paper's bench: index.html, tables as .md, .tex and .csv, figures as .svg, and the record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from kinrank.files.atomic import atomic_write
from kinrank.plots import CHART_STYLE as CHARTS
from kinrank.plots import standalone_svg
from kinrank.report.html import document, masthead
from kinrank.tables import render_csv
from kinrank_bench import tables as plain
from kinrank_bench.paper import table_formats
from kinrank_bench.paper.comparison_tables import (
    build_comparison_tables,
    compare_baselines,
    describe_printed_numbers,
    distractor_suffix,
)
from kinrank_bench.paper.figures import Figure, build_figures
from kinrank_bench.paper.order_checks import (
    FAILS,
    HOLDS,
    MEASURED_COLUMNS,
    PAIR_COLUMNS,
    PRINTED_COLUMN,
    UNDECIDED,
    OrderTable,
    build_orders,
)

VERDICT_CLASSES = {HOLDS: "holds", FAILS: "fails", UNDECIDED: "open"}
PAPER_CITATION = "Locality Preserving Markovian Transition for Instance Retrieval (Luo, Wu, Yao, Yu, Xu, ICML 2025)"


def render_page(record: dict[str, Any]) -> str:
    """Render the page; it loads nothing from elsewhere."""
    tables, figures, orders = build_comparison_tables(record), build_figures(record), build_orders(record)
    own_tables = [table for table in tables if table.key.startswith("your-")]
    paper_tables = [table for table in tables if not table.key.startswith("your-")]
    sections = [
        ("yours", "Your features", _side_by_side([table_formats.render_html(table) for table in own_tables])),
        ("orders", "Does the paper's order hold?", _side_by_side([_order_section(order) for order in orders])),
        ("figures", "Figures", _figure_section(figures)),
        ("tables", "The paper's tables", "".join(table_formats.render_html(table) for table in paper_tables)),
    ]
    visible = [(key, title, body) for key, title, body in sections if body]
    links = "".join(f'<a href="#{key}">{escape(title)}</a>' for key, title, _ in visible)
    body = "".join(f'<h2 id="{key}">{escape(title)}</h2>{body}' for key, title, body in visible)
    summary = "".join(f"<p>{escape(sentence)}</p>" for sentence in paper_summary(record))
    top = f'{_about_section(record)}<nav class="inside" aria-label="On this page">{links}</nav>'
    whole = f'{masthead("The paper, measured on your features", top)}<main><div class="verdict">{summary}</div>{body}'
    style = CHARTS + "\n" + (files(__package__) / "paper_page.css").read_text("utf-8")
    return document("kinrank bench paper", f"{whole}{_method_section(record)}{_file_section()}</main>", style)


def _side_by_side(parts: Sequence[str]) -> str:
    """Put sections next to each other if the window is wide enough."""
    return f'<div class="side-by-side">{"".join(parts)}</div>' if parts else ""


def paper_summary(record: dict[str, Any]) -> list[str]:
    """Summarize the record in sentences: whether the features are the paper's, LPMT's gain, which orders hold."""
    sentences = [
        f"{entry['set']} {entry['features']} could not be read: {entry['error']}" for entry in record.get("failed", ())
    ]
    sentences += compare_baselines(record)
    names = {
        (entry["set"], entry["features"], entry["distractors"]): distractor_suffix(entry) for entry in record["found"]
    }
    for row in record["scores"]:
        if row["method"] == "lpmt" and row.get("mean") is not None and row["measure"] == "mAP":
            mean, gain, low, high = (100 * row[part] for part in ("mean", "gain", "gain_low", "gain_high"))
            suffix = names.get((row["set"], row["features"], row["distractors"]), "")
            sentences.append(
                f"{row['set']}{suffix} {row['features']}, {row['truth']}, joint: mAP {mean - gain:.1f} without "
                f"re-ranking, {mean:.1f} with LPMT ({gain:+.1f}, 95 % interval {low:+.1f} to {high:+.1f})."
            )
    for entry in build_orders(record):
        sentences += [f"{entry.title}. {note}" for note in entry.notes if note.startswith("At ")]
    return sentences or ["There is nothing to summarize; see the figures below."]


def _about_section(record: dict[str, Any]) -> str:
    machine = record["machine"]
    sets = ", ".join(
        dict.fromkeys(f"{entry['set']} {entry['features']}{distractor_suffix(entry)}" for entry in record["found"])
    )
    return (
        f"<p>{escape(PAPER_CITATION)}: its tables, ablations and figures, measured with these features: "
        f"{escape(sets)}. All numbers are joint (queries and gallery in one graph) unless stated otherwise. "
        f"{escape(describe_printed_numbers(record))}</p>"
        f'<p class="soft">kinrank {escape(record["version"])}, {machine["threads"]} threads, '
        f"{escape(machine['architecture'])}, {escape(record['date'])}.</p>"
    )


def _order_section(order: OrderTable) -> str:
    """Render a table of pairs with one body per truth and settings."""
    columns = [*PAIR_COLUMNS, *[PRINTED_COLUMN] * order.printed, *MEASURED_COLUMNS]
    head = "".join(f'<th scope="col">{escape(column.heading)}</th>' for column in columns)
    bodies = []
    for heading, pairs in order.groups:
        rows = "".join(_pair_row(pair, order.printed) for pair in pairs)
        bodies.append(
            f'<tbody><tr><th class="group" colspan="{len(columns)}" scope="rowgroup">{escape(heading)}</th></tr>'
            f"{rows}</tbody>"
        )
    notes = "".join(f"<li>{escape(note)}</li>" for note in order.notes).replace("95 %", "95&nbsp;%")
    return (
        f'<section class="order" id="{escape(order.key)}"><h3>{escape(order.title)}</h3>'
        '<div class="scroll" tabindex="0">'
        f"<table><thead><tr>{head}</tr></thead>{''.join(bodies)}</table></div>"
        f'<ul class="notes">{notes}</ul></section>'
    )


def _pair_row(pair: dict[str, Any], with_printed: bool) -> str:
    printed = f'<td class="printed">{escape(PRINTED_COLUMN.text(pair))}</td>' if with_printed else ""
    better, than = (column.text(pair) for column in PAIR_COLUMNS)
    *numbers, verdict = (column.text(pair) for column in MEASURED_COLUMNS)
    cells = "".join(f"<td>{escape(number)}</td>" for number in numbers)
    return (
        f'<tr><th scope="row">{escape(better)}</th><td class="than">{escape(than)}</td>{printed}{cells}'
        f'<td class="{VERDICT_CLASSES[verdict]}">{escape(verdict)}</td></tr>'
    )


def _figure_section(figures: Sequence[Figure]) -> str:
    parts = [
        f'<figure id="{escape(figure.key)}"><h3>{escape(figure.title)}</h3>{figure.svg}'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
        for figure in figures
    ]
    if not parts:
        return ""
    note = (
        "<p>A ring marks a value that does not differ from the default (its paired 95 % interval covers 0); a filled "
        "dot differs. Point at a dot to see its interval. <code>kinrank report</code> draws Figure 6 (results before "
        "and after) and Figure 7 (t-SNE) from your pictures.</p>"
    )
    return f'{note}<div class="figures">{"".join(parts)}</div>'


def _method_section(record: dict[str, Any]) -> str:
    """List every method of the tables with its parameters, in a collapsed element."""
    items = "".join(f"<li><code>{escape(method)}</code></li>" for method in record["methods"].values())
    if not items:
        return ""
    return f"<details><summary>Methods with all their parameters</summary><ul>{items}</ul></details>"


def _file_section() -> str:
    return (
        '<h2>Files</h2><p class="files">Next to this page: every table as Markdown, LaTeX and CSV in '
        '<a href="tables/">tables/</a>, every figure as SVG in <a href="figures/">figures/</a>, and all numbers in '
        '<a href="record.json">record.json</a>.</p>'
    )


def write_files(record: dict[str, Any], folder: Path) -> list[Path]:
    """Write all files, each one atomically; return their paths, the page first.

    Files of an earlier run that this run does not produce are left in place.
    """
    texts = {
        "index.html": render_page(record),
        "record.json": json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n",
    }
    for table in build_comparison_tables(record):
        texts[f"tables/{table.key}.md"] = table_formats.render_markdown(table)
        texts[f"tables/{table.key}.tex"] = table_formats.render_latex(table)
        texts[f"tables/{table.key}.csv"] = table_formats.render_csv(table)
    for order in build_orders(record):
        pairs = order.table
        texts[f"tables/{order.key}.md"] = plain.render_markdown([pairs])
        texts[f"tables/{order.key}.tex"] = plain.render_latex([pairs])
        texts[f"tables/{order.key}.csv"] = render_csv(pairs.head, pairs.rows)
    for figure in build_figures(record):
        texts[f"figures/{figure.key}.svg"] = standalone_svg(figure.svg)
    paths = []
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            file.write(text.encode("utf-8"))
        paths.append(path)
    return paths
