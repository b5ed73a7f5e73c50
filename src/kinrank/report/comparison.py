"""Comparison of methods as a page, a CSV, Markdown or LaTeX table, or a figure."""

from __future__ import annotations

from html import escape
from typing import Any

from kinrank import plots
from kinrank.evaluation.trials import BASELINE, Trials
from kinrank.lazy_import import import_extra
from kinrank.report.html import document, masthead, read_asset
from kinrank.tables import escape_latex, render_csv

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"  # of methods in LaTeX, then a1, b1
DRAWN, GAINED = 3, 3  # position of the drawing, and column of the gain before the drawing is inserted


def comparison_page(trials: Trials) -> str:
    """Render the page: verdict, a row per method with its interval drawn, refusals."""
    items = "" if trials.items is None else f" over {trials.items:,} items"
    about = f"{trials.queries:,} queries{items}, {trials.mode}. The best {trials.measures[0]} comes first."
    head = masthead("Methods compared on your data", f"<p>{about}</p>")
    body = f"{head}<main>{verdict_and_table(trials)}<h2>How to read this</h2>{describe_table(trials)}</main>"
    return document("kinrank compare", body, read_asset("comparison.css"))


def verdict_and_table(trials: Trials) -> str:
    """Render the verdict in sentences, a row per method, and refusals."""
    sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in trials.verdict)
    table = f'<div class="verdict">{sentences}</div><div class="scroll" tabindex="0">{_html_table(trials)}</div>'
    table += "".join(f"<p>{escape(sentence)}</p>" for sentence in trials.notes)
    for heading, reasons in (("Refused", trials.refused), ("Failed", trials.failed)):
        rows = "".join(f"<li><b>{escape(name)}</b>: {escape(reason)}</li>" for name, reason in reasons.items())
        table += f"<h2>{heading}</h2><ul>{rows}</ul>" if rows else ""
    return table


def _html_table(trials: Trials) -> str:
    """Render the table of the trials, with a drawing after the first interval."""
    heading, *rows = trials.table()
    first = trials.measures[0]
    limits = min(trial.scores[first].low for trial in trials), max(trial.scores[first].high for trial in trials)
    titles = [f'<th scope="col">{escape(title)}</th>' for title in heading]
    titles.insert(DRAWN, '<th scope="col" aria-label="drawn"></th>')
    lines = []
    for trial, row in zip(trials, rows, strict=True):
        gain = trial.gains[first]
        side = "before" if trial.method == BASELINE else "bad" if gain.high < 0 else "after"
        cells, change = [f"<td>{escape(cell)}</td>" for cell in row], trials.differs(trial, first)
        if trial.method != BASELINE and change:
            cells[GAINED] = f'<td class="{"gained" if change > 0 else "lost"}">{escape(row[GAINED])}</td>'
        score = trial.scores[first]
        drawn = plots.draw_interval((score.low, score.mean, score.high), *limits, side, repr(score))
        cells.insert(DRAWN, f'<td class="plot">{drawn}</td>')
        kind = ' class="plain"' if trial.method == BASELINE else ""
        lines.append(f"<tr{kind}>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{''.join(titles)}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def describe_table(trials: Trials) -> str:
    """Explain the numbers and times of the table."""
    return (
        "<p>Measures are in percent. Intervals resample the queries "
        f"({100 * trials.confidence:g}&thinsp;%). The gain is the difference to no re-ranking on the same "
        "queries; p is the probability of a difference this large by chance alone, and <em>tie</em> means not "
        "significantly different from the best method. Times are for ranking, per query, "
        "on the machine that made this page, after a small first run compiled the loops.</p>"
    )


def comparison_csv(trials: Trials) -> str:
    """Return a line per method and measure, shares from 0 to 1; a refusal has its sentence and no numbers."""
    numbers = ["mean", "low", "high", "difference", "difference_low", "difference_high", "p", "p_to_best"]
    rows: list[list[str]] = []
    for trial in trials:
        for measure in trials.measures:
            score, gain = trial.scores[measure], trial.gains[measure]
            values = [score.mean, score.low, score.high, gain.difference, gain.low, gain.high, gain.p]
            cells = [f"{value:.6g}" for value in [*values, trial.p_to_best[measure], trial.seconds]]
            words = [";".join(trial.beats[measure]), trials.correction, ";".join(trial.tuned)]
            rows.append([trial.method, trial.parameters, measure, *cells, *words, ""])
    for name, sentence in {**trials.refused, **trials.failed}.items():
        rows.append([name, "", "", *[""] * (len(numbers) + 4), sentence])
    head = ["method", "parameters", "measure", *numbers, "seconds_per_query", "beats", "correction", "tuned", "refused"]
    return render_csv(head, rows)


def comparison_markdown(trials: Trials) -> str:
    """Return the table, the verdict and refusals, for a README or an issue."""
    heading, *rows = trials.table()
    lines = [
        _markdown_row(heading),
        _markdown_row(["---", *["---:"] * (len(heading) - 1)]),
        *map(_markdown_row, rows),
        "",
        trials.about,
        "",
    ]
    lines += [f"* {sentence}" for sentence in (*trials.verdict, *trials.notes)]
    lines += [f"* {name} refused: {sentence}" for name, sentence in trials.refused.items()]
    lines += [f"* {name} failed: {reason}" for name, reason in trials.failed.items()]
    return "\n".join(lines) + "\n"


def _markdown_row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def comparison_latex(trials: Trials) -> str:
    """Return a table environment. Superscripts are the letters of the methods that a method significantly beats."""
    letters = {trial.method: LETTERS[n % 52] + str(n // 52 or "") for n, trial in enumerate(trials)}
    rule = "Holm's correction over all pairs" if trials.correction == "holm" else "not corrected for their number"
    caption = (
        f"{trials.about}. Bold: the best mean of a column. Superscripts: the methods that a method is significantly "
        f"better than (paired randomization tests, p < {trials.alpha:g}, {rule})."
    )
    lines = [
        r"\begin{table}",
        rf"\caption{{{escape_latex(caption[0].upper() + caption[1:])}}}",
        r"\centering",
        rf"\begin{{tabular}}{{ll{'r' * (len(trials.measures) + 1)}}}",
        r"\hline",
        " & ".join(["", "method", *map(escape_latex, trials.measures), "ms/query"]) + r" \\",
        r"\hline",
    ]
    for trial in trials:
        cells = [letters[trial.method], escape_latex(trial.method)]
        for measure in trials.measures:
            mean = f"{100 * trial.scores[measure].mean:.2f}"
            mean = rf"\textbf{{{mean}}}" if trial is trials.best(measure) else mean
            beaten = "".join(letter for name, letter in letters.items() if name in trial.beats[measure])
            cells.append(mean + (rf"$^{{\mathrm{{{beaten}}}}}$" if beaten else ""))
        lines.append(" & ".join([*cells, f"{1000 * trial.seconds:.3g}"]) + r" \\")
    lines += [r"\hline", r"\end{tabular}"]
    reasons = (("failed", trials.failed), ("refused", trials.refused))
    left_out = [f"{name} {word}: {reason}" for word, group in reasons for name, reason in group.items()]
    notes = [*trials.verdict, *trials.notes, *left_out]
    lines += [r"\par\smallskip", *(rf"{{\footnotesize {escape_latex(note)}\par}}" for note in notes)] if notes else []
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def comparison_figure(trials: Trials) -> Any:
    """Draw a matplotlib figure: the first measure of each method with its interval, and a line for no re-ranking."""
    first = trials.measures[0]
    figure = import_extra("matplotlib.figure", "a figure", "plot").Figure(
        figsize=(7, 1.3 + 0.28 * max(len(trials), 1)), layout="constrained"
    )
    axes = figure.subplots()
    for place, trial in enumerate(trials):
        score = trial.scores[first]
        color = (
            "#6b7685" if trial.method == BASELINE else "#2458c5" if trial.gains[first].difference >= 0 else "#b3261e"
        )
        axes.plot([100 * score.low, 100 * score.high], [place, place], color=color, linewidth=2)
        axes.plot(100 * score.mean, place, "o", color=color, markersize=5)
        if trial.method == BASELINE:
            axes.axvline(100 * score.mean, color="#6b7685", linewidth=1, linestyle=":")
    axes.set_yticks(range(len(trials)), [trial.method for trial in trials])
    axes.invert_yaxis()
    axes.set_xlabel(f"{first}, %, with {100 * trials.confidence:g} % intervals")
    axes.set_title(f"{trials.queries} queries, {trials.mode}; dotted: no re-ranking", fontsize=10)
    return figure
