"""Show the chain of items that connects a query with a result that does not resemble it."""

import kinrank as kr
from kinrank.testing import toy

data = toy("turntable", items=160)
query = 0
right = data.gallery_labels == data.query_labels[query]
plain = kr.rerank(data.queries, data.gallery, "none").indices[query].tolist()
item = [number for number in plain if right[number]][-1]  # the right one that the search ranks last
better = kr.rerank(data.queries, data.gallery).indices[query].tolist()

print(f"item {item}: rank {plain.index(item) + 1} by distance, {better.index(item) + 1} by LPMT, because")
print(kr.explain(data.queries, data.gallery, query=query, item=item))
