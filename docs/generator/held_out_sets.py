# ruff: noqa: E501 - sentences
"""Tables and a sentence about sets held out when the defaults were fitted, from the record of `kinrank bench defaults`."""

from __future__ import annotations

from generator.origins import Origins, tell_origin
from generator.pages import table
from generator.records import Measurements, Result, Scores
from generator.titles import TITLES
from generator.two_lpmts import AS_PUBLISHED, COLUMNS
from kinrank_bench.default_parameters import mean_places

HEADS = {
    "joint": "Joint, with the rule fitted without the set:",
    "online": "Online, LPMT with its defaults and the other methods that support a prepared gallery:",
    "candidates": "With the 500 nearest candidates of a query, at most {most} queries per set, LPMT with its defaults:",
}


def section(found: Measurements) -> list[str]:
    """Paragraphs and tables of the page "which method when"."""
    parts = [
        "The rule for the weight of chains was fitted on all sets but one and evaluated on that one, for each set in turn. "
        "So every joint number of LPMT is for a set that was not used to fit the rule. Each cell is mAP / R@1.",
    ]
    for mode, head in HEADS.items():
        rows = [row for row in found.left_out if row["mode"] == mode and "mean" in row]
        if rows:
            order = sorted(mean_places(rows).items(), key=lambda entry: entry[1])
            best = ", ".join(f"{name} {place:.1f}" for name, place in order[:5])
            most = max(row["queries"] for row in rows)
            ranks = f"Mean rank of {len(order)} methods, by mAP: {best}. {_origins(rows).sentence()}"
            published = found.scores if mode == "joint" else {}
            parts += [head.format(most=most), _table(rows, published), ranks]
    return parts


def sentence(found: Measurements) -> str:
    """For docs/results.md."""
    joint = [row for row in found.left_out if row["mode"] == "joint" and "mean" in row]
    pairs = list(_pairs(joint))
    ahead = sum(ours["mean"] > best["mean"] for _, _, ours, best in pairs)
    behind = max(best["mean"] - ours["mean"] for _, _, ours, best in pairs)
    methods = dict.fromkeys(row["method"] for row in joint)
    others = [name for name in methods if name not in ("lpmt", "none")]
    return (
        "On held-out sets, which were not used to fit its rule (each set in turn, joint), LPMT is better than no re-ranking and "
        f"{len(others)} other methods ({', '.join(others)}) in {ahead} of {len(pairs)} columns. In the others it is behind the "
        f"best method by at most {100 * behind:.1f} points of mAP; "
        "see [the table](which-method-when.md#held-out-sets). Printed by "
        f"`kinrank bench defaults --data DIR`. {tell_origin(*joint)}"
    )


def _pairs(rows: list[Result]) -> list[tuple[str, Result, Result, Result]]:
    """(title, no re-ranking, LPMT, the best other) per set and truth."""
    pairs = []
    for name, truth in dict.fromkeys((row["set"], row["truth"]) for row in rows):
        scores = {row["method"]: row for row in rows if (row["set"], row["truth"]) == (name, truth)}
        ours = scores["lpmt"]
        best = max((row for row in scores.values() if row is not ours), key=lambda row: row["mean"])
        label = TITLES.get(name, name) + (f", {truth}" if name == "roxford5k" else "")
        pairs.append((label, scores["none"], ours, best))
    return pairs


def _origins(rows: list[Result]) -> Origins:
    return Origins(results for _, *results in _pairs(rows))


def _table(rows: list[Result], scores: Scores) -> str:
    """A row per set and truth; with mAP of LPMT as published, if it is among the scores."""
    origins = _origins(rows)
    published = {key[:2]: results[AS_PUBLISHED] for key, results in scores.items()
                 if key[2] == "mAP" and AS_PUBLISHED in results}  # fmt: skip
    own = [f"{COLUMNS[AS_PUBLISHED]}, mAP", "LPMT, the rule of kinrank's defaults"] if published else ["LPMT"]
    lines: list[tuple[str, ...]] = [("", "no re-ranking", *own, "best other", "", "ahead by")]
    for label, none, ours, best in _pairs(rows):
        other = published.get((none["set"], none["truth"]))
        gain = 100 * (ours["mean"] - best["mean"])
        cells = [f"{100 * row['mean']:.1f} / {100 * row['first']:.1f}" for row in (none, ours, best)]
        mine = f"**{cells[1]}**" if gain > 0 else cells[1]
        first = [f"{100 * other['mean']:.1f}" if other else ""] if published else []
        mark = origins.mark(none, ours, best)
        lines.append((label + mark, cells[0], *first, mine, cells[2], best["method"], f"{gain:+.1f}"))
    return table(lines)
