"""KinrankCompressor: a LangChain compressor that re-ranks retrieved documents by their vectors. Extra `[langchain]`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kinrank.errors import InputError
from kinrank.integrations.document_order import MethodInput, check_settings, fill_missing, find_missing, order_documents
from kinrank.lazy_import import require_extra
from kinrank.methods import TEXT_METHOD

with require_extra("langchain-core", "KinrankCompressor", "langchain"):
    from langchain_core.callbacks import Callbacks
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.runnables import run_in_executor
    from pydantic import ConfigDict

NO_QUERY = "give `embeddings`, or `query_vector`, a function from the text of a query to its vector"
NO_VECTOR = (
    "give `embeddings`, or `vectors`, a function from a document to its vector or the metadata field that holds it"
)


class KinrankCompressor(BaseDocumentCompressor):
    """A document compressor that re-ranks along the manifold of the retrieved documents.

    LangChain documents contain no vectors. `embeddings` embeds the documents and the query. If vectors already exist,
    `vectors` and `query_vector` return them, so that nothing is embedded twice.

    It returns copies of the documents, best first, with `metadata["relevance_score"]`. Larger scores are better; they
    are comparable within one query only.

    Example:
        >>> compressor = KinrankCompressor(embeddings, top_n=10)
        >>> documents = compressor.compress_documents(store.similarity_search(query, k=200), query)
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    embeddings: Embeddings | None
    vectors: Callable[[Document], Any] | str | None
    query_vector: Callable[[str], Any] | None
    method: Any
    top_n: int | None
    metric: str

    def __init__(
        self,
        embeddings: Embeddings | None = None,
        *,
        vectors: Callable[[Document], Any] | str | None = None,
        query_vector: Callable[[str], Any] | None = None,
        method: MethodInput = TEXT_METHOD,
        top_n: int | None = None,
        metric: str = "cosine",
    ) -> None:
        """Create a compressor. It keeps no state between queries.

        Args:
            embeddings: model that embeds the query, and documents without another vector.
            vectors: name of the metadata field that contains the vector of a document, or a function that takes the
                document and returns its vector or None.
            query_vector: function that takes the text of the query and returns its vector.
            method: a Method or its name; LPMT(answers="one") by default, which expects one right document per query.
            top_n: number of documents to return; all by default.
            metric: "cosine", or "euclidean" if the length of vectors matters.
        """
        check_settings(method, top_n, metric)
        if embeddings is None and query_vector is None:
            raise InputError("there is no source of query vectors", remedy=NO_QUERY)
        if embeddings is None and vectors is None:
            raise InputError("there is no source of document vectors", remedy=NO_VECTOR)
        fields: dict[str, Any] = {"embeddings": embeddings, "vectors": vectors, "query_vector": query_vector}
        fields |= {"method": method, "top_n": top_n, "metric": metric}
        super().__init__(**fields)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Return copies of the `top_n` best documents, best first."""
        vectors, query_vector = self._existing_vectors(documents, query)
        if self.embeddings is not None and documents:
            texts = [documents[place].page_content for place in find_missing(vectors)]
            vectors = fill_missing(vectors, self.embeddings.embed_documents(texts) if texts else [])
            query_vector = self.embeddings.embed_query(query) if query_vector is None else query_vector
        return self._rank(documents, query_vector, vectors)

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Re-rank asynchronously: await the model, and re-rank in a thread."""
        vectors, query_vector = self._existing_vectors(documents, query)
        if self.embeddings is not None and documents:
            texts = [documents[place].page_content for place in find_missing(vectors)]
            vectors = fill_missing(vectors, await self.embeddings.aembed_documents(texts) if texts else [])
            query_vector = await self.embeddings.aembed_query(query) if query_vector is None else query_vector
        ranked: list[Document] = await run_in_executor(None, self._rank, documents, query_vector, vectors)
        return ranked

    def _existing_vectors(self, documents: Sequence[Document], query: str) -> tuple[list[Any], Any]:
        """Return the existing vectors of the documents and of the query; None for those that must be embedded."""
        where = self.vectors
        if isinstance(where, str):
            vectors = [document.metadata.get(where) for document in documents]
        else:
            vectors = [None if where is None else where(document) for document in documents]
        return vectors, self.query_vector(query) if self.query_vector is not None and documents else None

    def _rank(self, documents: Sequence[Document], query_vector: Any, vectors: list[Any]) -> list[Document]:
        settings = self.method, self.top_n, self.metric
        order = order_documents(query_vector, vectors, *settings, no_query=NO_QUERY, no_vector=NO_VECTOR)
        return [
            documents[place].model_copy(update={"metadata": {**documents[place].metadata, "relevance_score": score}})
            for place, score in zip(*order, strict=True)
        ]
