"""Readers of tables: csv, tsv and parquet files as rows of numbers, with the ids of the rows if a column contains them.

The first line of a csv or tsv file is a heading if none of its cells is a number (apart from the id column), or if
`id_column` is a name in it. Every cell below is a number, quoted or not, except in the id column. Unclear tables are
refused: an empty cell, a line of text and numbers, a column whose name suggests ids or labels, and a first line
0, 1, 2, ... above rows with decimal points, which only numbers the columns.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError, UnreadableFileError
from kinrank.files.numpy_files import choose_array
from kinrank.files.path_checks import check_fits_memory, check_regular_file, import_optional
from kinrank.memory_limit import default_limit_bytes

Array = NDArray[Any]
Column = str | int | None
Ids = list[Any] | None
Rows = Iterator[tuple[int, list[str]]]  # line number and cells

_ID_WORDS = r"ids?|idx|index|labels?|class|names?|key|uuid|guid"
ID_HEADING_PATTERN = re.compile(
    rf"(?i:(.*[_\s.-])?({_ID_WORDS})|doc(id|no)|row|unnamed: 0|__index_level_\d+__|)|.*[a-z](Id|ID)"
)


class TableLayout(NamedTuple):
    """Layout of a table: its heading (empty if none), the position of the id column, lines before the first row."""

    heading: list[str]
    id_position: int | None
    skipped: int


def read_text_table(
    name: object, opened: Callable[[], IO[str]], delimiter: str, id_column: Column
) -> tuple[Array, Ids]:
    """Read the rows of the file that `opened()` opens, and the cells of its id column as text."""
    with opened() as lines:
        layout = _detect_layout(name, _iterate_rows(lines, delimiter), id_column)
    ids: list[str] = []

    def keep(cell: str) -> float:
        ids.append(cell.strip())
        return 0.0

    try:
        with opened() as lines:
            numbers = np.loadtxt(
                (line for line in islice(lines, layout.skipped, None) if not line.isspace()),
                np.float32,
                comments=None,
                delimiter=delimiter,
                quotechar='"',
                encoding="utf-8",
                ndmin=2,
                converters=None if layout.id_position is None else {layout.id_position: keep},
            )
        if not all(ids):
            raise InputError("a row has no id")
    except ValueError:
        with opened() as lines:
            _refuse_bad_cell(name, islice(_iterate_rows(lines, delimiter), int(bool(layout.heading)), None), layout)
        raise
    return (numbers, None) if layout.id_position is None else (np.delete(numbers, layout.id_position, axis=1), ids)


def _iterate_rows(lines: IO[str], delimiter: str) -> Rows:
    """Yield the lines that are not blank."""
    reader = csv.reader(lines, delimiter=delimiter)
    for row in reader:
        cells = [cell.strip() for cell in row]
        if cells not in ([], [""]):
            yield reader.line_num, cells


def _detect_layout(name: object, rows: Rows, id_column: Column) -> TableLayout:
    """Detect the layout from the first two lines; refuse unclear ones."""
    number, first = next(rows, (0, []))
    _, second = next(rows, (0, []))
    at = find_id_column(name, first, id_column)
    named = at is not None and first[at] == id_column and not _is_number(first[at])
    rest = _drop_cell(first, at)
    if not named and (not any(rest) or any(map(_is_number, rest))):
        _refuse_numbering(name, rest, _drop_cell(second, at))
        number, heading = 0, []
    else:
        heading = first
        refuse_unclear_ids(name, heading, at)
    if not (second if heading else first):
        raise UnreadableFileError(f"{name} contains no row of numbers", remedy="write one vector per line")
    return TableLayout(heading, at, number)


def find_id_column(name: object, columns: Sequence[str], id_column: Column) -> int | None:
    """Return the position of the id column, which is given by its name or its number."""
    if id_column is None:
        return None
    if isinstance(id_column, str) and columns.count(id_column) == 1:
        return columns.index(id_column)
    number = int(id_column) if re.fullmatch(r"[0-9]{1,9}", str(id_column)) else -1
    if 0 <= number < len(columns):
        return number
    listed = ", ".join(map(repr, columns[:8])) + (", ..." if len(columns) > 8 else "")
    raise UnreadableFileError(
        f"{name} has no single column {id_column!r}",
        remedy=f"give `id_column` as the name, or the number from 0, of one of its {len(columns)} columns: {listed}",
    )


def refuse_unclear_ids(name: object, columns: Sequence[str], at: int | None) -> None:
    """Refuse a column of numbers whose name suggests ids, because it is hardly a dimension."""
    for number, column in enumerate(columns):
        if number != at and ID_HEADING_PATTERN.fullmatch(column):
            problem = f"{name}: the column {column!r} looks like ids or labels, not like a dimension"
            _refuse_column(problem, column, number, at, "drop or rename it")


def _refuse_column(problem: str, column: str, number: int, at: int | None, otherwise: str) -> NoReturn:
    """Refuse a column that cannot be a dimension."""
    if at is not None:
        raise UnreadableFileError(problem, remedy=f"{otherwise}: only one column can be the id column")
    value = repr(column) if column else number
    raise UnreadableFileError(
        problem, remedy=f"if the column contains ids, give `id_column={value}`, otherwise {otherwise}"
    )


def _refuse_numbering(name: object, first: Sequence[str], second: Sequence[str]) -> None:
    """Refuse 0,1,2,... above decimal numbers: pandas writes such a line for columns without names."""
    counted = any(list(first) == [str(start + number) for number in range(len(first))] for start in (0, 1))
    if counted and len(first) > 1 and any("." in cell for cell in second):
        raise UnreadableFileError(
            f"{name}: the first line {','.join(first)[:40]} seems to number the columns",
            remedy="delete it, or write its numbers with decimal points if it is a vector",
        )


def _refuse_bad_cell(name: object, rows: Rows, layout: TableLayout) -> None:
    """Report the first cell that is empty or not a number by line and column, or the first line of another length."""
    heading, at, _ = layout
    width = len(heading)
    for line, cells in rows:
        width = width or len(cells)
        if len(cells) != width:
            raise UnreadableFileError(
                f"{name} line {line} has {len(cells)} cells, but the lines before have {width}", remedy="correct it"
            )
        for number, cell in enumerate(cells):
            column = heading[number] if heading else ""
            where = f"{name} line {line}: column {repr(column) if column else f'{number} (counted from 0)'}"
            if not cell:
                raise UnreadableFileError(f"{where} is empty", remedy="fill the cell or drop the line")
            if number != at and not _is_number(cell):
                problem = f"{where} contains {cell[:40]!r}, which is not a number"
                if width == 1 and re.search(r"[;\t|]", cell):
                    raise UnreadableFileError(problem, remedy="separate cells by commas in a .csv, by tabs in a .tsv")
                _refuse_column(problem, column, number, at, "correct the cell or drop the column")


def _drop_cell(cells: Sequence[str], at: int | None) -> list[str]:
    """Return the cells without the one at position `at`."""
    return [cell for number, cell in enumerate(cells) if number != at]


def _is_number(cell: str) -> bool:
    """True if the cell is a number as numpy reads it."""
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and "_" not in cell


def read_parquet(path: Path, key: str | None, id_column: Column) -> tuple[Array, Ids]:
    """Read a column of lists of numbers, or all columns of numbers together; and the column of ids."""
    types = import_optional("pyarrow.types", path)
    with import_optional("pyarrow.parquet", path).ParquetFile(path) as file:
        schema = file.schema_arrow
        at = find_id_column(path, schema.names, id_column)
        ids = None if at is None else _read_parquet_ids(path, file, schema.field(at), types)
        lists = {
            field.name: (file.metadata.num_rows, getattr(field.type, "list_size", -1))
            for field in schema
            if types.is_fixed_size_list(field.type) or types.is_list(field.type) or types.is_large_list(field.type)
        }
        numbers = [
            field.name
            for number, field in enumerate(schema)
            if number != at and (types.is_integer(field.type) or types.is_floating(field.type))
        ]
        if key is not None or lists or not numbers:
            return _read_parquet_vectors(path, file, choose_array(path, key, lists), lists), ids
        refuse_unclear_ids(path, [name if name in numbers else "text" for name in schema.names], at)
        table = _read_parquet(path, file, numbers)
        return np.column_stack([_refuse_nulls(path, name, table[name]).to_numpy() for name in numbers]), ids


def read_parquet_columns(path: Path, wanted: Callable[[list[str]], list[str]]) -> list[list[Any]]:
    """Read some columns as lists, empty entries as None. `wanted` chooses their names from all."""
    try:
        with import_optional("pyarrow.parquet", path).ParquetFile(check_regular_file(path)) as file:
            names = wanted(list(file.schema_arrow.names))
            table = _read_parquet(path, file, names)
            return [table[name].to_pylist() for name in names]
    except import_optional("pyarrow", path).ArrowException as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path} is truncated, damaged or not a .parquet file ({reason})") from error


def _read_parquet(path: Path, file: Any, columns: list[str]) -> Any:
    """Read columns as a table, batch by batch, because a few bytes of a file can represent any number of equal values.

    The file contains the total size, but reading it ends the whole process if that part of the file is damaged.
    """
    limit, pieces, size = default_limit_bytes(), [], 0
    check_fits_memory(path, 8 * file.metadata.num_rows * len(columns), limit)
    for piece in file.iter_batches(batch_size=4096, columns=columns):
        size += piece.nbytes
        check_fits_memory(path, size, limit)
        pieces.append(piece)
    return import_optional("pyarrow", path).Table.from_batches(pieces, None if pieces else file.schema_arrow)


def _read_parquet_ids(path: Path, file: Any, field: Any, types: Any) -> list[Any]:
    """Read the column of ids."""
    if not (types.is_string(field.type) or types.is_large_string(field.type) or types.is_integer(field.type)):
        raise UnreadableFileError(
            f"{path}: the column {field.name!r} contains {field.type}, but ids are text or whole numbers"
        )
    column = _read_parquet(path, file, [field.name])[field.name]
    return list(_refuse_nulls(path, field.name, column).to_pylist())


def _read_parquet_vectors(path: Path, file: Any, name: str, lists: dict[str, tuple[int, int]]) -> Array:
    """Read a column of lists as rows."""
    column = _refuse_nulls(path, name, _read_parquet(path, file, [name])[name].combine_chunks())
    flat = _refuse_nulls(path, name, column.flatten()).to_numpy(zero_copy_only=False)
    count, width = lists[name]
    widths = {len(flat) // max(count, 1)} if width >= 0 else set(np.diff(np.asarray(column.offsets)).tolist())
    if len(widths) != 1:
        raise UnreadableFileError(f"{path}: {name} has rows of different lengths")
    return np.asarray(flat.reshape(count, widths.pop()))


def _refuse_nulls(path: Path, name: str, column: Any) -> Any:
    """Return the column if it has no empty entries."""
    if column.null_count:
        raise UnreadableFileError(f"{path}: {name} has {column.null_count} empty entries", remedy="drop or fill them")
    return column
