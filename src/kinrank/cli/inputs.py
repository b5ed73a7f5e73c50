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
from kinrank.files.opening import FileProblem

QueriesKey = Annotated[
    str | None, typer.Option("--queries-key", help="Which array of an .npz, .h5, .mat or .safetensors has the queries.")
]
GalleryKey = Annotated[
    str | None, typer.Option("--gallery-key", help="Which array of an .npz, .h5, .mat or .safetensors has the gallery.")
]
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
    path: Path,
    key: str | None = None,
    id_column: str | None = None,
    ids: Path | None = None,
    ids_flag: str = "--ids",
    column_flag: str = "--id-column",
) -> tuple[NDArray[Any], list[Any] | None]:
    """The rows and their names: from their id column, or from a file of names. The flags are for what goes wrong."""
    if id_column is not None and ids is not None:
        raise ValueError(f"{ids_flag} and {column_flag} both name the rows of {path}; give one of them")
    try:
        rows, names = _read(path, key, id_column)
    except FileProblem as problem:
        raise FileProblem(str(problem).replace("id_column=", f"{column_flag} ")) from problem
    return rows, read_names(ids) if names is None else names


def _read(path: Path, key: str | None, id_column: str | None) -> tuple[NDArray[Any], list[Any] | None]:
    if path != STANDARD:
        return load_with_ids(path, key, id_column=id_column)
    if key is not None:
        raise ValueError(f"standard input holds one array only; leave the key {key!r} out")
    return read_piped(sys.stdin.buffer, id_column)
