"""Rankings in the forms of other libraries: runs, Arrow tables, data frames, text and HTML."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError
from kinrank.lazy_import import import_extra

if TYPE_CHECKING:
    from kinrank.ranking.ranking import QueryResult, Ranking

DATA_FRAME_LIBRARIES = ("pandas", "polars")
SHOWN_QUERIES, SHOWN_ITEMS = 5, 8  # in a notebook and at a prompt
MAX_SHOWN_CHARACTERS = 32  # of an id
CELL_STYLE = "padding:.2em .6em;text-align:left;white-space:nowrap;border-bottom:1px solid rgba(128,128,128,.35)"
FAINT_STYLE = "opacity:.65;font-size:85%"


def column_names(queries_named: bool, items_named: bool) -> list[str]:
    """Return the heading of a table: `query_id` and `item_id` where there are ids, else `query` and `item`."""
    return ["query_id" if queries_named else "query", "rank", "item_id" if items_named else "item", "distance"]


def to_columns(ranking: Ranking) -> dict[str, NDArray[Any]]:
    """Return one row per result, without padding: query, rank from 1, item and distance."""
    rows, places = np.nonzero(ranking.indices >= 0)
    queries = rows if ranking.query_ids is None else ranking.query_ids[rows]
    items = ranking.ids[rows, places]
    if items.dtype.kind == "O" and all(isinstance(item, int) for item in items.tolist()):
        items = items.astype(np.uint64)  # numbers above int64, which padding had turned into Python objects
    names = column_names(ranking.query_ids is not None, not ranking.has_numbers_only)
    return dict(zip(names, (queries, places + 1, items, ranking.distances[rows, places]), strict=True))


def to_table(ranking: Ranking) -> Any:
    """Return a pyarrow Table with the columns of `to_columns`."""
    arrow = import_extra("pyarrow", "Ranking.to_arrow", "io")
    columns = {
        name: arrow.array(values, arrow.string() if values.dtype.kind == "O" else None)
        for name, values in to_columns(ranking).items()
    }
    return arrow.table(columns)


def to_data_frame(ranking: Ranking, library: str | None) -> Any:
    """Return a data frame with the columns of `to_columns`."""
    if library is None:
        library = next((name for name in DATA_FRAME_LIBRARIES if find_spec(name)), DATA_FRAME_LIBRARIES[0])
    if library not in DATA_FRAME_LIBRARIES:
        raise InputError(parameter="library", given=library, allowed=f"one of: {', '.join(DATA_FRAME_LIBRARIES)}")
    columns = to_columns(ranking)
    frame = import_extra(library, "Ranking.to_dataframe", library).DataFrame
    if library == "polars":  # it does not read arrays of Python objects as text
        return frame({name: value.tolist() if value.dtype.kind == "O" else value for name, value in columns.items()})
    return frame(columns)


def iterate_rows(ranking: Ranking) -> Iterator[tuple[str, list[str], NDArray[np.float32]]]:
    """Yield every query with its items and distances, without padding; ids as text."""
    for result in ranking:
        yield str(result.query_id), [str(item) for item in result.ids.tolist()], result.distances


def make_strictly_decreasing(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return scores (n,) of one query, each at least one float32 below the one before it.

    trec_eval reads single precision and breaks ties by document name, so ties have to be removed before.
    """
    bits = np.clip(scores, -1e38, 1e38).astype(np.float32).view(np.int32).astype(np.int64)
    steps = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)  # these integers have the order of the floats
    place = np.arange(len(steps))
    steps = np.minimum.accumulate(steps + place) - place
    bits = np.where(steps < 0, -steps - 2**31, steps)
    return bits.astype(np.int32).view(np.float32)


def render_text(ranking: Ranking) -> str:
    """Write the first results of the first queries, one line per query."""
    lines = [_describe(ranking)]
    for result in ranking[:SHOWN_QUERIES]:
        lines.append(f"  {render_line(result)}")
    if len(ranking) > SHOWN_QUERIES:
        lines.append(f"  ... {len(ranking) - SHOWN_QUERIES} more queries")
    return "\n".join(lines)


def render_line(result: QueryResult) -> str:
    """Write the first results of one query."""
    items = [f"{_shorten(item)} ({distance:.4g})" for item, distance in result.head(SHOWN_ITEMS)]
    more = ", ..." if len(result) > SHOWN_ITEMS else ""
    return f"{_shorten(result.query_id)}: {', '.join(items) or 'nothing found'}{more}"


def render_html(ranking: Ranking) -> str:
    """Write the first results of the first queries as a table. Colours are those of the page, light or dark."""
    ranks = range(1, min(SHOWN_ITEMS, ranking.depth) + 1)
    head = "".join(f'<th style="{CELL_STYLE}">{text}</th>' for text in ("query", *ranks))
    body = []
    for result in ranking[:SHOWN_QUERIES]:
        cells = [f'<th style="{CELL_STYLE}">{escape(_shorten(result.query_id))}</th>']
        for item, distance in result.head(SHOWN_ITEMS):
            value = f'<span style="{FAINT_STYLE}">{distance:.4g}</span>'
            cells.append(f'<td style="{CELL_STYLE}">{escape(_shorten(item))}<br>{value}</td>')
        if missing := len(ranks) - len(result.head(SHOWN_ITEMS)):
            text = "" if len(result) else "nothing found"
            cells.append(f'<td style="{CELL_STYLE}" colspan="{missing}">{text}</td>')
        body.append(f"<tr>{''.join(cells)}</tr>")
    hidden = {"queries": len(ranking) - SHOWN_QUERIES, "items per query": ranking.depth - SHOWN_ITEMS}
    note = ", ".join(f"{count} more {name}" for name, count in hidden.items() if count > 0)
    table = (
        f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'
    )
    title, note = escape(_describe(ranking)), f'<div style="{FAINT_STYLE}">{note}</div>'
    return f'<div style="overflow-x:auto"><div>{title}</div>{table}{note}</div>'


def _describe(ranking: Ranking) -> str:
    facts = [str(ranking.meta[key]) for key in ("mode", "method") if key in ranking.meta] or ["search"]
    return f"Ranking({len(ranking)} queries x {ranking.depth} items, {', '.join(facts)})"


def _shorten(name: Any) -> str:
    """Return an id, without its middle if it is long: paths often differ only at the end."""
    text, half = str(name), MAX_SHOWN_CHARACTERS // 2
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[: half - 3]}...{text[-half:]}"
