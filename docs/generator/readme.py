"""Numbers of the README, between its two marks."""

from __future__ import annotations

from generator import costs, held_out_sets
from generator.origins import Origins, tell_origin
from generator.pages import table
from generator.records import Measurements, Scores
from generator.titles import TITLES, describe_features

BEGIN, END = "<!-- numbers: written by make docs -->", "<!-- end of numbers -->"


def insert_numbers(text: str, written: list[str]) -> str:
    """A page with these paragraphs between its marks."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return before + BEGIN + "\n" + "\n\n".join(written) + "\n" + END + after


def parts(found: Measurements) -> list[str]:
    if not found.panels:
        return ["Nothing has been measured yet: `make bench`, then `make docs`."]
    made = [
        _accuracy(found),
        f"{describe_features(name for name, *_ in found.scores)} [The files](docs/datasets.md#the-fixed-sets).",
        "Bold: better than no re-ranking, ↓: worse; the whole interval of the gain is on that side of 0, for each row "
        "separately. 95 % bootstrap intervals over queries; all joint (queries and gallery in one graph, as in the "
        "published tables); one set of defaults for all sets; ROxford5k under the revisited protocol. A single query "
        "gains less, see [the guide](docs/guide/modes.md). Printed by "
        f"`kinrank bench accuracy --data DIR`. {_origins(found).sentence()}",
    ]
    if found.left_out:
        made.append(held_out_sets.sentence(found))
    return [*made, *_online(found), *costs.parts(found)]


def _online(found: Measurements) -> list[str]:
    """Accuracy of a service: one query at a time against a gallery prepared once."""
    ways = found.modes.get(("roxford5k", "medium"), {})
    if not {"search", "online", "alone"} <= ways.keys():
        return []
    mean = {way: f"{100 * result['mean']:.1f}" for way, result in ways.items()}
    return [
        "One query at a time, never in the graph, against a gallery prepared once (`Manifold`, online): mAP on "
        f"ROxford5k medium is {mean['search']} without re-ranking, **{mean['online']}** online, and {mean['alone']} if "
        "the graph is rebuilt for every query. Printed by `kinrank bench scale --data DIR`. "
        f"{tell_origin(*(ways[way] for way in ('search', 'online', 'alone')))}"
    ]


def _accuracy(found: Measurements) -> str:
    """Joint rows of no re-ranking and LPMT; with the gain, if it was measured query by query."""
    pairs, origins = _pairs(found), _origins(found)
    paired = all("gain_low" in results["lpmt"] for results in pairs.values())
    gained = ["gain"] if paired else []
    rows: list[tuple[str, ...]] = [("set", "measure", "no re-ranking", "LPMT", *gained, "seconds")]
    for (name, truth, measure), results in pairs.items():
        plain, ours = results["none"], results["lpmt"]
        label = TITLES.get(name, name) + (f", {truth}" if name == "roxford5k" else "") + origins.mark(plain, ours)
        cells = [f"{100 * r['mean']:.1f} ({100 * r['low']:.1f} to {100 * r['high']:.1f})" for r in (plain, ours)]
        parts = [100 * ours[part] for part in ("gain", "gain_low", "gain_high")] if paired else []
        gain = ["{:+.1f} ({:+.1f} to {:+.1f})".format(*parts)] if paired else []
        better = ours["gain_low"] > 0 if paired else ours["mean"] > plain["mean"]
        lost = ours["gain_high"] < 0 if paired else ours["worse"]
        mine = f"**{cells[1]}**" if better else f"{cells[1]} ↓" if lost else cells[1]
        rows.append((label, measure, cells[0], mine, *gain, f"{ours['seconds']:.1f}"))
    return table(rows)


def _pairs(found: Measurements) -> Scores:
    return {key: results for key, results in found.scores.items() if {"none", "lpmt"} <= results.keys()}


def _origins(found: Measurements) -> Origins:
    """The origins of the table of accuracy."""
    return Origins((results["none"], results["lpmt"]) for results in _pairs(found).values())
