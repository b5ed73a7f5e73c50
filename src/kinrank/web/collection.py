"""Collection: cards of items and queries, their search, and their relevance, from files in addition to the vectors."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from kinrank import vector_input
from kinrank.display.display import Display, ItemTexts
from kinrank.display.thumbnails import Pictures
from kinrank.errors import InputError
from kinrank.evaluation.relevance import LABELS, Relevance, load_truth_levels
from kinrank.files.text_columns import read_label_column, read_names
from kinrank.files.vector_files import split_key
from kinrank.web.settings import Files

Card = dict[str, Any]
Places = NDArray[np.int32]
MAX_SEARCH_CHARACTERS = 200
MAX_CACHED_SEARCHES = 8  # for clients that turn the page
MAX_FOLDERS = 1000  # to choose from


class ItemIndex:
    """Entries and their searchable texts.

    Args:
        entries: the entry at each position, such as an id.
        texts: one searchable text per entry, in lower case by `str.casefold`.
        names: one name per entry, whose part before the last "/" is a folder.

    Attributes:
        folders: folder -> the positions of the entries in it and in its subfolders, sorted by name.
    """

    def __init__(self, entries: list[Any], texts: list[str], names: Sequence[str] = ()) -> None:
        self._entries, self._texts, self.folders = entries, texts, _group_by_folder(names)
        self._cache: dict[tuple[str, int | None], Places] = {}
        self._lock = threading.Lock()

    def get_page(
        self, words: str, offset: int, limit: int, seed: int | None, folder: str = ""
    ) -> tuple[list[Any], int]:
        """Return entries `offset` to `offset + limit` of those that contain all words, and the number of all these.

        With a seed they are in a random order, which is always the same for one seed; with a folder only those in it.
        """
        places = self._search(words[:MAX_SEARCH_CHARACTERS].casefold(), seed)
        if folder:
            places = places[np.isin(places, self.folders.get(folder, []))]
        offset = max(offset, 0)
        return [self._entries[place] for place in places[offset : offset + max(limit, 0)].tolist()], len(places)

    def _search(self, words: str, seed: int | None) -> Places:
        cached = self._cache.get((words, seed))
        if cached is not None:
            return cached
        if seed is not None:
            shuffle = np.random.default_rng(abs(seed)).permutation
            places: Places = shuffle(self._search(words, None))
        else:
            places = self._match(words.split())
        with self._lock:
            while len(self._cache) >= MAX_CACHED_SEARCHES:
                del self._cache[next(iter(self._cache))]
            self._cache[words, seed] = places
        return places

    def _match(self, words: list[str]) -> Places:
        if not words:
            return np.arange(len(self._texts), dtype=np.int32)
        first, *rest = sorted(words, key=len, reverse=True)  # the longest word has the fewest matches
        places = [place for place, text in enumerate(self._texts) if first in text]
        for word in rest:
            places = [place for place in places if word in self._texts[place]]
        return np.array(places, np.int32)


def _group_by_folder(names: Sequence[str]) -> dict[str, Places]:
    found: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        folder = name.rpartition("/")[0]
        while folder:
            found.setdefault(folder, []).append(place)
            folder = folder.rpartition("/")[0]
        if len(found) > MAX_FOLDERS:
            return {}
    return {folder: np.array(places, np.int32) for folder, places in sorted(found.items())}


class Collection:
    """Everything known about items and queries apart from their vectors. Thread-safe.

    Items are identified by their ids. Of an item that was added later only a picture with its name can be known.

    Attributes:
        queries: (q, d) vectors of queries to choose from; None if there are none.
        item_display, query_display: names, labels, texts and pictures, by id and by number.
        relevance: which items are right for a query, by ground truth or labels.
        has: which of pictures, texts, labels, truth and queries exist.

    Example:
        >>> collection = Collection.open(Files(images="photos", labels="labels.txt"), manifold.ids, cache)
        >>> collection.card("beach_17")["label"]
        'beach'
    """

    def __init__(
        self, files: Files, order: Sequence[str], numbered: bool, cache: str | os.PathLike[str] | None
    ) -> None:
        """Create the collection. Use `open` instead."""
        label_file, truth_file = _split_labels_and_truth(files)
        texts, labels = ItemTexts(files.texts, order), {}
        if label_file is not None:
            labels = read_label_column(*split_key(label_file)).by_id(order, label_file, "label")
        self.queries = None
        if files.queries is not None:
            self.queries = vector_input.check_vectors(vector_input.load(files.queries), "queries")
        self._query_count = count = 0 if self.queries is None else len(self.queries)
        query_names = None if files.query_names is None else read_names(Path(files.query_names))
        _check_one_each(files.query_names, query_names, count, "names")
        query_labels = None
        if files.query_labels is not None:
            query_labels = read_label_column(*split_key(files.query_labels)).values
        _check_one_each(files.query_labels, query_labels, count, "labels")
        truth = None if truth_file is None else load_truth_levels(Path(truth_file), order, count, query_names)
        self.relevance = Relevance({} if truth is None else truth.levels, count, order, labels, query_labels)
        pictures = None if files.images is None else Pictures.open(files.images, cache)
        names: dict[str, str] = {}
        if truth is not None and truth.item_names is not None and numbered:
            names = dict(zip(order, truth.item_names, strict=True))
        elif pictures is not None and numbered:
            names = _match_in_order(pictures, order)
        query_names = query_names or (truth and truth.query_names) or []
        self.item_display = Display("item", names, texts, labels, pictures)
        self.query_display = Display(
            "query", dict(enumerate(query_names)), {}, dict(enumerate(query_labels or ())), pictures
        )
        self.has = {
            "pictures": pictures is not None,
            "texts": bool(texts),
            "labels": bool(labels),
            "truth": bool(self.relevance.levels),
            "queries": count > 0,
        }
        self._index_lock = threading.Lock()
        self._index: tuple[NDArray[Any], ItemIndex] | None = None
        self._searchable: dict[str, str] = {name: self._to_searchable(self.card(name)) for name in order}
        query_texts = [self._to_searchable(self.query_card(number)) for number in range(count)]
        self._query_index = ItemIndex(list(range(count)), query_texts)

    @classmethod
    def open(cls, files: Files, ids: NDArray[Any], cache: str | os.PathLike[str] | None) -> Collection:
        """Read the files.

        Args:
            files: see `Files`; entries without ids are in the order of `files.ids`, or of `ids` if that is not given.
            ids: ids of the items, as `manifold.ids`.
            cache: folder for thumbnails; None for none.
        """
        order = [str(name) for name in ids.tolist()]
        if files.ids is not None:
            order = [str(name) for name in json.loads(Path(files.ids).read_bytes())]
        return cls(files, order, ids.dtype.kind != "O", cache)

    def card(self, item: Any) -> Card:
        """Return what is shown of an item: id, name, label, text, URL of its picture; None for unknown fields."""
        name = str(item)
        address = None if name in (".", "..") else f"pictures/item/{quote(name, safe='')}"  # browsers cannot ask these
        return {"id": item, **_describe(self.item_display, name, address)}

    def query_card(self, number: int) -> Card:
        """Return what is shown of a query, with its number instead of an id."""
        if not 0 <= number < self._query_count:
            raise InputError(f"query {number!r} does not exist; there are {self._query_count}, counted from 0")
        return {"number": number, **_describe(self.query_display, number, f"pictures/query/{number}")}

    def items(
        self, ids: NDArray[Any], words: str, offset: int, limit: int, seed: int | None, folder: str = ""
    ) -> tuple[list[Card], int]:
        """Return cards of some items, and the number of all that match.

        Args:
            ids: ids of the current items, as `manifold.ids`.
            words: words that must all occur in the name, the label or the text, in upper or lower case.
            offset, limit: part of the matches to return.
            seed: seed of a random order; None for the order of `ids`.
            folder: part of their names before a "/"; "" for all.
        """
        entries, total = self._get_index(ids).get_page(words, offset, limit, seed, folder)
        return [self.card(item) for item in entries], total

    def folders(self, ids: NDArray[Any]) -> list[Card]:
        """Return the folders in the names of the items, with their numbers of items; none if there are too many."""
        folders = self._get_index(ids).folders
        return [{"name": name, "items": len(places)} for name, places in folders.items()]

    def query_items(self, words: str, offset: int, limit: int, seed: int | None) -> tuple[list[Card], int]:
        """Return cards of some queries, and the number of all that match."""
        numbers, total = self._query_index.get_page(words, offset, limit, seed)
        return [self.query_card(number) for number in numbers], total

    def picture(self, item: Any, size: int) -> tuple[bytes, str] | None:
        """Return the picture of an item and its media type; None if it has none, an InputError if it is broken."""
        return self.item_display.picture(str(item), size)

    def query_picture(self, number: int, size: int) -> tuple[bytes, str] | None:
        """Return the picture of a query and its media type; None if it has none, an InputError if it is broken."""
        return self.query_display.picture(number, size) if 0 <= number < self._query_count else None

    def _get_index(self, ids: NDArray[Any]) -> ItemIndex:
        """Return the index of these items; it is rebuilt only if they have changed."""
        with self._index_lock:
            if self._index is None or not _has_same_ids(self._index[0], ids):
                names = [str(item) for item in ids.tolist()]
                texts = [self._searchable.get(name, name.casefold()) for name in names]
                self._index = ids, ItemIndex(ids.tolist(), texts, [self.item_display.name(name) for name in names])
            return self._index[1]

    @staticmethod
    def _to_searchable(card: Card) -> str:
        return "\n".join(card[part] for part in ("name", "label", "text") if card[part]).casefold()


def _has_same_ids(known: NDArray[Any], ids: NDArray[Any]) -> bool:
    return known is ids or (known.dtype == ids.dtype and np.array_equal(known, ids))


def _split_labels_and_truth(files: Files) -> tuple[str | None, str | None]:
    """Return the files of labels and of truth; labels given as truth are labels."""
    if files.truth is None or split_key(files.truth)[0].suffix.lower() not in LABELS:
        return files.labels, files.truth
    if files.labels is not None:
        raise InputError(f"{files.truth} and {files.labels} both contain labels of the items; give only one of them")
    return files.truth, None


def _describe(display: Display, key: Any, address: str | None) -> Card:
    """Return the fields of a card; `address` is the URL of the picture, if there is one."""
    return {
        "name": display.name(key),
        "label": display.labels.get(key),
        "text": display.texts.get(key),
        "picture": None if address is None or display.find_entry(key) is None else address,
    }


def _check_one_each(path: str | None, entries: Sequence[str] | None, count: int, what: str) -> None:
    """Raise an InputError unless there is one entry per query, or no file."""
    if entries is not None and len(entries) != count:
        raise InputError(f"{path} has {len(entries)} {what}, but there are {count} queries; give one for each")


def _match_in_order(pictures: Pictures, order: Sequence[str]) -> dict[str, str]:
    """Match numbered items with pictures in order, if there are as many pictures as items."""
    if len(pictures.names) != len(order) or all(pictures.find(name) is not None for name in order):
        return {}
    return dict(zip(order, pictures.names, strict=True))
