"""Relevance: a view of ground truth and labels that tells which items are right, wrong or neither for a query."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError
from kinrank.evaluation.id_lookup import IdTable
from kinrank.evaluation.ragged_lists import Integers, RaggedLists
from kinrank.evaluation.scores import Score
from kinrank.evaluation.truth import REVISITED, Truth
from kinrank.files import safe_pickle
from kinrank.files.path_checks import check_fits_memory, check_regular_file

CLASS_LEVEL = "class"  # level of labels
DEFAULT_LEVEL = "medium"
PICKLES, QRELS, LISTS, LABELS = (".pkl", ".pickle"), (".txt", ".qrels"), (".json",), (".npy", ".npz", ".csv")
QueryRef = tuple[str, Any]  # ("item", id) | ("query", row) | ("vector", numbers)


class TruthView(NamedTuple):
    """A truth, the position in it of each query row, and the item number of each position; -1 for unknown ones."""

    truth: Truth
    queries: Integers
    numbers: Integers


class Relevance:
    """Right, wrong or neither: the items of a gallery for a query, by the truth of a level, or by labels.

    Args:
        truths: ground truth by level, such as "easy" and "hard".
        rows: number of queries.
        items: ids of the items that labels and truth cover; other items are unknown. If items have only numbers, how
            many there are.
        labels: label of each id; queries without truth are judged by them.
        query_labels: one label per query; None if there are none.

    Attributes:
        levels: names of the truths, and "class" if there are labels.
    """

    def __init__(
        self,
        truths: Mapping[str, Truth],
        rows: int,
        items: Sequence[str] | int,
        labels: Mapping[str, str] | None = None,
        query_labels: Sequence[str] | None = None,
    ) -> None:
        self._count = items if isinstance(items, int) else len(items)
        self._ids = None if isinstance(items, int) else {name: number for number, name in enumerate(items)}
        self._views = {
            level: TruthView(truth, _find_positions(truth.queries, rows), self._number_positions(truth))
            for level, truth in truths.items()
        }
        self._labels, self._query_labels = labels or {}, query_labels or ()
        self._label_counts = Counter(self._labels.values())
        self.levels = [*self._views, *([CLASS_LEVEL] if labels else [])]

    def judge(self, query: QueryRef, level: str | None, items: Sequence[Any]) -> list[bool | None] | None:
        """Judge each item: True right, False wrong, None neither; None instead of a list for an unknown query.

        A query is judged by the truth of the level, or by its label; a query item by its label.
        """
        view = self._choose_view(query, level)
        if view is not None:
            ids = self._ids
            numbers = np.array([item if ids is None else ids.get(str(item), -1) for item in items], np.int64)
            right = np.isin(numbers, self._list_items(view, view.truth.positives, query[1]))
            neither = np.isin(numbers, self._list_items(view, view.truth.junk, query[1]))
            neither |= (numbers < 0) | (numbers >= self._count)
            return [True if good else None if ignored else False for good, ignored in zip(right, neither, strict=True)]
        label = self._find_label(query)
        if label is None:
            return None
        own = str(query[1]) if query[0] == "item" else None
        pairs = ((str(item), self._labels.get(str(item))) for item in items)
        return [None if other is None or name == own else other == label for name, other in pairs]

    def count_right(self, query: QueryRef, level: str | None) -> int | None:
        """Return the number of right items; None for an unknown query."""
        view = self._choose_view(query, level)
        if view is not None:
            return len(self._list_items(view, view.truth.positives, query[1]))
        label = self._find_label(query)
        return None if label is None else self._label_counts[label] - int(query[0] == "item")

    def right(self, row: int, level: str | None = None) -> Integers:
        """Return the numbers of the items that are right for a query by its truth."""
        view = self._choose_view(("query", row), level)
        return np.empty(0, np.int64) if view is None else self._list_items(view, view.truth.positives, row)

    def per_row(self, score: Score, level: str | None = None) -> NDArray[np.float64]:
        """Return (rows,) the values of a score by the truth of a level; NaN if unknown."""
        values = np.append(np.asarray(score.per_query, np.float64), np.nan)
        return values[self._views[self._choose_level(level)].queries]

    def _choose_level(self, level: str | None) -> str:
        if level in self._views:
            return level
        return DEFAULT_LEVEL if DEFAULT_LEVEL in self._views else next(iter(self._views))

    def _choose_view(self, query: QueryRef, level: str | None) -> TruthView | None:
        kind, row = query
        if kind != "query" or not self._views or (level == CLASS_LEVEL and CLASS_LEVEL not in self._views):
            return None
        view = self._views[self._choose_level(level)]
        return view if 0 <= row < len(view.queries) else None

    def _list_items(self, view: TruthView, lists: RaggedLists, row: int) -> Integers:
        position = int(view.queries[row])
        numbers = view.numbers[lists[position]] if position >= 0 else np.empty(0, np.int64)
        return numbers[numbers >= 0]

    def _find_label(self, query: QueryRef) -> str | None:
        kind, value = query
        if kind == "item":
            return self._labels.get(str(value))
        if kind != "query" or not self._labels:
            return None
        return self._query_labels[value] if 0 <= value < len(self._query_labels) else None

    def _number_positions(self, truth: Truth) -> Integers:
        """Return (positions of the truth,) item numbers. Ids of the truth that are no items get numbers after them."""
        ids = self._ids
        if ids is not None and truth.items is not None:
            places = np.arange(len(truth.items.ids))
            known = np.array([ids.setdefault(str(name), len(ids)) for name in truth.items.ids.tolist()], np.int64)
        else:
            places = _find_positions(truth.items, self._count)
            known = np.flatnonzero(places >= 0)
            places = places[known]
        numbers = np.full(max(truth.span, int(places.max(initial=-1)) + 1), -1, np.int64)
        numbers[places] = known
        return numbers


def _find_positions(table: IdTable | None, count: int) -> Integers:
    """Return the position in the truth of each of `count` rows or items."""
    return np.arange(count) if table is None or table.in_order else table.find(np.arange(count))


class TruthLevels(NamedTuple):
    """Ground truth of a file by level, and the names of its queries and items; None if it has none."""

    levels: dict[str, Truth]
    query_names: list[str] | None = None
    item_names: list[str] | None = None


def load_truth_levels(path: Path, order: Sequence[str], queries: int, query_names: list[str] | None) -> TruthLevels:
    """Read the right items of each query from a file, by the ids of the items.

    Args:
        path: .pkl of the revisited benchmarks, TREC judgements .txt, or .json: level -> {"right": [[ids], ...],
            "junk": [[ids], ...]}, one list per query.
        order: ids of all items.
        queries: number of queries.
        query_names: names of the queries; None for those in the file.
    """
    ending = path.suffix.lower()
    if not queries:
        raise InputError(
            f"{path} contains ground truth of queries, but there are none", remedy="give their vectors with `queries`"
        )
    if ending in PICKLES:
        truth = _load_revisited(path, order)
    elif ending in QRELS:
        truth = _load_qrels(path, order, queries, query_names)
    elif ending in LISTS:
        truth = TruthLevels(_load_lists(path, order))
    else:
        known = " | ".join(PICKLES + QRELS + LISTS + LABELS)
        raise InputError(f"{path} has the unknown ending {path.suffix!r}; ground truth is {known}")
    for level in truth.levels.values():
        if len(level) != queries:
            raise InputError(
                f"{path} judges {len(level)} queries, but there are {queries}; give the vectors of exactly these, in "
                "the same order"
            )
    return truth


def _load_revisited(path: Path, order: Sequence[str]) -> TruthLevels:
    content = safe_pickle.load(path)
    first = Truth.revisited(content, DEFAULT_LEVEL)
    names = None if first.item_ids is None else [str(name) for name in first.item_ids.tolist()]
    if names is None or not set(order) & set(names):
        if len(order) != first.gallery_size:
            raise InputError(
                f"{path} judges {first.gallery_size} items, but there are {len(order)}, and their ids are not the "
                "names in it; serve exactly these items, in the same order or with these names as ids"
            )
        item_names, ids = names, list(order)  # the ids are other names of the same items
    else:
        item_names, ids = None, names
    queries = None if first.query_ids is None else [str(name) for name in first.query_ids.tolist()]
    return TruthLevels(
        {level: Truth.revisited(content, level, item_ids=ids) for level in REVISITED}, queries, item_names
    )


def _load_qrels(path: Path, order: Sequence[str], queries: int, query_names: list[str] | None) -> TruthLevels:
    numbers = [str(number) for number in range(queries)]
    if query_names is None:
        judged = Truth.from_qrels(path, query_ids=None, item_ids=order).query_ids
        unknown = sorted(set([] if judged is None else judged.tolist()) - set(numbers))
        if unknown:
            raise InputError(
                f"{path} judges query {unknown[0]!r:.80}, but the queries have no names, only row numbers from 0 to "
                f"{queries - 1}",
                remedy="give `query_names`, a file with one name per line",
            )
    return TruthLevels({"relevant": Truth.from_qrels(path, query_ids=query_names or numbers, item_ids=order)})


def _load_lists(path: Path, order: Sequence[str]) -> dict[str, Truth]:
    check_fits_memory(path, 8 * check_regular_file(path).stat().st_size)
    numbers = {name: number for number, name in enumerate(order)}
    try:
        levels = {
            str(level): [
                [[numbers.setdefault(str(item), len(numbers)) for item in row] for row in entry[part]]
                for part in ("right", "junk")
            ]
            for level, entry in json.loads(path.read_bytes()).items()
        }
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f'{path} cannot be read as level -> {{"right": [[ids], ...], "junk": [[ids], ...]}} '
            f"({type(error).__name__}: {' '.join(str(error).split())[:80]})"
        ) from None
    return {
        level: Truth.from_lists(right, junk, item_ids=list(numbers) or None) for level, (right, junk) in levels.items()
    }
