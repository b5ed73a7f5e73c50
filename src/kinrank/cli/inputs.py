"""Files that are read, or standard input -> vectors and the names of their rows."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from numpy.typing import NDArray

import kinrank
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
Weights = Annotated[
    str | None,
    typer.Option(
        "--feature-weights", help="How much each of several --gallery counts, such as 2,1. Without: all the same."
    ),
]
CheckRows = Annotated[
    bool, typer.Option(help="Refuse several --gallery whose rows do not seem to belong to the same items.")
]
Metric = Annotated[
    str | None,
    typer.Option("--metric", help="cosine, or euclidean where the length of vectors matters. Without: cosine."),
]
AGAIN = "Once more for each further feature of the same items."


def words(text: str) -> list[str]:
    """What stands between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def methods_in(text: str) -> list[str] | str:
    """The names of methods with commas between them; "all" stays what it is."""
    return "all" if text.strip() == "all" else [word.strip() for word in text.split(",")]


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


def features(
    paths: Sequence[Path],
    key: str | None = None,
    id_column: str | None = None,
    ids: Path | None = None,
    ids_flag: str = "--ids",
    column_flag: str = "--id-column",
) -> tuple[Any, list[Any] | None]:
    """The same of one file; of several, a list of their rows, one entry per feature of the same items."""
    rows, names = named_vectors(paths[0], key, id_column, ids, ids_flag, column_flag)
    if len(paths) == 1:
        return rows, names
    parts = [rows]
    for path in paths[1:]:
        more, others = named_vectors(path, key, id_column, column_flag=column_flag)
        if others is not None and others != names:
            raise ValueError(f"{paths[0]} and {path} name their rows differently; give the same items in one order")
        parts.append(more)
    return parts, names


def combined(rows: Any, weights: str | None, check_rows: bool = True) -> Any:
    """The rows of several features made one array; those of a single one as they are."""
    if isinstance(rows, list):
        numbers = None if weights is None else _numbers(weights)
        try:
            return kinrank.combine(rows, numbers, check_rows=check_rows)
        except ValueError as error:  # a method has a flag --weights of its own
            raise ValueError(str(error).replace("weights=", "--feature-weights ")) from error
    if weights is not None:
        raise ValueError("--feature-weights is for several features; give --gallery once for each of them")
    return rows


def _numbers(text: str) -> list[Any]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise ValueError(
            f"--feature-weights {text!r} is not allowed; give numbers with commas between them, as 2,1"
        ) from None


def _read(path: Path, key: str | None, id_column: str | None) -> tuple[NDArray[Any], list[Any] | None]:
    if path != STANDARD:
        return load_with_ids(path, key, id_column=id_column)
    if key is not None:
        raise ValueError(f"standard input holds one array only; leave the key {key!r} out")
    return read_piped(sys.stdin.buffer, id_column)
