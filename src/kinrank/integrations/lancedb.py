"""KinrankReranker: a LanceDB reranker that re-ranks search results by their vectors. Extra `[lancedb]`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinrank.errors import InputError
from kinrank.integrations.document_order import MethodInput, check_settings, order_documents
from kinrank.lazy_import import require_extra

with require_extra("LanceDB", "KinrankReranker", "lancedb"):
    import pyarrow as pa
    import pyarrow.compute as pc
    from lancedb.rerankers import Reranker

ROW_ID, RELEVANCE_SCORE = "_rowid", "_relevance_score"
NO_QUERY = "give `query_vector`, a list of numbers or a function from the text of a query to its vector"
SCORE_COLUMNS = ("_distance", "_score")  # columns that vector and full-text search add


class KinrankReranker(Reranker):
    """A reranker that re-ranks along the manifold of the rows of a vector, full-text or hybrid search.

    LanceDB passes only the text of the query to a reranker, so the constructor takes the vector of the query or a
    function that returns it. The rows must contain their vectors: a `select` has to include the column.

    It returns rows best first with `_relevance_score`. Larger scores are better; they are comparable within one query
    only.

    Example:
        >>> reranker = KinrankReranker(vector, column="vector", top_n=10)
        >>> table.search(vector).limit(200).rerank(reranker, query_string="").to_arrow()
    """

    def __init__(
        self,
        query_vector: ArrayLike | Callable[[str], Any],
        column: str = "vector",
        method: MethodInput = "lpmt",
        top_n: int | None = None,
        metric: str = "cosine",
        return_score: str = "relevance",
    ) -> None:
        """Create a reranker for one query, or for all queries if `query_vector` is a function.

        Args:
            query_vector: (d,) numbers, or a function that takes the text of the query and returns them.
            column: name of the vector column of the table.
            method: a Method or its name; LPMT by default.
            top_n: number of rows to return; all by default.
            metric: "cosine", or "euclidean" if the length of vectors matters.
            return_score: "relevance", or "all" to keep `_distance` and `_score` of the searches as well.
        """
        check_settings(method, top_n, metric)
        super().__init__(return_score)
        if query_vector is None:
            raise InputError("the query has no vector", remedy=NO_QUERY)
        self.query_vector, self.column = query_vector, column
        self.method, self.top_n, self.metric = method, top_n, metric

    def rerank_vector(self, query: str, vector_results: pa.Table) -> pa.Table:
        """Re-rank the rows of a vector search."""
        return self._rank(query, vector_results)

    def rerank_fts(self, query: str, fts_results: pa.Table) -> pa.Table:
        """Re-rank the rows of a full-text search."""
        return self._rank(query, fts_results)

    def rerank_hybrid(self, query: str, vector_results: pa.Table, fts_results: pa.Table) -> pa.Table:
        """Re-rank the rows of both searches, without duplicates."""
        return self._rank(query, _join_results(vector_results, fts_results))

    def _rank(self, query: str, rows: pa.Table) -> pa.Table:
        rows = _drop_duplicates(rows)
        if len(rows) and self.column not in rows.column_names:
            raise InputError(
                f"is not among the columns of the result ({', '.join(rows.column_names)})",
                parameter="column",
                given=self.column,
                allowed="the vector column, and include it in select()",
            )
        vectors = list(rows[self.column].to_numpy()) if len(rows) else []
        vector = self.query_vector(query) if callable(self.query_vector) else self.query_vector
        places, scores = order_documents(
            vector,
            vectors,
            self.method,
            self.top_n,
            self.metric,
            no_query=NO_QUERY,
            no_vector=f"filter out rows without a value in the column {self.column!r}",
        )
        rows = rows.take(pa.array(places, pa.int64())).append_column(RELEVANCE_SCORE, pa.array(scores, pa.float32()))
        dropped = [] if self.score == "all" else [name for name in SCORE_COLUMNS if name in rows.column_names]
        return rows.drop_columns(dropped)


def _join_results(by_vector: pa.Table, by_text: pa.Table) -> pa.Table:
    """Join the rows of both searches, those of the vector search first, with the scores of each."""
    for rows in (by_vector, by_text):
        if len(rows) and ROW_ID not in rows.column_names:
            raise InputError(
                f"the results have no column {ROW_ID} to join them by", remedy="add .with_row_id(True) to the search"
            )
    rows = _drop_duplicates(pa.concat_tables([by_vector, by_text], promote_options="default"))
    if len(by_text) and "_score" in by_text.column_names:  # a row of both searches was taken from the first one
        found = pc.index_in(rows[ROW_ID], value_set=by_text[ROW_ID].combine_chunks())
        scores = by_text["_score"].combine_chunks().take(found.combine_chunks())
        rows = rows.set_column(rows.column_names.index("_score"), "_score", scores)
    return rows


def _drop_duplicates(rows: pa.Table) -> pa.Table:
    """Drop repeated rows, if the table has row ids; keep the first of each."""
    if ROW_ID not in rows.column_names:
        return rows
    first = np.unique(rows[ROW_ID].to_numpy(), return_index=True)[1]
    return rows if len(first) == len(rows) else rows.take(pa.array(np.sort(first)))
