"""The transformer for scikit-learn: its graph, pipelines, grid search, and the checks of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.errors import InputError
from kinrank.testing import toy

pytest.importorskip("sklearn", reason="install kinrank[sklearn]")

from sklearn.base import clone
from sklearn.cluster import SpectralClustering
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from kinrank.integrations.sklearn import KinrankTransformer

DATA = toy("turntable")
SETTINGS = [{}, {"metric": "euclidean", "mode": "connectivity", "method": "alpha-qe"}, {"candidates": 12}]


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_checks_of_scikit_learn(settings: dict[str, Any]) -> None:
    results = check_estimator(KinrankTransformer(**settings), on_skip=None)
    assert len(results) > 40


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_rows_are_those_of_manifold_search(metric: str) -> None:
    transformer = KinrankTransformer(7, metric=metric).fit(DATA.gallery)
    graph = transformer.transform(DATA.queries)
    found = kr.Manifold.build(DATA.gallery, metric=metric).search(DATA.queries, k=8)
    assert graph.shape == (len(DATA.queries), len(DATA.gallery))
    np.testing.assert_array_equal(graph.indices.reshape(-1, 8), found.indices)
    np.testing.assert_array_equal(graph.data.reshape(-1, 8), found.distances)


def test_rows_are_those_of_rerank_with_candidates() -> None:
    transformer = KinrankTransformer(7, candidates=50, method="k-reciprocal", metric="cosine").fit(DATA.gallery)
    graph = transformer.transform(DATA.queries)
    found = kr.rerank(DATA.queries, DATA.gallery, "k-reciprocal", candidates=50, k=8)
    assert transformer.manifold_ is None
    np.testing.assert_array_equal(graph.indices.reshape(-1, 8), found.indices)


def test_graph_has_the_form_of_kneighbors_transformer() -> None:
    for mode in ("distance", "connectivity"):
        ours = KinrankTransformer(4, mode=mode).fit_transform(DATA.gallery)
        theirs = KNeighborsTransformer(n_neighbors=4, mode=mode).fit_transform(DATA.gallery)
        assert (ours.shape, ours.dtype, type(ours)) == (theirs.shape, theirs.dtype, type(theirs))
        np.testing.assert_array_equal(ours.indptr, theirs.indptr)
    assert set(ours.data) == {1.0}


def test_negative_distances_are_shifted() -> None:
    graph = KinrankTransformer(6, method="alpha-qe", metric="cosine").fit_transform(DATA.gallery)
    distances = graph.data.reshape(-1, 7)
    assert distances.min() == 0
    assert (np.diff(distances, axis=1) >= 0).all()


def test_finds_more_right_neighbors_than_plain_search() -> None:
    labels, right = np.asarray(DATA.gallery_labels), []
    for kind in (KNeighborsTransformer, KinrankTransformer):
        rows, columns = kind(n_neighbors=10, metric="cosine").fit_transform(DATA.gallery).nonzero()
        right.append(float((labels[rows] == labels[columns])[rows != columns].mean()))
    assert right[1] > right[0]


def test_works_in_pipeline_and_grid_search() -> None:
    steps = make_pipeline(KinrankTransformer(12), KNeighborsClassifier(5, metric="precomputed"))
    grid = {"kinranktransformer__method": ["lpmt", kr.AlphaQE(k=3)], "kneighborsclassifier__n_neighbors": [1, 5]}
    search = GridSearchCV(steps, grid, cv=3, error_score="raise").fit(DATA.gallery, DATA.gallery_labels)
    assert search.best_score_ > 0.8
    assert search.predict(DATA.queries).shape == (len(DATA.queries),)


def test_works_before_clustering() -> None:
    clusters = SpectralClustering(
        8, affinity="precomputed_nearest_neighbors", n_neighbors=10, assign_labels="cluster_qr", random_state=0
    )
    labels = make_pipeline(KinrankTransformer(10, metric="cosine"), clusters).fit_predict(DATA.gallery)
    assert len(labels) == len(DATA.gallery)


def test_clone_keeps_method_objects() -> None:
    transformer = clone(KinrankTransformer(method=kr.LPMT(k1=9)))
    assert transformer.get_params()["method"] == kr.LPMT(k1=9)
    assert transformer.set_params(method={"name": "lpmt", "k1": 7}).fit(DATA.gallery).manifold_.method.k1 == 7


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"n_neighbors": 10_000}, "n_samples = "),
        ({"mode": "both"}, "one of: distance, connectivity"),
        ({"metric": "manhattan"}, "metric"),
        ({"method": "nothing"}, "nothing"),
        ({"candidates": 3}, "candidates"),
        ({"method": "k-reciprocal"}, "prepare"),
    ],
)
def test_wrong_parameters_are_refused_by_fit(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        KinrankTransformer(**settings).fit(DATA.gallery)
