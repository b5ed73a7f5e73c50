"""Input of commands: vectors, ids and filters from files, standard input or a vector database, and their options."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from numpy.typing import NDArray

import kinrank
from kinrank.cli.errors import rename_parameter
from kinrank.cli.option_groups import File, OptionGroup, option
from kinrank.cli.output import STDIO_PATH
from kinrank.errors import InputError
from kinrank.files import text_columns
from kinrank.files.path_checks import STANDARD_INPUT, read_pipe
from kinrank.files.text_columns import parse_names, split_lines
from kinrank.files.vector_files import read_piped_vectors, split_key
from kinrank.filters import refuse_mask_of_numbers
from kinrank.ids import id_from_text
from kinrank.stores.url import ENGINES
from kinrank.vector_input import load_with_ids

if TYPE_CHECKING:
    from kinrank.manifold import Manifold
    from kinrank.stores import Store

REPEAT_HELP = "Repeat it for further features of the same items."
GALLERY_HELP = f"Vectors to rank, one row per item; FILE:KEY for an array of a file. {REPEAT_HELP}"
Gallery = Annotated[list[Path] | None, typer.Option("--gallery", "-g", help=GALLERY_HELP)]
Queries = Annotated[
    list[Path] | None,
    typer.Option("--queries", help="Query vectors. Default: every item is a query for the others."),
]
QueryRows = Annotated[
    list[Path], typer.Option("--queries", help="Query vectors, one row per query. Repeat it for further features.")
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id-column",
        help="Column of a .csv, .tsv or .parquet with the ids of the rows: its name, or its number counted from 0.",
    ),
]
QueryIds = Annotated[File, typer.Option("--query-ids", help="Text file with the ids of the queries, one per line.")]
ItemIds = Annotated[File, typer.Option("--item-ids", help="Text file with the ids of the items, one per line.")]
Metric = Annotated[
    str | None,
    typer.Option("--metric", help="cosine (default), or euclidean if the length of the vectors matters."),
]
URL_SCHEMES = ", ".join(f"{scheme}:" for scheme in ENGINES)

StoreUrl = Annotated[
    str | None, typer.Option("--store", help=f"URL of a vector database, instead of a file: {URL_SCHEMES}")
]


class FeatureOptions(OptionGroup):
    """Options for the vectors of a gallery, of one feature or of several."""

    title = "Vectors"
    metric: Metric = None
    feature_weights: str | None = option(None, "Weights of several --gallery, such as 2,1. Default: equal.")
    check_rows: bool = option(
        True,
        "Refuse several --gallery whose rows do not seem to belong to the same items.",
        "--check-rows/--no-check-rows",
    )

    def combine(self, rows: Any) -> Any:
        """Combine several features into one array. Return a single feature unchanged."""
        if isinstance(rows, list):
            numbers = None if self.feature_weights is None else parse_numbers(self.feature_weights, "feature_weights")
            try:
                return kinrank.combine(rows, numbers, check_rows=self.check_rows)
            except InputError as error:
                rename_parameter(error, "weights", "feature_weights")  # methods have a flag --weights of their own
                raise
        if self.feature_weights is not None:
            raise InputError(
                "is for several features", parameter="feature_weights", remedy="repeat `gallery` for each of them"
            )
        return rows


class VectorFiles(OptionGroup):
    """Files of gallery and queries, with their ids."""

    title = "Vectors"
    gallery: Gallery = None
    queries: Queries = None
    query_ids: QueryIds = None
    item_ids: ItemIds = None

    @property
    def paths(self) -> list[File]:
        """All files that are given."""
        return [*(self.gallery or []), *(self.queries or []), self.query_ids, self.item_ids]

    def read(self, features: FeatureOptions, store: Store | None = None) -> tuple[Any, Any]:
        """Read the queries, None if there are none, and the gallery, unless it is in a store."""
        queries = read_features(self.queries)[0] if self.queries else None
        return queries, features.combine(read_features(self.gallery or [])[0]) if store is None else store

    def read_ids(self) -> tuple[list[str] | None, list[str] | None]:
        """Read the ids of the queries and of the items."""
        return read_id_file(self.query_ids), read_id_file(self.item_ids)


class GalleryFiles(VectorFiles):
    """Files of gallery and queries; there must be a gallery."""

    gallery: list[Path] = option(..., GALLERY_HELP, "--gallery", "-g")


class FilesOrStore(VectorFiles):
    """Files of gallery and queries; the gallery can be a vector database instead."""

    store: StoreUrl = None

    def check_source(self) -> None:
        """Refuse a gallery that is given twice, or not at all."""
        if (self.store is None) == (not self.gallery):
            raise InputError("give either --gallery, a file of vectors, or --store, the URL of a vector database")


def split_commas(text: str) -> list[str]:
    """Split a list of words at its commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def parse_numbers(text: str, parameter: str) -> list[float]:
    """Return the numbers of a list with commas; `parameter` is the one that it is given for."""
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise InputError(parameter=parameter, given=text, allowed="numbers separated by commas, such as 2,1") from None


def split_methods(text: str) -> list[str] | str:
    """Split a list of method names at its commas. Return "all" unchanged."""
    return "all" if text.strip() == "all" else [word.strip() for word in text.split(",")]


def read_vectors(path: Path, id_column: str | None = None) -> NDArray[Any]:
    """Read vectors from a file, or from a .npy or .csv on standard input if the path is `-`."""
    return read_vectors_and_ids(path, id_column)[0]


def read_vectors_and_ids(
    path: Path,
    id_column: str | None = None,
    ids: File = None,
    ids_name: str = "ids",
    column_name: str = "id_column",
) -> tuple[NDArray[Any], list[Any] | None]:
    """Read vectors and their ids, which come from a column of the same file or from a file of ids.

    `ids_name` and `column_name` are the parameters of the command, for error messages.
    """
    if id_column is not None and ids is not None:
        raise InputError(f"`{ids_name}` and `{column_name}` both give the ids of {path}", remedy="give one of them")
    try:
        if path == STDIO_PATH:
            rows, names = read_piped_vectors(sys.stdin.buffer, id_column)
        else:
            rows, names = load_with_ids(path, id_column=id_column)
    except InputError as error:
        rename_parameter(error, "id_column", column_name)
        raise
    return rows, read_id_file(ids) if names is None else names


def read_features(
    paths: Sequence[Path],
    id_column: str | None = None,
    ids: File = None,
    ids_name: str = "ids",
    column_name: str = "id_column",
) -> tuple[Any, list[Any] | None]:
    """Read vectors and ids as `read_vectors_and_ids`. Several files, one per feature, give a list of arrays."""
    rows, names = read_vectors_and_ids(paths[0], id_column, ids, ids_name, column_name)
    if len(paths) == 1:
        return rows, names
    parts = [rows]
    for path in paths[1:]:
        part, part_names = read_vectors_and_ids(path, id_column, column_name=column_name)
        if part_names is not None and part_names != names:
            raise InputError(
                f"{paths[0]} and {path} have different ids", remedy="give the same items in the same order"
            )
        parts.append(part)
    return parts, names


def read_label_file(path: Path, blank: bool = False) -> NDArray[Any]:
    """Read one label per row, from a file or from an array of it, as FILE:KEY. `blank`: some can be empty."""
    return text_columns.read_labels(*split_key(path), blank=blank)


def read_id_file(path: File) -> list[str] | None:
    """Read one id per line from a text file, or from standard input for `-`. Blank lines are refused."""
    if path == STDIO_PATH:
        return parse_names(split_lines(read_pipe(sys.stdin.buffer), STANDARD_INPUT), STANDARD_INPUT)
    return None if path is None else text_columns.read_names(path)


def parse_ids(manifold: Manifold, words: Iterable[str | int]) -> list[str | int]:
    """Convert words of the command line or of a file to ids: to integers if the ids of the manifold are integers."""
    return [manifold.snapshot.names.parse_text(str(word)) for word in words]


def parse_item_numbers(words: list[str], names: list[Any] | None) -> list[str | int] | set[int]:
    """Convert the lines of a --where file to item numbers: positions among `names`, or the numbers themselves.

    Positions are returned as a set: a list of the first two could be mistaken for a mask of 0 and 1.
    """
    if names is None:
        return [id_from_text(word) for word in words]
    positions = {str(name): position for position, name in enumerate(names)}
    unknown = next((word for word in words if word not in positions), None)
    if unknown is not None:
        raise InputError(f"names {unknown!r}, which is not the id of an item", parameter="where")
    refuse_mask_of_numbers(words, len(names))
    return {positions[word] for word in words}


class FilterOptions(OptionGroup):
    """Options that restrict the items that can be results. The others still take part in the chains."""

    title = "Filters"
    where: File = option(None, "Text file with the ids of the items that can be results, one per line.")
    filter: list[str] | None = option(
        None,
        "Only items whose field has this value can be results, such as kind=cat; for --store. Repeat it for "
        "other fields, or for other values of the same field.",
    )

    def read(self, store: str | None, parse: Callable[[list[str]], Any]) -> Any:
        """Read which items can be results: a filter of the store, or the ids in a file, converted by `parse`."""
        fields = parse_filter(self.filter)
        if fields is not None and (store is None or self.where is not None):
            raise InputError(
                "--filter needs --store, whose items have fields, and excludes --where; without a store give --where, "
                "a file of ids"
            )
        return fields if self.where is None else parse(read_id_file(self.where) or [])


@contextmanager
def open_database(url: str | None) -> Iterator[Store | None]:
    """Open the store at a URL and close it at the end. Yields None for None."""
    if url is None:
        yield None
        return
    try:
        store = kinrank.open_store(url)
    except InputError as error:  # it is about options in the URL, which are not flags
        raise InputError(str(error).replace("`", "")) from error
    try:
        yield store
    finally:
        if hasattr(store, "close"):
            store.close()


def parse_filter(words: Sequence[str] | None) -> dict[str, Any] | None:
    """Parse name=value pairs. Values are JSON numbers, true, false or null, or else text.

    Example:
        >>> parse_filter(["kind=cat", "year=2020", "year=2021"])
        {'kind': 'cat', 'year': [2020, 2021]}
    """
    if not words:
        return None
    fields: dict[str, list[Any]] = {}
    for word in words:
        name, sign, text = word.partition("=")
        if not sign or not name:
            raise InputError(f"--filter {word!r} is not allowed; give name=value, such as colour=red")
        fields.setdefault(name, []).append(_parse_value(text))
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


def _parse_value(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(value, (list, dict)) else value
