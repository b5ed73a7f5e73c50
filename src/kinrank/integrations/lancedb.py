"""Rows that a LanceDB search found -> the same, re-ranked by their vectors. Extra `[lancedb]`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinrank.integrations.methods import HowTo
from kinrank.integrations.order import ordered, settings

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    from lancedb.rerankers import Reranker
except ImportError as error:
    raise ImportError(
        f"KinrankReranker needs LanceDB, which cannot be imported ({error}); install it with: "
        "pip install 'kinrank[lancedb]'"
    ) from error

ROW, SCORE = "_rowid", "_relevance_score"
NO_QUERY = "give query_vector=, a list of numbers or a function from the text of a query to them"
SEARCHED = ("_distance", "_score")  # what vector and full text search attach


class KinrankReranker(Reranker):
    """A reranker that works along the manifold of the rows that were found, by vector, full text or both.

    LanceDB hands a reranker the text of the query only, so it is given the vector of the query when it is made, or a
    function that finds it. The rows must come with their vectors: a `select` has to name the column.

    Rows come out best first with `_relevance_score`: larger is better, for the rows of one query only.

    Example:
        >>> reranker = KinrankReranker(vector, column="vector", top_n=10)
        >>> table.search(vector).limit(200).rerank(reranker, query_string="").to_arrow()
    """

    def __init__(
        self,
        query_vector: ArrayLike | Callable[[str], Any],
        column: str = "vector",
        method: HowTo = "lpmt",
        top_n: int | None = None,
        metric: str = "cosine",
        return_score: str = "relevance",
    ) -> None:
        """A reranker for one query, or for all where `query_vector` is a function.

        Args:
            query_vector: (d,) numbers, or a function that takes the text of the query and returns them.
            column: the column of the table that holds the vectors.
            method: a Method, or its name; LPMT unless given.
            top_n: how many rows to return; all of them unless given.
            metric: "cosine", or "euclidean" where the length of vectors matters.
            return_score: "relevance", or "all" to keep `_distance` and `_score` of the searches, too.
        """
        settings(method, top_n, metric)
        super().__init__(return_score)
        if query_vector is None:
            raise ValueError(f"the query has no vector; {NO_QUERY}")
        self.query_vector, self.column = query_vector, column
        self.method, self.top_n, self.metric = method, top_n, metric

    def rerank_vector(self, query: str, vector_results: pa.Table) -> pa.Table:
        """The rows of a vector search, best first."""
        return self._ranked(query, vector_results)

    def rerank_fts(self, query: str, fts_results: pa.Table) -> pa.Table:
        """The rows of a full text search, best first."""
        return self._ranked(query, fts_results)

    def rerank_hybrid(self, query: str, vector_results: pa.Table, fts_results: pa.Table) -> pa.Table:
        """The rows that either search found, each once, best first."""
        return self._ranked(query, _joined(vector_results, fts_results))

    def _ranked(self, query: str, rows: pa.Table) -> pa.Table:
        rows = _each_once(rows)
        if len(rows) and self.column not in rows.column_names:
            raise ValueError(
                f"column={self.column!r} is not among the columns found ({', '.join(rows.column_names)}); give the one "
                "that holds the vectors, and name it in select()"
            )
        vectors = list(rows[self.column].to_numpy()) if len(rows) else []
        asked = self.query_vector(query) if callable(self.query_vector) else self.query_vector
        places, scores = ordered(
            asked, vectors, self.method, self.top_n, self.metric,
            no_query=NO_QUERY,
            no_vector=f"only rows with a value in the column {self.column!r} can be re-ranked: filter the others out",
        )  # fmt: skip
        rows = rows.take(pa.array(places, pa.int64())).append_column(SCORE, pa.array(scores, pa.float32()))
        left_out = [] if self.score == "all" else [name for name in SEARCHED if name in rows.column_names]
        return rows.drop_columns(left_out)


def _joined(by_vector: pa.Table, by_text: pa.Table) -> pa.Table:
    """The rows of both searches, those of the first before the others, with what each search says of them."""
    for rows in (by_vector, by_text):
        if len(rows) and ROW not in rows.column_names:
            raise ValueError(
                f"the rows found have no column {ROW} to join them by; add .with_row_id(True) to the search"
            )
    rows = _each_once(pa.concat_tables([by_vector, by_text], promote_options="default"))
    if len(by_text) and "_score" in by_text.column_names:  # a row that both found was taken from the first
        found = pc.index_in(rows[ROW], value_set=by_text[ROW].combine_chunks())
        scores = by_text["_score"].combine_chunks().take(found.combine_chunks())
        rows = rows.set_column(rows.column_names.index("_score"), "_score", scores)
    return rows


def _each_once(rows: pa.Table) -> pa.Table:
    """The rows without repeated ones, where they can be told apart; the first of each stays."""
    if ROW not in rows.column_names:
        return rows
    first = np.unique(rows[ROW].to_numpy(), return_index=True)[1]
    return rows if len(first) == len(rows) else rows.take(pa.array(np.sort(first)))
