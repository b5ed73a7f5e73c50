"""Training data: matching items from labels or from LPMT, and lists of an item and its nearest others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.errors import InputError
from kinrank.ids import unwrap_masked_array
from kinrank.methods import LPMT
from kinrank.neighbors import Integers, find_nearest
from kinrank.progress import ProgressOption
from kinrank.reranking import rerank
from kinrank.vector_input import Vectors

PSEUDO = "pseudo"
MUTUAL_NEIGHBORS = 20  # by LPMT; two items must be in each other's lists
UNKNOWN_LABELS = (-1, "", "-1")  # the last one comes from text files
LABELS_HINT = (
    'give one label per row of features: whole numbers (-1 if unknown) or texts ("" if unknown), or '
    "`labels='pseudo'` to learn from the results of LPMT without labels"
)
Signs = NDArray[np.int8]


QUERIES_PER_BLOCK = 1024  # whose neighbours are searched at once
MAX_HARD_PRECISION = 0.95  # lists above this average precision have nothing left to learn (SSR)


class Matches(Protocol):
    """Possible training queries, (n,) `is_query`, and the items that are relevant to them."""

    is_query: NDArray[np.bool_]

    def of(self, queries: Integers, items: NDArray[Any]) -> Signs:
        """Return (q, k) signs of items (q, k): 1 relevant to their query, 0 not relevant, -1 unknown."""


class LabelMatches:
    """Matches by label. Items with unknown label are neither relevant nor irrelevant."""

    def __init__(self, codes: Integers) -> None:
        self._codes = codes
        self.is_query = codes >= 0

    def of(self, queries: Integers, items: NDArray[Any]) -> Signs:
        theirs = self._codes[items]
        return np.where(theirs < 0, -1, theirs == self._codes[queries][:, None]).astype(np.int8)


class PairMatches:
    """Matches by pairs of items, (p,) numbers i n + j; all other pairs are irrelevant."""

    def __init__(self, pairs: Integers, count: int) -> None:
        self._pairs, self._count = pairs, count
        self.is_query = np.zeros(count, np.bool_)
        self.is_query[pairs // count] = True

    def of(self, queries: Integers, items: NDArray[Any]) -> Signs:
        wanted = queries[:, None] * self._count + items.astype(np.int64)
        return np.isin(wanted, self._pairs).astype(np.int8)


def is_pseudo(labels: Any) -> bool:
    """True if the labels are the word that requests training without labels."""
    return isinstance(labels, str) and labels == PSEUDO


def find_mutual_pairs(rows: Vectors, progress: ProgressOption = None) -> PairMatches:
    """Find pairs of items that have each other among their 20 nearest by LPMT, with every item as a query."""
    neighbors = rerank(None, rows, LPMT(), k=MUTUAL_NEIGHBORS, progress=progress).indices
    count = len(rows)
    first, second = np.repeat(np.arange(count), neighbors.shape[1]), neighbors.reshape(-1).astype(np.int64)
    forward = np.sort(first * count + second)
    back = second * count + first
    pairs = np.sort(back[np.isin(back, forward)])
    if not len(pairs):
        raise InputError(
            "finds no two items near each other, so there is nothing to learn",
            parameter="labels",
            given=PSEUDO,
            remedy="give labels",
        )
    return PairMatches(pairs, count)


def encode_labels(labels: ArrayLike | None, count: int) -> Integers:
    """Return (n,) a number for each label, -1 if unknown; raise an InputError if nothing can be learned from them.

    Example:
        >>> codes_of(["a", "", "b", "a"], 4).tolist()
        [0, -1, 1, 0]
    """
    entries = _list_labels(labels)
    if len(entries) != count:
        raise InputError(
            f"has {len(entries)} entries but `features` has {count} rows", parameter="labels", allowed="one for each"
        )
    try:
        different = [label for label in dict.fromkeys(entries) if label not in UNKNOWN_LABELS]
    except TypeError:  # nested lists
        raise InputError(
            "must be one label per row of `features`, not rows of labels", parameter="labels", remedy=LABELS_HINT
        ) from None
    _check_label_kinds(entries)
    if not different:
        raise InputError(
            "are all unknown, so there is nothing to learn",
            parameter="labels",
            remedy="give some that are known, or `labels=pseudo`",
        )
    if len(different) == 1:
        raise InputError(
            "are all equal, so there is nothing to distinguish",
            parameter="labels",
            allowed="at least two different ones",
        )
    number = {label: place for place, label in enumerate(different)}
    codes = np.array([number.get(label, -1) for label in entries], np.int64)
    if np.bincount(codes[codes >= 0]).max() < 2:
        raise InputError(
            "are all different, so no item is relevant to another",
            parameter="labels",
            allowed="labels that items share",
        )
    return codes


def _check_label_kinds(entries: list[Any]) -> None:
    """Raise an InputError for labels that are neither texts nor whole numbers, and for a mixture of both."""
    kinds: dict[str, int] = {}
    for place, label in enumerate(entries):
        whole = isinstance(label, (int, np.integer)) and not isinstance(label, bool)
        if not whole and not isinstance(label, str):
            raise InputError(f"has {label!r:.80} at place {place}", parameter="labels", remedy=LABELS_HINT)
        kinds.setdefault("a number" if whole else "a text", place)
    if len(kinds) > 1:
        kinds_text = " and ".join(f"{kind} at place {place}" for kind, place in kinds.items())
        raise InputError(f"has {kinds_text}", parameter="labels", remedy=LABELS_HINT)


def _list_labels(labels: Any) -> list[Any]:
    """Return the labels as a list."""
    if labels is None or isinstance(labels, (str, bytes)) or not hasattr(labels, "__iter__"):
        raise InputError(parameter="labels", given=labels, remedy=LABELS_HINT)
    if isinstance(labels, (list, tuple)):
        return list(labels)
    array = np.asarray(unwrap_masked_array(labels, "labels"))
    if array.ndim != 1:
        raise InputError(f"has shape {array.shape}", parameter="labels", remedy=LABELS_HINT)
    if array.dtype.kind not in "iuUO":
        raise InputError(f"has dtype {array.dtype}", parameter="labels", remedy=LABELS_HINT)
    return list(array.tolist())


class TrainingLists(NamedTuple):
    """Training lists: queries (m,), their nearest others (m, k), and signs (m, k): 1 relevant, 0 not, -1 unknown."""

    queries: Integers
    items: NDArray[np.int32]
    signs: Signs

    def take(self, places: Integers) -> TrainingLists:
        return TrainingLists(self.queries[places], self.items[places], self.signs[places])


def gather_lists(
    rows: Vectors, matches: Matches, k: int, limit: int, least: int, hard: bool, seed: int
) -> TrainingLists:
    """Return at most `wanted` lists of randomly drawn queries; items are searched only until there are enough.

    A useful list holds a relevant and an irrelevant item. With `hard` only lists that the search
    gets partly wrong are used, unless there are fewer than `least` of them.
    """
    order = np.random.default_rng(seed).permutation(np.flatnonzero(matches.is_query))
    chosen: dict[bool, list[TrainingLists]] = {True: [], False: []}  # hard lists, and all useful lists
    counts = {True: 0, False: 0}
    for start in range(0, len(order), QUERIES_PER_BLOCK):
        queries = order[start : start + QUERIES_PER_BLOCK]
        items = find_nearest(rows[queries], rows, k, own=queries, self_first=False).indices
        lists = TrainingLists(queries, items, matches.of(queries, items))
        useful = (lists.signs == 1).any(axis=1) & (lists.signs == 0).any(axis=1)
        for kind, mask in ((True, useful & is_hard(lists.signs)), (False, useful)):
            chosen[kind].append(lists.take(np.flatnonzero(mask)[: limit - counts[kind]]))
            counts[kind] += len(chosen[kind][-1].queries)
        if counts[hard] >= limit:
            break
    gathered = TrainingLists(*map(np.concatenate, zip(*chosen[hard and counts[True] >= least], strict=True)))
    if not len(gathered.queries):
        raise InputError(
            f"leave no item with both a relevant and an irrelevant item among its {k} nearest, so there is nothing to "
            "learn",
            parameter="labels",
            remedy="give more items, or other labels",
        )
    return gathered


def is_hard(signs: Signs) -> NDArray[np.bool_]:
    """Return (m,) True for lists (m, k) with more than 2 relevant items and an average precision below 0.95."""
    relevant = signs == 1
    count = relevant.sum(axis=1)
    precision = np.cumsum(relevant, axis=1) / np.maximum(np.cumsum(signs >= 0, axis=1), 1)
    return np.asarray((count > 2) & ((precision * relevant).sum(axis=1) < MAX_HARD_PRECISION * count))


def iterate_batches(count: int, total: int, batch: int, seed: int) -> Iterator[Integers]:
    """Yield positions of lists in batches, `wanted` in all: every list once, in random order, then every list again."""
    rng = np.random.default_rng((seed, 1))
    rounds = -(-total // count)
    pending = np.empty(0, np.int64)
    for number in range(rounds):
        pending = np.concatenate([pending, rng.permutation(count)[: total - number * count]])
        while len(pending) >= batch:
            yield pending[:batch]
            pending = pending[batch:]
    if len(pending):
        yield pending
