"""Figure of one step of a chain that can be played: mass moves from item to item, and entropy is produced.

The largest transfers are drawn one after the other, in the order of the flow; the others follow together. Without
script, the figure shows the end of the step. It uses the colours of the page around it (`html.document`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError
from kinrank.report.html import read_asset
from kinrank.thermodynamics import Stage

MAX_TRANSFERS = 10  # drawn one by one
MAX_ITEMS_PER_SIDE = 5  # givers, and receivers
BETWEEN, LAST = 6, 18  # moments shown during a transfer, and during all remaining transfers together
ROW_PIXELS = 66  # height of an item


@dataclass(frozen=True, eq=False)
class _Playback:
    """The drawn part of the step: `count` transfers, positions of giving and receiving items, and moments.

    `progress` of a moment is its position on the slider, 0 to 1: each drawn transfer has an equal share, and the rest
    has one more.
    """

    count: int
    givers: list[int]
    receivers: list[int]
    progress: NDArray[np.float64]
    times: NDArray[np.float64]


def transition_figure(
    stage: Stage, names: Sequence[str], pictures: Sequence[str | None] | None = None, title: str = ""
) -> str:
    """Return an HTML <figure> that plays one transition; `names` and `pictures` follow the order of `stage.items`.

    Pictures are data URLs ("data:image/..."), or None for an item without one. The figure has its own styles and a
    short script: a button to play and pause, and a slider. If the system is set to reduced motion, transfers appear one
    after the other without movement between them.

    Example:
        >>> step = trace_transitions(prepared, query=0, item=7)[0]
        >>> transition_figure(step, [names[item] for item in step.items])
    """
    _check_inputs(stage, names, pictures)
    style = f"<style>{read_asset('transition.css')}</style>"
    if not len(stage.masses):
        words = f"<b>{escape(title) or 'Transition'}</b>: the two states are equal, nothing moves."
        return f'{style}<figure class="transition"><figcaption>{words}</figcaption></figure>'
    play = _plan_playback(stage)
    shown = [*play.givers, *play.receivers]
    top = float(np.maximum(stage.start, stage.end)[shown].max())
    left, right = (_draw_cards(stage, places, names, pictures, top) for places in (play.givers, play.receivers))
    height = ROW_PIXELS * max(len(play.givers), len(play.receivers))
    return (
        f'{style}<figure class="transition"><figcaption>{_caption(stage, play, title)}</figcaption>'
        f'<div class="ways" style="height:{height}px"><ul aria-label="items that give mass">{left}</ul>'
        f'{_draw_links(stage, play, height)}<ul aria-label="items that receive mass">{right}</ul></div>'
        f'<div class="player"><button type="button" hidden>Play</button><p class="values">{_end_state(stage)}</p></div>'
        f'<input type="range" min="0" max="1" step="any" value="1" aria-label="progress of the transition" hidden>'
        f"{_draw_curves(stage, play)}"
        f'<script type="application/json">{_playback_json(stage, play, shown, top)}</script></figure>'
        f"<script>{read_asset('transition.js')}</script>"
    )


def _check_inputs(stage: Stage, names: Sequence[str], pictures: Sequence[str | None] | None) -> None:
    for name, given in (("names", names), ("pictures", pictures)):
        if given is not None and len(given) != len(stage.items):
            raise InputError(
                f"has {len(given)} entries, but there are {len(stage.items)} items",
                parameter=name,
                remedy="give one for each item",
            )
    for picture in pictures or ():
        if picture is not None and not picture.startswith("data:image/"):
            raise InputError(f"picture {picture[:40]!r} is not a data URL", remedy="give it as data:image/...")


def _plan_playback(stage: Stage) -> _Playback:
    """Choose the largest transfers, as long as few items give and few receive."""
    givers: list[int] = []
    receivers: list[int] = []
    count = 0
    for r, s in zip(stage.sources[:MAX_TRANSFERS].tolist(), stage.targets[:MAX_TRANSFERS].tolist(), strict=True):
        if max(len({*givers, r}), len({*receivers, s})) > MAX_ITEMS_PER_SIDE:
            break
        givers += [r] if r not in givers else []
        receivers += [s] if s not in receivers else []
        count += 1
    total = len(stage.masses)
    knots = np.arange(count + 1, dtype=np.float64)
    done = np.linspace(0.0, count, BETWEEN * count + 1)
    if count < total:
        knots = np.append(knots, total)
        done = np.concatenate([done, np.linspace(count, total, LAST + 1)[1:]])
    progress = np.interp(done, knots, np.linspace(0.0, 1.0, len(knots)))
    return _Playback(count, givers, receivers, progress, done / total)


def _caption(stage: Stage, play: _Playback, title: str) -> str:
    rest = len(stage.masses) - play.count
    words = f"the first {play.count} of {len(stage.masses)} transfers" if rest else f"{play.count} transfers"
    if len(stage.masses) == 1:
        words = "one transfer"
    share = float(stage.masses[: play.count].sum()) / stage.moved
    drawn = f", {share:.0%} of the moving mass; the others follow together" if rest else ""
    heading = f"<b>{escape(title)}</b>: " if title else ""
    return f"{heading}{_format_percent(stage.moved)} of the mass moves. Drawn: {words}{drawn}."


def _draw_cards(
    stage: Stage, places: list[int], names: Sequence[str], pictures: Sequence[str | None] | None, top: float
) -> str:
    cards = []
    for place in places:
        name, source = escape(str(names[place])), pictures[place] if pictures is not None else None
        image = f'<img alt="" src="{escape(source)}">' if source else ""
        before, after = (100 * float(state[place]) / top for state in (stage.start, stage.end))
        start, end = (_format_percent(float(state[place])) for state in (stage.start, stage.end))
        cards.append(
            f'<li>{image}<span class="item"><span class="name" title="{name}">{name}</span>'
            f'<span class="mass"><i style="width:{after:.1f}%"></i><em style="left:{before:.1f}%"></em></span>'
            f'<small><span class="now">{end}</span> <span>from {start} to {end}</span></small>'
            "</span></li>"
        )
    return "".join(cards)


def _draw_links(stage: Stage, play: _Playback, height: float) -> str:
    """Draw one curve per transfer, as wide as its mass; a second curve on top shows the part that is done."""
    widest, paths = float(stage.masses[: play.count].max()), []
    for k in range(play.count):
        giver, receiver = play.givers.index(int(stage.sources[k])), play.receivers.index(int(stage.targets[k]))
        y = height * (giver + 0.5) / len(play.givers)
        to = height * (receiver + 0.5) / len(play.receivers)
        width = 2.0 + 12.0 * float(stage.masses[k]) / widest
        look = f'd="M0 {y:.1f}C45 {y:.1f} 55 {to:.1f} 100 {to:.1f}" stroke-width="{width:.1f}" pathLength="1"'
        paths.append(f'<path class="way" {look}/><path class="gone" {look} stroke-dasharray="1 2"/>')
    words = f"{play.count} transfers of mass, from the items that give to those that receive"
    return (
        f'<svg class="links" viewBox="0 0 100 {height}" preserveAspectRatio="none" role="img" aria-label="{words}">'
        f"{''.join(paths)}</svg>"
    )


def _end_state(stage: Stage) -> str:
    entropy = stage.entropy_production()
    return (
        f"<span>moved <b>{_format_percent(stage.moved)}</b></span> <span>cost <b>{stage.cost():.3g}</b></span> "
        f"<span>entropy produced <b>{entropy.total:.3f}</b></span> "
        f"<span>the states gain <b>{entropy.states:+.3f}</b></span> "
        f"<span>the environment <b>{entropy.environment:+.3f}</b></span>"
    )


def _draw_curves(stage: Stage, play: _Playback) -> str:
    """Draw the entropy produced so far, and the part that the states gain, over the progress of the step."""
    entropy = stage.entropy_production(play.times)
    lines = np.stack([entropy.total, entropy.states])
    low, high = min(0.0, float(lines.min())), max(float(lines.max()), 1e-9)
    y = 5.0 + 80.0 * (high - lines) / (high - low)
    zero = 5.0 + 80.0 * high / (high - low)

    def line(values: NDArray[np.float64], kind: str) -> str:
        points = " ".join(f"{100 * x:.2f},{v:.2f}" for x, v in zip(play.progress, values, strict=True))
        return f'<polyline class="{kind}" points="{points}"/>'

    words = (
        f"Entropy over the step: {entropy.total[-1]:.3f} produced, of which the states gain {entropy.states[-1]:+.3f}"
    )
    return (
        '<svg class="curves" viewBox="0 0 100 90" preserveAspectRatio="none" role="img" '
        f'aria-label="{words}"><path class="zero" d="M0 {zero:.2f}H100"/>{line(y[0], "total")}{line(y[1], "states")}'
        '<path class="cursor" d="M0 0V90" transform="translate(100 0)"/></svg>'
        '<p class="legend"><span class="total">entropy produced</span> <span class="states">gained by the states'
        '</span> <span class="before">mass at the start</span></p>'
    )


def _playback_json(stage: Stage, play: _Playback, shown: list[int], top: float) -> str:
    """Return the data of the script: values at every moment, with masses and shares of transfers rounded."""
    entropy = stage.entropy_production(play.times)
    moved = stage.done(play.times) @ stage.masses
    numbers = np.stack([moved, stage.cost(play.times), entropy.total, entropy.states, entropy.environment], axis=1)
    return json.dumps(
        {
            "at": play.progress.round(5).tolist(),
            "masses": stage.state(play.times)[:, shown].round(5).tolist(),
            "gone": stage.done(play.times)[:, : play.count].round(4).tolist(),
            "values": [[float(f"{number:.5g}") for number in row] for row in numbers.tolist()],
            "steps": play.count + (play.count < len(stage.masses)),
            "top": round(top, 6),
        },
        separators=(",", ":"),
    )


def _format_percent(share: float) -> str:
    return f"{100 * share:.1f}%"
