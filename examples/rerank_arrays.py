"""Re-rank a gallery for some queries, both given as arrays."""

import numpy as np

import kinrank as kr

rng = np.random.default_rng(0)
angles = rng.uniform(0, 2 * np.pi, 300)  # two concentric rings: the far side of a ring belongs to it
radius = np.repeat([0.5, 1.2], 150)
points = np.stack([radius * np.cos(angles), radius * np.sin(angles), np.full(300, 2.0)], axis=1)
queries, gallery = points[::30], np.delete(points, np.s_[::30], axis=0)

ranking = kr.rerank(queries, gallery, k=10)
print(ranking)
print("query 0 finds items", ranking.indices[0].tolist())
