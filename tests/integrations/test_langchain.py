"""KinrankCompressor with a LangChain retriever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("langchain_core", reason="install kinrank[langchain]")

from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

import kinrank as kr
from kinrank.integrations.langchain import KinrankCompressor

pytestmark = pytest.mark.slow


class Table(Embeddings):
    """Embedding model with fixed vectors that counts its calls."""

    def __init__(self, views: Any) -> None:
        self.known = {"query": views.query.tolist(), **dict(zip(views.names, views.vectors.tolist(), strict=True))}
        self.asked: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.asked += texts
        return [self.known[text] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def documents_of(views: Any, **metadata: Any) -> list[Document]:
    return [
        Document(id=f"id {place}", page_content=name, metadata={"right": bool(views.right[place]), **metadata})
        for place, name in enumerate(views.names)
    ]


def test_behind_a_retriever(views: Any) -> None:
    table = Table(views)
    store = InMemoryVectorStore(table)
    store.add_documents(documents_of(views))
    retriever = store.as_retriever(search_kwargs={"k": 60})
    nearest = KinrankCompressor(table, method="lpmt", top_n=views.count)
    chain = {"documents": retriever, "query": RunnableLambda(str)} | RunnableLambda(
        lambda found: nearest.compress_documents(**found)
    )
    ranked = chain.invoke("query")
    assert not all(document.metadata["right"] for document in retriever.invoke("query")[: views.count])
    assert [document.metadata["right"] for document in ranked] == [True] * views.count


def test_in_a_compression_retriever(views: Any) -> None:
    retrievers = pytest.importorskip("langchain_classic.retrievers", reason="install langchain-classic")
    table = Table(views)
    store = InMemoryVectorStore(table)
    store.add_documents(documents_of(views))
    retriever = retrievers.ContextualCompressionRetriever(
        base_compressor=KinrankCompressor(table, method="lpmt", top_n=views.count),
        base_retriever=store.as_retriever(search_kwargs={"k": 60}),
    )
    for ranked in (retriever.invoke("query"), asyncio.run(retriever.ainvoke("query"))):
        assert [document.metadata["right"] for document in ranked] == [True] * views.count


def test_nothing_is_embedded_twice(views: Any) -> None:
    """Vectors come from the store; only the query is embedded."""
    table = Table(views)
    store = InMemoryVectorStore(table)
    store.add_documents(documents_of(views))
    found = store.similarity_search("query", k=60)
    table.asked.clear()
    nearest = KinrankCompressor(table, vectors=lambda document: store.store[document.id]["vector"])
    ranked = nearest.compress_documents(found, "query")
    assert table.asked == ["query"]
    assert ranked == KinrankCompressor(table).compress_documents(found, "query")
    table.asked.clear()
    none = KinrankCompressor(
        vectors=lambda document: store.store[document.id]["vector"], query_vector=lambda text: views.query
    )
    assert [one.id for one in none.compress_documents(found, "query")] == [one.id for one in ranked]
    assert table.asked == []


def test_only_what_lacks_a_vector_is_embedded(views: Any) -> None:
    table, documents = Table(views), documents_of(views)
    for place, document in enumerate(documents):
        if place % 3:
            document.metadata["vector"] = views.vectors[place]
    ranked = KinrankCompressor(table, vectors="vector").compress_documents(documents, "query")
    assert table.asked == [*views.names[::3], "query"]
    everything = KinrankCompressor(table).compress_documents(documents, "query")
    assert [one.id for one in ranked] == [one.id for one in everything]


def test_documents_are_copies_with_all_they_had(views: Any) -> None:
    documents = documents_of(views, source="a file", relevance_score="before")
    before = [document.model_copy(deep=True) for document in documents]
    ranked = KinrankCompressor(Table(views)).compress_documents(documents, "query")
    assert documents == before
    given = {document.id: document for document in documents}
    for document in ranked:
        same = given[document.id]
        assert document is not same
        assert document.page_content == same.page_content
        assert isinstance(document.metadata["relevance_score"], float)
        assert {**document.metadata, "relevance_score": "before"} == same.metadata


def test_async_gives_the_same(views: Any) -> None:
    documents = documents_of(views)
    for settings in ({}, {"vectors": lambda document: None, "query_vector": lambda text: views.query}):
        nearest = KinrankCompressor(Table(views), method=kr.LPMT(k1=20), top_n=7, **settings)
        wanted = nearest.compress_documents(documents, "query")
        assert asyncio.run(nearest.acompress_documents(documents, "query")) == wanted
    assert asyncio.run(nearest.acompress_documents([], "query")) == []


def test_without_documents_nothing_is_embedded(views: Any) -> None:
    table = Table(views)
    assert KinrankCompressor(table).compress_documents([], "query") == []
    assert table.asked == []


def test_missing_vectors_are_reported(views: Any) -> None:
    with pytest.raises(ValueError, match=r"^there is no source of query vectors; give `embeddings`, or `query_vector`"):
        KinrankCompressor(vectors="vector")
    with pytest.raises(ValueError, match=r"^there is no source of document vectors; give `embeddings`, or `vectors`"):
        KinrankCompressor(query_vector=lambda text: views.query)
    nearest = KinrankCompressor(vectors="vector", query_vector=lambda text: views.query)
    with pytest.raises(ValueError, match=r"^document 0 has no vector; give `embeddings`, or `vectors`.*metadata field"):
        nearest.compress_documents(documents_of(views), "query")
    with pytest.raises(ValueError, match=r"^document 0 has no vector"):
        asyncio.run(nearest.acompress_documents(documents_of(views), "query"))


def test_settings_can_be_changed_later(views: Any) -> None:
    nearest = KinrankCompressor(Table(views))
    assert isinstance(nearest, BaseDocumentCompressor)
    nearest.top_n = 3
    assert len(nearest.compress_documents(documents_of(views), "query")) == 3
    assert len(nearest.model_copy(update={"top_n": 2}).compress_documents(documents_of(views), "query")) == 2
