"""Matching of the queries and items of a ranking with those of the truth, by id or by number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError
from kinrank.evaluation.ragged_lists import Integers
from kinrank.ids import INTEGER_TEXT
from kinrank.ranking import Ranking

UNKNOWN_ITEM = -2


@dataclass(frozen=True, eq=False)
class IdTable:
    """Ids of the items, or of the queries, of a truth.

    Ids are compared as text, because files do not tell whether "7" is a number.

    Attributes:
        ids: (n,) texts or whole numbers.
        in_order: True for the whole gallery, or all queries, in order: number i of a ranking without ids is `ids[i]`.
            False for ids that judgements mention: number i is the id "i".
    """

    ids: NDArray[Any]
    in_order: bool = True

    def find(self, ids: NDArray[Any]) -> Integers:
        """Return the position of each id, in the shape of `ids`; -1 for unknown ones."""
        known = {str(name): position for position, name in enumerate(self.ids.tolist())}
        if ids.dtype.kind in "iu":  # numbers repeat, so look up each one once
            different, where = np.unique(ids, return_inverse=True)
            positions = np.array([known.get(str(name), -1) for name in different.tolist()], np.int64)
            return positions[where].reshape(ids.shape)
        return np.array([known.get(str(name), -1) for name in ids.ravel().tolist()], np.int64).reshape(ids.shape)

    def is_numeric(self) -> bool:
        """Return True if all ids are whole numbers, or texts of them."""
        return all(INTEGER_TEXT.fullmatch(str(name)) for name in self.ids.tolist())


def match_queries(ranking: Ranking, table: IdTable | None, count: int) -> Integers:
    """Return (rows,) the query of the truth, which has `count`, that each row of the ranking answers; -1 for none."""
    rows = np.arange(len(ranking))
    if ranking.query_ids is None and (table is None or table.in_order):
        if len(ranking) != count:
            raise InputError(
                f"the ranking has {len(ranking)} queries but the truth has {count}",
                remedy="rank exactly the queries of the truth, in its order",
            )
        return rows
    if table is None:
        raise InputError(
            f"the queries of the ranking have ids, such as {_show_first(ranking.query_ids)}, but those of the truth do "
            "not",
            remedy="give `query_ids`, the ids of the queries of the truth, in order",
        )
    positions = table.find(rows if ranking.query_ids is None else ranking.query_ids)
    if ranking.query_ids is None:
        _check_numbered(table, positions, len(ranking))
    if len(positions) and count and (positions < 0).all():
        raise InputError(
            f"no query of the ranking (such as {_show_first(ranking.query_ids)}) is in the truth "
            f"(such as {_show_first(table.ids)})",
            remedy="check their spelling",
        )
    if table.in_order and (positions < 0).any():
        unknown = ranking.query_ids[positions < 0] if ranking.query_ids is not None else rows
        raise InputError(
            f"the ranking has the query {_show_first(unknown)}, which is not among `query_ids` of the truth "
            f"({len(unknown)} such queries)",
            remedy="give all of them",
        )
    return positions


def match_items(ranking: Ranking, table: IdTable | None, size: int | None) -> Integers:
    """Return (queries, depth) the item of the truth for each listed one; -1 for padding, else UNKNOWN_ITEM."""
    numbers = ranking.indices
    if _goes_by_number(ranking, table):
        _check_range(numbers, size)
        return numbers
    if table is None:
        raise InputError(
            f"the items of the ranking have ids, such as {_show_first(ranking.ids[numbers >= 0])}, but those of the "
            "truth do not",
            remedy="give `item_ids`, the ids of the whole gallery in the order of the truth",
        )
    if not ranking.has_ids and not table.is_numeric():
        raise InputError(
            "the items of the ranking are numbered, but the judgements have text ids",
            remedy="give `item_ids`, the ids of the gallery in its order",
        )
    positions = table.find(ranking.ids)
    listed = numbers >= 0
    unknown = listed & (positions < 0)
    if unknown.any() and (table.in_order or not (positions[listed] >= 0).any()):
        how_many = "none of them is" if unknown.sum() == listed.sum() else f"{int(unknown.sum())} are not"
        raise InputError(
            f"the ranking lists {_show_first(ranking.ids[unknown])}, which is not an item of the truth (such as "
            f"{_show_first(table.ids)}): of {int(listed.sum())} listed items {how_many}",
            remedy="check their spelling, or give `item_ids`, the ids of the whole gallery in its order",
        )
    positions[unknown] = UNKNOWN_ITEM
    positions[~listed] = -1
    return positions


def _goes_by_number(ranking: Ranking, table: IdTable | None) -> bool:
    """Return True if the item numbers of the ranking are positions in the truth."""
    if table is None:
        return ranking.has_numbers_only
    if not table.in_order:
        return False
    return not ranking.has_ids or (ranking.has_numbers_only and not table.is_numeric())  # numbers never match text ids


def _check_numbered(table: IdTable, positions: Integers, rows: int) -> None:
    """For rows without ids, check that every judged query is one of the row numbers."""
    if len(set(positions[positions >= 0].tolist())) == len(table.ids):
        return
    absent = np.setdiff1d(np.arange(len(table.ids)), positions)
    raise InputError(
        f"query {_show_first(table.ids[absent])} is judged, but the queries of the ranking have no ids and are "
        f"numbered by row, 0 to {rows - 1}",
        remedy="give `query_ids`, the ids of the queries in the order of the rows",
    )


def _check_range(numbers: Integers, size: int | None) -> None:
    wrong = numbers < -1
    if size is not None:
        wrong |= numbers >= size
    if wrong.any():
        query, rank = (int(number) for number in np.argwhere(wrong)[0])
        allowed = "-1 (padding) or more" if size is None else f"-1 (padding) to {size - 1}"
        raise InputError(
            f"the ranking of query {query} lists item {numbers[query, rank]} at rank {rank + 1}, but item numbers go "
            f"from {allowed}",
            remedy="use the gallery of this truth",
        )


def _show_first(names: NDArray[Any] | None) -> str:
    """Return an example of the ids for a message."""
    return "0" if names is None or not names.size else f"{names.ravel()[:1].tolist()[0]!r:.80}"
