"""Numbers of docs/results.md, between its two marks: accuracy on every set, speed, memory."""

from __future__ import annotations

from generator import costs, held_out_sets
from generator.origins import Origins, tell_origin
from generator.pages import table
from generator.records import Measurements, Result, Scores
from generator.titles import TITLES, describe_features
from generator.two_lpmts import describe_columns, lpmt_columns

NOTHING_MEASURED = "Nothing has been measured yet: `make bench`, then `make docs`."


def parts(found: Measurements) -> list[str]:
    if not found.panels:
        return [NOTHING_MEASURED]
    pairs = lpmt_pairs(found)
    made = [
        "## Accuracy",
        _accuracy(pairs),
        *describe_columns(pairs.values()),
        f"{describe_features(name for name, *_ in found.scores)} [The files](datasets.md#the-fixed-sets).",
        "Bold: better than no re-ranking, ↓: worse; the whole interval of the gain is on that side of 0, for each row "
        "separately. 95 % bootstrap intervals over queries; all joint (queries and gallery in one graph, as in the "
        "published tables); one set of defaults for all sets; ROxford5k under the revisited protocol. A single query "
        "gains less, see [Joint, candidates, online](guide/modes.md). Printed by "
        f"`kinrank bench accuracy --data DIR`. {origins(pairs).sentence()}",
    ]
    if found.left_out:
        made.append(held_out_sets.sentence(found))
    return [*made, *_online(found), *costs.parts(found)]


def lpmt_pairs(found: Measurements) -> Scores:
    """The joint results with LPMT, of each set, truth and measure."""
    return {key: results for key, results in found.scores.items() if {"none", "lpmt"} <= results.keys()}


def shown_results(results: dict[str, Result], columns: dict[str, str]) -> list[Result]:
    """The results that a row shows: no re-ranking, and LPMT in one or two columns."""
    return [results[method] for method in ("none", *columns) if method in results]


def origins(pairs: Scores) -> Origins:
    """The origins of a table of these rows."""
    columns = lpmt_columns(pairs.values())
    return Origins(shown_results(results, columns) for results in pairs.values())


def is_paired(pairs: Scores) -> bool:
    """True if the gain of LPMT was measured query by query in every row."""
    return all("gain_low" in results["lpmt"] for results in pairs.values())


def format_gain(ours: Result) -> str:
    return "{:+.1f} ({:+.1f} to {:+.1f})".format(*(100 * ours[part] for part in ("gain", "gain_low", "gain_high")))


def label(name: str, truth: str) -> str:
    """The title of a set, with the truth if it has several."""
    return TITLES.get(name, name) + (f", {truth}" if name == "roxford5k" else "")


def _accuracy(pairs: Scores) -> str:
    """Joint rows of no re-ranking and LPMT; with the gain, if it was measured query by query."""
    columns, found, paired = lpmt_columns(pairs.values()), origins(pairs), is_paired(pairs)
    gained = ["gain"] if paired else []
    rows: list[tuple[str, ...]] = [("set", "measure", "no re-ranking", *columns.values(), *gained)]
    for (name, truth, measure), results in pairs.items():
        ours = results["lpmt"]
        better = ours["gain_low"] > 0 if paired else ours["mean"] > results["none"]["mean"]
        lost = ours["gain_high"] < 0 if paired else ours["worse"]
        cells = []
        for method in ("none", *columns):
            one = results.get(method)
            text = (
                ""
                if one is None
                else "{:.1f} ({:.1f} to {:.1f})".format(*(100 * one[part] for part in ("mean", "low", "high")))
            )
            cells.append(
                f"**{text}**" if method == "lpmt" and better else f"{text} ↓" if method == "lpmt" and lost else text
            )
        gain = [format_gain(ours)] if paired else []
        mark = found.mark(*shown_results(results, columns))
        rows.append((label(name, truth) + mark, measure, *cells, *gain))
    return table(rows)


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
