"""Files that are read, or standard input -> vectors and the names of their rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from numpy.typing import NDArray

from kinrank.cli.names import read_names
from kinrank.cli.output import STANDARD
from kinrank.features import load_with_ids
from kinrank.files.features import read_piped

IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id-column",
        help="Column of a .csv, .tsv or .parquet that names the rows: its name, or its number from 0.",
    ),
]


def vectors(path: Path, key: str | None = None, id_column: str | None = None) -> NDArray[Any]:
    """The rows of a file, or of the .npy or .csv that comes through standard input where the path is `-`."""
    return named_vectors(path, key, id_column)[0]


def named_vectors(
    path: Path, key: str | None = None, id_column: str | None = None, ids: Path | None = None, flag: str = "--ids"
) -> tuple[NDArray[Any], list[Any] | None]:
    """The rows and their names: from their id column, or from the file of names that `flag` gave."""
    if id_column is not None and ids is not None:
        raise ValueError(f"{flag} and an id column both name the rows of {path}; give one of them")
    if path == STANDARD:
        if key is not None:
            raise ValueError(f"standard input holds one array only; leave the key {key!r} out")
        rows, names = read_piped(sys.stdin.buffer, id_column)
    else:
        rows, names = load_with_ids(path, key, id_column=id_column)
    return rows, read_names(ids) if names is None else names
