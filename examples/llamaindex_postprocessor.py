"""Re-rank the results of a LlamaIndex index: pip install '.[llamaindex]'."""

from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode

from kinrank.integrations.llamaindex import KinrankPostprocessor
from kinrank.testing import toy

data = toy("turntable")  # eight objects, each seen from ten sides, and one more view of each as a query
wanted = f"object {data.query_labels[1]}"
query = f"a view of {wanted}"
views = [f"object {label}, view {number}" for number, label in enumerate(data.gallery_labels)]
vectors = dict(zip([query, *views], [data.queries[1], *data.gallery], strict=True))


class Table(BaseEmbedding):
    """Stand-in for a model that looks up vectors."""

    def _get_text_embedding(self, text):
        return vectors[text].tolist()

    def _get_query_embedding(self, query):
        return vectors[query].tolist()

    async def _aget_query_embedding(self, query):
        return vectors[query].tolist()


index = VectorStoreIndex([TextNode(text=view) for view in views], embed_model=Table())
# The index has the vectors of the nodes, and the retriever passes on that of the query, so nothing is embedded twice.
nearest = KinrankPostprocessor(vectors=lambda node: index.vector_store.get(node.node_id), method="lpmt", top_n=10)
engine = index.as_query_engine(llm=MockLLM(), similarity_top_k=60, node_postprocessors=[nearest])


def right(nodes):
    return sum(wanted in found.text for found in nodes)


print(f"{right(index.as_retriever(similarity_top_k=10).retrieve(query))} of the first 10 are right after the search")
print(f"{right(engine.query(query).source_nodes)} of the first 10 are right after kinrank")
