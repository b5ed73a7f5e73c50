"""KinrankPostprocessor with a LlamaIndex index."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="install kinrank[llamaindex]")

from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

import kinrank as kr
from kinrank.integrations.llamaindex import KinrankPostprocessor

pytestmark = pytest.mark.slow


class Table(BaseEmbedding):
    """Embedding model with fixed vectors that counts its calls."""

    known: dict[str, list[float]]
    asked: list[str]

    @classmethod
    def over(cls, views: Any) -> Table:
        known = dict(zip(views.names, views.vectors.tolist(), strict=True))
        return cls(known={"query": views.query.tolist(), **known}, asked=[])

    def _get_text_embedding(self, text: str) -> list[float]:
        self.asked.append(text)
        return self.known[text]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


def text_nodes(views: Any, embedded: bool = False) -> list[TextNode]:
    return [
        TextNode(
            id_=f"id {place}",
            text=name,
            metadata={"right": bool(views.right[place])},
            excluded_embed_metadata_keys=["right"],
            embedding=views.vectors[place].tolist() if embedded else None,
        )
        for place, name in enumerate(views.names)
    ]


def nodes_of(views: Any, embedded: bool = False) -> list[NodeWithScore]:
    return [NodeWithScore(node=node, score=0.25) for node in text_nodes(views, embedded)]


def test_in_a_query_engine(views: Any) -> None:
    """The retriever sets the vector of the query and the store has those of nodes: nothing is embedded twice."""
    model = Table.over(views)
    index = VectorStoreIndex(text_nodes(views), embed_model=model)
    model.asked.clear()
    nearest = KinrankPostprocessor(
        model, vectors=lambda node: index.vector_store.get(node.node_id), method="lpmt", top_n=views.count
    )
    engine = index.as_query_engine(llm=MockLLM(), similarity_top_k=60, node_postprocessors=[nearest])
    plain = index.as_retriever(similarity_top_k=views.count).retrieve("query")
    assert not all(found.metadata["right"] for found in plain)
    model.asked.clear()
    ranked = engine.query("query").source_nodes
    assert model.asked == ["query"]
    assert [found.metadata["right"] for found in ranked] == [True] * views.count
    again = asyncio.run(engine.aquery("query")).source_nodes
    assert [found.node_id for found in again] == [found.node_id for found in ranked]
    assert set(model.asked) == {"query"}  # async retrievers do not set the vector of the query


def test_vectors_of_nodes_or_else_the_model(views: Any) -> None:
    model = Table.over(views)
    wanted = KinrankPostprocessor().postprocess_nodes(
        nodes_of(views, embedded=True), QueryBundle("query", embedding=views.query.tolist())
    )
    nearest = KinrankPostprocessor(model)
    assert nearest.postprocess_nodes(nodes_of(views, embedded=True), query_str="query") == wanted
    assert model.asked == ["query"]
    model.asked.clear()
    some = nodes_of(views, embedded=True)
    for found in some[::3]:
        found.node.embedding = None
    ranked = nearest.postprocess_nodes(some, QueryBundle("query"))
    assert [found.node_id for found in ranked] == [found.node_id for found in wanted]
    assert model.asked == [*views.names[::3], "query"]
    for nodes in (some, nodes_of(views), []):
        again = asyncio.run(nearest.apostprocess_nodes(nodes, query_str="query"))
        assert [found.node_id for found in again] == ([found.node_id for found in wanted] if nodes else [])


def test_nodes_are_not_changed(views: Any) -> None:
    nodes, bundle = nodes_of(views), QueryBundle("query")
    before = [found.model_copy(deep=True) for found in nodes]
    ranked = KinrankPostprocessor(Table.over(views)).postprocess_nodes(nodes, bundle)
    assert nodes == before
    assert bundle == QueryBundle("query")
    by_id = {found.node_id: found for found in nodes}
    assert all(found.node is by_id[found.node_id].node and found is not by_id[found.node_id] for found in ranked)
    kept = KinrankPostprocessor(Table.over(views), keep_retrieval_score=True).postprocess_nodes(nodes, bundle)
    assert nodes == before
    assert [(found.node_id, found.score) for found in kept] == [(found.node_id, found.score) for found in ranked]
    for found in kept:
        assert found.metadata == {**by_id[found.node_id].metadata, "retrieval_score": 0.25}


def test_missing_vectors_are_reported(views: Any) -> None:
    query = QueryBundle("query", embedding=views.query.tolist())
    with pytest.raises(
        ValueError, match=r"^document 0 has no vector; give `embed_model`, or `vectors`.*, or nodes with"
    ):
        KinrankPostprocessor().postprocess_nodes(nodes_of(views), query)
    nearest = KinrankPostprocessor()
    for nothing in ({}, {"query_str": "query"}):
        with pytest.raises(
            ValueError, match=r"^the query has no vector; give `embed_model`, or a QueryBundle with its"
        ):
            nearest.postprocess_nodes(nodes_of(views, embedded=True), **nothing)
    for nothing in ({}, {"query_str": ""}):
        with pytest.raises(ValueError, match=r"^the query has no vector"):
            KinrankPostprocessor(Table.over(views)).postprocess_nodes(nodes_of(views), **nothing)
    assert nearest.postprocess_nodes([]) == []


def test_save_and_load(views: Any) -> None:
    nearest = KinrankPostprocessor(method=kr.LPMT(k1=20), top_n=5, metric="euclidean")
    words = nearest.to_dict()
    assert words["class_name"] == "KinrankPostprocessor"
    assert words["method"] == {"name": "lpmt", "k1": 20}
    again = KinrankPostprocessor.from_dict(words)
    assert (again.top_n, again.metric) == (5, "euclidean")
    query = QueryBundle("query", embedding=views.query.tolist())
    nodes = nodes_of(views, embedded=True)
    assert again.postprocess_nodes(nodes, query) == nearest.postprocess_nodes(nodes, query)
