"""Nodes that a LlamaIndex retriever found -> the same, re-ranked by their vectors. Extra `[llamaindex]`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kinrank.integrations.methods import HowTo, method_in_words
from kinrank.integrations.order import filled, lacking, ordered, settings

try:
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import SerializeAsAny, field_serializer
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
except ImportError as error:
    raise ImportError(
        f"KinrankPostprocessor needs llama-index-core, which cannot be imported ({error}); install it with: "
        "pip install 'kinrank[llamaindex]'"
    ) from error

NO_QUERY = "give embed_model=, or a QueryBundle with its embedding"
NO_VECTOR = "give embed_model=, or vectors=, a function from a node to its vector, or nodes with their embedding"


class KinrankPostprocessor(BaseNodePostprocessor):
    """A node post-processor that re-ranks along the manifold of the nodes that were found.

    The vector of the query is `query_bundle.embedding`, which LlamaIndex fills in, but not in its async calls. That of
    a node is what `vectors` finds, or else `node.embedding`, which most stores leave empty. `embed_model` embeds what
    is missing.

    What comes out are new `NodeWithScore`s around the same nodes, best first. Larger scores are better, for the nodes
    of one query only.

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
        method: HowTo = "lpmt",
        top_n: int | None = None,
        metric: str = "cosine",
        keep_retrieval_score: bool = False,
        **more: Any,
    ) -> None:
        """A post-processor; it keeps nothing between queries.

        Args:
            embed_model: embeds the query and the nodes whose vector is not found otherwise.
            vectors: a function that takes a node and returns its vector; None for one that has none.
            method: a Method, or its name; LPMT unless given.
            top_n: how many nodes to return; all of them unless given.
            metric: "cosine", or "euclidean" where the length of vectors matters.
            keep_retrieval_score: whether nodes are copied, with the score of the search as
                `metadata["retrieval_score"]`; models that read the metadata of nodes read it, too.
            more: what every post-processor takes, as `callback_manager`.
        """
        settings(method, top_n, metric)
        more |= {"embed_model": embed_model, "vectors": vectors, "keep_retrieval_score": keep_retrieval_score}
        more |= {"method": method, "top_n": top_n, "metric": metric}
        super().__init__(**more)

    @classmethod
    def class_name(cls) -> str:
        return "KinrankPostprocessor"

    @field_serializer("method")
    def _method_in_words(self, method: Any) -> str | dict[str, Any]:
        return method_in_words(method)

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        vectors, asked = self._at_hand(nodes, query_bundle)
        if self.embed_model is not None and nodes:
            texts = [_text(nodes[place]) for place in lacking(vectors)]
            vectors = filled(vectors, self.embed_model.get_text_embedding_batch(texts) if texts else [])
            if asked is None and query_bundle and query_bundle.embedding_strs:
                asked = self.embed_model.get_agg_embedding_from_queries(query_bundle.embedding_strs)
        return self._ranked(nodes, asked, vectors)

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        vectors, asked = self._at_hand(nodes, query_bundle)
        if self.embed_model is not None and nodes:
            texts = [_text(nodes[place]) for place in lacking(vectors)]
            vectors = filled(vectors, await self.embed_model.aget_text_embedding_batch(texts) if texts else [])
            if asked is None and query_bundle and query_bundle.embedding_strs:
                asked = await self.embed_model.aget_agg_embedding_from_queries(query_bundle.embedding_strs)
        return await asyncio.to_thread(self._ranked, nodes, asked, vectors)

    def _at_hand(self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None) -> tuple[list[Any], Any]:
        """The vectors of the nodes and of the query as far as they need not be embedded, None elsewhere."""
        vectors = [None if self.vectors is None else self.vectors(found.node) for found in nodes]
        vectors = filled(vectors, [nodes[place].node.embedding for place in lacking(vectors)])
        return vectors, None if query_bundle is None else query_bundle.embedding

    def _ranked(self, nodes: list[NodeWithScore], asked: Any, vectors: list[Any]) -> list[NodeWithScore]:
        how = self.method, self.top_n, self.metric
        order = ordered(asked, vectors, *how, no_query=NO_QUERY, no_vector=NO_VECTOR)
        return [NodeWithScore(node=self._node(nodes[place]), score=score) for place, score in zip(*order, strict=True)]

    def _node(self, found: NodeWithScore) -> BaseNode:
        if not self.keep_retrieval_score:
            return found.node
        return found.node.model_copy(update={"metadata": {**found.node.metadata, "retrieval_score": found.score}})


def _text(found: NodeWithScore) -> str:
    """What an index embeds of a node."""
    text: str = found.node.get_content(metadata_mode=MetadataMode.EMBED)
    return text
