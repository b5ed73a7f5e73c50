"""Ground truth of queries, from labels, cameras, lists, revisited ground truth or TREC judgements."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.errors import InputError
from kinrank.evaluation.id_lookup import IdTable
from kinrank.evaluation.ragged_lists import MAX_ITEMS, Integers, RaggedLists
from kinrank.evaluation.truth_readers import REVISITED as REVISITED
from kinrank.evaluation.truth_readers import Qrels, image_names, read_ground_truth, read_judgements
from kinrank.files.split_lists import Split, read_split
from kinrank.ids import parse_ids, unwrap_masked_array

Protocol = Literal["trapezoidal", "rectangle"]


@dataclass(frozen=True, eq=False)
class Truth:
    """Relevant items of every query, their grades, and items to ignore.

    Attributes:
        positives: relevant items; `truth.positives[i]` are those of query i.
        junk: items that are removed from every ranking before ranks are counted.
        gallery_size: number of items; None if the truth does not tell.
        average_precision: "trapezoidal" as defined by the revisited benchmarks, or "rectangle" as in textbooks.
        grades: one relevance per entry of `positives.items`; None if all are 1.
        items: ids of the items; None if they are numbered.
        queries: ids of the queries; None if they are numbered by row.
        usual_measures: measures that papers report for this kind of truth.

    Example:
        >>> Truth.from_labels(["cat", "dog"], ["dog", "cat", "cat"]).positives[0]
        array([1, 2])
    """

    positives: RaggedLists
    junk: RaggedLists
    gallery_size: int | None = None
    _: KW_ONLY
    average_precision: Protocol = "rectangle"
    grades: NDArray[np.float64] | None = None
    items: IdTable | None = None
    queries: IdTable | None = None
    usual_measures: tuple[str, ...] = ("mAP",)

    def __post_init__(self) -> None:
        if self.average_precision not in ("trapezoidal", "rectangle"):
            raise InputError(
                parameter="average_precision", given=self.average_precision, allowed="trapezoidal | rectangle"
            )
        size = self.gallery_size
        whole = isinstance(size, (int, np.integer)) and not isinstance(size, bool)
        if size is not None and not (whole and 0 <= size <= MAX_ITEMS):
            raise InputError(parameter="gallery_size", given=size, allowed=f"a whole number from 0 to {MAX_ITEMS}")
        for name, table, count in (("item_ids", self.items, size), ("query_ids", self.queries, len(self.positives))):
            if table is not None and table.in_order and len(table.ids) != count:
                raise InputError(
                    f"has {len(table.ids)} ids but the truth has {count}", parameter=name, remedy="give one for each"
                )
        if len(self.positives) != len(self.junk):
            raise InputError(
                f"there are positives of {len(self.positives)} queries but junk of {len(self.junk)}",
                remedy="give one list of each per query",
            )
        right, ignored = _pair_keys(self.positives, self.span), _pair_keys(self.junk, self.span)
        both = np.intersect1d(right, ignored, assume_unique=True)
        if both.size:
            query, item = divmod(int(both[0]), self.span)
            raise InputError(
                f"query {query}: item {item} is both positive and junk", remedy="keep it in one of the two"
            )

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
        """Build from one list of relevant item numbers per query and, optionally, one list of numbers to ignore.

        Numbers are positions in the gallery. `item_ids` and `query_ids` are needed for rankings with ids.
        """
        items, queries = _build_id_table(item_ids, "item_ids"), _build_id_table(query_ids, "query_ids")
        if gallery_size is None and items is not None:
            gallery_size = len(items.ids)
        right = RaggedLists.of(positives, "positives")
        ignored = RaggedLists.empty(len(right)) if junk is None else RaggedLists.of(junk, "junk")
        for name, lists in (("positives", right), ("junk", ignored)):
            if isinstance(gallery_size, (int, np.integer)) and lists.items.size and lists.items.max() >= gallery_size:
                raise InputError(
                    f"has item {lists.items.max()}, but items count from 0 and `gallery_size={gallery_size}`",
                    parameter=name,
                )
        return cls(right, ignored, gallery_size, average_precision=average_precision, items=items, queries=queries)

    @classmethod
    def from_labels(
        cls,
        query_labels: ArrayLike,
        gallery_labels: ArrayLike | None = None,
        *,
        item_ids: ArrayLike | None = None,
        query_ids: ArrayLike | None = None,
    ) -> Truth:
        """Build from labels: items with the label of the query are relevant.

        Without `gallery_labels` every item is a query for the others, and the item itself is ignored.

        Args:
            query_labels: one label per query, text or numbers.
            gallery_labels: one label per item of the gallery.
            item_ids: ids of the items, in the order of their labels, such as `manifold.ids`; needed for rankings whose
                items have ids.
            query_ids: ids of the queries; if every item is a query, they are `item_ids`.
        """
        items, queries = _build_id_table(item_ids, "item_ids"), _build_id_table(query_ids, "query_ids")
        query_array = _check_labels(query_labels, "query_labels")
        gallery_array = query_array if gallery_labels is None else _check_labels(gallery_labels, "gallery_labels")
        _check_comparable(query_array, gallery_array, "labels")
        _, codes = np.unique(np.concatenate([query_array, gallery_array]), return_inverse=True)
        codes = codes.reshape(-1)
        groups = codes[len(query_array) :]
        order = np.argsort(groups, kind="stable")
        starts = np.searchsorted(groups[order], np.arange(codes.max(initial=-1) + 2))
        positives, _ = RaggedLists(starts, order).take(codes[: len(query_array)])
        junk = RaggedLists.empty(len(query_array))
        if gallery_labels is None:
            positives = positives.where(positives.items != positives.owners)
            junk = RaggedLists(np.arange(len(query_array) + 1), np.arange(len(query_array)))
            queries = queries or items
        return cls(positives, junk, len(gallery_array), items=items, queries=queries, usual_measures=("mAP", "R@1"))

    @classmethod
    def from_split(cls, path_or_split: str | os.PathLike[str] | Split) -> Truth:
        """Build from a split list in the published format of Caltech101, CUB-200 and Indoor.

        Lines are `folder/class/picture.jpg 0` for queries, with 1 at the end for the gallery. Items of the same class
        are relevant. Queries and items keep the order of the list and have their paths as ids.
        """
        split = path_or_split if isinstance(path_or_split, Split) else read_split(path_or_split)
        is_query = split.is_query
        names = {"item_ids": split.paths[~is_query], "query_ids": split.paths[is_query]}
        return cls.from_labels(split.classes[is_query], split.classes[~is_query], **names)

    @classmethod
    def across_cameras(
        cls,
        query_labels: ArrayLike,
        gallery_labels: ArrayLike,
        *,
        query_cameras: ArrayLike,
        gallery_cameras: ArrayLike,
        item_ids: ArrayLike | None = None,
        query_ids: ArrayLike | None = None,
    ) -> Truth:
        """Build for person re-identification: items of the same person are relevant if another camera took them.

        Items of the same person and the same camera are ignored. So are items labelled -1, as a number or as text, for
        every query: images that do not show a whole person.
        """
        same = cls.from_labels(query_labels, gallery_labels, item_ids=item_ids, query_ids=query_ids)
        query_array, gallery_array = (
            _check_labels(query_cameras, "query_cameras"),
            _check_labels(gallery_cameras, "gallery_cameras"),
        )
        for name, cameras, count in (("query", query_array, len(same)), ("gallery", gallery_array, same.gallery_size)):
            if len(cameras) != count:
                raise InputError(
                    f"has {len(cameras)} entries but `{name}_labels` has {count}",
                    parameter=f"{name}_cameras",
                    remedy="give one each",
                )
        _check_comparable(query_array, gallery_array, "cameras")
        junk_mask = find_junk_labels(_check_labels(gallery_labels, "gallery_labels"))
        positives = same.positives.where(~junk_mask[same.positives.items])
        own = query_array[positives.owners] == gallery_array[positives.items]
        junk = positives.where(own).add_to_all(np.flatnonzero(junk_mask))
        usual = ("mAP", "CMC@1", "mINP")
        return dataclasses.replace(same, positives=positives.where(~own), junk=junk, usual_measures=usual)

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
        """Build from a ground truth file of the revisited Oxford and Paris benchmarks, or from its content.

        Positives | junk: easy (easy | junk + hard), medium (easy + hard | junk), hard (hard | junk + easy).
        `safe_pickle` reads the file and executes nothing. Items have the names of `imlist` as ids, queries those of
        `qimlist`; `item_ids` and `query_ids` give other ids, in the same order. If `distractors` follow the images in
        the gallery, which are relevant for no query, items are numbered, unless `item_ids` has ids for all of them.
        """
        if difficulty not in REVISITED:
            raise InputError(parameter="difficulty", given=difficulty, allowed=" | ".join(REVISITED))
        content = read_ground_truth(path_or_dict)
        right, ignored = (
            [[item for part in parts for item in entry[part]] for entry in content["gnd"]]
            for parts in REVISITED[difficulty]
        )
        images = len(content["imlist"])
        if item_ids is None and not distractors:
            item_ids = image_names(content, "imlist", images)
        try:
            truth = cls.from_lists(
                right,
                ignored,
                gallery_size=images + distractors,
                average_precision="trapezoidal",
                item_ids=item_ids,
                query_ids=image_names(content, "qimlist", len(right)) if query_ids is None else query_ids,
            )
        except InputError as error:
            if isinstance(path_or_dict, Mapping):
                raise
            raise error.within(os.fspath(path_or_dict)) from None
        return dataclasses.replace(truth, usual_measures=("mAP", "mP@10"))

    @classmethod
    def from_qrels(
        cls,
        source: str | os.PathLike[str] | Qrels,
        *,
        query_ids: Sequence[Any] | None = None,
        item_ids: Sequence[Any] | None = None,
        graded: bool = True,
    ) -> Truth:
        """Build from TREC judgements (lines `query 0 document relevance`, or query -> document -> relevance).

        Documents with a relevance above 0 are relevant. The relevance is the grade for nDCG, unless `graded` is False.
        Queries and documents are matched by id. For a ranking without ids, row or item number 7 has the id "7", counted
        from 0; `query_ids` and `item_ids` give other ids, all of them in the order of its rows and of the gallery. As
        in trec_eval, a document without judgement is not relevant, and a relevant one outside the gallery counts as not
        found. Equal repetitions of a judgement are allowed, contradictions are refused.
        """
        truth = cls(**read_judgements(source, query_ids, item_ids), usual_measures=("mAP", "nDCG@10"))
        return truth if graded else dataclasses.replace(truth, grades=None)

    def __len__(self) -> int:
        return len(self.positives)

    def __repr__(self) -> str:
        size = "unknown" if self.gallery_size is None else self.gallery_size
        empty = int((self.positives.counts == 0).sum())
        facts = f"{len(self)} queries, {empty} without positives, gallery of {size}, {self.average_precision}"
        return f"Truth({facts})"

    @property
    def item_ids(self) -> NDArray[Any] | None:
        """Ids of the items, by item number; None if they are numbered."""
        return None if self.items is None else self.items.ids

    @property
    def query_ids(self) -> NDArray[Any] | None:
        """Ids of the queries, in order; None if they are numbered by row."""
        return None if self.queries is None else self.queries.ids

    @property
    def span(self) -> int:
        """One more than the largest item number that can occur."""
        largest = max((int(lists.items.max(initial=-1)) for lists in (self.positives, self.junk)), default=-1)
        return max(largest + 1, self.gallery_size or 0, 1)

    def subset(self, queries: ArrayLike) -> Truth:
        """Return the truth of some queries, by number, in that order."""
        chosen = np.asarray(queries)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64)
        if chosen.ndim != 1 or (len(chosen) and not -len(self) <= chosen.min() <= chosen.max() < len(self)):
            raise InputError(
                parameter="queries", given=queries, allowed=f"numbers of queries from 0 to {len(self) - 1}, or a mask"
            )
        positives, where = self.positives.take(chosen)
        grades = None if self.grades is None else self.grades[where]
        naming = None if self.queries is None else IdTable(self.queries.ids[chosen])
        junk = self.junk.take(chosen)[0]
        return dataclasses.replace(self, positives=positives, junk=junk, grades=grades, queries=naming)


def find_junk_labels(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of labels that are -1, as a number or as text: images that do not show a whole person."""
    return np.asarray(labels.astype(str) == "-1" if labels.dtype.kind in "USO" else labels == -1, np.bool_)


def _pair_keys(lists: RaggedLists, span: int) -> Integers:
    return lists.owners * span + lists.items


def _build_id_table(ids: ArrayLike | None, parameter: str) -> IdTable | None:
    return None if ids is None else IdTable(parse_ids(ids, parameter))


def _check_comparable(query_array: NDArray[Any], gallery_array: NDArray[Any], what: str) -> None:
    """Refuse text on one side and numbers on the other, which are never equal."""
    kinds = {array.dtype.kind in "US" for array in (query_array, gallery_array) if array.size}
    if len(kinds) > 1:
        raise InputError(
            f"`query_{what}` has dtype {query_array.dtype} and `gallery_{what}` has {gallery_array.dtype}",
            remedy="give both as text or both as numbers",
        )


def _check_labels(labels: ArrayLike, name: str) -> NDArray[Any]:
    array = np.asarray(unwrap_masked_array(labels, name))
    if array.ndim != 1:
        raise InputError(f"has shape {array.shape}", parameter=name, allowed="a 1-d array, one label per item")
    if array.dtype.kind == "O":
        if not all(isinstance(label, str) for label in array):
            raise InputError("has objects of several types", parameter=name, allowed="all text or all numbers")
        array = array.astype(str)
    if array.dtype.kind == "f" and np.isnan(array).any():
        position = int(np.flatnonzero(np.isnan(array))[0])
        raise InputError(f"contains NaN at position {position}", parameter=name, remedy="drop or replace it")
    return array
