"""Fixtures that send one query through every framework and return plain lists."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank as kr
from kinrank.testing import toy

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "false"  # before haystack is imported: disables telemetry and its file
FRAMEWORKS = {
    "langchain": "langchain_core",
    "llamaindex": "llama_index.core",
    "haystack": "haystack",
    "lancedb": "lancedb",
}


class Found(NamedTuple):
    """Results of a plain search: documents by number, nearest first, only some of them relevant."""

    query: NDArray[Any]
    vectors: NDArray[Any]
    right: NDArray[np.bool_]

    @property
    def names(self) -> list[str]:
        return [f"document {place}" for place in range(len(self.vectors))]

    @property
    def count(self) -> int:
        """Return the number of relevant documents."""
        return int(self.right.sum())


@pytest.fixture(params=["moons", "turntable"])
def found(request: pytest.FixtureRequest) -> Found:
    return found_in(request.param)


@pytest.fixture
def views() -> Found:
    return found_in("turntable")


def found_in(kind: str) -> Found:
    """Return all items in the order of a plain search, whose first results are mixed."""
    data = toy(kind)
    near = kr.rerank(data.queries[1:2], data.gallery, "none").indices[0]
    right = data.gallery_labels[near] == data.query_labels[1]
    assert right[: right.sum()].mean() < 0.7
    return Found(data.queries[1], data.gallery[near], right)


Ask = Callable[..., tuple[list[int], list[float]]]


@pytest.fixture(params=FRAMEWORKS)
def ask(request: pytest.FixtureRequest) -> Ask:
    """Return `ask(query, vectors, **settings)`, which returns positions of documents, best first, and scores."""
    pytest.importorskip(FRAMEWORKS[request.param], reason=f"install kinrank[{request.param}]")
    asks: Ask = globals()[f"ask_{request.param}"]
    return asks


def ask_langchain(query: Any, vectors: Any, **settings: Any) -> tuple[list[int], list[float]]:
    from langchain_core.documents import Document

    from kinrank.integrations.langchain import KinrankCompressor

    documents = [
        Document(page_content="", metadata={"place": place, "vector": vector}) for place, vector in enumerate(vectors)
    ]
    compressor = KinrankCompressor(vectors="vector", query_vector=lambda text: query, **settings)
    ranked = compressor.compress_documents(documents, "a query")
    return [one.metadata["place"] for one in ranked], [one.metadata["relevance_score"] for one in ranked]


def ask_llamaindex(query: Any, vectors: Any, **settings: Any) -> tuple[list[int], list[float]]:
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

    from kinrank.integrations.llamaindex import KinrankPostprocessor

    nodes = [
        NodeWithScore(node=TextNode(text="", metadata={"place": place}), score=0.5) for place in range(len(vectors))
    ]
    processor = KinrankPostprocessor(vectors=lambda node: vectors[node.metadata["place"]], **settings)
    ranked = processor.postprocess_nodes(nodes, QueryBundle("a query", embedding=query))
    return [one.metadata["place"] for one in ranked], [one.get_score() for one in ranked]


def ask_haystack(query: Any, vectors: Any, **settings: Any) -> tuple[list[int], list[float]]:
    from haystack import Document

    from kinrank.integrations.haystack import KinrankRanker

    documents = [
        Document(id=str(place), content="", embedding=vector, score=0.5, meta={"place": place})
        for place, vector in enumerate(vectors)
    ]
    ranked = KinrankRanker(**settings).run(documents=documents, query_embedding=query)["documents"]
    return [one.meta["place"] for one in ranked], [one.score for one in ranked]


def ask_lancedb(query: Any, vectors: Any, **settings: Any) -> tuple[list[int], list[float]]:
    import pyarrow as pa

    from kinrank.integrations.lancedb import KinrankReranker

    lists = [None if vector is None else list(vector) for vector in vectors]
    rows = pa.table(
        {"place": pa.array(range(len(lists)), pa.int64()), "vector": pa.array(lists, pa.list_(pa.float32()))}
    )
    ranked = KinrankReranker(query, **settings).rerank_vector("a query", rows)
    return ranked["place"].to_pylist(), ranked["_relevance_score"].to_pylist()
