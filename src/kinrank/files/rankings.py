"""Rankings <-> files: npz (everything), trec (run lines), csv (query, rank, item, distance)."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kinrank.files.atomic import replacing
from kinrank.ranking import Ranking

VERSION = 1
SPARSEST = 1000  # rows of padding per row with lines: one stray number must not reserve gigabytes
COLUMNS = ["query", "rank", "item", "distance"]
Names = Sequence[Any] | None
Rows = dict[int, dict[int, tuple[float, int]]]  # query -> item -> distance, rank


def save_ranking(
    ranking: Ranking, path: str | os.PathLike[str], query_ids: Names = None, item_ids: Names = None
) -> None:
    """Write a ranking by the ending of its path; written beside and renamed, so never half there.

    `.npz` keeps numbers, distances and meta as they are (and the ids, in meta). `.trec` writes run lines
    `query Q0 item rank score tag` with scores that strictly decrease even in single precision, so that no
    program's way with ties can change the order. `.csv` writes query, rank, item, distance. Without ids,
    trec counts queries and items from 1, as `Truth.from_qrels` does, and csv from 0, as the arrays do.
    Padding is not written to text.

    Example:
        >>> save_ranking(ranking, "run.trec", query_ids=names)
    """
    path = Path(path)
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise ValueError(f"{path} has the unknown ending {path.suffix!r}; give {' | '.join(_WRITERS)}")
    if np.isnan(ranking.distances).any():
        raise ValueError("ranking has NaN among its distances; it cannot be saved in order")
    _check_ids(query_ids, "query_ids", len(ranking), exact=True)
    _check_ids(item_ids, "item_ids", int(ranking.indices.max(initial=-1)) + 1, exact=False)
    with replacing(path) as file:
        writer(ranking, file, query_ids, item_ids)


def load_ranking(path: str | os.PathLike[str], query_ids: Names = None, item_ids: Names = None) -> Ranking:
    """Read what `save_ranking` wrote, or another program's run; text needs the same ids as at saving.

    In text, a query without lines becomes a row of padding if a later one has lines or `query_ids` names it.
    Run lines are ordered by score, then rank; their distances are the negative scores. Anything that is no
    ranking, or a table whose ranks contradict its distances, is refused with a ValueError.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there, or is not a file; check the path")
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return _read_npz(path)
    if suffix not in _WRITERS:
        raise ValueError(f"{path} has the unknown ending {path.suffix!r}; give {' | '.join(_WRITERS)}")
    base = 1 if suffix == ".trec" else 0
    queries, items = _Numbers(query_ids, "query_ids", base), _Numbers(item_ids, "item_ids", base)
    rows: Rows = {}
    try:
        text = path.read_text(encoding="utf-8")
        for line, query, item, rank, distance in (_trec_lines if base else _csv_lines)(text):
            row = rows.setdefault(queries[query], {})
            number = items[item]
            if number in row:
                raise ValueError(f"line {line}: query {query} lists item {item} twice")
            if np.isnan(distance):
                raise ValueError(f"line {line}: the distance or score is not a number")
            row[number] = (distance, rank)
        count = len(query_ids) if query_ids is not None else max(rows, default=-1) + 1
        if count > SPARSEST * (len(rows) + 1):
            raise ValueError(f"only {len(rows)} of {count} queries have lines; pass query_ids= with their names")
        if base == 0:
            _check_ranks(rows)
    except ValueError as error:  # includes text that is not UTF-8
        raise ValueError(f"{path} is damaged or no {suffix} ranking: {error}") from None
    return _assemble(rows, count)


def _write_npz(ranking: Ranking, file: IO[bytes], query_ids: Names, item_ids: Names) -> None:
    meta = dict(ranking.meta)
    for name, ids in (("query_ids", query_ids), ("item_ids", item_ids)):
        if ids is not None:
            meta[name] = [str(entry) for entry in ids]
    np.savez(
        file,
        indices=ranking.indices,
        distances=ranking.distances,
        meta=np.array(json.dumps(meta, default=_plain)),
        version=np.array(VERSION),
    )


def _read_npz(path: Path) -> Ranking:
    try:
        with np.load(path, allow_pickle=False) as content:
            version, indices, distances = (content[name] for name in ("version", "indices", "distances"))
            meta = json.loads(str(content["meta"]))
        if int(version) > VERSION:
            raise ValueError(f"it has version {int(version)}, this program reads up to {VERSION}; update kinrank")
        if indices.dtype.kind not in "iu" or distances.dtype.kind != "f" or not isinstance(meta, dict):
            raise ValueError(f"indices are {indices.dtype}, distances {distances.dtype}, meta {type(meta).__name__}")
        ranking = Ranking(indices, distances, meta)
        if indices.size and indices.min() < -1:
            raise ValueError(f"item number {indices.min()} is below -1")
        if np.isnan(distances).any() or (distances[:, 1:] < distances[:, :-1]).any():
            raise ValueError("distances decrease along a row, or are not numbers")
    except Exception as error:  # zip, header, JSON: each has errors of its own
        raise ValueError(f"{path} is truncated, damaged or no saved ranking ({error})") from error
    return ranking


def _write_trec(ranking: Ranking, file: IO[bytes], query_ids: Names, item_ids: Names) -> None:
    for query, items, distances in _rows(ranking):
        asked = _word(_name(query_ids, query, 1))
        lines = [
            f"{asked} Q0 {_word(_name(item_ids, item, 1))} {rank} {score} kinrank\n"
            for rank, (item, score) in enumerate(zip(items, strictly_decreasing(-distances), strict=True), start=1)
        ]
        file.write("".join(lines).encode())


def _write_csv(ranking: Ranking, file: IO[bytes], query_ids: Names, item_ids: Names) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for query, items, distances in _rows(ranking):
        asked = _name(query_ids, query, 0)
        writer.writerows(
            (asked, rank, _name(item_ids, item, 0), str(distance))
            for rank, (item, distance) in enumerate(zip(items, distances, strict=True), start=1)
        )
        file.write(text.getvalue().encode())
        text.seek(0)
        text.truncate()
    file.write(text.getvalue().encode())


def _rows(ranking: Ranking) -> Iterator[tuple[int, list[int], NDArray[np.float32]]]:
    """Every query with its items and distances, padding left out."""
    for query, (items, distances) in enumerate(zip(ranking.indices, ranking.distances, strict=True)):
        listed = items >= 0
        yield query, items[listed].tolist(), distances[listed]


def strictly_decreasing(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """The scores of one query, each at least one float32 below the one before it; (n,) -> (n,).

    trec_eval reads single precision and breaks ties by document name, so ties have to go before it sees them.
    """
    bits = np.clip(scores, -1e38, 1e38).astype(np.float32).view(np.int32).astype(np.int64)
    steps = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)  # floats in order are these integers in order
    place = np.arange(len(steps))
    steps = np.minimum.accumulate(steps + place) - place
    bits = np.where(steps < 0, -steps - 2**31, steps)
    return bits.astype(np.int32).view(np.float32)


def _trec_lines(text: str) -> Iterator[tuple[int, str, str, int, float]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            parts = line.split()
            try:
                query, _, item, rank, score, _ = parts
                yield number, query, item, int(rank), -float(score)
            except ValueError:
                raise ValueError(f"line {number} is {line[:80]!r}, not `query Q0 item rank score tag`") from None


def _csv_lines(text: str) -> Iterator[tuple[int, str, str, int, float]]:
    reader = csv.reader(io.StringIO(text, newline=""))
    if next(reader, None) != COLUMNS:
        raise ValueError(f"its first line must be {','.join(COLUMNS)}")
    for parts in reader:
        if parts:
            try:
                query, rank, item, distance = parts
                yield reader.line_num, query, item, int(rank), float(distance)
            except ValueError:
                raise ValueError(f"line {reader.line_num} is {parts!r}, not {','.join(COLUMNS)}"[:200]) from None


def _check_ranks(rows: Rows) -> None:
    for query, row in rows.items():
        ordered = [distance for distance, _ in sorted(row.values(), key=lambda entry: entry[1])]
        if len({rank for _, rank in row.values()}) < len(row) or sorted(ordered) != ordered:
            raise ValueError(f"query number {query} has ranks that repeat or contradict its distances")


def _assemble(rows: Rows, count: int) -> Ranking:
    depth = max((len(row) for row in rows.values()), default=0)
    indices = np.full((count, depth), -1, np.int64)
    distances = np.full((count, depth), np.inf, np.float32)
    for query, row in rows.items():
        order = sorted(row, key=row.__getitem__)  # by distance, then rank
        indices[query, : len(order)] = order
        distances[query, : len(order)] = [row[item][0] for item in order]
    return Ranking(indices, distances, {"mode": "file"})


class _Numbers:
    """Names in text -> positions: by the list of names, or the number that the name itself is."""

    def __init__(self, names: Names, parameter: str, base: int) -> None:
        self._parameter, self._base = parameter, base
        self._known = None if names is None else {str(name): number for number, name in enumerate(names)}

    def __getitem__(self, name: str) -> int:
        if self._known is not None:
            if name not in self._known:
                raise ValueError(f"{name!r} is not among {self._parameter}")
            return self._known[name]
        if not (name.isascii() and name.isdigit()) or int(name) < self._base or len(name) > 12:
            raise ValueError(f"{name!r} is not a number from {self._base}; pass {self._parameter}=")
        return int(name) - self._base


def _name(names: Names, number: int, base: int) -> str:
    return str(number + base) if names is None else str(names[number])


def _word(name: str) -> str:
    if name.split() != [name]:
        raise ValueError(f"id {name!r} is empty or holds a space, which a run line cannot; rename it or use .csv")
    return name


def _check_ids(ids: Names, name: str, count: int, exact: bool) -> None:
    if ids is None:
        return
    if len(ids) < count or (exact and len(ids) != count):
        raise ValueError(f"{name} has {len(ids)} names but the ranking needs {count}; give one per number, in order")
    if len({str(entry) for entry in ids}) != len(ids):
        raise ValueError(f"{name} repeats a name; make them unique, or the file could not be read back")


def _plain(value: Any) -> Any:
    """What JSON does not know: numpy's numbers and arrays as Python's, everything else in words."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else str(value)


_WRITERS: dict[str, Callable[[Ranking, IO[bytes], Names, Names], None]] = {
    ".npz": _write_npz,
    ".trec": _write_trec,
    ".csv": _write_csv,
}
