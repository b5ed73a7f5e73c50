"""Trials of methods -> a page, a table in CSV or Markdown, a figure."""

from __future__ import annotations

import csv
import io
from html import escape
from typing import Any

from kinrank.evaluation.trials import PLAIN, Trials
from kinrank.report import svg
from kinrank.report.html import document, masthead

DRAWN, GAINED = 3, 3  # where the drawing goes, and the column of what is gained before that
STYLE = """
main, header > div { max-width: 1280px; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  margin: 14px 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { padding: 7px 11px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
tr:last-child td { border-bottom: 0; }
th { color: var(--soft); font-weight: 600; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: var(--card); }
td.plot { padding: 0 4px; }
td.plot svg { display: block; width: 180px; height: 24px; max-width: none; }
tr.plain td { font-weight: 600; }
.gained { color: var(--good); }
.lost { color: var(--bad); }
.verdict { background: var(--card); border: 1px solid var(--line); border-left: 4px solid var(--after);
  border-radius: 10px; padding: 12px 18px; margin: 20px 0; }
.verdict p { margin: .25em 0; max-width: none; }
"""


def comparison_page(trials: Trials) -> str:
    """The whole page as text: the verdict, a row per method with its interval drawn, who refused and why."""
    head = masthead("Methods compared on your data", _about(trials))
    body = f"{head}<main>{verdict_and_table(trials)}<h2>How to read this</h2>{how_to_read(trials)}</main>"
    return document("kinrank compare", body, STYLE)


def verdict_and_table(trials: Trials) -> str:
    """The verdict in sentences, a row per method, who refused and why."""
    said = "".join(f"<p>{escape(sentence)}</p>" for sentence in trials.verdict)
    refused = "".join(
        f"<li><b>{escape(name)}</b>: {escape(sentence)}</li>" for name, sentence in trials.refused.items()
    )
    return (
        f'<div class="verdict">{said}</div><div class="scroll" tabindex="0">{_table(trials)}</div>'
        f"{f'<h2>Refused</h2><ul>{refused}</ul>' if refused else ''}"
    )


def _about(trials: Trials) -> str:
    items = "" if trials.items is None else f" over {trials.items:,} items"
    return f"<p>{trials.queries:,} queries{items}, {trials.mode}. The best {trials.measures[0]} stands first.</p>"


def _table(trials: Trials) -> str:
    """The table of the trials, with a drawing behind the first interval."""
    heading, *rows = trials.table()
    first = trials.measures[0]
    limits = min(trial.scores[first].low for trial in trials), max(trial.scores[first].high for trial in trials)
    titles = [f'<th scope="col">{escape(title)}</th>' for title in heading]
    titles.insert(DRAWN, '<th scope="col" aria-label="drawn"></th>')
    lines = []
    for trial, row in zip(trials, rows, strict=True):
        gain = trial.gains[first]
        side = "before" if trial.method == PLAIN else "bad" if gain.high < 0 else "after"
        cells = [f"<td>{escape(cell)}</td>" for cell in row]
        if trial.method != PLAIN and (gain.low > 0 or gain.high < 0):
            cells[GAINED] = f'<td class="{"gained" if gain.low > 0 else "lost"}">{escape(row[GAINED])}</td>'
        cells.insert(DRAWN, f'<td class="plot">{svg.interval(trial.scores[first], *limits, side)}</td>')
        kind = ' class="plain"' if trial.method == PLAIN else ""
        lines.append(f"<tr{kind}>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{''.join(titles)}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def how_to_read(trials: Trials) -> str:
    """What the numbers of the table mean, and the times."""
    return (
        "<p>Measures are in percent. Intervals resample the queries "
        f"({100 * trials.confidence:g}&thinsp;%). What is gained is the difference to no re-ranking on the same "
        "queries; p is how often chance alone would give a difference this large. Times are those of ranking, per "
        "query, on the machine that made this page, after a first small run compiled the loops.</p>"
    )


def comparison_csv(trials: Trials) -> str:
    """A line per method and measure, shares from 0 to 1; a method that refused has its sentence and no numbers."""
    numbers = ["mean", "low", "high", "difference", "difference_low", "difference_high", "p"]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["method", "parameters", "measure", *numbers, "seconds_per_query", "refused"])
    for trial in trials:
        for measure in trials.measures:
            score, gain = trial.scores[measure], trial.gains[measure]
            values = [score.mean, score.low, score.high, gain.difference, gain.low, gain.high, gain.p, trial.seconds]
            writer.writerow([trial.method, trial.parameters, measure, *(f"{value:.6g}" for value in values), ""])
    for name, sentence in trials.refused.items():
        writer.writerow([name, "", "", *[""] * (len(numbers) + 1), sentence])
    return text.getvalue()


def comparison_markdown(trials: Trials) -> str:
    """The table, the verdict and who refused, for a README or an issue."""
    heading, *rows = trials.table()
    lines = [_row(heading), _row(["---", *["---:"] * (len(heading) - 1)]), *map(_row, rows), "", trials.about, ""]
    lines += [f"* {sentence}" for sentence in trials.verdict]
    lines += [f"* {name} refused: {sentence}" for name, sentence in trials.refused.items()]
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def figure_class() -> Any:
    """matplotlib's Figure, or an ImportError that says what to install."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib; install it with: pip install 'kinrank[plot]'") from error
    return Figure


def comparison_figure(trials: Trials) -> Any:
    """A matplotlib figure: per method its first measure with the interval, and a line where no re-ranking stands."""
    first = trials.measures[0]
    figure = figure_class()(figsize=(7, 1.3 + 0.28 * max(len(trials), 1)), layout="constrained")
    axes = figure.subplots()
    for place, trial in enumerate(trials):
        score = trial.scores[first]
        color = "#6b7685" if trial.method == PLAIN else "#2458c5" if trial.gains[first].difference >= 0 else "#b3261e"
        axes.plot([100 * score.low, 100 * score.high], [place, place], color=color, linewidth=2)
        axes.plot(100 * score.mean, place, "o", color=color, markersize=5)
        if trial.method == PLAIN:
            axes.axvline(100 * score.mean, color="#6b7685", linewidth=1, linestyle=":")
    axes.set_yticks(range(len(trials)), [trial.method for trial in trials])
    axes.invert_yaxis()
    axes.set_xlabel(f"{first}, %, with {100 * trials.confidence:g} % intervals")
    axes.set_title(f"{trials.queries} queries, {trials.mode}; dotted: no re-ranking", fontsize=10)
    return figure
