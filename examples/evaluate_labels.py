"""Measure how much re-ranking helps, and whether it is more than chance."""

import kinrank as kr
from kinrank.testing import toy

data = toy("turntable", items=160)  # eight objects seen from all sides
truth = kr.Truth.from_labels(data.query_labels, data.gallery_labels)
scores = {
    name: kr.evaluate(kr.rerank(data.queries, data.gallery, name), truth, ["mAP", "R@1", "recall@10"])
    for name in ("none", "aqe", "k-reciprocal", "lpmt")
}
for name, score in scores.items():
    print(f"{name:<14}{score['mAP']!r}")
print(kr.evaluation.compare_scores(scores["none"], scores["lpmt"], "mAP"))
