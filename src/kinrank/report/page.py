"""What the demo found -> its page: the two numbers, queries before and after, a chain, every query's AP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape

import numpy as np
from numpy.typing import NDArray

from kinrank.evaluation import Comparison, Scores
from kinrank.ranking import Ranking
from kinrank.report import svg
from kinrank.report.html import coarse, document, masthead, number_card, picture
from kinrank.report.page_style import STYLE, chosen_style

YOURS = """<section class="yours"><h2>On your data</h2>
<p>Vectors of any model, one row per item. Re-rank a gallery for every query and write the ranking:</p>
<pre tabindex="0"><code>kinrank rerank --queries queries.npy --gallery gallery.npy -o ranking.npz</code></pre>
<p>If you know what is right, measure whether it helps, with which method, and where it hurts:</p>
<pre tabindex="0"><code>kinrank compare --gallery all.npy --labels labels.csv -o table.html</code></pre>
<p>Prepare a gallery once, then answer queries it has never seen in milliseconds:</p>
<pre tabindex="0"><code>kinrank build --gallery gallery.npy -o gallery.manifold
kinrank search gallery.manifold --queries queries.npy -k 10</code></pre>
<p>The same in Python:</p>
<pre tabindex="0"><code>import kinrank
ranking = kinrank.rerank(queries, gallery)</code></pre></section>"""
SHOWN = (1, 5, 10, 15, 20, 25, 30, 35, 40, 50, 60, 70)  # the ranks drawn for every query, chosen beforehand


@dataclass(frozen=True, eq=False)
class Side:
    """One way to rank: its name for people, what it returned, its scores (mAP and R@1), its time."""

    name: str
    ranking: Ranking
    scores: Scores
    seconds: float


@dataclass(frozen=True, eq=False)
class Chain:
    """A walk from the query to a far view: item numbers, cost of each step, and the item's ranks (from 1)."""

    items: Sequence[int]
    costs: Sequence[float]
    rank_before: int
    rank_after: int


@dataclass(frozen=True, eq=False)
class Demo:
    """Everything the page shows. `chosen` are query numbers, each with the reason why it is shown."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    angles: NDArray[np.float32]
    names: Sequence[str]
    dimensions: int
    before: Side
    after: Side
    comparison: Comparison
    chosen: Sequence[tuple[int, str]]
    chain: Chain

    def name(self, item: int) -> str:
        return f"{self.names[self.labels[item]]} at {self.angles[item]:g}°"

    def hits(self, side: Side, query: int) -> NDArray[np.bool_]:
        """Right or wrong at every rank, as deep as there are right answers."""
        depth = int(np.count_nonzero(self.labels == self.labels[query])) - 1
        return np.asarray(self.labels[side.ranking.indices[query, :depth]] == self.labels[query])


def demo_page(demo: Demo) -> str:
    """The whole page as text."""
    demo = replace(demo, images=coarse(demo.images))
    main = "\n".join([_queries(demo), _chain(demo), _plots(demo), _method(demo), YOURS])
    style = STYLE + chosen_style([query for query, _ in demo.chosen])
    return document("kinrank demo: walking around toys", f"{_header(demo)}\n<main>{main}</main>", style)


def _percent(value: float) -> str:
    return f"{100 * value:.1f}&thinsp;%"


def _header(demo: Demo) -> str:
    toys, views = len(set(demo.labels.tolist())), int(np.count_nonzero(demo.labels == demo.labels[0]))
    gain = demo.comparison
    cards = "".join(
        number_card(
            kind,
            escape(side.name),
            _percent(side.scores["mAP"].mean),
            "mean average precision (mAP)",
            [
                ("95&thinsp;% interval", _interval(side, "mAP")),
                ("first answer right", f"{_percent(side.scores['R@1'].mean)} ({_interval(side, 'R@1')})"),
                ("time, all queries", f"{side.seconds:.2f} s"),
            ],
        )
        for kind, side in (("before", demo.before), ("after", demo.after))
    )
    difference = number_card(
        "gain",
        "Difference",
        f"{100 * gain.difference:+.1f}",
        "points of mAP",
        [
            ("95&thinsp;% interval", f"{100 * gain.low:+.1f} to {100 * gain.high:+.1f}"),
            ("queries better", str(gain.better)),
            ("queries worse", str(gain.worse)),
        ],
    )
    return masthead(
        f"Walking around {toys} toys",
        f"<p>{toys} toys, {views} views each: {len(demo.images):,} pictures. Every picture asks "
        f"for the others; right are the other {views - 1} views of the same toy. "
        "Plain search compares raw pixels, so it finds the neighbouring angles and then loses the toy. "
        f"{escape(demo.after.name)} follows the chain of views around it. Both numbers are "
        f"<em>joint</em>: every picture is a query and part of the one graph.</p>"
        f'<div class="numbers">{cards}{difference}</div>',
    )


def _interval(side: Side, measure: str) -> str:
    score = side.scores[measure]
    return f"{100 * score.low:.1f} to {100 * score.high:.1f}"


def _queries(demo: Demo) -> str:
    picks = "".join(_pick(demo, query, place == 0) for place, (query, _) in enumerate(demo.chosen))
    articles = "\n".join(_query(demo, query, reason) for query, reason in demo.chosen)
    return (
        '<section class="chooser"><h2>Before and after</h2>'
        "<p>Choose a query, with the mouse or the arrow keys. Under each stands its average precision (AP) before and "
        "after. First come some of the largest gains, a typical query and the two worst; then one query of every other "
        "toy, the one in the middle of its gains.</p>"
        f'<fieldset class="picks"><legend>Choose a query</legend>{picks}</fieldset>'
        '<p>A <span class="key good"></span> green frame is a right answer, a '
        '<span class="key bad"></span> red dashed one is wrong. Both rows show the same '
        "ranks of their lists; the bar below shows all ranks down to the last one that could be right.</p>"
        f"{articles}</section>"
    )


def _pick(demo: Demo, query: int, first: bool) -> str:
    """A radio button that shows its query: no script, and the keyboard reaches it."""
    before, after = (float(side.scores["mAP"].per_query[query]) for side in (demo.before, demo.after))
    worse = " worse" if after < before else ""
    image = picture(demo.images[query], demo.name(query), mark="thumb")
    toy = f'<b aria-hidden="true">{escape(demo.names[demo.labels[query]])}</b>'
    return (
        f'<label class="pick{worse}"><input type="radio" name="query" id="pick-{query}"{" checked" if first else ""}>'
        f"{image}<span>{toy} {100 * before:.0f} &rarr; {100 * after:.0f}&thinsp;%</span></label>"
    )


def _query(demo: Demo, query: int, reason: str) -> str:
    values = [float(side.scores["mAP"].per_query[query]) for side in (demo.before, demo.after)]
    worse = ' class="worse"' if values[1] < values[0] else ""
    sides = "".join(_side(demo, side, query) for side in (demo.before, demo.after))
    text = f"query: {demo.name(query)}"
    return (
        f'<article id="query-{query}"{worse}><div class="query">{picture(demo.images[query], text)}<div><p><b>'
        f"{escape(demo.name(query))}</b></p><p>{escape(reason)}</p><p>AP {_percent(values[0])} &rarr; "
        f"<b>{_percent(values[1])}</b></p></div></div><div>{sides}</div></article>"
    )


def _side(demo: Demo, side: Side, query: int) -> str:
    hits = demo.hits(side, query)
    shown = [rank for rank in SHOWN if rank <= len(hits)]
    items = side.ranking.indices[query, [rank - 1 for rank in shown]]
    found = "".join(
        _found(demo, int(item), rank, bool(hits[rank - 1])) for rank, item in zip(shown, items, strict=True)
    )
    right = int(hits.sum())
    bar = svg.hits_bar(hits, f"{right} of the first {len(hits)} answers are right")
    return (
        f'<figure class="side"><figcaption><b>{escape(side.name)}</b>'
        f"<span>{right} of {len(hits)} right</span>"
        f'</figcaption><ol class="found">{found}</ol>{bar}</figure>'
    )


def _found(demo: Demo, item: int, rank: int, right: bool) -> str:
    word, sign = ("right", "&#10003;") if right else ("wrong", "&#10007;")
    image = picture(demo.images[item], f"rank {rank}, {word}: {demo.name(item)}", mark=word)
    return f"<li>{image}{rank} {sign}</li>"


def _share(chain: Chain, place: int) -> str:
    """What the step into this place costs, in percent of the whole walk."""
    total = sum(chain.costs)
    return _percent(chain.costs[place - 1] / total) if total > 0 else "0"


def _chain(demo: Demo) -> str:
    chain, query, others = demo.chain, demo.chain.items[0], len(demo.images) - 1
    steps = []
    for place, item in enumerate(chain.items):
        kind = "asked" if place == 0 else "right" if demo.labels[item] == demo.labels[query] else "wrong"
        cost = "" if place == 0 else f'<span class="step">&rarr;<br>{_share(chain, place)}</span>'
        image = picture(demo.images[item], f"step {place}: {demo.name(item)}", mark=kind)
        steps.append(f"<li>{cost}<span>{image}{demo.angles[item]:g}°</span></li>")
    return (
        f"<section><h2>How it got to the far side</h2><p>From the {escape(demo.name(query))} to the "
        f"{escape(demo.name(chain.items[-1]))}: rank {chain.rank_before} of {others} before, "
        f"rank {chain.rank_after} after. Pixel by pixel the two are far apart; each step between "
        f"is small. Under each arrow stands what the step costs, as a share of the whole walk "
        f"({sum(chain.costs):.3g} in the method's own units).</p>"
        f'<ol class="chain">{"".join(steps)}</ol></section>'
    )


def _plots(demo: Demo) -> str:
    before, after = (np.asarray(side.scores["mAP"].per_query) for side in (demo.before, demo.after))
    toys = np.unique(demo.labels)
    means = [np.array([values[demo.labels == toy].mean() for toy in toys]) for values in (before, after)]
    order = np.argsort(means[0], kind="stable")
    names = [demo.names[toys[place]] for place in order]
    text = f"AP of every query before and after; {int((after < before).sum())} of {len(before)} got worse"
    dots = svg.scatter(before, after, text)
    rows = svg.dumbbells(names, means[0][order], means[1][order], "mean AP of every toy before and after")
    return (
        "<section><h2>Every query</h2><p>Nothing is left out: each dot is one query, above the dashed "
        'line it got better, below it (<span class="key bad"></span>) worse.</p>'
        f'<div class="plots"><figure>{dots}<figcaption>Average precision of each query.</figcaption></figure>'
        f"<figure>{rows}<figcaption>Each toy: grey {escape(demo.before.name)}, "
        f"blue {escape(demo.after.name)}.</figcaption></figure></div></section>"
    )


def _method(demo: Demo) -> str:
    meta = [(side.name, side.ranking.meta.get("method", "")) for side in (demo.before, demo.after)]
    used = "; ".join(f"{escape(name)}: <code>{escape(str(method))}</code>" for name, method in meta)
    return (
        "<section><h2>What was done</h2><p>The toys are drawn by kinrank itself, with cluttered backgrounds, "
        "noise, and small changes of place, scale and light in every picture. A picture's vector is its raw "
        f"pixels: halved in size, minus their mean, scaled to length one ({demo.dimensions:,} numbers); no "
        f"model, no training. {used}. Parameters were left at their defaults. Times are those of this "
        "machine, after a first small run compiled the loops. Pictures on this page have 16 shades of each colour, "
        "which keeps it small. The intervals resample the queries; queries of one toy resemble each other, so they say "
        "how sure the number is for these toys, not for others.</p>"
        "<p><strong>What this does not show.</strong> The set is made to be followed: "
        "neighbouring views stay neighbours nearly always, all the way around. Data of your own rarely hangs "
        "together so well: expect a smaller gain there, and measure it (below).</p></section>"
    )
