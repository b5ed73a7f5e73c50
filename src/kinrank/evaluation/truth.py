"""Labels, revisited ground truth or TREC judgements -> Truth: per query, what is right and what to ignore."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.evaluation.lists import Integers, Lists
from kinrank.evaluation.qrels import Qrels, judgements

Protocol = Literal["trapezoidal", "rectangle"]
REVISITED = {
    "easy": (("easy",), ("junk", "hard")),
    "medium": (("easy", "hard"), ("junk",)),
    "hard": (("hard",), ("junk", "easy")),
}


@dataclass(frozen=True, eq=False)
class Truth:
    """Per query, the items that are right, their grades where they differ, and the items to ignore.

    Attributes:
        positives: right items of every query; `truth.positives[i]` are those of query i.
        junk: items that are taken out of every ranking before ranks are counted.
        gallery_size: how many items there are, None where the truth does not say.
        average_precision: "trapezoidal" as the revisited benchmarks define it, or the textbook's "rectangle".
        grades: one relevance per entry of `positives.items`, None where all are 1.

    Example:
        >>> Truth.from_labels(["cat", "dog"], ["dog", "cat", "cat"]).positives[0]
        array([1, 2])
    """

    positives: Lists
    junk: Lists
    gallery_size: int | None = None
    average_precision: Protocol = "rectangle"
    grades: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        if self.average_precision not in ("trapezoidal", "rectangle"):
            raise ValueError(
                f"average_precision={self.average_precision!r} is not allowed; give trapezoidal | rectangle"
            )
        if len(self.positives) != len(self.junk):
            raise ValueError(
                f"positives of {len(self.positives)} queries but junk of {len(self.junk)}; "
                "give one list of each per query"
            )
        right, ignored = _keys(self.positives, self.span), _keys(self.junk, self.span)
        both = np.intersect1d(right, ignored, assume_unique=True)
        if both.size:
            query, item = divmod(int(both[0]), self.span)
            raise ValueError(f"query {query}: item {item} is both positive and junk; keep it in one of the two")

    @classmethod
    def from_lists(
        cls,
        positives: Sequence[ArrayLike],
        junk: Sequence[ArrayLike] | None = None,
        *,
        gallery_size: int | None = None,
        average_precision: Protocol = "rectangle",
    ) -> Truth:
        """From one list of right item numbers per query and, if given, one list of numbers to ignore."""
        right = Lists.of(positives, "positives")
        ignored = Lists.empty(len(right)) if junk is None else Lists.of(junk, "junk")
        for name, lists in (("positives", right), ("junk", ignored)):
            if gallery_size is not None and lists.items.size and lists.items.max() >= gallery_size:
                raise ValueError(
                    f"{name} name item {lists.items.max()} but gallery_size={gallery_size}; items count from 0"
                )
        return cls(right, ignored, gallery_size, average_precision)

    @classmethod
    def from_labels(cls, query_labels: ArrayLike, gallery_labels: ArrayLike | None = None) -> Truth:
        """Items with the query's label are right.

        Without `gallery_labels` every item queries the others: its own number is ignored, wherever it stands.
        """
        asked = _labels(query_labels, "query_labels")
        offered = asked if gallery_labels is None else _labels(gallery_labels, "gallery_labels")
        if asked.size and offered.size and (asked.dtype.kind in "US") != (offered.dtype.kind in "US"):
            raise ValueError(
                f"query_labels are {asked.dtype} and gallery_labels {offered.dtype}; "
                "give both as text or both as numbers"
            )
        _, codes = np.unique(np.concatenate([asked, offered]), return_inverse=True)
        codes = codes.reshape(-1)
        groups = codes[len(asked) :]
        order = np.argsort(groups, kind="stable")
        starts = np.searchsorted(groups[order], np.arange(codes.max(initial=-1) + 2))
        positives, _ = Lists(starts, order).take(codes[: len(asked)])
        if gallery_labels is not None:
            return cls(positives, Lists.empty(len(asked)), len(offered))
        owners = positives.owners
        others = positives.items != owners
        counts = np.bincount(owners[others], minlength=len(asked))
        own = Lists(np.arange(len(asked) + 1), np.arange(len(asked)))
        return cls(Lists(np.concatenate([[0], np.cumsum(counts)]), positives.items[others]), own, len(asked))

    @classmethod
    def revisited(cls, path_or_dict: str | os.PathLike[str] | Mapping[str, Any], difficulty: str = "medium") -> Truth:
        """From a ground truth file of the revisited Oxford and Paris benchmarks, or what it holds.

        Positives | junk: easy (easy | junk + hard), medium (easy + hard | junk), hard (hard | junk + easy).
        The file is read by `closed_pickle`, which executes nothing.
        """
        if difficulty not in REVISITED:
            raise ValueError(f"difficulty={difficulty!r} is not allowed; give {' | '.join(REVISITED)}")
        if isinstance(path_or_dict, Mapping):
            content: Any = path_or_dict
        else:
            from kinrank.files import closed_pickle

            content = closed_pickle.load(path_or_dict)
        try:
            right, ignored = (
                [[item for part in parts for item in entry[part]] for entry in content["gnd"]]
                for parts in REVISITED[difficulty]
            )
            size = len(content["imlist"])
        except (TypeError, KeyError) as error:
            raise ValueError(
                f"this is no revisited ground truth ({type(error).__name__}: {error}); it must hold "
                "imlist and gnd, a list of entries with easy, hard and junk"
            ) from None
        return cls.from_lists(right, ignored, gallery_size=size, average_precision="trapezoidal")

    @classmethod
    def from_qrels(
        cls,
        path_or_mapping: str | os.PathLike[str] | Qrels,
        query_ids: Sequence[Any] | None = None,
        doc_ids: Sequence[Any] | None = None,
        *,
        graded: bool = True,
    ) -> Truth:
        """From TREC judgements (lines `query 0 document relevance`, or query -> document -> relevance).

        Relevance above 0 counts as right and is kept as the grade for nDCG, unless `graded` is False.
        `query_ids` and `doc_ids` name the rows of the ranking and the items of the gallery; without them "1",
        "2", ... by position. As in trec_eval, a right document outside the gallery counts as not found.
        """
        truth = cls(*judgements(path_or_mapping, query_ids, doc_ids))
        return truth if graded else dataclasses.replace(truth, grades=None)

    def __len__(self) -> int:
        return len(self.positives)

    def __repr__(self) -> str:
        size = "unknown" if self.gallery_size is None else self.gallery_size
        empty = int((self.positives.counts == 0).sum())
        facts = f"{len(self)} queries, {empty} without positives, gallery of {size}, {self.average_precision}"
        return f"Truth({facts})"

    @property
    def span(self) -> int:
        """One more than the largest item number that can occur."""
        most = max((int(lists.items.max(initial=-1)) for lists in (self.positives, self.junk)), default=-1)
        return max(most + 1, self.gallery_size or 0, 1)

    def subset(self, queries: ArrayLike) -> Truth:
        """The truth of some queries only, by number, in that order."""
        chosen = np.asarray(queries)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64)
        positives, where = self.positives.take(chosen)
        grades = None if self.grades is None else self.grades[where]
        return dataclasses.replace(self, positives=positives, junk=self.junk.take(chosen)[0], grades=grades)


def _keys(lists: Lists, span: int) -> Integers:
    return lists.owners * span + lists.items


def _labels(labels: ArrayLike, name: str) -> NDArray[Any]:
    array = np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(f"{name} must be 1-d, one label per item; got shape {array.shape}")
    if array.dtype.kind == "O":
        if not all(isinstance(label, str) for label in array):
            raise ValueError(f"{name} must be all text or all numbers; got mixed objects")
        array = array.astype(str)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(f"{name} contains NaN at position {int(np.flatnonzero(np.isnan(array))[0])}; drop or name it")
    return array
