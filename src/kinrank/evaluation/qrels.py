"""TREC relevance judgements -> lists of right items with grades, and the names of queries and items."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank import given
from kinrank.evaluation.lists import Lists
from kinrank.evaluation.names import Naming
from kinrank.files.opening import regular

Qrels = Mapping[Any, Mapping[Any, float] | Iterable[Any]]
Judged = dict[str, dict[str, float]]  # query -> document -> relevance
HIGHEST = 2**31 - 1  # relevance, either way: what trec_eval can read, too


@dataclass(frozen=True, eq=False)
class Judgements:
    """What a Truth needs: right items by number, their grades (None if all are 1), names, size of the gallery."""

    positives: Lists
    grades: NDArray[np.float64] | None
    queries: Naming
    items: Naming
    gallery_size: int | None


def judgements(
    path_or_mapping: str | os.PathLike[str] | Qrels,
    query_ids: Sequence[Any] | None,
    item_ids: Sequence[Any] | None,
) -> Judgements:
    """Judgements of a file or a mapping, numbered by the given names, or by those that they mention."""
    if isinstance(path_or_mapping, Mapping):
        judged: Judged = {str(query): {} for query in path_or_mapping} | _gathered(_of_mapping(path_or_mapping))
    else:
        judged = _read(Path(path_or_mapping))
    queries = _naming(_in_order(judged), query_ids, "query_ids")
    wanted = {query: judged[query] for query in map(str, queries.ids.tolist()) if query in judged}
    if judged and not wanted:
        raise ValueError(
            f"none of the judged queries ({next(iter(judged))!r}, ...) is in query_ids; check their spelling"
        )
    mentioned = list({document: None for relevances in wanted.values() for document in relevances})
    items = _naming(mentioned, item_ids, "item_ids")
    numbers = {str(name): number for number, name in enumerate(items.ids.tolist())}
    known = len(numbers)
    for document in mentioned:  # those outside the gallery stand behind it, where no ranking can find them
        numbers.setdefault(document, len(numbers))
    rows = [
        {numbers[document]: relevance for document, relevance in wanted.get(query, {}).items() if relevance > 0}
        for query in map(str, queries.ids.tolist())
    ]
    right = {number for row in rows for number in row}
    if right and min(right) >= known:
        absent = next(document for document in mentioned if numbers[document] in right)
        raise ValueError(f"none of the right documents ({absent!r}, ...) is in item_ids; check their spelling")
    grades = np.array([row[number] for row in rows for number in sorted(row)], np.float64)
    return Judgements(
        positives=Lists.of([list(row) for row in rows], "positives"),
        grades=None if np.all(grades == 1) else grades,
        queries=queries,
        items=items,
        gallery_size=None if item_ids is None else known,
    )


def _naming(mentioned: list[str], ids: Sequence[Any] | None, parameter: str) -> Naming:
    if ids is not None:
        return Naming(given.names(ids, parameter))
    names = np.empty(len(mentioned), object)
    names[:] = mentioned
    return Naming(names, in_order=False)


def _in_order(judged: Judged) -> list[str]:
    """The judged queries: by number, if they are numbers, and otherwise as they came."""
    return sorted(judged, key=int) if all(given.NUMBER.fullmatch(query) for query in judged) else list(judged)


def _of_mapping(qrels: Qrels) -> Iterator[tuple[str, str, str, float]]:
    for query, right in qrels.items():
        pairs = right.items() if isinstance(right, Mapping) else ((document, 1) for document in right)
        for document, relevance in pairs:
            yield f"query {query!r}", str(query), str(document), _relevance(relevance)


def _read(path: Path) -> Judged:
    try:
        lines = regular(path).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text; judgements are lines `query 0 document relevance`") from None
    try:
        judged = _gathered(_of_lines(lines))
    except ValueError as error:
        raise ValueError(f"{path} {error}") from None
    if not judged:
        raise ValueError(f"{path} holds no judgement; it must have lines `query 0 document relevance`")
    return judged


def _of_lines(lines: list[str]) -> Iterator[tuple[str, str, str, float]]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                query, _, document, relevance = line.split()
                value = _relevance(relevance)
            except ValueError:
                raise ValueError(
                    f"line {number} is {line[:80]!r}; a judgement is `query 0 document relevance`, "
                    f"the relevance a number from {-HIGHEST} to {HIGHEST}"
                ) from None
            yield f"line {number}", query, document, value


def _relevance(value: Any) -> float:
    """A number within bounds, or a ValueError."""
    try:
        relevance = float(value)
    except (OverflowError, TypeError):
        relevance = float("nan")
    if not -HIGHEST <= relevance <= HIGHEST:
        raise ValueError(f"a relevance, read as {relevance}, is not a number from {-HIGHEST} to {HIGHEST}")
    return relevance


def _gathered(entries: Iterator[tuple[str, str, str, float]]) -> Judged:
    """By query and document; the same judgement may come again, another one may not."""
    judged: Judged = {}
    first: dict[tuple[str, str], str] = {}
    for place, query, document, relevance in entries:
        before = judged.setdefault(query, {}).setdefault(document, relevance)
        origin = first.setdefault((query, document), place)
        if before != relevance:
            raise ValueError(
                f"{place} contradicts {origin}: document {document!r} of query {query!r} has relevance "
                f"{relevance:g} there and {before:g} before; keep one of them"
            )
    return judged
