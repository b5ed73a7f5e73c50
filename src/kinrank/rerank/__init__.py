"""Re-ranking of search results: in one joint graph, or per query over candidates."""

from kinrank.rerank.entry_point import rerank

__all__ = ["rerank"]
