"""Documents that a Haystack retriever found -> the same, re-ranked by their vectors. Extra `[haystack]`."""

# No `from __future__ import annotations`: Haystack reads the types of `run`, and older versions cannot as texts.
import asyncio
from dataclasses import replace
from typing import Any

from kinrank.integrations.methods import HowTo, method_in_words
from kinrank.integrations.order import ordered, settings

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ImportError as error:
    raise ImportError(
        f"KinrankRanker needs haystack-ai, which cannot be imported ({error}); install it with: "
        "pip install 'kinrank[haystack]'"
    ) from error

NO_QUERY = "connect query_embedding with the embedding of a text embedder, or give a list of numbers"
NO_VECTOR = "let the retriever return vectors (return_embedding=True), or embed the documents first"


@component
class KinrankRanker:
    """A ranker that works along the manifold of the documents that were found.

    It reads `document.embedding` and embeds nothing; retrievers return vectors when told so (`return_embedding=True`).

    What comes out are copies of the documents with a new `score`, best first. Larger is better, for the documents of
    one query only.

    Example:
        >>> ranker = KinrankRanker(top_n=10)
        >>> ranker.run(documents=found, query_embedding=vector)["documents"]
    """

    def __init__(
        self,
        method: HowTo = "lpmt",
        top_n: int | None = None,
        metric: str = "cosine",
        keep_retrieval_score: bool = False,
    ) -> None:
        """A component for pipelines; it keeps nothing between queries.

        Args:
            method: a Method, or its name; LPMT unless given.
            top_n: how many documents to return; all of them unless given.
            metric: "cosine", or "euclidean" where the length of vectors matters.
            keep_retrieval_score: whether the score of the search stays with the document, as
                `meta["retrieval_score"]`.
        """
        settings(method, top_n, metric)
        self.method, self.top_n, self.metric = method, top_n, metric
        self.keep_retrieval_score = keep_retrieval_score

    def to_dict(self) -> dict[str, Any]:
        """What a saved pipeline holds of it: plain values only."""
        chosen = {name: getattr(self, name) for name in ("top_n", "metric", "keep_retrieval_score")}
        words: dict[str, Any] = default_to_dict(self, method=method_in_words(self.method), **chosen)
        return words

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "KinrankRanker":
        """The component that `to_dict` was asked of."""
        made: KinrankRanker = default_from_dict(cls, data)
        return made

    @component.output_types(documents=list[Document])
    def run(
        self, documents: list[Document], query_embedding: list[float], top_n: int | None = None
    ) -> dict[str, list[Document]]:
        """Copies of the documents, best first.

        Args:
            documents: with their embedding, in the order of the search.
            query_embedding: the vector of the query.
            top_n: how many to return; what the component was made with unless given.
        """
        order = ordered(
            query_embedding, [document.embedding for document in documents], self.method,
            self.top_n if top_n is None else top_n, self.metric, no_query=NO_QUERY, no_vector=NO_VECTOR,
        )  # fmt: skip
        return {"documents": [self._scored(documents[place], score) for place, score in zip(*order, strict=True)]}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, documents: list[Document], query_embedding: list[float], top_n: int | None = None
    ) -> dict[str, list[Document]]:
        """The same, in a thread."""
        return await asyncio.to_thread(self.run, documents, query_embedding, top_n)

    def _scored(self, document: Document, score: float) -> Document:
        before = {"retrieval_score": document.score} if self.keep_retrieval_score else {}
        return replace(document, score=score, meta={**document.meta, **before})
