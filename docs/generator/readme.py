"""Numbers of the README, between its two marks: six rows of accuracy, and what it costs."""

from __future__ import annotations

from generator import costs, paper, results
from generator.pages import table
from generator.records import Measurements
from generator.two_lpmts import describe_columns, lpmt_columns

BEGIN, END = "<!-- numbers: written by make docs -->", "<!-- end of numbers -->"
ROWS = {  # set and truth -> what is searched; the last one shows where re-ranking does not help
    ("roxford5k", "medium"): "photographs of buildings",
    ("caltech101", "class"): "photographs of 101 classes",
    ("market1501", "person"): "persons across cameras",
    ("banking77", "class"): "short texts by intent",
    ("mousebladder", "class"): "single cells by type",
    ("lfw", "class"): "faces, two or three per person",
}


def insert_numbers(text: str, written: list[str]) -> str:
    """A page with these paragraphs between its marks."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return before + BEGIN + "\n" + "\n\n".join(written) + "\n" + END + after


def parts(found: Measurements) -> list[str]:
    pairs = {key: row for key, row in results.lpmt_pairs(found).items() if key[2] == "mAP" and key[:2] in ROWS}
    if not pairs:
        return [results.NOTHING_MEASURED]
    columns, origins, paired = lpmt_columns(pairs.values()), results.origins(pairs), results.is_paired(pairs)
    rows: list[tuple[str, ...]] = [
        ("search for", "set", "no re-ranking", *columns.values(), *["gain, with its 95 % interval"] * paired)
    ]
    for (name, truth), what in ROWS.items():
        row = pairs.get((name, truth, "mAP"))
        if row is not None:
            cells = [f"{100 * row[method]['mean']:.1f}" if method in row else "" for method in ("none", *columns)]
            if paired and row["lpmt"]["gain_low"] > 0:
                cells[-1] = f"**{cells[-1]}**"
            mark = origins.mark(*results.shown_results(row, columns))
            gain = [results.format_gain(row["lpmt"])] * paired
            rows.append((what, results.label(name, truth) + mark, *cells, *gain))
    return [
        table(rows),
        *describe_columns(pairs.values()),
        "mAP in percent; bold: the whole interval is above 0. All queries and the gallery are in one graph, as in "
        "published tables; one set of defaults for all sets. A single query gains less ([why](docs/guide/modes.md)). "
        "[All sets, measures and features](docs/results.md), [all methods](docs/which-method-when.md). Printed by "
        f"`kinrank bench accuracy --data DIR`. {origins.sentence()}",
        *costs.short(found),
        *paper.reproduced_briefly(found),
    ]
