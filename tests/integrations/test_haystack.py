"""KinrankRanker in a Haystack pipeline."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("haystack", reason="install kinrank[haystack]")

from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

import kinrank as kr
from kinrank.integrations.haystack import KinrankRanker

pytestmark = pytest.mark.slow


def documents_of(views: Any, embedded: bool = True) -> list[Document]:
    return [
        Document(
            id=f"id {place}",
            content=name,
            meta={"right": bool(views.right[place])},
            score=0.25,
            embedding=views.vectors[place].tolist() if embedded else None,
        )
        for place, name in enumerate(views.names)
    ]


def pipeline_of(views: Any, ranker: KinrankRanker, embedded: bool = True) -> Pipeline:
    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    store.write_documents(documents_of(views))
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=60, return_embedding=embedded))
    pipeline.add_component("ranker", ranker)
    pipeline.connect("retriever.documents", "ranker.documents")
    return pipeline


def inputs_of(views: Any, **more: Any) -> dict[str, dict[str, Any]]:
    query = views.query.tolist()
    return {"retriever": {"query_embedding": query}, "ranker": {"query_embedding": query, **more}}


def test_in_a_pipeline(views: Any) -> None:
    pipeline = pipeline_of(views, KinrankRanker("lpmt", top_n=views.count))
    done = pipeline.run(inputs_of(views), include_outputs_from={"retriever"})
    plain, ranked = done["retriever"]["documents"], done["ranker"]["documents"]
    assert not all(document.meta["right"] for document in plain[: views.count])
    assert [document.meta["right"] for document in ranked] == [True] * views.count
    assert ranked == sorted(ranked, key=lambda document: document.score, reverse=True)
    assert len(pipeline.run(inputs_of(views, top_n=3))["ranker"]["documents"]) == 3


def test_a_pipeline_can_be_saved_and_loaded(views: Any) -> None:
    for method in ("k-reciprocal", kr.LPMT(k1=20, theta=0.3), {"name": "aqe", "k": 3}):
        pipeline = pipeline_of(views, KinrankRanker(method, top_n=9, metric="euclidean", keep_retrieval_score=True))
        text = pipeline.dumps()
        assert "kinrank.integrations.haystack.KinrankRanker" in text
        again = load(text).get_component("ranker")
        documents = documents_of(views)
        wanted = pipeline.get_component("ranker").run(documents, views.query.tolist())
        assert again.run(documents, views.query.tolist()) == wanted
        assert again.to_dict() == pipeline.get_component("ranker").to_dict()


def load(text: str) -> Pipeline:
    try:
        return Pipeline.loads(text, allowed_modules=["kinrank.*"])
    except TypeError:  # Haystack 2 loads any class
        return Pipeline.loads(text)


def test_documents_are_copies_with_all_they_had(views: Any) -> None:
    documents = documents_of(views)
    before = copy.deepcopy(documents)
    ranked = KinrankRanker().run(documents, views.query.tolist())["documents"]
    kept = KinrankRanker(keep_retrieval_score=True).run(documents, views.query.tolist())["documents"]
    assert documents == before
    given = {document.id: document for document in documents}
    for plain, more in zip(ranked, kept, strict=True):
        same = given[plain.id]
        assert plain is not same
        assert plain.meta is not same.meta
        assert plain.score == more.score != same.score
        assert (plain.content, plain.embedding, plain.meta) == (same.content, same.embedding, same.meta)
        assert more.meta == {**same.meta, "retrieval_score": 0.25}


def test_async_gives_the_same(views: Any) -> None:
    ranker, documents = KinrankRanker(top_n=7), documents_of(views)
    wanted = ranker.run(documents, views.query.tolist())
    assert asyncio.run(ranker.run_async(documents, views.query.tolist())) == wanted
    assert ranker.__haystack_supports_async__


def test_missing_vectors_are_reported(views: Any) -> None:
    ranker = KinrankRanker()
    with pytest.raises(
        ValueError, match=r"^document 0 has no vector; let the retriever return vectors \(return_embedding"
    ):
        ranker.run(documents_of(views, embedded=False), views.query.tolist())
    with pytest.raises(ValueError, match=r"^the query has no vector; connect query_embedding with the embedding of"):
        ranker.run(documents_of(views), None)
    with pytest.raises(ValueError, match=r"^top_n=0 is not allowed; give a whole number >= 1$"):
        ranker.run(documents_of(views), views.query.tolist(), top_n=0)
    assert ranker.run([], None) == {"documents": []}


def test_pipeline_passes_the_error_on(views: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # Haystack creates a folder there if a pipeline fails
    with pytest.raises(Exception, match="return_embedding=True"):
        pipeline_of(views, KinrankRanker(), embedded=False).run(inputs_of(views))
