"""Parquet files -> rows of numbers and the names of the rows where a column holds them, or some columns as lists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.files.arrays import choose
from kinrank.files.opening import FileProblem, fits, optional, regular
from kinrank.files.tables import Column, Ids, position, refuse_unclear
from kinrank.memory import allowed_bytes

Array = NDArray[Any]


def read_parquet(path: Path, key: str | None, id_column: Column) -> tuple[Array, Ids]:
    """A column of lists of numbers, or all columns of numbers together; and the column of ids."""
    types = optional("pyarrow.types", path)
    with optional("pyarrow.parquet", path).ParquetFile(path) as file:
        schema = file.schema_arrow
        at = position(path, schema.names, id_column)
        ids = None if at is None else _ids(path, file, schema.field(at), types)
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
            return _vectors(path, file, choose(path, key, lists), lists), ids
        refuse_unclear(path, [name if name in numbers else "text" for name in schema.names], at)
        table = _read(path, file, numbers)
        return np.column_stack([_without_nulls(path, name, table[name]).to_numpy() for name in numbers]), ids


def read_columns(path: Path, wanted: Callable[[list[str]], list[str]]) -> list[list[Any]]:
    """Some columns as lists, empty entries None; `wanted` chooses their names from all there are."""
    try:
        with optional("pyarrow.parquet", path).ParquetFile(regular(path)) as file:
            names = wanted(list(file.schema_arrow.names))
            table = _read(path, file, names)
            return [table[name].to_pylist() for name in names]
    except optional("pyarrow", path).ArrowException as error:
        said = " ".join(str(error).split())[:200]
        raise ValueError(f"{path} is truncated, damaged or no .parquet file ({said})") from error


def _read(path: Path, file: Any, columns: list[str]) -> Any:
    """The columns as a table, piece by piece: a few bytes of a file can stand for any number of equal values.

    The file says how many there are, but to ask for it ends the whole process if that part of it is damaged.
    """
    limit, pieces, size = allowed_bytes(), [], 0
    fits(path, 8 * file.metadata.num_rows * len(columns), limit)
    for piece in file.iter_batches(batch_size=4096, columns=columns):
        size += piece.nbytes
        fits(path, size, limit)
        pieces.append(piece)
    return optional("pyarrow", path).Table.from_batches(pieces, None if pieces else file.schema_arrow)


def _ids(path: Path, file: Any, field: Any, types: Any) -> list[Any]:
    if not (types.is_string(field.type) or types.is_large_string(field.type) or types.is_integer(field.type)):
        raise FileProblem(f"{path}: the column {field.name!r} holds {field.type}; ids are text or whole numbers")
    column = _read(path, file, [field.name])[field.name]
    return list(_without_nulls(path, field.name, column).to_pylist())


def _vectors(path: Path, file: Any, name: str, lists: dict[str, tuple[int, int]]) -> Array:
    column = _without_nulls(path, name, _read(path, file, [name])[name].combine_chunks())
    flat = _without_nulls(path, name, column.flatten()).to_numpy(zero_copy_only=False)
    count, width = lists[name]
    widths = {len(flat) // max(count, 1)} if width >= 0 else set(np.diff(np.asarray(column.offsets)).tolist())
    if len(widths) != 1:
        raise FileProblem(f"{path}: {name} has rows of different lengths; vectors need equal rows")
    return np.asarray(flat.reshape(count, widths.pop()))


def _without_nulls(path: Path, name: str, column: Any) -> Any:
    if column.null_count:
        raise FileProblem(f"{path}: {name} has {column.null_count} empty entries; drop or fill them")
    return column
