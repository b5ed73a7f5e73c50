"""Checks of the paper's orders: for each pair of variants, whether the order that the paper claims holds here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from kinrank.evaluation import Comparison
from kinrank_bench.measurement import compare_cells
from kinrank_bench.paper import variants
from kinrank_bench.paper.paper_numbers import PAPER_TABLES
from kinrank_bench.tables import Column, Table

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"  # values in records
UNDECIDED = "undecided"  # OPEN, as tables show it
Record = dict[str, Any]
TITLES = {
    "lse": "Table 5, what states are made of",
    "tmt": "Table 6, the distance between states",
    "k": "Figure 4a, BCD against BSD over k",
    "power": "Section 4.3, with and without a power of each step",
}
CHANCE_NOTE = (
    "Each pair is tested on its own: of twenty pairs that are in fact equal, one is expected to look different."
)


def judge_comparison(compared: Comparison) -> str:
    """Return HOLDS if the whole 95 % interval of b - a is above 0, FAILS if it is below 0, else OPEN."""
    return HOLDS if compared.low > 0 else FAILS if compared.high < 0 else OPEN


def check_order(weaker: dict[str, Any], stronger: dict[str, Any], truth: str, measure: str = "mAP") -> dict[str, Any]:
    """Compare the weaker with the stronger variant; return the difference and the verdict, or `error`."""
    for cell in (weaker, stronger):
        if "error" in cell:
            failed = {"failed": True} if cell.get("failed") else {}
            return {"verdict": OPEN, "error": str(cell["error"]), **failed}
    comparison = compare_cells(weaker, stronger, truth, measure)
    numbers = comparison.to_dict()
    return {
        "verdict": judge_comparison(comparison),
        **{part: numbers[part] for part in ("difference", "low", "high", "p", "queries")},
    }


def format_difference(share: float) -> str:
    """Format a difference in points with two decimals, because some intervals just miss 0; never as -0.00."""
    return f"{round(100 * share, 2) + 0.0:+.2f}"


def count_verdicts(rows: Sequence[dict[str, Any]]) -> str:
    """Count the pairs whose order holds, does not hold, and is undecided."""
    count = {word: sum(row["verdict"] == word for row in rows) for word in (HOLDS, FAILS, OPEN)}
    return f"holds for {count[HOLDS]} of {len(rows)} pairs, does not for {count[FAILS]}, undecided for {count[OPEN]}"


def compare_settings(rows: Sequence[dict[str, Any]]) -> str:
    """Name the pairs of one truth whose verdict differs between kinrank's defaults and the paper's settings."""
    by_pair: dict[str, set[str]] = {}
    for row in rows:
        by_pair.setdefault(f"{row['stronger']} over {row['weaker']}", set()).add(row["verdict"])
    depends = [pair for pair, verdicts in by_pair.items() if len(verdicts) > 1]
    if not depends:
        return "both settings lead to the same verdicts."
    return f"the verdict depends on the settings for {len(depends)} of {len(by_pair)} pairs: {', '.join(depends)}."


def _settings_name(settings: str) -> str:
    return "kinrank's defaults" if settings == "defaults" else "the paper's settings"


def list_printed_differences(row: Record) -> str:
    """Return the differences printed in the paper, one per kind of features."""
    layout = next(candidate for candidate in PAPER_TABLES if candidate.kind == row["table"])
    numbers = {line.name if line.method == "none" else line.method: line.numbers for line in layout.rows}
    names = (row["weaker"], row["stronger"])
    low, high = (numbers[name if name == variants.BASELINE else name.lower()] for name in names)
    columns = [position for position, column in enumerate(layout.columns) if column.truth == row["truth"]]
    return ", ".join(f"{high[position] - low[position]:+.1f}" for position in columns)


def _difference_column(name: str) -> Column:
    return Column(name, lambda row: "" if row.get(name) is None else format_difference(row[name]))


PAIR_COLUMNS = (
    Column("the paper says: better", "{stronger}", left=True),
    Column("than", "{weaker}", left=True),
)
CONDITION_COLUMNS = (
    Column("truth", "{truth}", left=True),
    Column("settings", lambda row: _settings_name(row["settings"]), left=True),
)
PRINTED_COLUMN = Column("printed: R-GeM, DOLG, CVNet", list_printed_differences)
VERDICT_COLUMN = Column("verdict", lambda row: UNDECIDED if row["verdict"] == OPEN else row["verdict"])
MEASURED_COLUMNS = (*map(_difference_column, ("difference", "low", "high")), VERDICT_COLUMN)


@dataclass(frozen=True)
class OrderTable:
    """The pairs of one ablation on one set.

    Attributes:
        pairs: rows of the record, by truth, then by settings, then in the paper's order.
        printed: True if the paper prints numbers for them.
        notes: sentences below the table.
    """

    key: str
    title: str
    pairs: tuple[Record, ...]
    printed: bool
    notes: tuple[str, ...]

    @property
    def table(self) -> Table:
        """A row per pair, truth and settings."""
        columns = (*PAIR_COLUMNS, *CONDITION_COLUMNS, *[PRINTED_COLUMN] * self.printed, *MEASURED_COLUMNS)
        return Table.from_rows(self.title, columns, self.pairs, self.notes)

    @property
    def groups(self) -> list[tuple[str, list[Record]]]:
        """Pairs with the same truth and settings, under a heading."""
        runs = groupby(self.pairs, key=lambda row: f"{row['truth']}, at {_settings_name(row['settings'])}")
        return [(heading, list(run)) for heading, run in runs]


def build_orders(record: Record) -> list[OrderTable]:
    """Build one table per set, features and ablation."""
    keys = dict.fromkeys((row["set"], row["features"], row["table"]) for row in record["orders"])
    return [_order_table(record, *key) for key in keys]


def _order_table(record: Record, name: str, features: str, table: str) -> OrderTable:
    rows = [row for row in record["orders"] if (row["set"], row["features"], row["table"]) == (name, features, table)]
    truths = list(dict.fromkeys(row["truth"] for row in rows))
    settings = list(dict.fromkeys(row["settings"] for row in rows))
    with_printed = table in ("lse", "tmt") and name == "roxford5k"
    sorted_rows = sorted(rows, key=lambda row: (truths.index(row["truth"]), settings.index(row["settings"])))
    return OrderTable(
        f"order-{table}-{name}-{features}",
        f"{TITLES[table]}: {name} {features}",
        tuple(sorted_rows),
        with_printed,
        tuple(_order_notes(rows, truths, settings)),
    )


def _order_notes(rows: Sequence[Record], truths: Sequence[str], settings: Sequence[str]) -> Iterator[str]:
    if rows[0]["table"] == "power":
        yield (
            "The paper says that a power of the distance does better, but prints no number. It does not claim that its "
            "equation as printed, without a power, is better than total variation."
        )
    for name in settings if rows[0]["table"] != "power" else ():
        by_truth = {
            truth: [row for row in rows if (row["settings"], row["truth"]) == (name, truth)] for truth in truths
        }
        verdicts = "; ".join(f"{truth}, {count_verdicts(group)}" for truth, group in by_truth.items())
        yield f"At {_settings_name(name)} the paper's order: {verdicts}."
    if len(settings) > 1:
        for truth in truths:
            yield f"{truth.capitalize()}: {compare_settings([row for row in rows if row['truth'] == truth])}"
        yield variants.UNPRINTED
    yield from dict.fromkeys(
        f"Undecided because a variant {'failed' if row.get('failed') else 'refused'}: {row['error']}"
        for row in rows
        if "error" in row
    )
    yield (
        "Joint. Differences of mAP in points with paired 95 % intervals (low, high); where an interval covers 0, the "
        f"order is undecided. {CHANCE_NOTE}"
    )
