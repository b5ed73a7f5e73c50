"""The two columns of LPMT in headline tables: as published, and with kinrank's defaults."""

from __future__ import annotations

from collections.abc import Iterable

from generator.records import Result

AS_PUBLISHED, DEFAULTS = "lpmt-as-published", "lpmt"  # methods in the records
COLUMNS = {AS_PUBLISHED: "LPMT as published", DEFAULTS: "LPMT, kinrank's defaults"}
SENTENCE = (
    "**LPMT as published** has the settings and the fusion of the paper, taken literally. **kinrank's defaults** add "
    "three things: a comparison of wide states, powers that are measured from the data, and a scale for the fusion."
)


def lpmt_columns(rows: Iterable[dict[str, Result]]) -> dict[str, str]:
    """Return method -> heading of a column; each row is a dict of results by method. Without results as published, LPMT
    has one column."""
    return COLUMNS if any(AS_PUBLISHED in row for row in rows) else {DEFAULTS: "LPMT"}


def describe_columns(rows: Iterable[dict[str, Result]]) -> list[str]:
    """Return the sentence about the two columns, if there are two."""
    return [SENTENCE] if AS_PUBLISHED in lpmt_columns(rows) else []
