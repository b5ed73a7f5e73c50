"""The record of `kinrank bench diagnosis` -> the tables of docs/diagnose.md, between its two marks."""

from __future__ import annotations

from generator.pages import table
from generator.records import Measurements, Result
from generator.titles import TITLES


def parts(found: Measurements) -> list[str]:
    """Predicted and measured gains, gains by right answers, and what preparing the vectors changes."""
    record = found.diagnosis
    if not record:
        return ["Nothing has been measured yet: `kinrank bench diagnosis --data DIR`, then `make docs`."]
    made = []
    if record.get("results"):
        made += [table(_gains(record["results"])), _fit(record["fit"])]
    if record.get("thinned"):
        made += [
            "By the number of right answers: what LPMT gains at its defaults / with the parameters chosen for so many.",
            table(_thinned(record["thinned"])),
        ]
    if record.get("prepared"):
        made += [
            "Points of mAP that preparing the vectors changes: of the search, and of LPMT. Half whitening in particular "
            "is a gamble without labels.",
            table(_prepared(record["prepared"])),
        ]
    return [*made, f"Printed by `kinrank bench diagnosis --data DIR`, joint, {found.machines['diagnosis']}."]


def _title(row: Result) -> str:
    return TITLES.get(row["set"], row["set"])


def _gains(rows: list[Result]) -> list[tuple[str, ...]]:
    lines = [("set", "right answers", "no re-ranking", "gain of LPMT", "predicted", "chosen without labels")]
    for row in rows:
        chosen = "as it is" if row["chosen"] == "LPMT()" else f"{row['chosen']}: {row['with_chosen'] - row['lpmt']:+.1f}"
        gain = f"{row['gain']:+.1f} ({row['low']:+.1f} to {row['high']:+.1f})"
        said = f"{row['predicted']:+.0f}" + ("" if row["sign"] else ", wrong")
        lines.append((_title(row), f"{row['right']:.0f}", f"{row['none']:.1f}", gain, said, chosen))
    return lines


def _fit(fit: Result) -> str:
    return (
        f"The sign is right on {fit['signs']} of {fit['sets']} sets; predictions are off by {fit['error']:.1f} points "
        "(root mean square), so that the expected gain is a rough guide. Parameters chosen without labels gain "
        f"{fit['chosen_gain']:.2f} points over the defaults in the mean, {fit['chosen_worst']:.2f} at worst. On all "
        f"sets the rule is {fit['base']:.1f} + {fit['per_thin']:.1f} (mutual - common)."
    )


def _thinned(rows: list[Result]) -> list[tuple[str, ...]]:
    counts = sorted({row["right"] for row in rows})
    lines: list[tuple[str, ...]] = [("set", *(f"{count} right" for count in counts))]
    for name in dict.fromkeys(row["set"] for row in rows):
        own = {row["right"]: row for row in rows if row["set"] == name}
        cells = (f"{own[c]['gain']:+.1f} / {own[c]['with_chosen']:+.1f}" if c in own else "" for c in counts)
        lines.append((TITLES.get(name, name), *cells))
    return lines


def _prepared(rows: list[Result]) -> list[tuple[str, ...]]:
    ways = list(dict.fromkeys(row["way"] for row in rows))
    lines: list[tuple[str, ...]] = [("set", *(f"{way}: search, LPMT" for way in ways))]
    for name in dict.fromkeys(row["set"] for row in rows):
        cells = [f"{row['none']:+.1f}, {row['lpmt']:+.1f}" for row in rows if row["set"] == name]
        lines.append((TITLES.get(name, name), *cells))
    return lines
