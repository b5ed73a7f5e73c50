"""FaissIndexStore: a FAISS index that is already there, with the vectors in it -> a Store. Extra `[faiss]`."""

from __future__ import annotations

import math
from threading import Lock
from typing import Any

import numpy as np

from kinrank.deferred import needed
from kinrank.features import Vectors
from kinrank.space import METRICS, check_metric
from kinrank.stores.address import Address
from kinrank.stores.faiss_parts import part_of
from kinrank.stores.labelled import Found, LabelledStore
from kinrank.stores.labels import Labels, file_of

PROBED = 64  # items whose vectors are looked at when a store is opened
FULL, ROUNDED = (0.999, 1.001), (0.3, 1.5)  # lengths of unit vectors that come back as they were, or approximately
LIMIT = "deserialization_vector_byte_limit"
TABLES = 2**31  # bytes that FAISS may set aside for tables that are in no file
_reading = Lock()


class FaissIndexStore(LabelledStore):
    """The vectors of a `faiss.Index`: flat, IVF, HNSW, PQ, SQ and others, also behind an IDMap or a PreTransform.

    Vectors come out of the index. Where it keeps codes (PQ, SQ), or fewer dimensions, they are what it makes of these:
    near to what was added, not the same. For an index that gives no vectors back there is `FaissStore.from_index`.

    Filters (`where`): a list of ids, or a mask of all items in the order of their ids. Ids that are not there match
    nothing.

    Args:
        index: by L2, or by inner product over vectors of length one. It is not changed.
        metric: "cosine" for an L2 index over vectors of length one. Left out: "euclidean" for L2, "cosine" for inner
            product.
    """

    _number = np.int64

    def __init__(self, index: Any, *, metric: str | None = None) -> None:
        faiss = needed("faiss", "FaissIndexStore", "faiss")
        if isinstance(index, faiss.IndexBinary):
            raise ValueError(f"index is an {type(index).__name__}, which compares bits; give an index of float vectors")
        if not isinstance(index, faiss.Index):
            raise ValueError(f"index must be a faiss.Index; got {type(index).__name__}")
        if not index.is_trained:
            raise ValueError("index is not trained; call index.train and index.add first")
        self._faiss, self._index = faiss, faiss.downcast_index(index)
        self._given = index  # whoever made it may hold only this one
        self._inner = index.metric_type == faiss.METRIC_INNER_PRODUCT
        if not self._inner and index.metric_type != faiss.METRIC_L2:
            raise ValueError(
                f"index compares by metric {index.metric_type} of FAISS; kinrank knows L2 and inner product"
            )
        self.dimensions = int(index.d)
        self.metric = METRICS[0 if self._inner else 1] if metric is None else check_metric(metric)
        if self._inner and self.metric == METRICS[1]:
            raise ValueError("index compares by inner product, not by distance; give an L2 index, or the metric cosine")
        self._part = part_of(faiss, self._index)
        self.exact = self._part.exact
        self._lengths = None if self.metric == METRICS[1] else FULL if self._part.full else ROUNDED
        self._says = "compares by inner product" if self._inner else "was opened with metric='cosine'"
        try:
            self._checked(np.sort(self._part.ids()[:PROBED]))
        except RuntimeError as error:
            raise ValueError(
                f"index, an {type(self._index).__name__}, gives no vectors back; keep them beside it: "
                "FaissStore.from_index(index, vectors)"
            ) from error

    @classmethod
    def at(cls, address: Address) -> FaissIndexStore:
        """The store over faiss:index.faiss, a file that `faiss.write_index` wrote; metric=cosine for unit vectors."""
        options = address.only("metric")
        path, faiss = file_of(address), needed("faiss", "FaissIndexStore", "faiss")
        limit = getattr(faiss, f"get_{LIMIT}", None)
        with _reading:
            before = None if limit is None else limit()
            try:
                if before is not None:  # a broken file may ask for any amount of memory
                    getattr(faiss, f"set_{LIMIT}")(min(before, path.stat().st_size + TABLES))
                index = faiss.read_index(str(path))
            except (RuntimeError, MemoryError) as error:
                said = " ".join(str(error).split()).split("Error: ")[-1][:200]
                raise ValueError(f"{path} is no index of FAISS, or is cut off ({said})") from error
            finally:
                if before is not None:
                    getattr(faiss, f"set_{LIMIT}")(before)
        return cls(index, metric=options.get("metric"))

    def __repr__(self) -> str:
        return f"FaissIndexStore({type(self._index).__name__})"

    def _near(self, rows: Vectors, k: int) -> list[Found]:
        wide = _effort(self._faiss, self._index, k)
        gaps, labels = self._index.search(rows, k) if wide is None else self._index.search(rows, k, params=wide)
        there = labels != -1  # -1 is what FAISS fills up with
        gaps[~there] = 0.0
        lengths = 2.0 - 2.0 * gaps if self._inner else gaps
        lengths = np.sqrt(np.maximum(lengths, 0.0))
        return [(names[some], far[some]) for names, far, some in zip(labels, lengths, there, strict=True)]

    def _held(self, labels: Labels) -> tuple[Labels, Vectors]:
        there, rows = self._part.rows(labels)
        return labels[there], rows

    def _labels(self) -> Labels:
        return np.sort(self._part.ids())

    def _most(self) -> int:
        return int(self._index.ntotal)


def _effort(faiss: Any, index: Any, k: int) -> Any:
    """Parameters with which a search can find k items; None where the index is set up for that."""
    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexIDMap):
        return _effort(faiss, index.index, k)
    if isinstance(index, faiss.IndexPreTransform):
        inner = _effort(faiss, index.index, k)
        return None if inner is None else faiss.SearchParametersPreTransform(index_params=inner)
    if isinstance(index, faiss.IndexRefine):
        inner = _effort(faiss, index.base_index, math.ceil(k * index.k_factor))
        wide = {"k_factor": index.k_factor, "base_index_params": inner}
        return None if inner is None else faiss.IndexRefineSearchParameters(**wide)
    if isinstance(index, faiss.IndexHNSW):
        return faiss.SearchParametersHNSW(efSearch=k) if index.hnsw.efSearch < k else None
    if isinstance(index, faiss.IndexIVF):  # so many lists that twice as many items should be in them
        probes = min(index.nlist, math.ceil(2 * k * index.nlist / max(1, index.ntotal)))
        if index.nprobe < probes:
            return faiss.SearchParametersIVF(nprobe=probes, max_codes=index.max_codes)
    return None
