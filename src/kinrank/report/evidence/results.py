"""Evidence -> the part of the page with the first results of some queries, before and after."""

from __future__ import annotations

from html import escape

from kinrank.report.evidence.gathering import Evidence
from kinrank.report.evidence.judged import RIGHT
from kinrank.report.evidence.looks import Album, Looks, breakable
from kinrank.report.evidence.trying import Order
from kinrank.report.evidence.walks import FIRST

SIGNS = {"right": "&#10003;", "wrong": "&#10007;", "junk": "&ndash;"}


def per_query_name(measure: str) -> str:
    """What the mean of a measure is called for one query: the mean of AP is mAP."""
    return measure.removeprefix("m") if measure.startswith(("mAP", "mP@", "mINP")) else measure


def results(evidence: Evidence, album: Album) -> str:
    picks = "".join(_pick(evidence, album, query, place == 0) for place, (query, _) in enumerate(evidence.chosen))
    articles = "\n".join(_query(evidence, album, query, reason) for query, reason in evidence.chosen)
    called = escape(per_query_name(evidence.trials.measures[0]))
    sides = [evidence.items] if evidence.asked is evidence.items else [evidence.items, evidence.asked]
    matching = "".join(f"<p>{escape(looks.matching)}</p>" for looks in sides if looks.matching)
    return (
        '<section class="chooser" id="results"><h2>Before and after</h2>'
        f"<p>Choose a query, with the mouse or the arrow keys; below each stands its {called} before and after. First "
        "come some of the largest gains, then typical queries, then the largest losses or, where there are fewer, the "
        "worst results.</p>"
        f'{matching}<fieldset class="picks"><legend>Choose a query</legend>{picks}</fieldset>'
        '<p>A <span class="key good"></span> green frame is a right answer, a <span class="key bad"></span> red dashed '
        "one is wrong; a grey dotted one does not count.</p>"
        f"{articles}</section>"
    )


def _pick(evidence: Evidence, album: Album, query: int, first: bool) -> str:
    """A radio button that shows its query: no script, and the keyboard reaches it."""
    before, after = evidence.values[:, query].tolist()
    worse = " worse" if after < before else ""
    name = escape(evidence.asked.name(query))
    address = album.address(evidence.asked, query)
    image = "" if address is None else f'<img alt="" src="{address}">'
    return (
        f'<label class="pick{worse}"><input type="radio" name="query" id="pick-{query}"{" checked" if first else ""}>'
        f'{image}<span><b title="{name}">{name}</b> {100 * before:.0f} &rarr; {100 * after:.0f}&thinsp;%</span></label>'
    )


def _query(evidence: Evidence, album: Album, query: int, reason: str) -> str:
    before, after = evidence.values[:, query].tolist()
    worse = ' class="worse"' if after < before else ""
    asked, called = evidence.asked, escape(per_query_name(evidence.trials.measures[0]))
    shown = album.card(asked, query, "asked", "query")
    known = len(evidence.judged.right(query))
    title = "" if 'class="words' in shown else f"<p><b>{breakable(asked.name(query))}</b></p>"
    sides = "".join(
        _side(evidence, album, query, order, heading)
        for order, heading in ((evidence.before, "No re-ranking"), (evidence.after, evidence.name))
    )
    return (
        f'<article id="query-{query}"{worse}><div class="query">{shown}<div>{title}<p>{escape(reason)}</p>'
        f"<p>{called} {100 * before:.1f} &rarr; <b>{100 * after:.1f}&thinsp;%</b></p>"
        f"<p>{known:,} right {'answer' if known == 1 else 'answers'} in all</p></div></div><div>{sides}</div></article>"
    )


def _side(evidence: Evidence, album: Album, query: int, order: Order, heading: str) -> str:
    items = order[query][:FIRST]
    items = items[items >= 0]
    marks = evidence.judged.marks(query, items)
    found = "".join(
        f"<li>{album.card(evidence.items, item, mark, f'rank {rank}, {mark}')}{rank} {SIGNS[mark]}</li>"
        for rank, (item, mark) in enumerate(zip(items.tolist(), marks, strict=True), start=1)
    )
    right = marks.count(RIGHT)
    kind = " texts" if has_words(evidence.items) else ""
    return (
        f'<figure class="side"><figcaption><b>{escape(heading)}</b><span>{right} of the first {len(items)} right</span>'
        f'</figcaption><ol class="found ten{kind}">{found}</ol></figure>'
    )


def has_words(looks: Looks) -> bool:
    """Whether items are shown as texts."""
    return looks.picture is None and looks.texts is not None
