"""Cluster handwritten digits with scikit-learn, on the graph of plain and of re-ranked neighbours."""

import warnings

from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsTransformer

from kinrank.integrations.sklearn import KinrankTransformer

warnings.filterwarnings("ignore", message="Graph is not fully connected")
images, labels = load_digits(return_X_y=True)
for neighbors in (10, 20, 30):
    for transformer in (KNeighborsTransformer, KinrankTransformer):
        graph = transformer(n_neighbors=neighbors, metric="cosine").fit_transform(images)
        rows, columns = graph.nonzero()
        right = (labels[rows] == labels[columns])[rows != columns].mean()
        clusters = SpectralClustering(
            10,
            affinity="precomputed_nearest_neighbors",
            n_neighbors=neighbors,
            assign_labels="cluster_qr",
            random_state=0,
        )
        score = adjusted_rand_score(labels, clusters.fit_predict(graph))
        print(f"{transformer.__name__}, {neighbors} neighbors: {right:.3f} right, adjusted Rand index {score:.3f}")
