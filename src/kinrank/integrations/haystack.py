"""KinrankRanker: a Haystack component that re-ranks retrieved documents by their vectors. Extra `[haystack]`."""

# No `from __future__ import annotations`: older versions of Haystack cannot read the types of `run` from strings.
import asyncio
from dataclasses import replace
from typing import Any

from kinrank.integrations.document_order import MethodInput, check_settings, order_documents, serialize_method
from kinrank.lazy_import import require_extra
from kinrank.methods import TEXT_METHOD

with require_extra("haystack-ai", "KinrankRanker", "haystack"):
    from haystack import Document, component, default_from_dict, default_to_dict

NO_QUERY = "connect query_embedding with the embedding of a text embedder, or give a list of numbers"
NO_VECTOR = "let the retriever return vectors (return_embedding=True), or embed the documents first"


@component
class KinrankRanker:
    """A ranker that re-ranks along the manifold of the retrieved documents.

    It reads `document.embedding` and embeds nothing. Retrievers return vectors with `return_embedding=True`.

    It returns copies of the documents with a new `score`, best first. Larger scores are better; they are comparable
    within one query only.

    Example:
        >>> ranker = KinrankRanker(top_n=10)
        >>> ranker.run(documents=found, query_embedding=vector)["documents"]
    """

    def __init__(
        self,
        method: MethodInput = TEXT_METHOD,
        top_n: int | None = None,
        metric: str = "cosine",
        keep_retrieval_score: bool = False,
    ) -> None:
        """Create a component for pipelines. It keeps no state between queries.

        Args:
            method: a Method or its name; LPMT(answers="one") by default, which expects one right document per query.
            top_n: number of documents to return; all by default.
            metric: "cosine", or "euclidean" if the length of vectors matters.
            keep_retrieval_score: keep the score of the search as `meta["retrieval_score"]`.
        """
        check_settings(method, top_n, metric)
        self.method, self.top_n, self.metric = method, top_n, metric
        self.keep_retrieval_score = keep_retrieval_score

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a saved pipeline."""
        chosen = {name: getattr(self, name) for name in ("top_n", "metric", "keep_retrieval_score")}
        values: dict[str, Any] = default_to_dict(self, method=serialize_method(self.method), **chosen)
        return values

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "KinrankRanker":
        """Create the component from the result of `to_dict`."""
        made: KinrankRanker = default_from_dict(cls, data)
        return made

    @component.output_types(documents=list[Document])
    def run(
        self, documents: list[Document], query_embedding: list[float], top_n: int | None = None
    ) -> dict[str, list[Document]]:
        """Return copies of the documents, best first.

        Args:
            documents: documents with embeddings, in the order of the search.
            query_embedding: vector of the query.
            top_n: number of documents to return; by default that of the component.
        """
        order = order_documents(
            query_embedding,
            [document.embedding for document in documents],
            self.method,
            self.top_n if top_n is None else top_n,
            self.metric,
            no_query=NO_QUERY,
            no_vector=NO_VECTOR,
        )
        return {"documents": [self._set_score(documents[place], score) for place, score in zip(*order, strict=True)]}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, documents: list[Document], query_embedding: list[float], top_n: int | None = None
    ) -> dict[str, list[Document]]:
        """Call `run` in a thread."""
        return await asyncio.to_thread(self.run, documents, query_embedding, top_n)

    def _set_score(self, document: Document, score: float) -> Document:
        before = {"retrieval_score": document.score} if self.keep_retrieval_score else {}
        return replace(document, score=score, meta={**document.meta, **before})
