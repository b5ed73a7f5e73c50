"""Gaussian graphs at three scales: sizes, weights, symmetry, spectrum, and items without company."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from kinrank.features import unit
from kinrank.items import Items
from kinrank.stages import graph
from reference import lpmt as twin


def some_rows(rng: np.random.Generator, n: int, dimensions: int = 6) -> NDArray[np.float32]:
    return unit(rng.standard_normal((n, dimensions)).astype(np.float32))


def farthest(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return twin.euclidean(rows).max(axis=1).astype(np.float32)


def degrees_of_layers(layers: graph.Layers) -> NDArray[np.int64]:
    """(n, m) how many edges an item has in each graph."""
    rows = np.repeat(np.arange(len(layers.indptr) - 1), np.diff(layers.indptr))
    counts = np.zeros((len(layers.indptr) - 1, layers.count), np.int64)
    np.add.at(counts, rows, layers.values > 0)
    return counts


def test_reference_k_of_10_becomes_graphs_of_7_10_and_14_neighbours(rng: np.random.Generator) -> None:
    assert twin.graph_sizes(10) == [7, 10, 14]
    rows = some_rows(rng, 40)
    layers = graph.layered_graphs(Items.everyone(rows).neighbors(15), 10, 0.5)
    rank = twin.nearest_first(twin.euclidean(rows))
    for v, size in enumerate([7, 10, 14]):
        listed = np.zeros((40, 40), bool)
        for i in range(40):
            listed[i, rank[i, 1 : size + 1]] = True
        assert np.array_equal(layers.layer(v).toarray() > 0, listed | listed.T)
        assert degrees_of_layers(layers)[:, v].min() >= size


@pytest.mark.parametrize("k", [1, 2, 3, 5, 10, 20, 33])
def test_graph_sizes_are_k_scaled_and_rounded(rng: np.random.Generator, k: int) -> None:
    rows = some_rows(rng, 60)
    lists = Items.everyone(rows).neighbors(60)
    layers = graph.layered_graphs(lists, k, 0.5)
    for v, size in enumerate(twin.graph_sizes(k)):
        alone = graph.layered_graphs(lists, size, 0.5, "raw", scales=(1.0,))
        assert np.array_equal(layers.layer(v).toarray() > 0, alone.layer(0).toarray() > 0)


@pytest.mark.parametrize("scale", ["local", "row", "raw"])
@pytest.mark.parametrize("sigma", [0.3, 0.5, 1.0])
def test_weights_are_the_gaussian_of_equation_2(rng: np.random.Generator, scale: str, sigma: float) -> None:
    rows = some_rows(rng, 30)
    lists = Items.everyone(rows).neighbors(12)
    length = graph.kernel_scale(lists, scale, 10, farthest(rows))
    got = graph.gaussian_weights(lists, sigma, length, scale)
    d = twin.euclidean(rows)
    want = twin.gaussian(d, twin.nearest_first(d), sigma, scale, 10)
    np.testing.assert_allclose(got, np.take_along_axis(want, lists.indices, axis=1), rtol=2e-4)


@pytest.mark.parametrize("scale", ["local", "row", "raw"])
def test_layers_equal_the_dense_graphs(rng: np.random.Generator, scale: str) -> None:
    rows = some_rows(rng, 30)
    layers = graph.layered_graphs(Items.everyone(rows).neighbors(15), 10, 0.5, scale, farthest=farthest(rows))
    d = twin.euclidean(rows)
    rank = twin.nearest_first(d)
    weights = twin.gaussian(d, rank, 0.5, scale, 10)
    for v, size in enumerate(twin.graph_sizes(10)):
        want = twin.normalised(twin.adjacency(weights, rank, size))
        np.testing.assert_allclose(layers.layer(v).toarray(), want, rtol=1e-3, atol=1e-6)


def test_symmetric_graph_is_the_mean_of_both_directions(rng: np.random.Generator) -> None:
    rows = some_rows(rng, 25)
    lists = Items.everyone(rows).neighbors(6)
    weights = rng.random((25, 5))
    W = graph.symmetric_graph(lists, weights).toarray()
    directed = np.zeros((25, 25))
    for i in range(25):
        directed[i, lists.indices[i, 1:]] = weights[i]
    assert np.array_equal(W, W.T)
    np.testing.assert_allclose(W, (directed + directed.T) / 2)
    assert not W.diagonal().any()  # an item is no neighbour of itself here


@pytest.mark.parametrize("scale", ["local", "row", "raw"])
@pytest.mark.parametrize("n", [2, 3, 12, 50])
def test_normalised_graphs_are_symmetric_with_spectral_radius_one(rng: np.random.Generator, scale: str, n: int) -> None:
    rows = some_rows(rng, n)
    layers = graph.layered_graphs(Items.everyone(rows).neighbors(15), 10, 0.5, scale, farthest=farthest(rows))
    for v in range(layers.count):
        S = layers.layer(v).toarray().astype(np.float64)
        np.testing.assert_array_equal(S, S.T)
        eigenvalues = np.linalg.eigvalsh(S)
        assert np.abs(eigenvalues).max() <= 1 + 1e-6
        assert eigenvalues.max() == pytest.approx(1.0, abs=1e-5)  # sqrt of the degrees is its eigenvector
        assert S.min() >= 0


def test_mixed_is_the_weighted_sum_of_the_layers(rng: np.random.Generator) -> None:
    layers = graph.layered_graphs(Items.everyone(some_rows(rng, 30)).neighbors(15), 10, 0.5)
    beta = np.array([0.2, 0.5, 0.3])
    summed = sum(weight * layers.layer(v).toarray() for v, weight in enumerate(beta))
    np.testing.assert_allclose(layers.mixed(beta).toarray(), summed, atol=1e-6)


def test_an_item_without_edges_keeps_an_empty_row() -> None:
    from scipy import sparse

    W = sparse.csr_array(np.array([[0, 2.0, 0], [2.0, 0, 0], [0, 0, 0]]))
    S = graph.normalised(W).toarray()
    np.testing.assert_allclose(S, [[0, 1, 0], [1, 0, 0], [0, 0, 0]])


def test_an_isolated_item_stays_connected_however_small_its_gaussian() -> None:
    """One item opposite to all others: its weights underflow, its edges remain, S stays finite."""
    rng = np.random.default_rng(3)
    crowd = np.array([1.0, 0, 0]) + 1e-3 * rng.standard_normal((20, 3))
    rows = unit(np.concatenate([crowd, [[-1.0, 0, 0]]]).astype(np.float32))
    layers = graph.layered_graphs(Items.everyone(rows).neighbors(15), 10, 0.1, "raw")
    for v in range(layers.count):
        S = layers.layer(v).toarray()
        assert np.isfinite(S).all()
        assert (S[-1] > 0).sum() == twin.graph_sizes(10)[v]
        assert np.abs(np.linalg.eigvalsh(S.astype(np.float64))).max() <= 1 + 1e-5


@pytest.mark.parametrize("scale", ["local", "row", "raw"])
def test_duplicates_have_the_largest_weight_and_no_division_by_zero(scale: str) -> None:
    rng = np.random.default_rng(5)
    rows = some_rows(rng, 8)
    rows = np.concatenate([np.repeat(rows[:1], 12, axis=0), rows])  # a dozen copies: every near distance is 0
    lists = Items.everyone(rows).neighbors(15)
    length = graph.kernel_scale(lists, scale, 10, farthest(rows))
    assert (length > 0).all()
    weights = graph.gaussian_weights(lists, 0.5, length, scale)
    assert np.isfinite(weights).all()
    np.testing.assert_array_equal(weights[0, :10], 1.0)
    layers = graph.layered_graphs(lists, 10, 0.5, scale, farthest=farthest(rows))
    assert np.isfinite(layers.values).all()


def test_all_items_equal_gives_finite_graphs() -> None:
    rows = np.repeat(unit(np.ones((1, 4), np.float32)), 9, axis=0)
    layers = graph.layered_graphs(Items.everyone(rows).neighbors(15), 10, 0.5)
    assert np.isfinite(layers.values).all()
    np.testing.assert_allclose(layers.layer(0).sum(axis=1), 1.0, atol=0.35)


def test_row_scale_without_the_farthest_distance_is_refused(rng: np.random.Generator) -> None:
    lists = Items.everyone(some_rows(rng, 5)).neighbors(3)
    with pytest.raises(ValueError, match="farthest"):
        graph.kernel_scale(lists, "row", 2)


def test_fewer_items_than_k_uses_what_there_is(rng: np.random.Generator) -> None:
    layers = graph.layered_graphs(Items.everyone(some_rows(rng, 4)).neighbors(15), 10, 0.5)
    for v in range(3):
        assert np.array_equal(layers.layer(v).toarray() > 0, ~np.eye(4, dtype=bool))


def test_loops_add_the_item_itself_at_weight_one() -> None:
    rng = np.random.default_rng(11)
    rows = unit(rng.normal(size=(20, 6)).astype(np.float32))
    lists = Items.everyone(rows).neighbors(8)
    plain = graph.layered_graphs(lists, 4, 0.5, scales=(1.0,))
    looped = graph.layered_graphs(lists, 4, 0.5, scales=(1.0,), loops=True)
    length = graph.kernel_scale(lists, "local", 4)
    weights = graph.gaussian_weights(lists.first(5), 0.5, length, "local")
    expected = graph.symmetric_graph(lists, weights[:, 1:]).toarray() + np.eye(20)
    half = 1.0 / np.sqrt(expected.sum(axis=1))
    np.testing.assert_allclose(looped.layer(0).toarray(), half[:, None] * expected * half, rtol=1e-5)
    assert not plain.layer(0).diagonal().any()
