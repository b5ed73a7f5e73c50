"""Queries and a gallery -> a better Ranking: joint, or per query over candidates."""

from kinrank.rerank.entry import rerank

__all__ = ["rerank"]
