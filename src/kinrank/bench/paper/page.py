"""A record -> one page: what was found, tables, verdicts and figures; nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from kinrank.bench.paper import texts
from kinrank.bench.paper.baselines import about_printed, same_features
from kinrank.bench.paper.figures import Figure, figures
from kinrank.bench.paper.filled import distractors, tables
from kinrank.bench.paper.orders import MEASURED, PAIR, PRINTED, Order, Pair, measured, orders
from kinrank.bench.paper.verdicts import FAILS, HOLDS, OPEN
from kinrank.report.curves import STYLE as CHARTS
from kinrank.report.html import document, masthead

VERDICTS = {HOLDS: "holds", FAILS: "fails", OPEN: "open"}
PAPER = "Locality Preserving Markovian Transition for Instance Retrieval (Luo, Wu, Yao, Yu, Xu, ICML 2025)"
STYLE = (
    CHARTS
    + """
main, header > div { max-width: 1400px; }
nav.inside { display: flex; flex-wrap: wrap; gap: 6px 18px; margin: 16px 0 0; }
nav.inside a, .files a, .notes a { color: var(--after); }
section { margin: 0 0 30px; min-width: 0; }
.beside { display: flex; flex-wrap: wrap; gap: 0 26px; }
.beside table { font-size: .87rem; }
.beside th, .beside td { padding: 5px 8px; }
.beside section { flex: 0 1 auto; max-width: 100%; }
h3 { margin: 1.2em 0 .4em; font-size: 1.08rem; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  width: fit-content; max-width: 100%; }
table { border-collapse: separate; border-spacing: 0; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: 5px 10px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line);
  vertical-align: top; }
thead th { color: var(--soft); font-weight: 600; text-align: center; vertical-align: bottom; }
tbody th, thead tr:first-child th:first-child { text-align: left; position: sticky; left: 0; background: var(--card);
  font-weight: 500; z-index: 1; }
tbody tr:last-child > * { border-bottom: 0; }
tr.ruled > * { border-top: 1px solid var(--guide); }
td small, th small { display: block; font-size: .74rem; line-height: 1.2; font-weight: 400; }
.printed { color: var(--soft); }
.measured.first, .absent.first { border-left: 3px solid var(--after); }
thead .measured.first[colspan] { color: var(--after); }
th.absent { white-space: normal; min-width: 15em; max-width: 22em; font-weight: 500; text-align: left; }
td.word { color: var(--soft); font-size: .84rem; }
ul.notes { margin: 8px 0 0; padding-left: 1.2em; color: var(--soft); font-size: .88rem; }
ul.notes li { max-width: 100ch; }
.beside h3 { max-width: 46ch; }
.beside ul.notes { max-width: 68ch; }
.beside thead th { white-space: normal; max-width: 8.5em; }
.order td.than, .order td.printed, .order td:last-child { text-align: left; }
.order .group { padding-top: 14px; color: var(--soft); font-weight: 600; }
.order .holds { color: var(--good); }
.order .fails { color: var(--bad); font-weight: 600; }
.order .open { color: var(--soft); }
.verdict { background: var(--card); border: 1px solid var(--line); border-left: 4px solid var(--after);
  border-radius: 10px; padding: 12px 18px; margin: 20px 0; }
.verdict p { margin: .3em 0; max-width: none; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 330px), 1fr)); gap: 16px; }
.figures figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 12px 14px; }
.figures svg { display: block; width: 100%; }
.figures h3 { margin: 0 0 .5em; font-size: .95rem; }
figcaption { font-size: .84rem; margin-top: 6px; }
"""
)


def page(record: dict[str, Any]) -> str:
    """The whole page as text."""
    made, drawn, judged = tables(record), figures(record), orders(record)
    own = [table for table in made if table.key.startswith("your-")]
    theirs = [table for table in made if not table.key.startswith("your-")]
    sections = [
        ("yours", "Your features", _beside([texts.html(table) for table in own])),
        ("orders", "Does the paper's order hold?", _beside([_order(one) for one in judged])),
        ("figures", "Figures", _figures(drawn)),
        ("tables", "The paper's tables", "".join(texts.html(table) for table in theirs)),
    ]
    shown = [(key, title, body) for key, title, body in sections if body]
    links = "".join(f'<a href="#{key}">{escape(title)}</a>' for key, title, _ in shown)
    body = "".join(f'<h2 id="{key}">{escape(title)}</h2>{body}' for key, title, body in shown)
    said = "".join(f"<p>{escape(sentence)}</p>" for sentence in summary(record))
    top = f'{_about(record)}<nav class="inside" aria-label="On this page">{links}</nav>'
    whole = f'{masthead("The paper, measured on your features", top)}<main><div class="verdict">{said}</div>{body}'
    return document("kinrank bench paper", f"{whole}{_methods(record)}{_files()}</main>", STYLE)


def _beside(parts: Sequence[str]) -> str:
    """Sections next to each other where the window is wide enough."""
    return f'<div class="beside">{"".join(parts)}</div>' if parts else ""


def summary(record: dict[str, Any]) -> list[str]:
    """What was found, in sentences: whether these are the paper's features, what LPMT gains, which orders hold."""
    said = [f"{one['set']} {one['features']} could not be read: {one['error']}" for one in record.get("failed", ())]
    said += same_features(record)
    names = {(one["set"], one["features"], one["distractors"]): distractors(one) for one in record["found"]}
    for row in record["scores"]:
        if row["method"] == "lpmt" and row.get("mean") is not None and row["measure"] == "mAP":
            mean, gain, low, high = (100 * row[part] for part in ("mean", "gain", "gain_low", "gain_high"))
            more = names.get((row["set"], row["features"], row["distractors"]), "")
            said.append(
                f"{row['set']}{more} {row['features']}, {row['truth']}, joint: mAP {mean - gain:.1f} without "
                f"re-ranking, {mean:.1f} with LPMT ({gain:+.1f}, 95 % interval {low:+.1f} to {high:+.1f})."
            )
    for one in orders(record):
        said += [f"{one.title}. {note}" for note in one.notes if note.startswith("At ")]
    return said or ["Nothing was measured that can be summed up; see the figures below."]


def _about(record: dict[str, Any]) -> str:
    machine = record["machine"]
    sets = ", ".join(dict.fromkeys(f"{one['set']} {one['features']}{distractors(one)}" for one in record["found"]))
    return (
        f"<p>{escape(PAPER)}: its tables, ablations and figures with the features that were found: {escape(sets)}. All "
        "numbers are joint (queries and gallery in one graph) unless it says otherwise. "
        f"{escape(about_printed(record))}</p>"
        f'<p class="soft">kinrank {escape(record["version"])}, {machine["threads"]} threads, '
        f"{escape(machine['architecture'])}, {escape(record['date'])}.</p>"
    )


def _order(one: Order) -> str:
    """A body of rows per truth and settings, under the columns of all."""
    columns = [*PAIR, *[PRINTED] * one.printed, *MEASURED]
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    bodies = []
    for heading, pairs in one.groups:
        rows = "".join(_pair(pair, one.printed) for pair in pairs)
        bodies.append(
            f'<tbody><tr><th class="group" colspan="{len(columns)}" scope="rowgroup">{escape(heading)}</th></tr>'
            f"{rows}</tbody>"
        )
    notes = "".join(f"<li>{escape(note)}</li>" for note in one.notes).replace("95 %", "95&nbsp;%")
    return (
        f'<section class="order" id="{escape(one.key)}"><h3>{escape(one.title)}</h3><div class="scroll" tabindex="0">'
        f"<table><thead><tr>{head}</tr></thead>{''.join(bodies)}</table></div>"
        f'<ul class="notes">{notes}</ul></section>'
    )


def _pair(pair: Pair, told: bool) -> str:
    printed = f'<td class="printed">{escape(pair.printed)}</td>' if told else ""
    *numbers, verdict = measured(pair)
    cells = "".join(f"<td>{escape(number)}</td>" for number in numbers)
    return (
        f'<tr><th scope="row">{escape(pair.better)}</th><td class="than">{escape(pair.than)}</td>{printed}{cells}'
        f'<td class="{VERDICTS[verdict]}">{escape(verdict)}</td></tr>'
    )


def _figures(drawn: Sequence[Figure]) -> str:
    parts = [
        f'<figure id="{escape(one.key)}"><h3>{escape(one.title)}</h3>{one.svg}'
        f"<figcaption>{escape(one.caption)}</figcaption></figure>"
        for one in drawn
    ]
    if not parts:
        return ""
    note = (
        "<p>A ring is a value whose difference to the default cannot be told from 0 (paired 95 % interval); a filled "
        "dot differs. Rest on a dot for its interval. Figure 6 (results before and after) and Figure 7 (t-SNE) are "
        "made of your pictures by <code>kinrank report</code>.</p>"
    )
    return f'{note}<div class="figures">{"".join(parts)}</div>'


def _methods(record: dict[str, Any]) -> str:
    """Every method of the tables with its parameters, behind a line to open."""
    listed = "".join(f"<li><code>{escape(spelled)}</code></li>" for spelled in record["methods"].values())
    if not listed:
        return ""
    return f"<details><summary>Methods with all their parameters</summary><ul>{listed}</ul></details>"


def _files() -> str:
    return (
        '<h2>Files</h2><p class="files">Beside this page: every table as Markdown, LaTeX and CSV in '
        '<a href="tables/">tables/</a>, every figure as SVG in <a href="figures/">figures/</a>, and all numbers in '
        '<a href="record.json">record.json</a>.</p>'
    )
