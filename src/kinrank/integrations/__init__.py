"""Components for frameworks: one module per framework, which imports it. Each has an extra.

kinrank.integrations.langchain.KinrankCompressor        a document compressor
kinrank.integrations.llamaindex.KinrankPostprocessor    a node post-processor
kinrank.integrations.haystack.KinrankRanker             a component
kinrank.integrations.lancedb.KinrankReranker            a reranker
kinrank.integrations.sklearn.KinrankTransformer          a transformer to a graph of neighbours
"""

__all__: list[str] = []
