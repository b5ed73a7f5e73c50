"""The ids of a ranking and of its truth -> where every listed item stands in the truth, or why nobody can say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank import given
from kinrank.evaluation.lists import Integers
from kinrank.ranking import Ranking

UNKNOWN = -2


@dataclass(frozen=True, eq=False)
class Naming:
    """What the items, or the queries, of a truth are called.

    Names are compared as text, because files do not say whether "7" is a number.

    Attributes:
        ids: (n,) the names: texts or whole numbers.
        in_order: True for the whole gallery, or all queries, in their order: number i of a ranking without ids is
            then `ids[i]`. False for names that judgements mention: number i is then the name "i".
    """

    ids: NDArray[Any]
    in_order: bool = True

    def find(self, ids: NDArray[Any]) -> Integers:
        """The place of each of some names of any shape, -1 for those that are not there."""
        known = {str(name): place for place, name in enumerate(self.ids.tolist())}
        if ids.dtype.kind in "iu":  # numbers repeat: look every one up once
            different, where = np.unique(ids, return_inverse=True)
            places = np.array([known.get(str(name), -1) for name in different.tolist()], np.int64)
            return places[where].reshape(ids.shape)
        return np.array([known.get(str(name), -1) for name in ids.ravel().tolist()], np.int64).reshape(ids.shape)

    def only_numbers(self) -> bool:
        return all(given.NUMBER.fullmatch(str(name)) for name in self.ids.tolist())


def places_of_queries(ranking: Ranking, naming: Naming | None, count: int) -> Integers:
    """(rows,) which of the `count` queries of the truth each row of the ranking answers, -1 for none of them."""
    rows = np.arange(len(ranking))
    if ranking.query_ids is None and (naming is None or naming.in_order):
        if len(ranking) != count:
            raise ValueError(
                f"ranking has {len(ranking)} queries but truth has {count}; "
                "rank exactly the queries of the truth, in its order, or cut the truth with truth.subset"
            )
        return rows
    if naming is None:
        raise ValueError(
            f"the queries of the ranking have names, such as {_first(ranking.query_ids)}, and those of the truth have "
            "none; give the truth query_ids=, the names of its queries in their order"
        )
    places = naming.find(rows if ranking.query_ids is None else ranking.query_ids)
    if ranking.query_ids is None:
        _check_numbered(naming, places, len(ranking))
    if len(places) and count and (places < 0).all():
        raise ValueError(
            f"no query of the ranking (such as {_first(ranking.query_ids)}) is in the truth "
            f"(such as {_first(naming.ids)}); check their spelling"
        )
    if naming.in_order and (places < 0).any():
        unknown = ranking.query_ids[places < 0] if ranking.query_ids is not None else rows
        raise ValueError(
            f"the ranking answers query {_first(unknown)}, which is not among query_ids of the truth "
            f"({len(unknown)} such); give all of them"
        )
    return places


def places_of_items(ranking: Ranking, naming: Naming | None, size: int | None) -> Integers:
    """(queries, depth) which item of the truth each listed one is; -1 pads, and those it does not know are UNKNOWN."""
    numbers = ranking.indices
    if _by_number(ranking, naming):
        _check_range(numbers, size)
        return numbers
    if naming is None:
        raise ValueError(
            f"the items of the ranking have ids, such as {_first(ranking.ids[numbers >= 0])}, and those of the truth "
            "have none; give the truth item_ids=, the ids of the whole gallery in the order of its labels or numbers, "
            "as a manifold has them in manifold.ids"
        )
    if not ranking.has_ids and not naming.only_numbers():
        raise ValueError(
            "the items of the ranking go by number, but the judgements name documents by text; "
            "give item_ids=, the names of the gallery in its order"
        )
    places = naming.find(ranking.ids)
    listed = numbers >= 0
    unknown = listed & (places < 0)
    if unknown.any() and (naming.in_order or not (places[listed] >= 0).any()):
        which = "none of them is" if unknown.sum() == listed.sum() else f"{int(unknown.sum())} are not"
        raise ValueError(
            f"the ranking lists {_first(ranking.ids[unknown])}, which is not an item of the truth (such as "
            f"{_first(naming.ids)}): of {int(listed.sum())} listed items {which}; check how they are spelled, or give "
            "the truth item_ids=, the ids of the whole gallery in its order"
        )
    places[unknown] = UNKNOWN
    places[~listed] = -1
    return places


def _by_number(ranking: Ranking, naming: Naming | None) -> bool:
    """Whether the item numbers of the ranking are places in the truth."""
    if naming is None:
        return ranking.numbered
    if not naming.in_order:
        return False
    return not ranking.has_ids or (ranking.numbered and not naming.only_numbers())  # no number is a text


def _check_numbered(naming: Naming, places: Integers, rows: int) -> None:
    """Rows that go by number, judgements that go by name: every judged query must be one of the rows."""
    if len(set(places[places >= 0].tolist())) == len(naming.ids):
        return
    absent = np.setdiff1d(np.arange(len(naming.ids)), places)
    raise ValueError(
        f"query {_first(naming.ids[absent])} is judged, but the queries of the ranking have no names and go by their "
        f"row, 0 to {rows - 1}; give query_ids=, the names of the queries in the order of the rows"
    )


def _check_range(numbers: Integers, size: int | None) -> None:
    wrong = numbers < -1
    if size is not None:
        wrong |= numbers >= size
    if wrong.any():
        query, rank = (int(number) for number in np.argwhere(wrong)[0])
        allowed = "-1 (padding) or more" if size is None else f"-1 (padding) to {size - 1}"
        raise ValueError(
            f"ranking of query {query} lists item {numbers[query, rank]} at rank {rank + 1}, but item "
            f"numbers go from {allowed}; was it made from the gallery of this truth?"
        )


def _first(names: NDArray[Any] | None) -> str:
    """An example for a message."""
    return "0" if names is None or not names.size else f"{names.ravel()[:1].tolist()[0]!r:.80}"
