"""KinrankPostprocessor: a LlamaIndex post-processor that re-ranks retrieved nodes by their vectors.

Extra `[llamaindex]`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kinrank.integrations.document_order import (
    MethodInput,
    check_settings,
    fill_missing,
    find_missing,
    order_documents,
    serialize_method,
)
from kinrank.lazy_import import require_extra
from kinrank.methods import TEXT_METHOD

with require_extra("llama-index-core", "KinrankPostprocessor", "llamaindex"):
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import SerializeAsAny, field_serializer
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle

NO_QUERY = "give `embed_model`, or a QueryBundle with its embedding"
NO_VECTOR = "give `embed_model`, or `vectors`, a function from a node to its vector, or nodes with their embedding"


class KinrankPostprocessor(BaseNodePostprocessor):
    """A node post-processor that re-ranks along the manifold of the retrieved nodes.

    The vector of the query is `query_bundle.embedding`, which LlamaIndex sets except in its async calls. The vector of
    a node is the result of `vectors`, or else `node.embedding`, which most stores leave empty. `embed_model` embeds
    what is missing.

    It returns new `NodeWithScore` objects around the same nodes, best first. Larger scores are better; they are
    comparable within one query only.

    Example:
        >>> nearest = KinrankPostprocessor(vectors=lambda node: index.vector_store.get(node.node_id), top_n=10)
        >>> engine = index.as_query_engine(similarity_top_k=200, node_postprocessors=[nearest])
    """

    embed_model: SerializeAsAny[BaseEmbedding] | None
    vectors: Callable[[BaseNode], Any] | None
    method: Any
    top_n: int | None
    metric: str
    keep_retrieval_score: bool

    def __init__(
        self,
        embed_model: BaseEmbedding | None = None,
        *,
        vectors: Callable[[BaseNode], Any] | None = None,
        method: MethodInput = TEXT_METHOD,
        top_n: int | None = None,
        metric: str = "cosine",
        keep_retrieval_score: bool = False,
        **more: Any,
    ) -> None:
        """Create a post-processor. It keeps no state between queries.

        Args:
            embed_model: model that embeds the query, and nodes without another vector.
            vectors: function that takes a node and returns its vector or None.
            method: a Method or its name; LPMT(answers="one") by default, which expects one right document per query.
            top_n: number of nodes to return; all by default.
            metric: "cosine", or "euclidean" if the length of vectors matters.
            keep_retrieval_score: copy the nodes and keep the score of the search as `metadata["retrieval_score"]`.
                Models that read the metadata of nodes will also read it.
            more: parameters of every post-processor, such as `callback_manager`.
        """
        check_settings(method, top_n, metric)
        more |= {"embed_model": embed_model, "vectors": vectors, "keep_retrieval_score": keep_retrieval_score}
        more |= {"method": method, "top_n": top_n, "metric": metric}
        super().__init__(**more)

    @classmethod
    def class_name(cls) -> str:
        return "KinrankPostprocessor"

    @field_serializer("method")
    def _method_in_words(self, method: Any) -> str | dict[str, Any]:
        return serialize_method(method)

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        vectors, query_vector = self._existing_vectors(nodes, query_bundle)
        if self.embed_model is not None and nodes:
            texts = [_node_text(nodes[place]) for place in find_missing(vectors)]
            vectors = fill_missing(vectors, self.embed_model.get_text_embedding_batch(texts) if texts else [])
            if query_vector is None and query_bundle and query_bundle.embedding_strs:
                query_vector = self.embed_model.get_agg_embedding_from_queries(query_bundle.embedding_strs)
        return self._rank(nodes, query_vector, vectors)

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        vectors, query_vector = self._existing_vectors(nodes, query_bundle)
        if self.embed_model is not None and nodes:
            texts = [_node_text(nodes[place]) for place in find_missing(vectors)]
            vectors = fill_missing(vectors, await self.embed_model.aget_text_embedding_batch(texts) if texts else [])
            if query_vector is None and query_bundle and query_bundle.embedding_strs:
                query_vector = await self.embed_model.aget_agg_embedding_from_queries(query_bundle.embedding_strs)
        return await asyncio.to_thread(self._rank, nodes, query_vector, vectors)

    def _existing_vectors(self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None) -> tuple[list[Any], Any]:
        """Return the existing vectors of the nodes and of the query; None for those that must be embedded."""
        vectors = [None if self.vectors is None else self.vectors(found.node) for found in nodes]
        vectors = fill_missing(vectors, [nodes[place].node.embedding for place in find_missing(vectors)])
        return vectors, None if query_bundle is None else query_bundle.embedding

    def _rank(self, nodes: list[NodeWithScore], query_vector: Any, vectors: list[Any]) -> list[NodeWithScore]:
        settings = self.method, self.top_n, self.metric
        order = order_documents(query_vector, vectors, *settings, no_query=NO_QUERY, no_vector=NO_VECTOR)
        return [NodeWithScore(node=self._node(nodes[place]), score=score) for place, score in zip(*order, strict=True)]

    def _node(self, found: NodeWithScore) -> BaseNode:
        if not self.keep_retrieval_score:
            return found.node
        return found.node.model_copy(update={"metadata": {**found.node.metadata, "retrieval_score": found.score}})


def _node_text(found: NodeWithScore) -> str:
    """Return the text of a node that an index embeds."""
    text: str = found.node.get_content(metadata_mode=MetadataMode.EMBED)
    return text
