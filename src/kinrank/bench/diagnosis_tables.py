"""The record of `kinrank bench diagnosis` -> its tables, for the terminal and for the docs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

Row = dict[str, Any]
AS_IT_IS = "LPMT()"


class Part(NamedTuple):
    """A sentence, rows of text with the heading first, and what to say below them."""

    about: str
    rows: list[tuple[str, ...]]
    note: str = ""


def parts_of(record: Row, titles: Mapping[str, str] | None = None) -> list[Part]:
    """One per part that was measured; `titles`: how sets are called, where not by their names."""
    made, titles = [], titles or {}
    if record.get("results"):
        made.append(_gains(record["results"], record["fit"], titles))
    if record.get("thinned"):
        made.append(_thinned(record["thinned"], titles))
    if record.get("prepared"):
        made.append(_prepared(record["prepared"], titles))
    return made


def _gains(results: list[Row], fit: Row, titles: Mapping[str, str]) -> Part:
    head = ("set", "right answers", "no re-ranking", "LPMT gains", "95 % interval", "predicted", "chosen", "gains")
    rows: list[tuple[str, ...]] = [head]
    for row in results:
        changed = row["chosen"] != AS_IT_IS
        rows.append(
            (
                titles.get(row["set"], row["set"]),
                f"{row['right']:.0f}",
                f"{row['none']:.1f}",
                f"{row['gain']:+.1f}",
                f"{row['low']:+.1f} to {row['high']:+.1f}",
                f"{row['predicted']:+.0f}" + ("" if row["sign"] else ", wrong"),
                row["chosen"] if changed else "as it is",
                f"{row['with_chosen'] - row['lpmt']:+.1f}" if changed else "",
            )
        )
    return Part(
        "mAP in percent, joint; predicted, and parameters chosen, without labels and by a rule fitted without the set.",
        rows,
        _fit(fit),
    )


def _fit(fit: Row) -> str:
    said = [
        f"The sign is right on {fit['signs']} of {fit['sets']} sets; saying that LPMT always helps is right on "
        f"{fit['positive']} of them. Predictions are off by {fit['error']:.1f} points (root mean square), and "
        f"{fit['inside']} of {fit['sets']} gains are within the interval that is told.",
    ]
    if fit["error_right"] is not None:
        said.append(
            f"Where the number of right answers is told, predictions for thinned sets are off by "
            f"{fit['error_right']:.1f} points."
        )
    said.append(
        f"Parameters chosen without labels gain {fit['chosen_gain']:.2f} points over the defaults in the mean, "
        f"{fit['chosen_worst']:.2f} at worst."
    )
    said.append(
        f"Fitted on all sets: {fit['base']:.1f} + {fit['per_thin']:.1f} (mutual - common) points, none from a drop of "
        f"{fit['no_kin']:.2f} on; half the neighbourhood from {fit['few']:.2f} on."
    )
    return " ".join(said)


def _thinned(found: list[Row], titles: Mapping[str, str]) -> Part:
    """Sets down, right answers across."""
    counts = sorted({row["right"] for row in found})
    rows: list[tuple[str, ...]] = [("set", *(f"{count} right" for count in counts))]
    for name in dict.fromkeys(row["set"] for row in found):
        own = {row["right"]: row for row in found if row["set"] == name}
        rows.append((titles.get(name, name), *(_pair(own[count]) if count in own else "" for count in counts)))
    return Part(
        "By the number of right answers per query, joint: what LPMT gains at its defaults / with the parameters chosen "
        "for so many.",
        rows,
    )


def _pair(row: Row) -> str:
    return f"{row['gain']:+.1f} / {row['with_chosen'] - row['none']:+.1f}"


def _prepared(found: list[Row], titles: Mapping[str, str]) -> Part:
    ways = list(dict.fromkeys(row["way"] for row in found))
    rows: list[tuple[str, ...]] = [("set", *(f"{way}: search, LPMT" for way in ways))]
    for name in dict.fromkeys(row["set"] for row in found):
        cells = (f"{row['none']:+.1f}, {row['lpmt']:+.1f}" for row in found if row["set"] == name)
        rows.append((titles.get(name, name), *cells))
    return Part(
        "Points of mAP that preparing the vectors changes, joint: of the search, and of LPMT. Half whitening in "
        "particular is a gamble without labels.",
        rows,
    )
