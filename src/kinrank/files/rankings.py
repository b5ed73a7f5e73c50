"""Rankings <-> files: npz (everything), trec (run lines), csv (query, rank, item, distance)."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from kinrank import given
from kinrank.files.arrays import headers, read_npz
from kinrank.files.atomic import replacing
from kinrank.files.opening import fits, regular
from kinrank.files.texts import packed, unpacked
from kinrank.memory import NotEnoughMemory
from kinrank.ranking import Ranking, chosen, refuse_repeats

VERSION = 2
SPARSEST = 1000  # rows of padding per row with lines: one stray number must not reserve gigabytes
TAGS = {(False, False): "kinrank", (True, False): "kinrank-named-queries"}
TAGS |= {(False, True): "kinrank-named-items", (True, True): "kinrank-named"}  # (queries, items) have ids
TIES = ("rank", "trec_eval")
ARRAYS = ["version", "indices", "distances", "meta", "places"]  # of an .npz
ARRAYS += [f"{kind}_ids{part}" for kind in ("query", "item") for part in ("", "_text", "_starts")]
Names = Sequence[Any] | NDArray[Any] | None
Rows = dict[str, dict[str, tuple[float, int]]]  # query -> item -> distance, rank


def save_ranking(
    ranking: Ranking, path: str | os.PathLike[str], query_ids: Names = None, item_ids: Names = None
) -> None:
    """Write a ranking by the ending of its path; written beside and renamed, so never half there.

    What is written are `ranking.ids` and `ranking.query_ids`; item numbers and rows, counted from 0, where there are
    none. `query_ids` and `item_ids` give names to a ranking without, as `ranking.with_ids` does.

    `.npz` keeps ids, numbers, distances and meta as they are. `.trec` writes run lines `query Q0 item rank score tag`
    with scores that strictly decrease even in single precision, so that no program's way with ties can change the
    order. `.csv` writes query, rank, item, distance. Padding is not written to text. The tag of a run, and the head of
    a table (`query_id`, `item_id`), say whether items have ids or go by number.

    Example:
        >>> save_ranking(ranking, "run.trec", query_ids=names)
    """
    path = Path(path)
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise ValueError(f"{path} has the unknown ending {path.suffix!r}; give {' | '.join(_WRITERS)}")
    if np.isnan(ranking.distances).any():
        raise ValueError("ranking has NaN among its distances; it cannot be saved in order")
    refuse_repeats(ranking.indices)
    if query_ids is not None or item_ids is not None:
        ranking = ranking.with_ids(item_ids, query_ids)
    with replacing(path) as file:
        writer(ranking, file)


def load_ranking(
    path: str | os.PathLike[str], query_ids: Names = None, item_ids: Names = None, ties: str = "rank"
) -> Ranking:
    """Read what `save_ranking` wrote, or another program's run.

    The ranking has the ids of the file. Text does not say whether "7" is a number: ids that all look like whole numbers
    are read as such. Where kinrank wrote item numbers, these are `indices` as well as `ids`. Items of another program's
    run always have ids; without `item_ids`, their `indices` just count them in the order they appear.

    Args:
        path: the file: .npz, .trec or .csv.
        query_ids: the queries in the order wanted: one without lines becomes a row of padding, one that is not
            among them a ValueError.
        item_ids: the items in the order of the gallery: `indices` are places in it. An .npz has its names itself, and
            takes `query_ids` and `item_ids` only where it was saved without.
        ties: how a run's equal scores are ordered: "rank" by the rank in the file, or "trec_eval" as that program does:
            it ignores the rank, reads scores in single precision, and puts the id that comes last in the alphabet
            first.

    Distances of a run are its negative scores. Anything that is no ranking, a row that lists an item twice, or a table
    whose ranks contradict its distances, is refused with a ValueError.
    """
    path = regular(Path(path))
    suffix = path.suffix.lower()
    if suffix not in _WRITERS:
        raise ValueError(f"{path} has the unknown ending {path.suffix!r}; give {' | '.join(_WRITERS)}")
    if ties not in TIES or (ties != "rank" and suffix != ".trec"):
        raise ValueError(f"ties={ties!r} is not allowed for {path}; give {' | '.join(TIES)}, the second for .trec only")
    if suffix == ".npz":
        return _read_npz(path).with_ids(item_ids, query_ids)
    try:
        text = path.read_text(encoding="utf-8")
        rows, numbered = (_read_trec if suffix == ".trec" else _read_csv)(text)
        queries = _Numbering.of(list(rows), query_ids, "query_ids", numbered[0])
        items = _Numbering.of(
            list({item: None for row in rows.values() for item in row}), item_ids, "item_ids", numbered[1]
        )
        count = max(queries.numbers.values(), default=-1) + 1 if queries.ids is None else len(queries.ids)
        if count > SPARSEST * (len(rows) + 1):
            raise ValueError(f"only {len(rows)} of {count} queries have lines; pass query_ids= with their names")
    except ValueError as error:  # includes text that is not UTF-8
        raise ValueError(f"{path} is damaged or no {suffix} ranking: {error}") from None
    return _assemble(rows, count, queries, items, ties)


def _write_npz(ranking: Ranking, file: IO[bytes]) -> None:
    arrays: dict[str, NDArray[Any]] = {}
    if ranking.has_ids:
        arrays |= _packed_items(ranking)
    if ranking.query_ids is not None:
        arrays |= packed(ranking.query_ids, "query_ids")
    np.savez(
        file,
        indices=ranking.indices,
        distances=ranking.distances,
        meta=np.array(json.dumps(ranking.meta, default=_plain)),
        version=np.array(VERSION),
        **cast(Any, arrays),
    )


def _packed_items(ranking: Ranking) -> dict[str, NDArray[Any]]:
    """Every different id once, and which of them stands where, -1 for padding."""
    codes: dict[Any, int] = {}
    listed = ranking.indices >= 0
    places = np.full(ranking.indices.shape, -1, np.int64)
    places[listed] = [codes.setdefault(name, len(codes)) for name in ranking.ids[listed].tolist()]
    refuse_repeats(places)
    return {**packed(given.names(list(codes)), "item_ids"), "places": places}


def _read_npz(path: Path) -> Ranking:
    try:
        claimed = {name: header for name, header in headers(path).items() if name in ARRAYS}
        fits(path, sum(header.size for header in claimed.values()), advice="save fewer queries per file")
        arrays = {name: read_npz(path, name, header) for name, header in claimed.items()}
        version, indices, distances = (arrays[name] for name in ("version", "indices", "distances"))
        meta = json.loads(str(arrays["meta"]))
        if int(version) > VERSION:
            raise ValueError(f"it has version {int(version)}, this program reads up to {VERSION}; update kinrank")
        if indices.dtype.kind not in "iu" or distances.dtype.kind != "f" or not isinstance(meta, dict):
            raise ValueError(f"indices are {indices.dtype}, distances {distances.dtype}, meta {type(meta).__name__}")
        known = unpacked(arrays, "item_ids")
        ids = None if known is None else _unpacked_items(known, arrays["places"], indices)
        ranking = Ranking(indices, distances, meta, cast(Any, ids), unpacked(arrays, "query_ids"))
        if indices.size and indices.min() < -1:
            raise ValueError(f"item number {indices.min()} is below -1")
        if np.isnan(distances).any() or (distances[:, 1:] < distances[:, :-1]).any():
            raise ValueError("distances decrease along a row, or are not numbers")
        refuse_repeats(ranking.indices)
    except NotEnoughMemory:
        raise
    except Exception as error:  # zip, header, JSON: each has errors of its own
        raise ValueError(f"{path} is truncated, damaged or no saved ranking ({error})") from error
    return ranking


def _unpacked_items(known: NDArray[Any], places: NDArray[Any], indices: NDArray[Any]) -> NDArray[Any]:
    if places.dtype != np.int64 or places.shape != indices.shape or ((places < 0) != (indices < 0)).any():
        raise ValueError("its ids do not fit its indices")
    if places.max(initial=-1) >= len(known):
        raise ValueError("it lists ids that it does not name")
    refuse_repeats(places)
    return chosen(known, places)


def _write_trec(ranking: Ranking, file: IO[bytes]) -> None:
    tag = TAGS[ranking.query_ids is not None, not ranking.numbered]
    for query, items, distances in _rows(ranking):
        asked = _word(query)
        scores = strictly_decreasing(-distances)
        lines = [
            f"{asked} Q0 {_word(item)} {rank} {score} {tag}\n"
            for rank, (item, score) in enumerate(zip(items, scores, strict=True), start=1)
        ]
        file.write("".join(lines).encode())


def _write_csv(ranking: Ranking, file: IO[bytes]) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_columns(ranking.query_ids is not None, not ranking.numbered))
    for query, items, distances in _rows(ranking):
        writer.writerows(
            (query, rank, item, str(distance))
            for rank, (item, distance) in enumerate(zip(items, distances, strict=True), start=1)
        )
        file.write(text.getvalue().encode())
        text.seek(0)
        text.truncate()
    file.write(text.getvalue().encode())


def _columns(queries_named: bool, items_named: bool) -> list[str]:
    return ["query_id" if queries_named else "query", "rank", "item_id" if items_named else "item", "distance"]


def _rows(ranking: Ranking) -> Iterator[tuple[str, list[str], NDArray[np.float32]]]:
    """Every query with its items and distances, padding left out."""
    names = range(len(ranking)) if ranking.query_ids is None else ranking.query_ids.tolist()
    for query, numbers, ids, distances in zip(names, ranking.indices, ranking.ids, ranking.distances, strict=True):
        listed = numbers >= 0
        yield str(query), [str(item) for item in ids[listed].tolist()], distances[listed]


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


def _read_trec(text: str) -> tuple[Rows, tuple[bool, bool]]:
    """The lines by query and item, and whether queries and items go by number."""
    rows: Rows = {}
    tags = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                query, _, item, rank, score, tag = line.split()
                entry = -float(score), int(rank)
            except ValueError:
                raise ValueError(f"line {number} is {line[:80]!r}, not `query Q0 item rank score tag`") from None
            tags.add(tag)
            _put(rows, number, query, item, entry)
    named = [{tag: named for named, tag in TAGS.items()}.get(tag, (True, True)) for tag in tags]
    return rows, (not any(queries for queries, _ in named), not any(items for _, items in named))


def _read_csv(text: str) -> tuple[Rows, tuple[bool, bool]]:
    rows: Rows = {}
    reader = csv.reader(io.StringIO(text, newline=""))
    heads = {tuple(_columns(*named)): named for named in TAGS}
    named = heads.get(tuple(next(reader, ())))
    if named is None:
        raise ValueError(
            f"its first line must be {','.join(_columns(False, False))}, or query_id and item_id for names"
        )
    for parts in reader:
        if parts:
            try:
                query, rank, item, distance = parts
                entry = float(distance), int(rank)
            except ValueError:
                raise ValueError(
                    f"line {reader.line_num} is {parts!r}, not a query, rank, item, distance"[:200]
                ) from None
            _put(rows, reader.line_num, query, item, entry)
    _check_ranks(rows)
    return rows, (not named[0], not named[1])


def _put(rows: Rows, line: int, query: str, item: str, entry: tuple[float, int]) -> None:
    row = rows.setdefault(query, {})
    if item in row:
        raise ValueError(f"line {line}: query {query} lists item {item} twice")
    if np.isnan(entry[0]):
        raise ValueError(f"line {line}: the distance or score is not a number")
    row[item] = entry


def _check_ranks(rows: Rows) -> None:
    for query, row in rows.items():
        ordered = [distance for distance, _ in sorted(row.values(), key=lambda entry: entry[1])]
        if len({rank for _, rank in row.values()}) < len(row) or sorted(ordered) != ordered:
            raise ValueError(f"query {query} has ranks that repeat or contradict its distances")


def _assemble(rows: Rows, count: int, queries: _Numbering, items: _Numbering, ties: str) -> Ranking:
    depth = max((len(row) for row in rows.values()), default=0)
    indices = np.full((count, depth), -1, np.int64)
    distances = np.full((count, depth), np.inf, np.float32)
    for query, row in rows.items():
        order = sorted(row, key=row.__getitem__)  # by distance, then rank
        if ties == "trec_eval":  # by distance, equal ones by name, backwards
            order = sorted(row, key=str.encode, reverse=True)
            with np.errstate(over="ignore"):
                single = {item: np.float32(row[item][0]) for item in row}
            order.sort(key=single.__getitem__)
        number = queries.numbers[query]
        indices[number, : len(order)] = [items.numbers[item] for item in order]
        distances[number, : len(order)] = [row[item][0] for item in order]
    ids = indices.copy() if items.ids is None else chosen(items.ids, indices)
    return Ranking(indices, distances, {"mode": "file"}, ids, queries.ids)


@dataclass(frozen=True, eq=False)
class _Numbering:
    """Names in text -> numbers; `ids` are the names in that order, None where the names are the numbers."""

    numbers: dict[str, int]
    ids: NDArray[Any] | None

    @classmethod
    def of(cls, names: list[str], wanted: Names, parameter: str, numbered: bool) -> _Numbering:
        if wanted is not None:
            known = given.names(wanted, parameter)
            places = {str(name): number for number, name in enumerate(known.tolist())}
            unknown = next((name for name in names if name not in places), None)
            if unknown is not None:
                raise ValueError(f"{unknown!r} is not among {parameter}")
            return cls(places, known)
        numbers = [int(name) for name in names if given.NUMBER.fullmatch(name)]
        low, high = min(numbers, default=0), max(numbers, default=0)
        whole = len(numbers) == len(names)
        if numbered and whole:
            if low < 0 or high >= 2**63:
                raise ValueError(f"{low if low < 0 else high} is no number of a query or an item; they count from 0")
            return cls(dict(zip(names, numbers, strict=True)), None)
        plain = whole and -1 not in numbers and (high < 2**63 if low < 0 else high < 2**64) and low >= -(2**63)
        ids: list[Any] = [*numbers] if plain else [*names]
        return cls({name: number for number, name in enumerate(names)}, given.names(ids, parameter))


def _word(name: str) -> str:
    if name.split() != [name]:
        raise ValueError(f"id {name!r} is empty or holds a space, which a run line cannot; rename it or use .csv")
    return name


def _plain(value: Any) -> Any:
    """What JSON does not know: numpy's numbers and arrays as Python's, everything else in words."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else str(value)


_WRITERS: dict[str, Callable[[Ranking, IO[bytes]], None]] = {
    ".npz": _write_npz,
    ".trec": _write_trec,
    ".csv": _write_csv,
}
