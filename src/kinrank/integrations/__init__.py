"""Frameworks that call kinrank: one small file per framework, which imports it. An extra for each.

kinrank.integrations.langchain.KinrankCompressor        a document compressor
kinrank.integrations.llamaindex.KinrankPostprocessor    a node post-processor
kinrank.integrations.haystack.KinrankRanker             a component
kinrank.integrations.lancedb.KinrankReranker            a reranker
"""

__all__: list[str] = []
