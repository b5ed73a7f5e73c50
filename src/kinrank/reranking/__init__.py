"""Re-ranking of search results: in one joint graph, or per query over candidates."""

from kinrank.reranking.entry_point import rerank

__all__ = ["rerank"]
