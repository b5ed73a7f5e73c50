"""Labels, cameras, lists, revisited ground truth, TREC judgements -> Truth: what is right and what to ignore."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import given
from kinrank.evaluation.landmarks import REVISITED as REVISITED
from kinrank.evaluation.landmarks import ground_truth, image_names
from kinrank.evaluation.lists import MOST, Integers, Lists
from kinrank.evaluation.names import Naming
from kinrank.evaluation.qrels import Qrels, judgements
from kinrank.evaluation.splits import Split, read_split

Protocol = Literal["trapezoidal", "rectangle"]


@dataclass(frozen=True, eq=False)
class Truth:
    """Per query, the items that are right, their grades where they differ, and the items to ignore.

    Attributes:
        positives: right items of every query; `truth.positives[i]` are those of query i.
        junk: items that are taken out of every ranking before ranks are counted.
        gallery_size: how many items there are, None where the truth does not say.
        average_precision: "trapezoidal" as the revisited benchmarks define it, or the textbook's "rectangle".
        grades: one relevance per entry of `positives.items`, None where all are 1.
        items: the ids of the items, None where they go by number.
        queries: the ids of the queries, None where they go by row.

    Example:
        >>> Truth.from_labels(["cat", "dog"], ["dog", "cat", "cat"]).positives[0]
        array([1, 2])
    """

    positives: Lists
    junk: Lists
    gallery_size: int | None = None
    average_precision: Protocol = "rectangle"
    grades: NDArray[np.float64] | None = None
    items: Naming | None = None
    queries: Naming | None = None

    def __post_init__(self) -> None:
        if self.average_precision not in ("trapezoidal", "rectangle"):
            raise ValueError(
                f"average_precision={self.average_precision!r} is not allowed; give trapezoidal | rectangle"
            )
        size = self.gallery_size
        whole = isinstance(size, (int, np.integer)) and not isinstance(size, bool)
        if size is not None and not (whole and 0 <= size <= MOST):
            raise ValueError(f"gallery_size={size!r} is not allowed; give a whole number from 0 to {MOST}")
        for name, naming, count in (("item_ids", self.items, size), ("query_ids", self.queries, len(self.positives))):
            if naming is not None and naming.in_order and len(naming.ids) != count:
                raise ValueError(f"{name} has {len(naming.ids)} names but the truth has {count}; give one for each")
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
        item_ids: ArrayLike | None = None,
        query_ids: ArrayLike | None = None,
    ) -> Truth:
        """From one list of right item numbers per query and, if given, one list of numbers to ignore.

        Numbers are places in the gallery, whose ids `item_ids` are, for rankings that have ids; `query_ids` likewise.
        """
        items, queries = _naming(item_ids, "item_ids"), _naming(query_ids, "query_ids")
        if gallery_size is None and items is not None:
            gallery_size = len(items.ids)
        right = Lists.of(positives, "positives")
        ignored = Lists.empty(len(right)) if junk is None else Lists.of(junk, "junk")
        for name, lists in (("positives", right), ("junk", ignored)):
            if gallery_size is not None and lists.items.size and lists.items.max() >= gallery_size:
                raise ValueError(
                    f"{name} name item {lists.items.max()} but gallery_size={gallery_size}; items count from 0"
                )
        return cls(right, ignored, gallery_size, average_precision, None, items, queries)

    @classmethod
    def from_labels(
        cls,
        query_labels: ArrayLike,
        gallery_labels: ArrayLike | None = None,
        *,
        item_ids: ArrayLike | None = None,
        query_ids: ArrayLike | None = None,
    ) -> Truth:
        """Items with the query's label are right.

        Without `gallery_labels` every item queries the others: its own number is ignored, wherever it stands.

        Args:
            query_labels: one label per query, text or numbers.
            gallery_labels: one label per item of the gallery.
            item_ids: the ids of the items, in the order of their labels, such as `manifold.ids`; needed for rankings
                whose items have ids.
            query_ids: the same for queries; where every item queries the others they are `item_ids`.
        """
        items, queries = _naming(item_ids, "item_ids"), _naming(query_ids, "query_ids")
        asked = _labels(query_labels, "query_labels")
        offered = asked if gallery_labels is None else _labels(gallery_labels, "gallery_labels")
        _comparable(asked, offered, "labels")
        _, codes = np.unique(np.concatenate([asked, offered]), return_inverse=True)
        codes = codes.reshape(-1)
        groups = codes[len(asked) :]
        order = np.argsort(groups, kind="stable")
        starts = np.searchsorted(groups[order], np.arange(codes.max(initial=-1) + 2))
        positives, _ = Lists(starts, order).take(codes[: len(asked)])
        if gallery_labels is not None:
            return cls(positives, Lists.empty(len(asked)), len(offered), items=items, queries=queries)
        right = positives.where(positives.items != positives.owners)
        own = Lists(np.arange(len(asked) + 1), np.arange(len(asked)))
        return cls(right, own, len(asked), items=items, queries=queries or items)

    @classmethod
    def from_split(cls, path_or_split: str | os.PathLike[str] | Split) -> Truth:
        """From a list of pictures in the published format of Caltech101, CUB-200 and Indoor.

        A line is `folder/class/picture.jpg 0` for a query, and 1 at its end for the gallery. Items of the query's class
        are right. Rows are the queries in the order of the list, items its gallery; both have their paths as names.
        """
        split = path_or_split if isinstance(path_or_split, Split) else read_split(path_or_split)
        asked = split.is_query
        names = {"item_ids": split.paths[~asked], "query_ids": split.paths[asked]}
        return cls.from_labels(split.classes[asked], split.classes[~asked], **names)

    @classmethod
    def across_cameras(
        cls,
        query_labels: ArrayLike,
        gallery_labels: ArrayLike,
        query_cameras: ArrayLike,
        gallery_cameras: ArrayLike,
        *,
        item_ids: ArrayLike | None = None,
        query_ids: ArrayLike | None = None,
    ) -> Truth:
        """Person re-identification: items of the query's person are right if another camera took them.

        Those that the query's own camera took are ignored: they take no rank. So are items labelled -1, as a number or
        as text, for every query: pictures that show no whole person.
        """
        same = cls.from_labels(query_labels, gallery_labels, item_ids=item_ids, query_ids=query_ids)
        asked, offered = _labels(query_cameras, "query_cameras"), _labels(gallery_cameras, "gallery_cameras")
        for name, cameras, count in (("query", asked, len(same)), ("gallery", offered, same.gallery_size)):
            if len(cameras) != count:
                raise ValueError(f"{name}_cameras has {len(cameras)} entries and {name}_labels {count}; give one each")
        _comparable(asked, offered, "cameras")
        nobody = labelled_junk(_labels(gallery_labels, "gallery_labels"))
        positives = same.positives.where(~nobody[same.positives.items])
        own = asked[positives.owners] == offered[positives.items]
        junk = positives.where(own).with_all(np.flatnonzero(nobody))
        return dataclasses.replace(same, positives=positives.where(~own), junk=junk)

    @classmethod
    def revisited(
        cls,
        path_or_dict: str | os.PathLike[str] | Mapping[str, Any],
        difficulty: str = "medium",
        *,
        distractors: int = 0,
        item_ids: ArrayLike | None = None,
        query_ids: ArrayLike | None = None,
    ) -> Truth:
        """From a ground truth file of the revisited Oxford and Paris benchmarks, or what it holds.

        Positives | junk: easy (easy | junk + hard), medium (easy + hard | junk), hard (hard | junk + easy).
        The file is read by `closed_pickle`, which executes nothing. Items go by number, and by their names in its
        `imlist`, queries by those in `qimlist`; `item_ids` and `query_ids` give other names, in the same order.
        So many `distractors` follow the images in the gallery and are right for no query; items then go by number only,
        unless `item_ids` names all of them.
        """
        if difficulty not in REVISITED:
            raise ValueError(f"difficulty={difficulty!r} is not allowed; give {' | '.join(REVISITED)}")
        content = ground_truth(path_or_dict)
        right, ignored = (
            [[item for part in parts for item in entry[part]] for entry in content["gnd"]]
            for parts in REVISITED[difficulty]
        )
        images = len(content["imlist"])
        if item_ids is None and not distractors:
            item_ids = image_names(content, "imlist", images)
        try:
            return cls.from_lists(
                right,
                ignored,
                gallery_size=images + distractors,
                average_precision="trapezoidal",
                item_ids=item_ids,
                query_ids=image_names(content, "qimlist", len(right)) if query_ids is None else query_ids,
            )
        except ValueError as error:
            source = "" if isinstance(path_or_dict, Mapping) else f"{os.fspath(path_or_dict)}: "
            raise ValueError(f"{source}{error}") from None

    @classmethod
    def from_qrels(
        cls,
        path_or_mapping: str | os.PathLike[str] | Qrels,
        query_ids: Sequence[Any] | None = None,
        item_ids: Sequence[Any] | None = None,
        *,
        graded: bool = True,
    ) -> Truth:
        """From TREC judgements (lines `query 0 document relevance`, or query -> document -> relevance).

        Relevance above 0 counts as right and is kept as the grade for nDCG, unless `graded` is False. Queries and
        documents go by their names, which a ranking must have, too; where it has none, row or item number 7 is the name
        "7", counted from 0. For other names of a ranking without, give all of them in the order of its rows and of the
        gallery: `query_ids` and `item_ids`. As in trec_eval, a document that is not judged is not right, and a right
        one outside the gallery counts as not found. The same judgement twice is one; two that differ are refused.
        """
        found = judgements(path_or_mapping, query_ids, item_ids)
        return cls(
            found.positives,
            Lists.empty(len(found.positives)),
            found.gallery_size,
            grades=found.grades if graded else None,
            items=found.items,
            queries=found.queries,
        )

    def __len__(self) -> int:
        return len(self.positives)

    def __repr__(self) -> str:
        size = "unknown" if self.gallery_size is None else self.gallery_size
        empty = int((self.positives.counts == 0).sum())
        facts = f"{len(self)} queries, {empty} without positives, gallery of {size}, {self.average_precision}"
        return f"Truth({facts})"

    @property
    def item_ids(self) -> NDArray[Any] | None:
        """The ids of the items, by item number; None where they go by number."""
        return None if self.items is None else self.items.ids

    @property
    def query_ids(self) -> NDArray[Any] | None:
        """The ids of the queries, in order; None where they go by row."""
        return None if self.queries is None else self.queries.ids

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
        naming = None if self.queries is None else Naming(self.queries.ids[chosen])
        junk = self.junk.take(chosen)[0]
        return dataclasses.replace(self, positives=positives, junk=junk, grades=grades, queries=naming)


def labelled_junk(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Which labels are -1, as a number or as text: pictures that show no whole person, and count nowhere."""
    return np.asarray(labels.astype(str) == "-1" if labels.dtype.kind in "USO" else labels == -1, np.bool_)


def _keys(lists: Lists, span: int) -> Integers:
    return lists.owners * span + lists.items


def _naming(ids: ArrayLike | None, parameter: str) -> Naming | None:
    return None if ids is None else Naming(given.names(ids, parameter))


def _comparable(asked: NDArray[Any], offered: NDArray[Any], what: str) -> None:
    """Refuse text on one side and numbers on the other, which are never equal."""
    if asked.size and offered.size and (asked.dtype.kind in "US") != (offered.dtype.kind in "US"):
        raise ValueError(
            f"query_{what} are {asked.dtype} and gallery_{what} {offered.dtype}; give both as text or both as numbers"
        )


def _labels(labels: ArrayLike, name: str) -> NDArray[Any]:
    array = np.asarray(given.unmasked(labels, name))
    if array.ndim != 1:
        raise ValueError(f"{name} must be 1-d, one label per item; got shape {array.shape}")
    if array.dtype.kind == "O":
        if not all(isinstance(label, str) for label in array):
            raise ValueError(f"{name} must be all text or all numbers; got mixed objects")
        array = array.astype(str)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(f"{name} contains NaN at position {int(np.flatnonzero(np.isnan(array))[0])}; drop or name it")
    return array
