"""Evidence -> the part of the page with the chains behind the largest gains and losses."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from kinrank.report.evidence.gathering import Evidence
from kinrank.report.evidence.looks import Album, Looks, breakable
from kinrank.report.evidence.results import has_words, per_query_name
from kinrank.report.evidence.walks import Link, Step, Walk
from kinrank.report.transition import TRANSFERS, transition_figure


def reasons(evidence: Evidence, album: Album) -> str:
    if not evidence.gains and not evidence.losses:
        return ""
    walks = [*evidence.gains, *evidence.losses]
    parts = [
        "<p>A chain leads from the query to an item in small steps; the item is near when the steps are cheap. Under "
        f"each arrow stands what the step costs, as a share of the whole chain.{_moves(walks)}{_beside(walks)} Frames "
        "are as above; another query on the way is grey.</p>"
    ]
    for walks, heading, better in (
        (evidence.gains, "Gains: the right item that came from furthest", True),
        (evidence.losses, "Losses: the wrong item that came in", False),
    ):
        if walks:
            told = "".join(_walk(evidence, album, walk, better) for walk in walks)
            parts.append(f"<h3>{heading}</h3>{told}")
    if evidence.step is not None:
        parts.append(_transition(evidence, album, evidence.step))
    return f'<section id="chains"><h2>Why: the chains</h2>{"".join(parts)}</section>'


def _moves(walks: Sequence[Walk]) -> str:
    """What is meant by the words below an arrow, by the first of them."""
    first = next((f"{walk.moved[0]:.0%}" for walk in walks if walk.moved), None)
    if first is None:
        return ""
    return f" Below it, \u201cmoves {first}\u201d: {first} of the neighbourhood is exchanged in this step."


def _beside(walks: Sequence[Walk]) -> str:
    """How much chains leave to the direct comparison."""
    shares = sorted({f"{walk.direct:.0%}" for walk in walks if walk.direct}, key=lambda text: int(text[:-1]))
    if not shares:
        return ""
    said = shares[0] if len(shares) == 1 else f"{shares[0]} to {shares[-1]}"
    return f" Chains are not all: {said} of the final distance comes from comparing neighbourhoods directly."


def _looks(evidence: Evidence, link: Link) -> Looks:
    return evidence.asked if link[0] == "query" else evidence.items


def _name(evidence: Evidence, link: Link) -> str:
    return _looks(evidence, link).name(link[1])


def _rank(rank: int | None, depth: int) -> str:
    return f"rank {rank:,}" if rank is not None else f"beyond rank {depth:,}"


def _walk(evidence: Evidence, album: Album, walk: Walk, better: bool) -> str:
    before, after = evidence.values[:, walk.query].tolist()
    called = escape(per_query_name(evidence.trials.measures[0]))
    total = sum(walk.costs)
    steps = []
    for place, link in enumerate(walk.links):
        mark = "asked" if place == 0 else _mark(evidence, walk.query, link)
        looks = _looks(evidence, link)
        card = album.card(looks, link[1], mark, "query" if place == 0 else f"step {place}, {mark}")
        name = "" if 'class="words' in card else breakable(looks.name(link[1]))
        arrow = ""
        if place:
            share = walk.costs[place - 1] / total if total > 0 else 0.0
            moved = f"<small>moves {walk.moved[place - 1]:.0%}</small>" if place <= len(walk.moved) else ""
            arrow = f'<span class="step">&rarr;<br>{share:.0%}{moved}</span>'
        kind = ' class="texts"' if has_words(looks) else ""
        steps.append(f"<li{kind}>{arrow}<span>{card}{name}</span></li>")
    return (
        f'<div class="walk{"" if better else " worse"}"><p><b>{escape(evidence.asked.name(walk.query))}</b>, {called} '
        f"{100 * before:.1f} &rarr; {100 * after:.1f}&thinsp;%. {walk.mark.capitalize()}: "
        f"<b>{escape(evidence.items.name(walk.item))}</b>, {_rank(walk.before, evidence.before.shape[1])} before, "
        f"{_rank(walk.after, evidence.after.shape[1])} after, in {len(walk.costs)} "
        f'{"step" if len(walk.costs) == 1 else "steps"}.</p><ol class="chain">{"".join(steps)}</ol></div>'
    )


def _mark(evidence: Evidence, query: int, link: Link) -> str:
    """Whether an item on the way is right; another query on the way is neither."""
    if link[0] == "query":
        return "junk"
    return evidence.judged.marks(query, np.array([link[1]]))[0]


def _transition(evidence: Evidence, album: Album, step: Step) -> str:
    """One step played: what moves where, and the entropy it produces."""
    drawn = {*step.stage.sources[:TRANSFERS].tolist(), *step.stage.targets[:TRANSFERS].tolist()}
    names = [_name(evidence, link) for link in step.links]
    pictures = [
        album.address(_looks(evidence, link), link[1]) if place in drawn else None
        for place, link in enumerate(step.links)
    ]
    title = f"From {_name(evidence, step.start)} to {_name(evidence, step.end)}"
    figure = transition_figure(step.stage, names, pictures if any(pictures) else None, title)
    return (
        "<h3>One step, played</h3><p>The step of the first chain that moves most. Each of its ends is a neighbourhood: "
        "shares of items that sum to one. What the two do not share is carried over.</p>"
        '<div class="played"><details class="entropy"><summary>The entropy of this step</summary><p>The paper sees a '
        "step as a flow that produces entropy: log 2 times the mass that moves. It changes no ranking. Of what is "
        "produced, the states gain a part, and the environment the rest; the figure now shows both.</p></details>"
        f"{figure}</div>"
    )
