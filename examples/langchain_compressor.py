"""Re-rank the results of a LangChain retriever: pip install '.[langchain]'."""

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore

from kinrank.integrations.langchain import KinrankCompressor
from kinrank.testing import toy

data = toy("turntable")  # eight objects, each seen from ten sides, and one more view of each as a query
wanted = f"object {data.query_labels[1]}"
query = f"a view of {wanted}"
views = [f"object {label}, view {number}" for number, label in enumerate(data.gallery_labels)]
vectors = dict(zip([query, *views], [data.queries[1], *data.gallery], strict=True))


class Table(Embeddings):
    """Stand-in for a model that looks up vectors."""

    def embed_documents(self, texts):
        return [vectors[text].tolist() for text in texts]

    def embed_query(self, text):
        return vectors[text].tolist()


store = InMemoryVectorStore(Table())
store.add_documents([Document(page_content=view, metadata={"right": wanted in view}) for view in views])
retriever = store.as_retriever(search_kwargs={"k": 60})  # many: only what is found can be re-ranked

# The store has the vectors of the documents, so only the query is embedded.
nearest = KinrankCompressor(
    Table(), vectors=lambda document: store.store[document.id]["vector"], method="lpmt", top_n=10
)
rerank = RunnableLambda(lambda found: nearest.compress_documents(**found))
chain = {"documents": retriever, "query": RunnablePassthrough()} | rerank


def right(documents):
    return sum(document.metadata["right"] for document in documents)


print(f"{right(retriever.invoke(query)[:10])} of the first 10 are right after the search")
print(f"{right(chain.invoke(query))} of the first 10 are right after kinrank")
