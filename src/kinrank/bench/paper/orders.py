"""The verdicts of a record -> tables: per pair of the paper's order, what was printed and what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kinrank.bench.paper import variants
from kinrank.bench.paper.printed import TABLES
from kinrank.bench.paper.verdicts import changed, counted, signed

Found = dict[str, Any]
TITLES = {"lse": "Table 5, what states are made of", "tmt": "Table 6, the distance between states",
          "k": "Figure 4a, BCD against BSD over k",
          "power": "Section 4.3, with and without a power of each step"}  # fmt: skip


@dataclass(frozen=True)
class Part:
    """What a cell says: a word, printed differences, or a difference with its interval and verdict."""

    text: str
    interval: str = ""
    verdict: str = ""

    def __str__(self) -> str:
        told = f": {self.verdict}" if self.verdict and self.verdict != self.text else ""
        return self.text + (f" ({self.interval})" if self.interval else "") + told


@dataclass(frozen=True)
class Order:
    """The pairs of one ablation on one set.

    Attributes:
        heads: (group, name) of every column; the first two are the better and the other one, without a group.
        rows: one per pair.
        notes: sentences about them.
    """

    key: str
    title: str
    heads: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Part, ...], ...]
    notes: tuple[str, ...]

    def flat(self) -> list[str]:
        """The headings in one line."""
        return [f"{group}, {name}" if group else name for group, name in self.heads]


def orders(record: Found) -> list[Order]:
    """One table per set, features and ablation."""
    keys = dict.fromkeys((row["set"], row["features"], row["table"]) for row in record["orders"])
    return [_order(record, *key) for key in keys]


def _order(record: Found, name: str, features: str, table: str) -> Order:
    rows = [row for row in record["orders"] if (row["set"], row["features"], row["table"]) == (name, features, table)]
    truths = list(dict.fromkeys(row["truth"] for row in rows))
    settings = list(dict.fromkeys(row["settings"] for row in rows))
    found = {(row["weaker"], row["stronger"], row["truth"], row["settings"]): row for row in rows}
    told = table in ("lse", "tmt") and name == "roxford5k"
    heads = [("", "better"), ("", "than")]
    for truth in truths:
        heads += [(truth, "printed: R-GeM, DOLG, CVNet")] * told
        heads += [(truth, _short(one)) for one in settings]
    lines = []
    for weaker, stronger in dict.fromkeys((row["weaker"], row["stronger"]) for row in rows):
        line = [Part(stronger), Part(weaker)]
        for truth in truths:
            if told:
                line.append(Part(printed(table, weaker, stronger, truth)))
            line += [shown(found[weaker, stronger, truth, one]) for one in settings]
        lines.append(tuple(line))
    return Order(
        f"order-{table}-{name}-{features}",
        f"{TITLES[table]}: {name} {features}",
        tuple(heads),
        tuple(lines),
        tuple(_notes(rows, settings)),
    )


def _notes(rows: Sequence[Found], settings: Sequence[str]) -> Iterator[str]:
    if rows[0]["table"] == "power":
        yield (
            "The paper says that a power of the distance does better, and prints no number. Whether its equation as "
            "printed, without one, is ahead of total variation is not among its claims."
        )
    for one in settings if rows[0]["table"] != "power" else ():
        yield f"At {_short(one)} {counted([row for row in rows if row['settings'] == one])}."
    if len(settings) > 1:
        yield changed(rows)
        yield variants.UNPRINTED
    yield "Joint. Differences of mAP in points with paired 95 % intervals, each pair on its own."


def printed(table: str, weaker: str, stronger: str, truth: str) -> str:
    """The differences that the paper prints, one per kind of features."""
    layout = next(one for one in TABLES if one.kind == table)
    numbers = {row.name if row.method == "none" else row.method: row.numbers for row in layout.rows}
    low, high = (numbers[name if name == variants.BASELINE else name.lower()] for name in (weaker, stronger))
    columns = [place for place, column in enumerate(layout.columns) if column.truth == truth]
    return ", ".join(f"{high[place] - low[place]:+.1f}" for place in columns)


def shown(row: Found) -> Part:
    """The difference with its interval, and the verdict."""
    if "difference" not in row:
        return Part(row["verdict"], verdict=row["verdict"])
    gap, low, high = (signed(row[part]) for part in ("difference", "low", "high"))
    return Part(gap, f"{low} to {high}", row["verdict"])


def _short(settings: str) -> str:
    return "kinrank's defaults" if settings == "defaults" else "the paper's settings"
