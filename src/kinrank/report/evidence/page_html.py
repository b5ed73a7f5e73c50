"""HTML page of the report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

import kinrank
from kinrank.chain import Link
from kinrank.display import Display
from kinrank.evaluation.trials import BASELINE, format_points
from kinrank.progress import ProgressOption
from kinrank.report import comparison
from kinrank.report.evidence import plots
from kinrank.report.evidence.album import Album, breakable_html
from kinrank.report.evidence.evidence_data import METHODS, Evidence, ReportInput, gather
from kinrank.report.evidence.gain_chains import SHOWN_RESULTS, GainChain, Step
from kinrank.report.evidence.method_runs import DEFAULT_RUN, RankOrder, RunOptions, mode_sentence
from kinrank.report.html import document, masthead, number_card, query_choice_style, read_asset, write_page
from kinrank.report.transition import MAX_TRANSFERS, transition_figure

MAX_LEGEND_GROUPS = 40
MARKS = {True: ("right", "&#10003;"), False: ("wrong", "&#10007;"), None: ("junk", "&ndash;")}  # CSS class and sign


def evidence_page(evidence: Evidence) -> str:
    """Render the page. It needs no other file and no network; equal evidence gives an equal page."""
    album = Album()
    legend = _legend_groups(evidence)
    summary = comparison.verdict_and_table(evidence.trials) + comparison.describe_table(evidence.trials)
    sections = [
        ("summary", "Methods", f'<section id="summary"><h2>Methods</h2>{summary}</section>'),
        ("time", "Time", _time_section(evidence)),
        ("queries", "Every query", _change_section(evidence)),
        ("results", "Before and after", _results_section(evidence, album)),
        ("maps", "Maps", _map_section(evidence, legend)),
        ("chains", "Chains", _chains_section(evidence, album)),
    ]
    sections.append(("done", "What was done", _method_section(evidence, album)))
    visible = [(anchor, name, body) for anchor, name, body in sections if body]
    contents = "".join(f'<a href="#{anchor}">{name}</a>' for anchor, name, _ in visible)
    style = "".join(read_asset(name) for name in ("results.css", "comparison.css", "evidence.css"))
    style += plots.group_styles(len(evidence.groups.names))
    style += query_choice_style([query for query, _ in evidence.chosen]) + _highlight_style(legend)
    main = "\n".join([body for _, _, body in visible] + [evidence.material.closing])
    body = f"{_header_html(evidence, contents)}\n<main>{main}</main><script>{read_asset('evidence.js')}</script>"
    return document(f"kinrank report: {evidence.material.title}", body, style)


def _highlight_style(groups: list[int]) -> str:
    """Highlight the group chosen in the legend on all maps, if the browser supports :has()."""
    rules = [
        f".landscape:has(#group-{group}:checked) .map path:not(.g{group}) {{ stroke-opacity: .07; }}"
        for group in groups
    ]
    return "\n".join(rules) + "\n"


def _header_html(evidence: Evidence, contents: str) -> str:
    trials, measure = evidence.trials, evidence.trials.measures[0]
    plain, other = (next(trial for trial in trials if trial.method == name) for name in (BASELINE, evidence.name))
    sure = f"{100 * trials.confidence:g}&thinsp;% interval"
    gain = other.gains[measure]
    cards = "".join(
        number_card(
            kind,
            name,
            f"{100 * trial.scores[measure].mean:.1f}&thinsp;%",
            escape(measure) + why,
            [
                (sure, f"{100 * trial.scores[measure].low:.1f} to {100 * trial.scores[measure].high:.1f}"),
                ("time per query", f"{1000 * trial.seconds:.3g} ms"),
            ],
        )
        for kind, name, trial, why in (
            ("before", "No re-ranking", plain, ""),
            ("after", escape(evidence.name), other, _method_choice_note(evidence)),
        )
    )
    cards += number_card(
        "gain" if gain.difference >= 0 else "loss",
        "Difference",
        f"{100 * gain.difference:+.1f}",
        f"points of {escape(measure)}",
        [
            (sure, f"{100 * gain.low:+.1f} to {100 * gain.high:+.1f}"),
            ("p, paired", f"{gain.p:.4f}"),
            ("queries better, worse", f"{gain.better:,}, {gain.worse:,}"),
        ],
    )
    items = "" if trials.items is None else f" over {trials.items:,} items"
    return masthead(
        evidence.material.title,
        f"{evidence.material.introduction}"
        f"<p>{trials.queries:,} queries{items}. All numbers are <em>{escape(trials.mode)}</em>: "
        f"{mode_sentence(evidence.trials.mode)}.</p>"
        f'<div class="numbers">{cards}</div><nav class="contents" aria-label="Contents">{contents}</nav>',
    )


def _method_choice_note(evidence: Evidence) -> str:
    """Explain why this method is shown if another one re-ranks better."""
    measure, best = evidence.trials.measures[0], evidence.trials[0]
    others = [trial.method for trial in evidence.trials if trial.method != BASELINE]
    if others[0] == evidence.name:
        return ""
    gained = (
        "no re-ranking"
        if best.method == BASELINE
        else f"{best.method}, {format_points(best.gains[measure].difference)}"
    )
    return f'<small class="why">shown because its chains can be displayed; best here: {escape(gained)}</small>'


def _time_section(evidence: Evidence) -> str:
    return (
        '<section id="time"><h2>Accuracy against time</h2><p>Each dot is a method, its bar the interval of the mean. '
        f'<span class="key before"></span> no re-ranking, <span class="key after"></span> {escape(evidence.name)}, '
        '<span class="key good"></span> better than no re-ranking, <span class="key soft"></span> not clearly '
        'different, <span class="key bad"></span> worse.</p>'
        f'<div class="panel">{plots.draw_scores_by_time(evidence.trials, evidence.name)}</div></section>'
    )


def _change_section(evidence: Evidence) -> str:
    """Render every query's change as sorted bars; a slider and a sentence identify the query."""
    before, after = evidence.values
    known = np.flatnonzero(~np.isnan(after - before))
    order = known[np.argsort(-(after - before)[known], kind="stable")]
    change = (after - before)[order]
    measure_name = per_query_name(evidence.trials.measures[0])
    better, worse = int((change > 1e-9).sum()), int((change < -1e-9).sum())
    bars, places = plots.bin_changes(change)
    shown = order[places]
    low, high = plots.change_limits(bars)
    text = f"change in {measure_name} of {len(order)} queries, largest gain first: {better} better, {worse} worse"
    content = {
        "names": [evidence.query_display.name(int(row)) for row in shown],
        "rows": shown.tolist(),
        "before": before[shown].round(4).tolist(),
        "after": after[shown].round(4).tolist(),
        "places": (places + 1).tolist(),
        "queries": len(order),
        "measure": measure_name,
    }
    data = json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    extremes = int(change.argmax()), int(change.argmin())
    names = [escape(evidence.query_display.name(int(order[place]))) for place in extremes]
    unknown = int(len(before) - len(known))
    remarks = f" {unknown:,} queries without a right answer are left out." if unknown else ""
    if len(bars) < len(order):
        size = round(len(order) / len(bars))
        remarks += f" Each bar is the mean of about {size} queries, and is named after the middle one."
    return (
        f'<section id="queries"><h2>Every query</h2><p>Change of {escape(measure_name)} of each query from no '
        f're-ranking to {escape(evidence.name)}, in points, sorted: <b class="gained">{better:,} better</b>, '
        f'<b class="lost">{worse:,} worse</b>, {len(order) - better - worse:,} the same.{remarks} Point at a bar, '
        "tap it, or use the slider to see which query it is.</p>"
        f'<div class="panel changes"><div class="scale"><span>{format_points(high)}</span>'
        f"<span>{format_points(low)}</span></div>"
        f"{plots.draw_change_bars(bars, text)}"
        f'<input type="range" min="0" max="{len(bars) - 1}" value="0" step="1" aria-label="query" hidden>'
        f"<output>Largest gain: <b>{names[0]}</b> ({format_points(change[extremes[0]])}). Last: <b>{names[1]}</b> "
        f"({format_points(change[extremes[1]])}).</output>"
        f'<script type="application/json">{data}</script></div></section>'
    )


def _legend_groups(evidence: Evidence) -> list[int]:
    """Return the groups in the legend: the largest ones on the maps, in the order of their numbers."""
    of = evidence.groups.of[evidence.sample]
    counts = np.bincount(of[of >= 0], minlength=1)
    order = np.argsort(-counts, kind="stable")[:MAX_LEGEND_GROUPS]
    return sorted(int(group) for group in order if counts[group])


def _map_section(evidence: Evidence, legend: list[int]) -> str:
    if not evidence.maps:
        return ""
    groups, way = evidence.groups, "t-SNE" if evidence.tsne else "principal components"
    drawn = "".join(
        f"<figure><figcaption>{escape(drawn_map.title)}</figcaption>"
        f"{plots.draw_map(drawn_map, evidence.sample, groups)}</figure>"
        for drawn_map in evidence.maps
    )
    choices = '<label><input type="radio" name="group" checked><span>all</span></label>' + "".join(
        f'<label><input type="radio" name="group" id="group-{group}">'
        f'<span class="swatch {plots.group_class(group)}"></span><span>'
        f"{escape(groups.names[group])}</span></label>"
        for group in legend
    )
    sampled_count, total = len(evidence.sample), len(groups.of)
    extent = f"{sampled_count:,} of {total:,} items, evenly spaced" if sampled_count < total else f"all {total:,} items"
    grey = " Grey: none of these." if (groups.of[evidence.sample] < 0).any() else ""
    states = ", and by their states, the neighbourhoods that chains connect" if len(evidence.maps) > 1 else ""
    drawn_groups = len(np.unique(groups.of[evidence.sample][groups.of[evidence.sample] >= 0]))
    legend_note = f" The {len(legend)} largest of {drawn_groups} are listed." if drawn_groups > len(legend) else ""
    return (
        f'<section id="maps"><h2>Maps</h2><p>Similar items are near each other: by their vectors{states}. '
        f"{way}, {extent}. {escape(groups.about)}{grey} Distances between far groups, and the sizes of "
        "groups, have little meaning on such maps.</p>"
        f'<div class="panel landscape"><div class="maps">{drawn}</div><fieldset class="legend-box"><legend>Choose one '
        f"to highlight it.{legend_note}</legend>{choices}</fieldset></div></section>"
    )


def _method_section(evidence: Evidence, album: Album) -> str:
    trials = evidence.trials
    methods = "".join(f"<li><code>{escape(trial.parameters)}</code></li>" for trial in trials)
    remarks = "".join(f"<li>{escape(note)}</li>" for note in [*evidence.notes, *album.notes])
    notes = f'<ul class="notes">{remarks}</ul>' if remarks else ""
    return (
        f'<section id="done"><h2>What was done</h2><p>Mode: {escape(trials.mode)}, {mode_sentence(trials.mode)}. '
        f"{trials.queries:,} queries; measures: {escape(', '.join(trials.measures))}. The queries shown were chosen by "
        "their change in the first measure, at most one per group of similar queries if that leaves enough. "
        f"Written by <code>kinrank report</code>, kinrank {escape(kinrank.__version__)}.</p>"
        f"<details><summary>Methods with all their parameters</summary><ul>{methods}</ul></details>"
        f"{notes}</section>"
    )


def per_query_name(measure: str) -> str:
    """Return the name of a measure for a single query: mAP is the mean of AP."""
    return measure.removeprefix("m") if measure.startswith(("mAP", "mP@", "mINP")) else measure


def _results_section(evidence: Evidence, album: Album) -> str:
    """Render the first results of the chosen queries, before and after."""
    picks = "".join(
        _query_button(evidence, album, query, place == 0) for place, (query, _) in enumerate(evidence.chosen)
    )
    articles = "\n".join(_query_html(evidence, album, query, reason) for query, reason in evidence.chosen)
    measure_name = escape(per_query_name(evidence.trials.measures[0]))
    sides = [evidence.items] if evidence.query_display is evidence.items else [evidence.items, evidence.query_display]
    matching = "".join(f"<p>{escape(display.matching)}</p>" for display in sides if display.matching)
    return (
        '<section class="chooser" id="results"><h2>Before and after</h2>'
        f"<p>Choose a query with the mouse or the arrow keys; below each is its {measure_name} before and after. First "
        "come some of the largest gains, then typical queries, then the largest losses or, if there are fewer, the "
        "worst results.</p>"
        f'{matching}<fieldset class="picks"><legend>Choose a query</legend>{picks}</fieldset>'
        '<p>A <span class="key good"></span> green frame is a right answer, a <span class="key bad"></span> red dashed '
        "one is wrong; a grey dotted one does not count.</p>"
        f"{articles}</section>"
    )


def _query_button(evidence: Evidence, album: Album, query: int, first: bool) -> str:
    """Return a radio button that shows its query, without a script and usable by keyboard."""
    before, after = evidence.values[:, query].tolist()
    worse = " worse" if after < before else ""
    name = escape(evidence.query_display.name(query))
    address = album.address(evidence.query_display, query)
    image = "" if address is None else f'<img alt="" src="{address}">'
    return (
        f'<label class="pick{worse}"><input type="radio" name="query" id="pick-{query}"{" checked" if first else ""}>'
        f'{image}<span><b title="{name}">{name}</b> {100 * before:.0f} &rarr; {100 * after:.0f}&thinsp;%</span></label>'
    )


def _query_html(evidence: Evidence, album: Album, query: int, reason: str) -> str:
    before, after = evidence.values[:, query].tolist()
    worse = ' class="worse"' if after < before else ""
    display, measure_name = evidence.query_display, escape(per_query_name(evidence.trials.measures[0]))
    card = album.card(display, query, "asked", "query")
    right_count = len(evidence.relevance.right(query))
    title = "" if 'class="words' in card else f"<p><b>{breakable_html(display.name(query))}</b></p>"
    sides = "".join(
        _ranking_html(evidence, album, query, order, heading)
        for order, heading in ((evidence.before, "No re-ranking"), (evidence.after, evidence.name))
    )
    return (
        f'<article id="query-{query}"{worse}><div class="query">{card}<div>{title}<p>{escape(reason)}</p>'
        f"<p>{measure_name} {100 * before:.1f} &rarr; <b>{100 * after:.1f}&thinsp;%</b></p>"
        f"<p>{right_count:,} right {'answer' if right_count == 1 else 'answers'} in all</p></div></div>"
        f"<div>{sides}</div></article>"
    )


def _ranking_html(evidence: Evidence, album: Album, query: int, order: RankOrder, heading: str) -> str:
    items = order[query][:SHOWN_RESULTS]
    items = items[items >= 0]
    verdicts = evidence.relevance.judge(("query", query), None, items.tolist()) or []
    marked = [(item, *MARKS[verdict]) for item, verdict in zip(items.tolist(), verdicts, strict=True)]
    results = "".join(
        f"<li>{album.card(evidence.items, item, mark, f'rank {rank}, {mark}')}{rank} {sign}</li>"
        for rank, (item, mark, sign) in enumerate(marked, start=1)
    )
    right = verdicts.count(True)
    kind = " texts" if shows_texts(evidence.items) else ""
    return (
        f'<figure class="side"><figcaption><b>{escape(heading)}</b><span>{right} of the first {len(items)} right</span>'
        f'</figcaption><ol class="found ten{kind}">{results}</ol></figure>'
    )


def shows_texts(display: Display) -> bool:
    """True if items are shown as texts."""
    return not display.has_pictures and bool(display.texts)


def _chains_section(evidence: Evidence, album: Album) -> str:
    """Render the chains behind the largest gains and losses."""
    if not evidence.gains and not evidence.losses:
        return ""
    chains = [*evidence.gains, *evidence.losses]
    parts = [
        "<p>A chain leads from the query to an item in small steps; the item is near if the steps are cheap. Below "
        "each arrow is the cost of the step, as a share of the whole chain."
        f"{_describe_moves(chains)}{_direct_share_note(chains)} Frames are as above; "
        "another query in a chain is grey.</p>"
    ]
    for chains, heading, better in (
        (evidence.gains, "Gains: the right item that moved up the most", True),
        (evidence.losses, "Losses: the wrong item that moved up", False),
    ):
        if chains:
            rendered = "".join(_chain_html(evidence, album, chain, better) for chain in chains)
            parts.append(f"<h3>{heading}</h3>{rendered}")
    if evidence.step is not None:
        parts.append(_transition_html(evidence, album, evidence.step))
    return f'<section id="chains"><h2>Why: the chains</h2>{"".join(parts)}</section>'


def _describe_moves(chains: Sequence[GainChain]) -> str:
    """Explain the words below an arrow, with the first of them as example."""
    first = next((f"{gain.chain.moved[0]:.0%}" for gain in chains if gain.chain.moved), None)
    if first is None:
        return ""
    return f" Below it, \u201cmoves {first}\u201d: {first} of the neighbourhood is exchanged in this step."


def _direct_share_note(chains: Sequence[GainChain]) -> str:
    """Return the share of the distance that comes from the direct comparison."""
    shares = sorted({f"{chain.direct:.0%}" for chain in chains if chain.direct}, key=lambda text: int(text[:-1]))
    if not shares:
        return ""
    span = shares[0] if len(shares) == 1 else f"{shares[0]} to {shares[-1]}"
    return f" In addition to chains, {span} of the final distance comes from comparing neighbourhoods directly."


def _link_display(evidence: Evidence, link: Link) -> Display:
    return evidence.query_display if link.kind == "query" else evidence.items


def _link_name(evidence: Evidence, link: Link) -> str:
    return _link_display(evidence, link).name(link.number)


def _format_rank(rank: int | None, depth: int) -> str:
    return f"rank {rank:,}" if rank is not None else f"beyond rank {depth:,}"


def _chain_html(evidence: Evidence, album: Album, gain: GainChain, better: bool) -> str:
    chain = gain.chain
    before, after = evidence.values[:, gain.query].tolist()
    measure_name = escape(per_query_name(evidence.trials.measures[0]))
    steps = []
    for position, link in enumerate(chain.links):
        mark = "asked" if position == 0 else _link_mark(evidence, gain.query, link)
        display = _link_display(evidence, link)
        card = album.card(display, link.number, mark, "query" if position == 0 else f"step {position}, {mark}")
        name = "" if 'class="words' in card else breakable_html(display.name(link.number))
        arrow = ""
        if position:
            share, moved = chain.shares[position - 1], chain.moved[position - 1]
            arrow = f'<span class="step">&rarr;<br>{share:.0%}<small>moves {moved:.0%}</small></span>'
        kind = ' class="texts"' if shows_texts(display) else ""
        steps.append(f"<li{kind}>{arrow}<span>{card}{name}</span></li>")
    return (
        f'<div class="walk{"" if better else " worse"}"><p><b>{escape(evidence.query_display.name(gain.query))}</b>, '
        f"{measure_name} "
        f"{100 * before:.1f} &rarr; {100 * after:.1f}&thinsp;%. {gain.mark.capitalize()}: "
        f"<b>{escape(evidence.items.name(gain.item))}</b>, "
        f"{_format_rank(chain.rank_before, evidence.before.shape[1])} before, "
        f"{_format_rank(chain.rank_after, evidence.after.shape[1])} after, in {len(chain.costs)} "
        f'{"step" if len(chain.costs) == 1 else "steps"}.</p><ol class="chain">{"".join(steps)}</ol></div>'
    )


def _link_mark(evidence: Evidence, query: int, link: Link) -> str:
    """Return right, wrong or junk for a link of a chain; another query is junk."""
    verdicts = None if link.kind == "query" else evidence.relevance.judge(("query", query), None, [link.number])
    return MARKS[verdicts[0] if verdicts else None][0]


def _transition_html(evidence: Evidence, album: Album, step: Step) -> str:
    """Render one step that can be played: the mass that moves, and the entropy produced."""
    drawn = {*step.stage.sources[:MAX_TRANSFERS].tolist(), *step.stage.targets[:MAX_TRANSFERS].tolist()}
    names = [_link_name(evidence, link) for link in step.links]
    pictures = [
        album.address(_link_display(evidence, link), link.number) if place in drawn else None
        for place, link in enumerate(step.links)
    ]
    title = f"From {_link_name(evidence, step.start)} to {_link_name(evidence, step.end)}"
    figure = transition_figure(step.stage, names, pictures if any(pictures) else None, title)
    return (
        "<h3>One step, played</h3><p>The step of the first chain that moves the most. Each end is a neighbourhood: "
        "shares of items that sum to one. The part that the two do not share moves from one to the other.</p>"
        '<div class="played"><details class="entropy"><summary>The entropy of this step</summary><p>The paper treats '
        "a step as a flow that produces entropy: log 2 times the mass that moves. It does not change the ranking. The "
        "states gain a part of the entropy and the environment the rest; the figure now shows both.</p></details>"
        f"{figure}</div>"
    )


def report_page(
    output: str | Path,
    material: ReportInput,
    methods: Sequence[Any] | str = METHODS,
    options: RunOptions = DEFAULT_RUN,
    progress: ProgressOption = None,
) -> Evidence:
    """Write the report to an HTML file, atomically; if `output` is a folder, to index.html in it.

    Args:
        output: path of the file.
        material, methods, options, progress: as in `gather`.

    Returns:
        The contents of the page; `evidence.trials` has the numbers.

    Example:
        >>> report_page("report.html", ReportInput(None, vectors, kinrank.Truth.from_labels(labels))).trials
    """
    evidence = gather(material, methods, options, progress)
    write_page(Path(output), evidence_page(evidence))
    return evidence
