"""Documents that a LangChain retriever found -> the same, re-ranked by their vectors. Extra `[langchain]`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kinrank.integrations.methods import HowTo
from kinrank.integrations.order import filled, lacking, ordered, settings

try:
    from langchain_core.callbacks import Callbacks
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.runnables import run_in_executor
    from pydantic import ConfigDict
except ImportError as error:
    raise ImportError(
        f"KinrankCompressor needs langchain-core, which cannot be imported ({error}); install it with: "
        "pip install 'kinrank[langchain]'"
    ) from error

NO_QUERY = "give embeddings=, or query_vector=, a function from the text of a query to its vector"
NO_VECTOR = (
    "give embeddings=, or vectors=, a function from a document to its vector or the metadata field that holds it"
)


class KinrankCompressor(BaseDocumentCompressor):
    """A document compressor that re-ranks along the manifold of the documents that were found.

    LangChain's documents carry no vectors. `embeddings` embeds them, and the query. Where vectors are at hand,
    `vectors` and `query_vector` find them, and nothing is embedded twice.

    What comes out are copies of the documents, best first, with `metadata["relevance_score"]`. Larger is better, for
    the documents of one query only.

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
        method: HowTo = "lpmt",
        top_n: int | None = None,
        metric: str = "cosine",
    ) -> None:
        """A compressor; it keeps nothing between queries.

        Args:
            embeddings: embeds the query, and documents whose vector is not found otherwise.
            vectors: where the vector of a document is: the name of a metadata field, or a function that takes the
                document; None for one that has none.
            query_vector: a function that takes the text of the query and returns its vector.
            method: a Method, or its name; LPMT unless given.
            top_n: how many documents to return; all of them unless given.
            metric: "cosine", or "euclidean" where the length of vectors matters.
        """
        settings(method, top_n, metric)
        if embeddings is None and query_vector is None:
            raise ValueError(f"no query will have a vector; {NO_QUERY}")
        if embeddings is None and vectors is None:
            raise ValueError(f"no document will have a vector; {NO_VECTOR}")
        fields: dict[str, Any] = {"embeddings": embeddings, "vectors": vectors, "query_vector": query_vector}
        fields |= {"method": method, "top_n": top_n, "metric": metric}
        super().__init__(**fields)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Copies of the documents, best first, `top_n` of them."""
        vectors, asked = self._at_hand(documents, query)
        if self.embeddings is not None and documents:
            texts = [documents[place].page_content for place in lacking(vectors)]
            vectors = filled(vectors, self.embeddings.embed_documents(texts) if texts else [])
            asked = self.embeddings.embed_query(query) if asked is None else asked
        return self._ranked(documents, asked, vectors)

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """The same; the model is awaited, and the re-ranking runs in a thread."""
        vectors, asked = self._at_hand(documents, query)
        if self.embeddings is not None and documents:
            texts = [documents[place].page_content for place in lacking(vectors)]
            vectors = filled(vectors, await self.embeddings.aembed_documents(texts) if texts else [])
            asked = await self.embeddings.aembed_query(query) if asked is None else asked
        ranked: list[Document] = await run_in_executor(None, self._ranked, documents, asked, vectors)
        return ranked

    def _at_hand(self, documents: Sequence[Document], query: str) -> tuple[list[Any], Any]:
        """The vectors of the documents and of the query as far as they need not be embedded, None elsewhere."""
        where = self.vectors
        if isinstance(where, str):
            vectors = [document.metadata.get(where) for document in documents]
        else:
            vectors = [None if where is None else where(document) for document in documents]
        return vectors, self.query_vector(query) if self.query_vector is not None and documents else None

    def _ranked(self, documents: Sequence[Document], asked: Any, vectors: list[Any]) -> list[Document]:
        how = self.method, self.top_n, self.metric
        order = ordered(asked, vectors, *how, no_query=NO_QUERY, no_vector=NO_VECTOR)
        return [
            documents[place].model_copy(update={"metadata": {**documents[place].metadata, "relevance_score": score}})
            for place, score in zip(*order, strict=True)
        ]
