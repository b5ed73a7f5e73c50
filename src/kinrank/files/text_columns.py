"""Files with one text, label or name per item, in the order of the items or by their ids.

A .txt has one line per item. A .csv or .tsv has one column, or two with the ids first; a heading such as `id,text`
tells which is which. A .json is a list of texts, a list of {"id", "text"}, or an object id -> text; a .jsonl has one of
the first two per line; a .parquet has a column `text` and optionally `id`. Labels are read in the same way, with the
heading `label`; without ids, also .npy, .npz and a .csv with one label per line are read, as everywhere for `--labels`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError, MemoryLimitError, UnreadableFileError
from kinrank.files.numpy_files import read_headers, read_npy, read_npz
from kinrank.files.path_checks import check_fits_memory, check_regular_file
from kinrank.files.vector_tables import read_parquet_columns

MAX_TEXT_CHARACTERS = 2000  # characters of a text that are shown and searched
ID_HEADINGS = ("id", "ids", "key", "docno", "name")
VALUE_HEADINGS = {"text": ("text", "texts", "caption", "title"), "label": ("label", "labels", "class")}
COLUMN_REMEDIES = {"text": ", or give its name as `column`"}  # only texts have this parameter
ColumnNames = tuple[str | None, str | None]  # the columns with the values and with the ids, if the user named them
TEXT_FILE_ENDINGS = (".txt", ".csv", ".tsv", ".json", ".jsonl", ".parquet")


class Column(NamedTuple):
    """Texts, and the ids they belong to; None if they are in the order of the items."""

    values: list[str]
    ids: list[str] | None

    def by_id(self, order: Sequence[str], path: object, kind: str) -> dict[str, str]:
        """Return a dict id -> text. `order` contains the ids of all items in their order."""
        if self.ids is None:
            if len(self.values) != len(order):
                raise InputError(
                    f"{path} has {len(self.values)} {kind}s, but there are {len(order)} items",
                    allowed=f"one for each, in the order of their ids, or a .csv with the columns id,{kind}",
                )
            return dict(zip(order, self.values, strict=True))
        values = dict(zip(self.ids, self.values, strict=True))
        if len(values) < len(self.ids):
            raise InputError(f"{path} contains an id twice", allowed=f"one {kind} per item")
        if order and not any(name in values for name in order):
            raise InputError(
                f"{path} has {kind}s for items such as {next(iter(values), None)!r:.80}, none of which is in the "
                f"gallery (such as {order[0]!r:.80})",
                remedy="check the spelling",
            )
        return values


def read_texts(path: Path, column: str | None = None, id_column: str | None = None) -> Column:
    """Read the texts in a file; in a table those of `column` with the ids of `id_column`, found by default headings."""
    if path.suffix.lower() != ".txt":
        return _read_column(path, "text", (column, id_column))
    if column is not None or id_column is not None:
        raise InputError(
            f"{path} has no columns; `column` and `id_column` are for .csv | .tsv | .json | .jsonl | .parquet"
        )
    return Column(read_lines(path), None)


def read_label_column(path: Path, key: str | None = None) -> Column:
    """Read the labels in a file."""
    ending = path.suffix.lower()
    if ending in (".npy", ".npz", ".txt") or (ending == ".csv" and not _has_id_heading(path)):
        labels = read_labels(path, key)
        if labels.ndim != 1:
            raise InputError(f"{path} contains labels of shape {labels.shape}", allowed="one label per item")
        return Column([str(label) for label in labels.tolist()], None)
    return _read_column(path, "label")


def shorten_text(text: str, most: int = MAX_TEXT_CHARACTERS) -> str:
    """Cut a text to at most `most` characters; the last one is an ellipsis."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _read_column(path: Path, kind: str, named: ColumnNames = (None, None)) -> Column:
    """Read the column of texts or labels by the ending of the file."""
    ending = path.suffix.lower()
    if ending not in TEXT_FILE_ENDINGS:
        raise InputError(f"{path} has the unknown ending {path.suffix!r}", allowed=" | ".join(TEXT_FILE_ENDINGS))
    if ending == ".parquet":
        return _column_from_parquet(path, kind, named)
    if ending in (".csv", ".tsv"):
        return _column_from_table(path, kind, named)
    try:
        if ending == ".jsonl":
            return _column_from_entries(
                [json.loads(line) for line in read_lines(path) if line.strip()], path, kind, named
            )
        check_fits_memory(path, 8 * check_regular_file(path).stat().st_size)
        content = json.loads(path.read_bytes())
    except (UnreadableFileError, FileNotFoundError):
        raise
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{path} is not JSON ({reason})", remedy=f"write a list of {kind}s") from None
    if isinstance(content, dict):
        return Column([_to_text(value, path, kind) for value in content.values()], list(content))
    return _column_from_entries(content, path, kind, named)


def _column_from_entries(entries: Any, path: Path, kind: str, named: ColumnNames) -> Column:
    """Return the column of a list of texts, or of objects with a text and an id."""
    if not isinstance(entries, list):
        raise InputError(f"{path} is not a list", remedy=f"write a list of {kind}s, or of objects with id and {kind}")
    if not entries or not all(isinstance(entry, dict) for entry in entries):
        return Column([_to_text(entry, path, kind) for entry in entries], None)
    rows = [{str(name).lower(): value for name, value in entry.items()} for entry in entries]
    value, name = _choose_columns(list(rows[0]), path, kind, named)
    if any(value not in row or (name is not None and name not in row) for row in rows):
        raise InputError(f"{path} has entries without {value} or {name}", remedy="give both in each entry")
    values = [_to_text(row[value], path, kind) for row in rows]
    return Column(values, None if name is None else [str(row[name]) for row in rows])


def _column_from_table(path: Path, kind: str, named: ColumnNames) -> Column:
    """Return the column of a .csv or .tsv file."""
    rows = list(_read_cells(path))
    first = [cell.strip().lower() for cell in rows[0]] if rows else []
    if any(cell in ID_HEADINGS + VALUE_HEADINGS[kind] for cell in first) or any(named):
        value, name = _choose_columns(first, path, kind, named)
        places = [first.index(value)] + ([] if name is None else [first.index(name)])
        rows = rows[1:]
    elif len(first) in (0, 1, 2):
        places = [1, 0] if len(first) == 2 else [0]
    else:
        raise InputError(
            f"{path} has {len(first)} columns and no heading", remedy=f"write id,{kind} into its first line"
        )
    for number, row in enumerate(rows, start=1):
        if len(row) != len(first):
            raise InputError(
                f"{path} row {number} has {len(row)} cells, but the first row has {len(first)}",
                remedy="put texts with commas in quotes",
            )
    columns = [[row[place] for row in rows] for place in places]
    return Column(columns[0], [cell.strip() for cell in columns[1]] if len(columns) > 1 else None)


def _read_cells(path: Path) -> Iterable[list[str]]:
    """Return the rows of a table that are not blank."""
    check_fits_memory(path, 8 * check_regular_file(path).stat().st_size)
    limit = csv.field_size_limit()
    try:
        text = path.read_bytes().decode("utf-8-sig")
        delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        csv.field_size_limit(max(limit, len(text)))  # a text may be longer than the default limit
        return [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text in UTF-8", remedy="save it again in that encoding") from None
    except csv.Error as error:
        raise InputError(f"{path} is not a table ({error})", remedy="put texts with commas in quotes") from None
    finally:
        csv.field_size_limit(limit)


def _has_id_heading(path: Path) -> bool:
    """True if the first line of a table is a heading with ids and labels."""
    with check_regular_file(path).open("rb") as file:
        words = file.readline(1000).decode("utf-8-sig", "replace").lower()
    cells = [cell.strip().strip('"') for cell in words.split(",")]
    return any(cell in ID_HEADINGS for cell in cells) and any(cell in VALUE_HEADINGS["label"] for cell in cells)


def _column_from_parquet(path: Path, kind: str, named: ColumnNames) -> Column:
    """Return the column of a .parquet file."""

    def wanted(names: Sequence[str]) -> list[str]:
        value, name = _choose_columns(names, path, kind, named)
        return [value] if name is None else [value, name]

    values, *ids = read_parquet_columns(path, wanted)
    return Column([_to_text(value, path, kind) for value in values], [str(entry) for entry in ids[0]] if ids else None)


def _choose_columns(names: Sequence[str], path: Path, kind: str, named: ColumnNames) -> tuple[str, str | None]:
    """Return the name of the column with the values, and that of the column with the ids, if any."""
    wanted, ids = (_find_heading(column, names, path) for column in named)
    name = ids or next((name for name in ID_HEADINGS if name in names and name != wanted), None)
    value = wanted or next((name for name in VALUE_HEADINGS[kind] if name in names), None)
    others = [other for other in names if other != name]
    if value is None and len(others) == 1:
        value = others[0]
    if value is None:
        listed = ", ".join(map(str, names[:8]))
        raise InputError(
            f"{path} has the columns {listed}", remedy=f"name the one to read {kind}{COLUMN_REMEDIES.get(kind, '')}"
        )
    return value, name


def _find_heading(column: str | None, names: Sequence[str], path: Path) -> str | None:
    """Return the column as it is spelled in the file; the headings of tables were converted to lower case."""
    heading = next((name for name in (column, column and column.lower()) if name in names), None)
    if column is not None and heading is None:
        raise InputError(f"{path} has no column {column!r}; it has {', '.join(map(str, names[:8]))}")
    return heading


def _to_text(value: Any, path: Path, kind: str) -> str:
    """Convert a text, number or None to text."""
    if value is None:
        return ""
    if isinstance(value, (str, int, float)):
        return str(value)
    raise InputError(f"{path} contains {value!r:.60}, which is neither a text nor a number")


def read_names(path: Path) -> list[str]:
    """Read the lines of a text file, none of which may be blank."""
    return parse_names(read_lines(path), path)


def read_lines(path: Path) -> list[str]:
    """Read the lines of a text file, including blank ones."""
    check_fits_memory(path, 8 * check_regular_file(path).stat().st_size)
    return split_lines(path.read_bytes(), path)


def split_lines(content: bytes, name: object) -> list[str]:
    """Split a text into lines; a line break at the end does not start another line."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(
            f"{name} is not text in UTF-8", remedy="save it again in that encoding, one entry per line"
        ) from None
    lines = text.replace("\r\n", "\n").split("\n")  # other line separators may be part of a name
    if not lines[-1]:
        lines.pop()
    return lines


def parse_names(lines: list[str], name: object) -> list[str]:
    """Return the lines if none of them is blank."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            raise InputError(f"{name} line {number} is blank", remedy="write one name per line, without blank lines")
    return lines


def read_labels(path: Path, key: str | None = None, blank: bool = False) -> NDArray[Any]:
    """Read one label per item: npy, npz (by key, or its `label`, or its only 1-d array), csv or txt (one per line).

    Text labels are compared as text, even if they look like numbers. `blank` allows blank lines.
    """
    ending = path.suffix.lower()
    if ending not in (".npy", ".npz", ".csv", ".txt"):
        raise InputError(f"{path} has the unknown ending {path.suffix!r}", allowed=".npy | .npz | .csv | .txt")
    if ending in (".csv", ".txt"):
        lines = [line.strip() for line in read_lines(path)] if blank else read_names(path)
        has_heading = bool(lines) and lines[0].strip().lower() in ("label", "labels")
        return np.array(lines[has_heading:], dtype=str)
    check_regular_file(path)
    try:
        return read_npy(path) if ending == ".npy" else _labels_from_npz(path, key)
    except MemoryLimitError:
        raise
    except Exception as error:  # zip, header and objects have their own errors
        raise InputError(f"labels cannot be read from {path}: {error}") from None


def _labels_from_npz(path: Path, key: str | None) -> NDArray[Any]:
    """Read the labels of an .npz file."""
    headers = read_headers(path)
    if key is None:
        usual = [name for name in ("label", "labels") if name in headers]
        flat = [name for name, header in headers.items() if len(header.shape) == 1]
        key = usual[0] if usual else flat[0] if len(flat) == 1 else None
    if key not in headers:
        raise InputError(f"it contains {', '.join(headers) or 'nothing'}", remedy="choose one with FILE:KEY")
    return read_npz(path, key, headers[key])
