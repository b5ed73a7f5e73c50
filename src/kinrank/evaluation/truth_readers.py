"""Readers of ground truth: TREC judgements (qrels), and revisited Oxford and Paris."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kinrank.errors import InputError
from kinrank.evaluation.id_lookup import IdTable
from kinrank.evaluation.ragged_lists import RaggedLists
from kinrank.files.path_checks import check_regular_file
from kinrank.ids import INTEGER_TEXT, parse_ids

Qrels = Mapping[Any, Mapping[Any, float] | Iterable[Any]]
JudgementMap = dict[str, dict[str, float]]  # query -> document -> relevance
MAX_RELEVANCE = 2**31 - 1  # absolute value of a relevance; trec_eval can read it, too
REVISITED = {  # difficulty -> (relevant parts, ignored parts)
    "easy": (("easy",), ("junk", "hard")),
    "medium": (("easy", "hard"), ("junk",)),
    "hard": (("hard",), ("junk", "easy")),
}
GROUND_TRUTH_PARTS = ("easy", "hard", "junk")
GROUND_TRUTH_FORMAT = "it must have imlist and gnd, a list of entries with easy, hard and junk"
QRELS_FORMAT = "lines `query 0 document relevance`"


def read_judgements(
    path_or_mapping: str | os.PathLike[str] | Qrels,
    query_ids: Sequence[Any] | None,
    item_ids: Sequence[Any] | None,
) -> dict[str, Any]:
    """Read the fields of a Truth from a file or a mapping of judgements.

    Queries and items are numbered by the given ids, or by those that the judgements mention.
    """
    if isinstance(path_or_mapping, Mapping):
        judged: JudgementMap = {str(query): {} for query in path_or_mapping} | _merge_judgements(
            _iterate_mapping(path_or_mapping)
        )
    else:
        judged = _read_qrels_file(Path(path_or_mapping))
    is_numbered = all(INTEGER_TEXT.fullmatch(query) for query in judged)
    queries = _build_id_table(sorted(judged, key=int) if is_numbered else list(judged), query_ids, "query_ids")
    selected = {query: judged[query] for query in map(str, queries.ids.tolist()) if query in judged}
    if judged and not selected:
        raise InputError(
            f"none of the judged queries ({next(iter(judged))!r}, ...) is in `query_ids`", remedy="check their spelling"
        )
    mentioned = list({document: None for relevances in selected.values() for document in relevances})
    items = _build_id_table(mentioned, item_ids, "item_ids")
    numbers = {str(name): number for number, name in enumerate(items.ids.tolist())}
    known = len(numbers)
    for document in mentioned:  # those outside the gallery get numbers after it, which no ranking lists
        numbers.setdefault(document, len(numbers))
    rows = [
        {numbers[document]: relevance for document, relevance in selected.get(query, {}).items() if relevance > 0}
        for query in map(str, queries.ids.tolist())
    ]
    relevant = {number for row in rows for number in row}
    if relevant and min(relevant) >= known:
        absent = next(document for document in mentioned if numbers[document] in relevant)
        raise InputError(
            f"none of the relevant documents ({absent!r}, ...) is in `item_ids`", remedy="check their spelling"
        )
    grades = np.array([row[number] for row in rows for number in sorted(row)], np.float64)
    return {
        "positives": RaggedLists.of([list(row) for row in rows], "positives"),
        "junk": RaggedLists.empty(len(rows)),
        "grades": None if np.all(grades == 1) else grades,
        "queries": queries,
        "items": items,
        "gallery_size": None if item_ids is None else known,
    }


def _build_id_table(mentioned: list[str], ids: Sequence[Any] | None, parameter: str) -> IdTable:
    if ids is not None:
        return IdTable(parse_ids(ids, parameter))
    names = np.empty(len(mentioned), object)
    names[:] = mentioned
    return IdTable(names, in_order=False)


def _iterate_mapping(qrels: Qrels) -> Iterator[tuple[str, str, str, float]]:
    for query, documents in qrels.items():
        pairs = documents.items() if isinstance(documents, Mapping) else ((document, 1) for document in documents)
        for document, relevance in pairs:
            yield f"query {query!r}", str(query), str(document), _parse_relevance(relevance)


def _read_qrels_file(path: Path) -> JudgementMap:
    try:
        lines = check_regular_file(path).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file; write judgements as {QRELS_FORMAT}") from None
    try:
        judged = _merge_judgements(_parse_qrels_lines(lines))
    except InputError as error:
        raise error.within(str(path)) from None
    if not judged:
        raise InputError(f"{path} has no judgements; write them as {QRELS_FORMAT}")
    return judged


def _parse_qrels_lines(lines: list[str]) -> Iterator[tuple[str, str, str, float]]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                query, _, document, relevance = line.split()
                value = _parse_relevance(relevance)
            except ValueError:
                raise InputError(
                    f"line {number} is {line[:80]!r}; write a judgement as `query 0 document relevance`, "
                    f"with a relevance from {-MAX_RELEVANCE} to {MAX_RELEVANCE}"
                ) from None
            yield f"line {number}", query, document, value


def _parse_relevance(value: Any) -> float:
    """Convert a relevance to a float and check its bounds."""
    try:
        relevance = float(value)
    except (OverflowError, TypeError, ValueError):
        relevance = float("nan")
    if not -MAX_RELEVANCE <= relevance <= MAX_RELEVANCE:
        raise InputError(f"a relevance, read as {relevance}, is not from {-MAX_RELEVANCE} to {MAX_RELEVANCE}")
    return relevance


def _merge_judgements(entries: Iterator[tuple[str, str, str, float]]) -> JudgementMap:
    """Collect judgements by query and document. Equal repetitions are allowed, contradictions are not."""
    judged: JudgementMap = {}
    first: dict[tuple[str, str], str] = {}
    for source, query, document, relevance in entries:
        before = judged.setdefault(query, {}).setdefault(document, relevance)
        origin = first.setdefault((query, document), source)
        if before != relevance:
            raise InputError(
                f"{source} contradicts {origin}: document {document!r} of query {query!r} has relevance "
                f"{relevance:g} there and {before:g} before; keep one of them"
            )
    return judged


def read_ground_truth(path_or_dict: str | os.PathLike[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Read a ground truth file of revisited Oxford or Paris, or check one that is given.

    The restricted unpickler `safe_pickle` reads the file and executes nothing.
    """
    if isinstance(path_or_dict, Mapping):
        return _check_ground_truth(path_or_dict, "the ground truth")
    from kinrank.files import safe_pickle

    return _check_ground_truth(safe_pickle.load(path_or_dict), os.fspath(path_or_dict))


def image_names(content: Mapping[str, Any], key: str, count: int) -> list[str] | None:
    """Return the names in a ground truth file, or None if they do not identify its images."""
    names: Any = content.get(key)
    usable = isinstance(names, (list, tuple)) and all(isinstance(name, str) and name for name in names)
    return list(names) if usable and len(set(names)) == len(names) == count else None


def _check_ground_truth(content: Any, source: str) -> dict[str, Any]:
    try:
        entries, size = list(content["gnd"]), len(content["imlist"])
        query_names = content.get("qimlist")
        listed = [{part: list(entry[part]) for part in GROUND_TRUTH_PARTS} for entry in entries]
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"{source} is not a revisited ground truth ({type(error).__name__}: {error}); {GROUND_TRUTH_FORMAT}"
        ) from None
    if isinstance(query_names, (list, tuple)) and len(query_names) != len(entries):
        raise InputError(f"{source} has {len(query_names)} queries in qimlist but {len(entries)} entries in gnd")
    for query, entry in enumerate(listed):
        for part, images in entry.items():
            for image in images:
                if type(image) is bool or not hasattr(image, "__index__") or not 0 <= image < size:
                    raise InputError(
                        f"{source}: query {query} lists image {image!r:.40} as {part}, but imlist has {size} images, "
                        "counted from 0"
                    )
    return dict(content)
