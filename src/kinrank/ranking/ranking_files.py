"""Files of rankings: npz (everything), trec (run lines), csv and parquet (query, rank, item, distance)."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.errors import InputError, MemoryLimitError
from kinrank.files.atomic import atomic_write
from kinrank.files.numpy_files import read_headers, read_npz
from kinrank.files.path_checks import check_fits_memory, check_regular_file
from kinrank.ids import INTEGER_TEXT, pack_ids, parse_ids, pick_ids, unpack_ids
from kinrank.lazy_import import import_extra
from kinrank.ranking.ranking import Ranking, refuse_repeats
from kinrank.ranking.ranking_tables import column_names, iterate_rows, make_strictly_decreasing, to_table

RANKING_VERSION = 2
MAX_PADDING_RATIO = 1000  # rows of padding per row with lines, so that one wrong number does not allocate gigabytes
TAGS = {(False, False): "kinrank", (True, False): "kinrank-named-queries"}
TAGS |= {(False, True): "kinrank-named-items", (True, True): "kinrank-named"}  # (queries, items) have ids
HEADINGS = {tuple(column_names(*named)): named for named in TAGS}
TIE_RULES = ("rank", "trec_eval")
ARRAY_NAMES = ["version", "indices", "distances", "meta", "places"]  # of an .npz
ARRAY_NAMES += [f"{kind}_ids{part}" for kind in ("query", "item") for part in ("", "_text", "_starts")]
Names = Sequence[Any] | ArrayLike | None
Rows = dict[str, dict[str, tuple[float, int]]]  # query -> item -> distance, rank


def write_ranking(ranking: Ranking, path: str | os.PathLike[str]) -> None:
    """Write a ranking atomically, see `Ranking.save`."""
    path = Path(path)
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise InputError(f"{path} has the unknown ending {path.suffix!r}", allowed=" | ".join(_WRITERS))
    if np.isnan(ranking.distances).any():
        raise InputError("has NaN among its distances, so it cannot be saved in order", parameter="ranking")
    refuse_repeats(ranking.indices)
    with atomic_write(path) as file:
        writer(ranking, file)


def read_ranking(path: str | os.PathLike[str], query_ids: Names, item_ids: Names, ties: str) -> Ranking:
    """Read a ranking, see `Ranking.load`."""
    path = check_regular_file(Path(path))
    suffix = path.suffix.lower()
    if suffix not in _WRITERS:
        raise InputError(f"{path} has the unknown ending {path.suffix!r}", allowed=" | ".join(_WRITERS))
    if ties not in TIE_RULES or (ties != "rank" and suffix != ".trec"):
        raise InputError(
            f"is not allowed for {path}",
            parameter="ties",
            given=ties,
            allowed=f"{' | '.join(TIE_RULES)}, the second for .trec only",
        )
    if suffix == ".npz":
        return _read_npz(path).with_ids(item_ids, query_ids)
    try:
        if suffix == ".parquet":
            rows, numbered, texts = _read_parquet(path)
            query_ids = list(rows) if query_ids is None and texts[0] else query_ids
            item_ids = _list_items(rows) if item_ids is None and texts[1] else item_ids
        else:
            text = path.read_text(encoding="utf-8")
            rows, numbered = (_read_trec if suffix == ".trec" else _read_csv)(text)
        queries = _Numbering.of(list(rows), query_ids, "query_ids", numbered[0])
        items = _Numbering.of(_list_items(rows), item_ids, "item_ids", numbered[1])
        count = max(queries.numbers.values(), default=-1) + 1 if queries.ids is None else len(queries.ids)
        if count > MAX_PADDING_RATIO * (len(rows) + 1):
            raise InputError(f"only {len(rows)} of {count} queries have lines; give their ids as `query_ids`")
    except ValueError as error:  # includes text that is not UTF-8
        raise InputError(f"{path} is damaged or not a {suffix} ranking: {error}") from None
    return _assemble_ranking(rows, count, queries, items, ties)


def is_ranking_table(path: Path) -> bool:
    """True if a .csv or .parquet file has the heading of a ranking."""
    if path.suffix.lower() == ".csv":
        with path.open("rb") as file:
            return file.readline(100).decode(errors="replace").strip() in map(",".join, HEADINGS)
    if path.suffix.lower() == ".parquet":
        parquet = import_extra("pyarrow.parquet", "a .parquet file", "io")
        try:
            return tuple(parquet.read_schema(path).names) in HEADINGS
        except Exception:  # a damaged file: its reader explains it
            return False
    return False


def _write_npz(ranking: Ranking, file: IO[bytes]) -> None:
    """Write everything as .npz."""
    arrays: dict[str, NDArray[Any]] = {}
    if ranking.has_ids:
        arrays |= _pack_items(ranking)
    if ranking.query_ids is not None:
        arrays |= pack_ids(ranking.query_ids, "query_ids")
    np.savez(
        file,
        indices=ranking.indices,
        distances=ranking.distances,
        meta=np.array(json.dumps(ranking.meta, default=_to_json_value)),
        version=np.array(RANKING_VERSION),
        **cast(Any, arrays),
    )


def _pack_items(ranking: Ranking) -> dict[str, NDArray[Any]]:
    """Store every different id once, and the position of each in the ranking's lists, -1 for padding."""
    codes: dict[Any, int] = {}
    listed = ranking.indices >= 0
    places = np.full(ranking.indices.shape, -1, np.int64)
    places[listed] = [codes.setdefault(name, len(codes)) for name in ranking.ids[listed].tolist()]
    refuse_repeats(places)
    return {**pack_ids(parse_ids(list(codes)), "item_ids"), "places": places}


def _read_npz(path: Path) -> Ranking:
    """Read and check an .npz file."""
    try:
        claimed = {name: header for name, header in read_headers(path).items() if name in ARRAY_NAMES}
        check_fits_memory(path, sum(header.size for header in claimed.values()), advice="save fewer queries per file")
        arrays = {name: read_npz(path, name, header) for name, header in claimed.items()}
        version, indices, distances = (arrays[name] for name in ("version", "indices", "distances"))
        meta = json.loads(str(arrays["meta"]))
        if int(version) > RANKING_VERSION:
            raise InputError(
                f"it has version {int(version)}, but this program reads up to {RANKING_VERSION}; update kinrank"
            )
        if indices.dtype.kind not in "iu" or distances.dtype.kind != "f" or not isinstance(meta, dict):
            raise InputError(f"indices are {indices.dtype}, distances {distances.dtype}, meta {type(meta).__name__}")
        known = unpack_ids(arrays, "item_ids")
        ids = None if known is None else _unpack_items(known, arrays["places"], indices)
        query_ids = unpack_ids(arrays, "query_ids")
        ranking = Ranking(indices, distances, meta, ids=cast(Any, ids), query_ids=query_ids)
        if indices.size and indices.min() < -1:
            raise InputError(f"item number {indices.min()} is below -1")
        if np.isnan(distances).any() or (distances[:, 1:] < distances[:, :-1]).any():
            raise InputError("distances decrease along a row or contain NaN")
        refuse_repeats(ranking.indices)
    except MemoryLimitError:
        raise
    except Exception as error:  # zip, header and JSON have their own errors
        raise InputError(f"{path} is truncated, damaged or not a saved ranking ({error})") from error
    return ranking


def _unpack_items(known: NDArray[Any], places: NDArray[Any], indices: NDArray[Any]) -> NDArray[Any]:
    """Return the ids at the stored positions."""
    if places.dtype != np.int64 or places.shape != indices.shape or ((places < 0) != (indices < 0)).any():
        raise InputError("its ids do not fit its indices")
    if places.max(initial=-1) >= len(known):
        raise InputError("its positions exceed its ids")
    refuse_repeats(places)
    return pick_ids(known, places)


def _write_trec(ranking: Ranking, file: IO[bytes]) -> None:
    """Write run lines."""
    tag = TAGS[ranking.query_ids is not None, not ranking.has_numbers_only]
    for query, items, distances in iterate_rows(ranking):
        name = _check_word(query)
        scores = make_strictly_decreasing(-distances)
        lines = [
            f"{name} Q0 {_check_word(item)} {rank} {score} {tag}\n"
            for rank, (item, score) in enumerate(zip(items, scores, strict=True), start=1)
        ]
        file.write("".join(lines).encode())


def _write_csv(ranking: Ranking, file: IO[bytes]) -> None:
    """Write a table."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(column_names(ranking.query_ids is not None, not ranking.has_numbers_only))
    for query, items, distances in iterate_rows(ranking):
        writer.writerows(
            (query, rank, item, str(distance))
            for rank, (item, distance) in enumerate(zip(items, distances, strict=True), start=1)
        )
        file.write(text.getvalue().encode())
        text.seek(0)
        text.truncate()
    file.write(text.getvalue().encode())


def _write_parquet(ranking: Ranking, file: IO[bytes]) -> None:
    """Write a table with typed columns."""
    parquet = import_extra("pyarrow.parquet", "a ranking in a .parquet file", "io")
    parquet.write_table(to_table(ranking), file)


def _read_parquet(path: Path) -> tuple[Rows, tuple[bool, bool], tuple[bool, bool]]:
    """Read the table by query and item; whether queries and items have numbers only, and whether they are texts."""
    arrow = import_extra("pyarrow", "a ranking in a .parquet file", "io")
    parquet = import_extra("pyarrow.parquet", "a ranking in a .parquet file", "io")
    try:
        file = parquet.ParquetFile(path)
        check_fits_memory(path, 200 * file.metadata.num_rows, advice="save fewer queries per file")
        named = HEADINGS.get(tuple(file.schema_arrow.names))
        if named is None:
            raise InputError(f"its columns must be {', '.join(column_names(False, False))}, or query_id and item_id")
        table = file.read()
    except arrow.ArrowException as error:
        raise InputError(str(error)) from None
    rows: Rows = {}
    for number, (query, rank, item, distance) in enumerate(zip(*(each.to_pylist() for each in table), strict=True)):
        if query is None or item is None or not isinstance(rank, int) or not isinstance(distance, float):
            raise InputError(f"row {number} is {(query, rank, item, distance)!r}"[:200])
        _put_entry(rows, number, str(query), str(item), (distance, rank))
    _check_ranks(rows)
    texts = [arrow.types.is_string(table.column(place).type) for place in (0, 2)]
    return rows, (not named[0], not named[1]), (texts[0], texts[1])


def _list_items(rows: Rows) -> list[str]:
    """List every item once, in order of appearance."""
    return list({item: None for row in rows.values() for item in row})


def _read_trec(text: str) -> tuple[Rows, tuple[bool, bool]]:
    """Read the lines by query and item, and whether queries and items have numbers only."""
    rows: Rows = {}
    tags = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                query, _, item, rank, score, tag = line.split()
                entry = -float(score), int(rank)
            except ValueError:
                raise InputError(f"line {number} is {line[:80]!r} and not 'query Q0 item rank score tag'") from None
            tags.add(tag)
            _put_entry(rows, number, query, item, entry)
    named = [{tag: named for named, tag in TAGS.items()}.get(tag, (True, True)) for tag in tags]
    return rows, (not any(queries for queries, _ in named), not any(items for _, items in named))


def _read_csv(text: str) -> tuple[Rows, tuple[bool, bool]]:
    """Read the table by query and item, and whether queries and items have numbers only."""
    rows: Rows = {}
    reader = csv.reader(io.StringIO(text, newline=""))
    named = HEADINGS.get(tuple(next(reader, ())))
    if named is None:
        raise InputError(
            f"its first line must be {','.join(column_names(False, False))}, with query_id and item_id for ids"
        )
    for parts in reader:
        if parts:
            try:
                query, rank, item, distance = parts
                entry = float(distance), int(rank)
            except ValueError:
                raise InputError(
                    f"line {reader.line_num} is {parts!r} and not query, rank, item, distance"[:200]
                ) from None
            _put_entry(rows, reader.line_num, query, item, entry)
    _check_ranks(rows)
    return rows, (not named[0], not named[1])


def _put_entry(rows: Rows, line: int, query: str, item: str, entry: tuple[float, int]) -> None:
    """Add a line; refuse repeated items and NaN."""
    row = rows.setdefault(query, {})
    if item in row:
        raise InputError(f"line {line}: query {query} lists item {item} twice")
    if np.isnan(entry[0]):
        raise InputError(f"line {line}: the distance or score is not a number")
    row[item] = entry


def _check_ranks(rows: Rows) -> None:
    """Refuse ranks that repeat or contradict the distances."""
    for query, row in rows.items():
        ordered = [distance for distance, _ in sorted(row.values(), key=lambda entry: entry[1])]
        if len({rank for _, rank in row.values()}) < len(row) or sorted(ordered) != ordered:
            raise InputError(f"query {query} has ranks that repeat or contradict its distances")


def _assemble_ranking(rows: Rows, count: int, queries: _Numbering, items: _Numbering, ties: str) -> Ranking:
    """Sort the lines of every query and create the ranking."""
    depth = max((len(row) for row in rows.values()), default=0)
    indices = np.full((count, depth), -1, np.int64)
    distances = np.full((count, depth), np.inf, np.float32)
    for query, row in rows.items():
        order = sorted(row, key=row.__getitem__)  # by distance, then rank
        if ties == "trec_eval":  # by distance, ties by descending id
            order = sorted(row, key=str.encode, reverse=True)
            with np.errstate(over="ignore"):
                single = {item: np.float32(row[item][0]) for item in row}
            order.sort(key=single.__getitem__)
        number = queries.numbers[query]
        indices[number, : len(order)] = [items.numbers[item] for item in order]
        distances[number, : len(order)] = [row[item][0] for item in order]
    ids = indices.copy() if items.ids is None else pick_ids(items.ids, indices)
    return Ranking(indices, distances, {"mode": "file"}, ids=ids, query_ids=queries.ids)


@dataclass(frozen=True, eq=False)
class _Numbering:
    """Numbers of the ids in a text file. `ids` are the ids in that order; None if the ids are the numbers."""

    numbers: dict[str, int]
    ids: NDArray[Any] | None

    @classmethod
    def of(cls, names: list[str], wanted: Names, parameter: str, numbered: bool) -> _Numbering:
        """Number the ids: by `wanted` if given, as numbers if they are such, else in order of appearance."""
        if wanted is not None:
            known = parse_ids(wanted, parameter)
            places = {str(name): number for number, name in enumerate(known.tolist())}
            unknown = next((name for name in names if name not in places), None)
            if unknown is not None:
                raise InputError(f"{unknown!r} is not among `{parameter}`")
            return cls(places, known)
        numbers = [int(name) for name in names if INTEGER_TEXT.fullmatch(name)]
        low, high = min(numbers, default=0), max(numbers, default=0)
        whole = len(numbers) == len(names)
        if numbered and whole:
            if low < 0 or high >= 2**63:
                raise InputError(f"{low if low < 0 else high} is not a query or item number; they start at 0")
            return cls(dict(zip(names, numbers, strict=True)), None)
        plain = whole and -1 not in numbers and (high < 2**63 if low < 0 else high < 2**64) and low >= -(2**63)
        ids: list[Any] = [*numbers] if plain else [*names]
        return cls({name: number for number, name in enumerate(names)}, parse_ids(ids, parameter))


def _check_word(name: str) -> str:
    """Return the id if a run line can contain it."""
    if name.split() != [name]:
        raise InputError(
            f"the id {name!r} is empty or contains a space, which is not possible in a run line",
            remedy="rename it or use .csv",
        )
    return name


def _to_json_value(value: Any) -> Any:
    """Convert numpy numbers and arrays to Python values, and everything else to text."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else str(value)


_WRITERS: dict[str, Callable[[Ranking, IO[bytes]], None]] = {
    ".npz": _write_npz,
    ".trec": _write_trec,
    ".csv": _write_csv,
    ".parquet": _write_parquet,
}
