"""TREC relevance judgements -> lists of right items with grades, numbered by position."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kinrank.evaluation.lists import Lists

Qrels = Mapping[Any, Mapping[Any, float] | Iterable[Any]]
Parts = tuple[Lists, Lists, int | None, Literal["rectangle"], NDArray[np.float64] | None]


def judgements(
    path_or_mapping: str | os.PathLike[str] | Qrels,
    query_ids: Sequence[Any] | None,
    doc_ids: Sequence[Any] | None,
) -> Parts:
    """The fields of a Truth: positives, junk (none), gallery size, protocol, grades."""
    if isinstance(path_or_mapping, Mapping):
        judged = {str(query): _of_query(right) for query, right in path_or_mapping.items()}
    else:
        judged = _read(Path(path_or_mapping))
    if query_ids is None:
        numbers = {query: _position(query, "query_ids") for query in judged}
        count = max(numbers.values(), default=-1) + 1
    else:
        numbers, count = _numbering(query_ids, "query_ids"), len(query_ids)
    if judged and not any(query in numbers for query in judged):
        raise ValueError(
            f"none of the judged queries ({next(iter(judged))!r}, ...) is in query_ids; check their spelling"
        )
    documents = None if doc_ids is None else _numbering(doc_ids, "doc_ids")
    rows: list[dict[int, float]] = [{} for _ in range(count)]
    absent: dict[str, int] = {}
    right = 0
    for query, relevances in judged.items():
        if query not in numbers:
            continue
        for document, relevance in relevances.items():
            if relevance <= 0:
                continue
            right += 1
            if documents is None:
                number = _position(document, "doc_ids")
            elif document in documents:
                number = documents[document]
            else:  # numbered behind the gallery, where no ranking can find it
                number = len(documents) + absent.setdefault(document, len(absent))
            rows[numbers[query]][number] = relevance
    if documents is not None and right and all(number >= len(documents) for row in rows for number in row):
        raise ValueError(
            f"none of the right documents ({next(iter(absent))!r}, ...) is in doc_ids; check their spelling"
        )
    positives = Lists.of([list(row) for row in rows], "positives")
    grades = np.array([row[number] for row in rows for number in sorted(row)], np.float64)
    size = None if documents is None else len(documents)
    return positives, Lists.empty(count), size, "rectangle", None if np.all(grades == 1) else grades


def _of_query(right: Mapping[Any, float] | Iterable[Any]) -> dict[str, float]:
    if isinstance(right, Mapping):
        return {str(document): float(relevance) for document, relevance in right.items()}
    return {str(document): 1.0 for document in right}


def _read(path: Path) -> dict[str, dict[str, float]]:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there, or is not a file; check the path")
    judged: dict[str, dict[str, float]] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text; judgements are lines `query 0 document relevance`") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            query, _, document, relevance = line.split()
            judged.setdefault(query, {})[document] = float(relevance)
        except ValueError:
            raise ValueError(
                f"{path} line {number} is {line[:80]!r}; a judgement is `query 0 document relevance`"
            ) from None
    if not judged:
        raise ValueError(f"{path} holds no judgement; it must have lines `query 0 document relevance`")
    return judged


def _numbering(names: Sequence[Any], parameter: str) -> dict[str, int]:
    numbers = {str(name): number for number, name in enumerate(names)}
    if len(numbers) != len(names):
        raise ValueError(f"{parameter} has {len(names)} names but only {len(numbers)} different ones; make them unique")
    return numbers


def _position(name: str, parameter: str) -> int:
    """The number that counts from 0 of a name that counts from 1."""
    if not (name.isascii() and name.isdigit()) or int(name) < 1:
        raise ValueError(f"{name!r} is not a position 1, 2, ...; pass {parameter}= with the names in order")
    return int(name) - 1
