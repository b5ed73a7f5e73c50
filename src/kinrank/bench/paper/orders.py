"""The verdicts of a record -> tables: per pair of the paper's order, what was printed and what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from kinrank.bench.paper import variants
from kinrank.bench.paper.printed import TABLES
from kinrank.bench.paper.verdicts import changed, counted, signed

Found = dict[str, Any]
TITLES = {"lse": "Table 5, what states are made of", "tmt": "Table 6, the distance between states",
          "k": "Figure 4a, BCD against BSD over k",
          "power": "Section 4.3, with and without a power of each step"}  # fmt: skip
PAIR = ("the paper says: better", "than")
WHERE = ("truth", "settings")
PRINTED = "printed: R-GeM, DOLG, CVNet"
MEASURED = ("difference", "low", "high", "verdict")
CHANCE = "Each pair is judged on its own: of twenty pairs that are equal in truth, one is expected to look different."


@dataclass(frozen=True)
class Pair:
    """Two variants in the order the paper has them, for one truth and at one choice of settings.

    Attributes:
        better, than: their names.
        truth, settings: what counts as right, and whose parameters they have.
        printed: the differences that the paper prints, one per kind of features; "" where it prints none.
        difference, low, high: in points, the ends of the paired interval; "" where one of the two refused.
        verdict: whether the order holds.
    """

    better: str
    than: str
    truth: str
    settings: str
    printed: str
    difference: str
    low: str
    high: str
    verdict: str


@dataclass(frozen=True)
class Order:
    """The pairs of one ablation on one set.

    Attributes:
        pairs: by truth, then by settings, then in the paper's order.
        printed: whether the paper prints numbers of them.
        notes: sentences about them.
    """

    key: str
    title: str
    pairs: tuple[Pair, ...]
    printed: bool
    notes: tuple[str, ...]

    @property
    def head(self) -> list[str]:
        """The names of the columns."""
        return [*PAIR, *WHERE, *[PRINTED] * self.printed, *MEASURED]

    @property
    def rows(self) -> list[list[str]]:
        """A row per pair, truth and settings."""
        return [
            [one.better, one.than, one.truth, one.settings, *[one.printed] * self.printed, *measured(one)]
            for one in self.pairs
        ]

    @property
    def groups(self) -> list[tuple[str, list[Pair]]]:
        """The pairs that are of the same truth at the same settings, under a heading."""
        runs = groupby(self.pairs, key=lambda one: f"{one.truth}, at {one.settings}")
        return [(heading, list(run)) for heading, run in runs]


def measured(pair: Pair) -> tuple[str, str, str, str]:
    """What the columns MEASURED hold."""
    return pair.difference, pair.low, pair.high, pair.verdict


def orders(record: Found) -> list[Order]:
    """One table per set, features and ablation."""
    keys = dict.fromkeys((row["set"], row["features"], row["table"]) for row in record["orders"])
    return [_order(record, *key) for key in keys]


def _order(record: Found, name: str, features: str, table: str) -> Order:
    rows = [row for row in record["orders"] if (row["set"], row["features"], row["table"]) == (name, features, table)]
    truths = list(dict.fromkeys(row["truth"] for row in rows))
    settings = list(dict.fromkeys(row["settings"] for row in rows))
    told = table in ("lse", "tmt") and name == "roxford5k"
    sorted_rows = sorted(rows, key=lambda row: (truths.index(row["truth"]), settings.index(row["settings"])))
    return Order(
        f"order-{table}-{name}-{features}",
        f"{TITLES[table]}: {name} {features}",
        tuple(shown(row, told) for row in sorted_rows),
        told,
        tuple(_notes(rows, truths, settings)),
    )


def _notes(rows: Sequence[Found], truths: Sequence[str], settings: Sequence[str]) -> Iterator[str]:
    if rows[0]["table"] == "power":
        yield (
            "The paper says that a power of the distance does better, and prints no number. Whether its equation as "
            "printed, without one, is ahead of total variation is not among its claims."
        )
    for one in settings if rows[0]["table"] != "power" else ():
        same = {truth: [row for row in rows if (row["settings"], row["truth"]) == (one, truth)] for truth in truths}
        told = "; ".join(f"{truth}, {counted(some)}" for truth, some in same.items())
        yield f"At {_short(one)} the paper's order: {told}."
    if len(settings) > 1:
        for truth in truths:
            yield f"{truth.capitalize()}: {changed([row for row in rows if row['truth'] == truth])}"
        yield variants.UNPRINTED
    yield from dict.fromkeys(
        f"Cannot be told where a variant refused: {row['error']}" for row in rows if "error" in row
    )
    yield (
        "Joint. Differences of mAP in points with paired 95 % intervals (low, high); where an interval covers 0, the "
        f"order cannot be told. {CHANCE}"
    )


def printed(table: str, weaker: str, stronger: str, truth: str) -> str:
    """The differences that the paper prints, one per kind of features."""
    layout = next(one for one in TABLES if one.kind == table)
    numbers = {row.name if row.method == "none" else row.method: row.numbers for row in layout.rows}
    low, high = (numbers[name if name == variants.BASELINE else name.lower()] for name in (weaker, stronger))
    columns = [place for place, column in enumerate(layout.columns) if column.truth == truth]
    return ", ".join(f"{high[place] - low[place]:+.1f}" for place in columns)


def shown(row: Found, told: bool = False) -> Pair:
    """One row of the record in words; `told`: the paper prints numbers of it."""
    weaker, stronger, truth = row["weaker"], row["stronger"], row["truth"]
    said = printed(row["table"], weaker, stronger, truth) if told else ""
    gap, low, high = (signed(row[part]) if row.get(part) is not None else "" for part in ("difference", "low", "high"))
    return Pair(stronger, weaker, truth, _short(row["settings"]), said, gap, low, high, row["verdict"])


def _short(settings: str) -> str:
    return "kinrank's defaults" if settings == "defaults" else "the paper's settings"
