"""Re-rank the results of a Haystack retriever: pip install '.[haystack]'."""

import os

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "false")  # before the import, so that nothing is sent

from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

from kinrank.integrations.haystack import KinrankRanker
from kinrank.testing import toy

data = toy("turntable")  # eight objects, each seen from ten sides, and one more view of each as a query
wanted = f"object {data.query_labels[1]}"
query = data.queries[1].tolist()

store = InMemoryDocumentStore(embedding_similarity_function="cosine")
views = [f"object {label}, view {number}" for number, label in enumerate(data.gallery_labels)]
vectors = data.gallery.tolist()
store.write_documents([Document(content=view, embedding=row) for view, row in zip(views, vectors, strict=True)])

pipeline = Pipeline()
pipeline.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=60, return_embedding=True))
pipeline.add_component("ranker", KinrankRanker("lpmt", top_n=10))
pipeline.connect("retriever.documents", "ranker.documents")


def right(documents):
    return sum(wanted in document.content for document in documents)


inputs = {"retriever": {"query_embedding": query}, "ranker": {"query_embedding": query}}
answer = pipeline.run(inputs, include_outputs_from={"retriever"})
print(f"{right(answer['retriever']['documents'][:10])} of the first 10 are right after the search")
print(f"{right(answer['ranker']['documents'])} of the first 10 are right after kinrank")
