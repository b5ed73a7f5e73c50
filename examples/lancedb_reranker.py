"""Re-rank the results of a search in a LanceDB table: pip install '.[lancedb]'."""

import tempfile

import lancedb

from kinrank.integrations.lancedb import KinrankReranker
from kinrank.testing import toy

data = toy("turntable")  # eight objects, each seen from ten sides, and one more view of each as a query
wanted = f"object {data.query_labels[1]}"
query = data.queries[1]

with tempfile.TemporaryDirectory() as folder:
    views = [f"object {label}, view {number}" for number, label in enumerate(data.gallery_labels)]
    rows = [{"text": view, "vector": row} for view, row in zip(views, data.gallery.tolist(), strict=True)]
    table = lancedb.connect(folder).create_table("views", rows)

    search = table.search(query).distance_type("cosine").limit(60)  # many: only what is found can be re-ranked
    plain = search.to_list()
    better = search.rerank(KinrankReranker(query, top_n=10), query_string=f"a view of {wanted}").to_list()

print(f"{sum(wanted in row['text'] for row in plain[:10])} of the first 10 are right after the search")
print(f"{sum(wanted in row['text'] for row in better)} of the first 10 are right after kinrank")
