"""Evidence -> its page as text."""

from __future__ import annotations

import json
from html import escape

import numpy as np

import kinrank
from kinrank.evaluation.trials import PLAIN, points
from kinrank.report import comparison, page_style
from kinrank.report.evidence import drawings
from kinrank.report.evidence.gathering import Evidence
from kinrank.report.evidence.looks import Album
from kinrank.report.evidence.reasons import reasons
from kinrank.report.evidence.results import per_query_name, results
from kinrank.report.evidence.style import SCRIPT, STYLE, highlight_style
from kinrank.report.evidence.trying import said_of
from kinrank.report.html import document, masthead, number_card

LEGEND = 40  # groups in the legend of the maps


def evidence_page(evidence: Evidence) -> str:
    """The whole page: no other file, no network; the same evidence gives the same page."""
    album = Album()
    listed = _listed(evidence)
    sections = [
        ("summary", "Methods", _summary(evidence)),
        ("time", "Time", _time(evidence)),
        ("queries", "Every query", _changes(evidence)),
        ("results", "Before and after", results(evidence, album)),
        ("maps", "Maps", _maps(evidence, listed)),
        ("chains", "Chains", reasons(evidence, album)),
    ]
    sections.append(("done", "What was done", _done(evidence, album)))
    shown = [(anchor, name, body) for anchor, name, body in sections if body]
    contents = "".join(f'<a href="#{anchor}">{name}</a>' for anchor, name, _ in shown)
    style = page_style.STYLE + comparison.STYLE + STYLE + drawings.look_style(len(evidence.groups.names))
    style += page_style.chosen_style([query for query, _ in evidence.chosen]) + highlight_style(listed)
    main = "\n".join(body for _, _, body in shown)
    body = f"{_header(evidence, contents)}\n<main>{main}</main><script>{SCRIPT}</script>"
    return document(f"kinrank report: {evidence.title}", body, style)


def _header(evidence: Evidence, contents: str) -> str:
    trials, measure = evidence.trials, evidence.trials.measures[0]
    plain, other = (next(trial for trial in trials if trial.method == name) for name in (PLAIN, evidence.name))
    sure = f"{100 * trials.confidence:g}&thinsp;% interval"
    gain = other.gains[measure]
    cards = "".join(
        number_card(
            kind, name, f"{100 * trial.scores[measure].mean:.1f}&thinsp;%", escape(measure) + why,
            [(sure, f"{100 * trial.scores[measure].low:.1f} to {100 * trial.scores[measure].high:.1f}"),
             ("time per query", f"{1000 * trial.seconds:.3g} ms")],
        )
        for kind, name, trial, why in (
            ("before", "No re-ranking", plain, ""), ("after", escape(evidence.name), other, _why(evidence)),
        )
    )  # fmt: skip
    cards += number_card(
        "gain" if gain.difference >= 0 else "loss", "Difference", f"{100 * gain.difference:+.1f}",
        f"points of {escape(measure)}",
        [(sure, f"{100 * gain.low:+.1f} to {100 * gain.high:+.1f}"), ("p, paired", f"{gain.p:.4f}"),
         ("queries better, worse", f"{gain.better:,}, {gain.worse:,}")],
    )  # fmt: skip
    items = "" if trials.items is None else f" over {trials.items:,} items"
    return masthead(
        evidence.title,
        f"<p>{trials.queries:,} queries{items}. All numbers are <em>{escape(trials.mode)}</em>: {_mode(evidence)}.</p>"
        f'<div class="numbers">{cards}</div><nav class="contents" aria-label="Contents">{contents}</nav>',
    )


def _why(evidence: Evidence) -> str:
    """Why this method is shown where another re-ranks better, and which."""
    measure, best = evidence.trials.measures[0], evidence.trials[0]
    others = [trial.method for trial in evidence.trials if trial.method != PLAIN]
    if others[0] == evidence.name:
        return ""
    gained = "no re-ranking" if best.method == PLAIN else f"{best.method}, {points(best.gains[measure].difference)}"
    return f'<small class="why">shown because its chains can be; best here: {escape(gained)}</small>'


def _mode(evidence: Evidence) -> str:
    return said_of(evidence.trials.mode)


def _summary(evidence: Evidence) -> str:
    return (
        f'<section id="summary"><h2>Methods</h2>{comparison.verdict_and_table(evidence.trials)}'
        f"{comparison.how_to_read(evidence.trials)}</section>"
    )


def _time(evidence: Evidence) -> str:
    return (
        '<section id="time"><h2>Accuracy against time</h2><p>Each dot is a method, the bar the interval of its mean. '
        f'<span class="key before"></span> no re-ranking, <span class="key after"></span> {escape(evidence.name)}, '
        '<span class="key good"></span> better than no re-ranking, <span class="key soft"></span> not clearly '
        'different, <span class="key bad"></span> worse.</p>'
        f'<div class="panel">{drawings.against_time(evidence.trials, evidence.name)}</div></section>'
    )


def _changes(evidence: Evidence) -> str:
    """Every query's change, sorted, as bars; a slider and a sentence tell which query one is."""
    before, after = evidence.values
    known = np.flatnonzero(~np.isnan(after - before))
    order = known[np.argsort(-(after - before)[known], kind="stable")]
    change = (after - before)[order]
    called = per_query_name(evidence.trials.measures[0])
    better, worse = int((change > 1e-9).sum()), int((change < -1e-9).sum())
    bars, places = drawings.binned(change)
    shown = order[places]
    low, high = drawings.change_limits(bars)
    text = f"change in {called} of {len(order)} queries, largest gain first: {better} better, {worse} worse"
    told = {
        "names": [evidence.asked.name(int(row)) for row in shown],
        "rows": shown.tolist(),
        "before": before[shown].round(4).tolist(),
        "after": after[shown].round(4).tolist(),
        "places": (places + 1).tolist(),
        "queries": len(order),
        "measure": called,
    }
    data = json.dumps(told, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    most = int(change.argmax()), int(change.argmin())
    names = [escape(evidence.asked.name(int(order[place]))) for place in most]
    left = int(len(before) - len(known))
    out = f" {left:,} without a right answer are left out." if left else ""
    if len(bars) < len(order):
        out += (
            f" Each bar is the mean of about {round(len(order) / len(bars))} queries; named is the middle one of them."
        )
    return (
        f'<section id="queries"><h2>Every query</h2><p>How the {escape(called)} of each query changes from no '
        f're-ranking to {escape(evidence.name)}, in points, sorted: <b class="gained">{better:,} better</b>, '
        f'<b class="lost">{worse:,} worse</b>, {len(order) - better - worse:,} the same.{out} Point at a bar, '
        "tap it, or use the slider to see which query it is.</p>"
        f'<div class="panel changes"><div class="scale"><span>{points(high)}</span><span>{points(low)}</span></div>'
        f"{drawings.change_bars(bars, text)}"
        f'<input type="range" min="0" max="{len(bars) - 1}" value="0" step="1" aria-label="query" hidden>'
        f"<output>Largest gain: <b>{names[0]}</b> ({points(change[most[0]])}). Last: <b>{names[1]}</b> "
        f'({points(change[most[1]])}).</output><script type="application/json">{data}</script></div></section>'
    )


def _listed(evidence: Evidence) -> list[int]:
    """Groups in the legend: the largest of those on the maps, in the order of their numbers."""
    of = evidence.groups.of[evidence.sample]
    counts = np.bincount(of[of >= 0], minlength=1)
    order = np.argsort(-counts, kind="stable")[:LEGEND]
    return sorted(int(group) for group in order if counts[group])


def _maps(evidence: Evidence, listed: list[int]) -> str:
    if not evidence.maps:
        return ""
    groups, way = evidence.groups, "t-SNE" if evidence.tsne else "principal components"
    drawn = "".join(
        f"<figure><figcaption>{escape(one.title)}</figcaption>"
        f"{drawings.map_drawing(one, evidence.sample, groups)}</figure>"
        for one in evidence.maps
    )
    choices = '<label><input type="radio" name="group" checked><span>all</span></label>' + "".join(
        f'<label><input type="radio" name="group" id="group-{group}">'
        f'<span class="swatch {drawings.look(group)}"></span><span>'
        f"{escape(groups.names[group])}</span></label>"
        for group in listed
    )
    shown, total = len(evidence.sample), len(groups.of)
    sampled = f"{shown:,} of {total:,} items, evenly taken" if shown < total else f"all {total:,} items"
    grey = " Grey: none of these." if (groups.of[evidence.sample] < 0).any() else ""
    states = ", and by the states, the neighbourhoods that chains move between" if len(evidence.maps) > 1 else ""
    drawn_groups = len(np.unique(groups.of[evidence.sample][groups.of[evidence.sample] >= 0]))
    others = f" The {len(listed)} largest of {drawn_groups} are listed." if drawn_groups > len(listed) else ""
    return (
        f'<section id="maps"><h2>Maps</h2><p>What is alike lies near: by the vectors as they are{states}. '
        f"{way}, {sampled}. {escape(groups.about)}{grey} Distances between far groups, and the sizes of "
        "groups, mean little on such maps.</p>"
        f'<div class="panel landscape"><div class="maps">{drawn}</div><fieldset class="legend-box"><legend>Choose one '
        f"to see it alone.{others}</legend>{choices}</fieldset></div></section>"
    )


def _done(evidence: Evidence, album: Album) -> str:
    trials = evidence.trials
    methods = "".join(f"<li><code>{escape(trial.parameters)}</code></li>" for trial in trials)
    said = "".join(f"<li>{escape(note)}</li>" for note in [*evidence.notes, *album.notes])
    notes = f'<ul class="notes">{said}</ul>' if said else ""
    return (
        f'<section id="done"><h2>What was done</h2><p>Mode: {escape(trials.mode)}, {_mode(evidence)}. '
        f"{trials.queries:,} queries; measures: {escape(', '.join(trials.measures))}. The queries shown were chosen by "
        "their change in the first measure, at most one of those that ask for the same where that leaves enough. "
        f"Written by <code>kinrank report</code>, kinrank {escape(kinrank.__version__)}.</p>"
        f"<details><summary>Methods with all their parameters</summary><ul>{methods}</ul></details>"
        f"{notes}</section>"
    )
