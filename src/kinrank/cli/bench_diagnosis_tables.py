"""What `kinrank bench diagnosis` measured -> tables of text."""

from __future__ import annotations

from typing import Any

from kinrank.cli.output import table

Record = dict[str, Any]


def diagnosis_tables(record: Record) -> str:
    """A table per part."""
    parts = []
    if record["results"]:
        rows: list[tuple[str, ...]] = [
            ("set", "right", "none", "LPMT", "gain", "95 % interval", "predicted", "sign", "chosen", "")
        ]
        rows += [_gain_row(row) for row in record["results"]]
        fit = record["fit"]
        told = (
            f"predicted by a rule fitted without the set; root mean square error {fit['error']:.1f} points; sign right "
            f"on {fit['signs']} of {fit['sets']} sets\n"
            f"the rule on all sets: {fit['base']:.1f} + {fit['per_thin']:.1f} x (mutual - common)\n"
            "parameters chosen without labels against the defaults: "
            f"{fit['chosen_gain']:+.2f} points in the mean, {fit['chosen_worst']:+.2f} at worst"
        )
        parts.append("joint mAP in percent\n" + table(rows, right=range(1, 8)) + "\n" + told)
    if record["thinned"]:
        parts.append(_thinned(record["thinned"]))
    if record["prepared"]:
        rows = [("set", "vectors", "search gains", "LPMT gains")]
        rows += [(row["set"], row["way"], f"{row['none']:+.1f}", f"{row['lpmt']:+.1f}") for row in record["prepared"]]
        parts.append("points of mAP that preparing the vectors changes, joint\n" + table(rows, right=(2, 3)))
    return "\n\n".join(parts)


def _gain_row(row: Record) -> tuple[str, ...]:
    better = row["with_chosen"] - row["lpmt"]
    return (
        row["set"],
        f"{row['right']:.0f}",
        f"{row['none']:.1f}",
        f"{row['lpmt']:.1f}",
        f"{row['gain']:+.1f}",
        f"{row['low']:+.1f} to {row['high']:+.1f}",
        f"{row['predicted']:+.1f}",
        "right" if row["sign"] else "wrong",
        row["chosen"],
        f"{better:+.2f}" if row["chosen"] != "LPMT()" else "",
    )


def _thinned(found: list[Record]) -> str:
    """Sets down, right answers across: what LPMT gains, and behind a slash with the parameters chosen for so many."""
    counts = sorted({row["right"] for row in found})
    rows = [("set", *(f"{count} right" for count in counts))]
    for name in dict.fromkeys(row["set"] for row in found):
        cells = {row["right"]: f"{row['gain']:+.1f} / {row['with_chosen']:+.1f}" for row in found if row["set"] == name}
        rows.append((name, *(cells.get(count, "") for count in counts)))
    head = "points of mAP that LPMT gains, joint, by right answers per query: at its defaults / chosen for so many"
    return head + "\n" + table(rows, right=range(1, len(counts) + 1))
