"""Files of texts or labels -> one text per item, in the order of the items or by their ids.

A .txt has one line per item. A .csv or .tsv has one column, or two, the ids first; a heading such as `id,text` says
which is which. A .json is a list of texts, or of {"id", "text"}, or an object id -> text; a .jsonl has one of the first
two per line; a .parquet has a column `text` and, if it likes, `id`. Labels are read likewise, called `label`; without
ids they are what `--labels` reads everywhere: also .npy and .npz, and a .csv with a label per line.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kinrank.files.names import read_labels, read_lines
from kinrank.files.opening import FileProblem, fits, regular
from kinrank.files.parquet import read_columns

LONGEST = 2000  # characters of a text that are shown and searched
IDS = ("id", "ids", "key", "docno", "name")
CALLED = {"text": ("text", "texts", "caption", "title"), "label": ("label", "labels", "class")}
NAMED = {"text": ", or name it with column="}  # where that can be said
Named = tuple[str | None, str | None]  # the column with the values and that with the ids, where these were named
ENDINGS = (".txt", ".csv", ".tsv", ".json", ".jsonl", ".parquet")


class Column(NamedTuple):
    """Texts, and the ids they belong to; None where they are in the order of the items."""

    values: list[str]
    ids: list[str] | None

    def by_id(self, order: Sequence[str], path: object, kind: str) -> dict[str, str]:
        """id -> text, where `order` are the ids of all items in their order."""
        if self.ids is None:
            if len(self.values) != len(order):
                raise ValueError(
                    f"{path} has {len(self.values)} {kind}s but there are {len(order)} items; give one for each, in "
                    f"the order of their ids, or a .csv with the columns id,{kind}"
                )
            return dict(zip(order, self.values, strict=True))
        found = dict(zip(self.ids, self.values, strict=True))
        if len(found) < len(self.ids):
            raise ValueError(f"{path} names an item twice; give one {kind} for each")
        if order and not any(name in found for name in order):
            raise ValueError(
                f"{path} has {kind}s for items such as {next(iter(found), None)!r:.80}, none of which is in the "
                f"gallery (such as {order[0]!r:.80}); check how they are spelled"
            )
        return found


def texts_of(path: Path, column: str | None = None, id_column: str | None = None) -> Column:
    """The texts in a file; of a table those of `column` and the ids of `id_column`, found by their usual names."""
    if path.suffix.lower() != ".txt":
        return _read(path, "text", (column, id_column))
    if column is not None or id_column is not None:
        raise ValueError(
            f"{path} has no columns; column= and id_column= are for .csv | .tsv | .json | .jsonl | .parquet"
        )
    return Column(read_lines(path), None)


def labels_of(path: Path, key: str | None = None) -> Column:
    """The labels in a file."""
    ending = path.suffix.lower()
    if ending in (".npy", ".npz", ".txt") or (ending == ".csv" and not _has_ids(path)):
        labels = read_labels(path, key)
        if labels.ndim != 1:
            raise ValueError(f"{path} holds labels of shape {labels.shape}; give one per item")
        return Column([str(label) for label in labels.tolist()], None)
    return _read(path, "label")


def keyed(path: str) -> tuple[Path, str | None]:
    """A path, and the key that stands behind it as in `features.npz:gallery`; None where it has none."""
    whole, (file, colon, key) = Path(path), path.rpartition(":")
    return (Path(file), key) if colon and key and not whole.exists() and Path(file).is_file() else (whole, None)


def cut(text: str) -> str:
    """As much of a text as is shown."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"


def _read(path: Path, kind: str, named: Named = (None, None)) -> Column:
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(f"{path} has the unknown ending {path.suffix!r}; {kind}s are {' | '.join(ENDINGS)}")
    if ending == ".parquet":
        return _of_parquet(path, kind, named)
    if ending in (".csv", ".tsv"):
        return _of_table(path, kind, named)
    try:
        if ending == ".jsonl":
            return _of_entries([json.loads(line) for line in read_lines(path) if line.strip()], path, kind, named)
        fits(path, 8 * regular(path).stat().st_size)
        content = json.loads(path.read_bytes())
    except (FileProblem, FileNotFoundError):
        raise
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON ({' '.join(str(error).split())[:120]}); write a list of {kind}s") from None
    if isinstance(content, dict):
        return Column([_plain(value, path, kind) for value in content.values()], list(content))
    return _of_entries(content, path, kind, named)


def _of_entries(entries: Any, path: Path, kind: str, named: Named) -> Column:
    """From texts, or from objects with a text and an id."""
    if not isinstance(entries, list):
        raise ValueError(f"{path} is no list; write a list of {kind}s, or of objects with id and {kind}")
    if not entries or not all(isinstance(entry, dict) for entry in entries):
        return Column([_plain(entry, path, kind) for entry in entries], None)
    rows = [{str(name).lower(): value for name, value in entry.items()} for entry in entries]
    value, name = _chosen(list(rows[0]), path, kind, named)
    if any(value not in row or (name is not None and name not in row) for row in rows):
        raise ValueError(f"{path} has entries without {value} or {name}; give both in each")
    values = [_plain(row[value], path, kind) for row in rows]
    return Column(values, None if name is None else [str(row[name]) for row in rows])


def _of_table(path: Path, kind: str, named: Named) -> Column:
    rows = list(_cells(path))
    first = [cell.strip().lower() for cell in rows[0]] if rows else []
    if any(cell in IDS + CALLED[kind] for cell in first) or any(named):
        value, name = _chosen(first, path, kind, named)
        places = [first.index(value)] + ([] if name is None else [first.index(name)])
        rows = rows[1:]
    elif len(first) in (0, 1, 2):
        places = [1, 0] if len(first) == 2 else [0]
    else:
        raise ValueError(f"{path} has {len(first)} columns and no heading; write id,{kind} into its first line")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(first):
            raise ValueError(
                f"{path} row {number} has {len(row)} cells and not {len(first)} as the first; put texts with commas in "
                "quotes"
            )
    columns = [[row[place] for row in rows] for place in places]
    return Column(columns[0], [cell.strip() for cell in columns[1]] if len(columns) > 1 else None)


def _cells(path: Path) -> Iterable[list[str]]:
    """The rows of a table that are not blank."""
    fits(path, 8 * regular(path).stat().st_size)
    limit = csv.field_size_limit()
    try:
        text = path.read_bytes().decode("utf-8-sig")
        delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        csv.field_size_limit(max(limit, len(text)))  # a text may be longer than a cell usually may
        return [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text in UTF-8; save it again in that encoding") from None
    except csv.Error as error:
        raise ValueError(f"{path} is no table ({error}); put texts with commas in quotes") from None
    finally:
        csv.field_size_limit(limit)


def _has_ids(path: Path) -> bool:
    """Whether the first line of a table is a heading with ids and labels."""
    with regular(path).open("rb") as file:
        words = file.readline(1000).decode("utf-8-sig", "replace").lower()
    cells = [cell.strip().strip('"') for cell in words.split(",")]
    return any(cell in IDS for cell in cells) and any(cell in CALLED["label"] for cell in cells)


def _of_parquet(path: Path, kind: str, named: Named) -> Column:
    def wanted(names: Sequence[str]) -> list[str]:
        value, name = _chosen(names, path, kind, named)
        return [value] if name is None else [value, name]

    values, *ids = read_columns(path, wanted)
    return Column([_plain(value, path, kind) for value in values], [str(entry) for entry in ids[0]] if ids else None)


def _chosen(names: Sequence[str], path: Path, kind: str, named: Named) -> tuple[str, str | None]:
    """Of the columns of these names the one with the values, and the one with the ids if there is one."""
    wanted, ids = (_spelled(column, names, path) for column in named)
    name = ids or next((name for name in IDS if name in names and name != wanted), None)
    value = wanted or next((name for name in CALLED[kind] if name in names), None)
    others = [other for other in names if other != name]
    if value is None and len(others) == 1:
        value = others[0]
    if value is None:
        listed = ", ".join(map(str, names[:8]))
        raise ValueError(f"{path} has the columns {listed}; call the one to be read {kind}{NAMED.get(kind, '')}")
    return value, name


def _spelled(column: str | None, names: Sequence[str], path: Path) -> str | None:
    """The column as it is spelled there; headings of tables were made small."""
    found = next((name for name in (column, column and column.lower()) if name in names), None)
    if column is not None and found is None:
        raise ValueError(f"{path} has no column {column!r}; it has {', '.join(map(str, names[:8]))}")
    return found


def _plain(value: Any, path: Path, kind: str) -> str:
    if value is None:
        return ""
    if isinstance(value, (str, int, float)):
        return str(value)
    raise ValueError(f"{path} holds {value!r:.60}, which is no {kind}; {kind}s are texts or numbers")
