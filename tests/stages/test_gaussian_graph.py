"""Gaussian graphs at three scales: sizes, weights, symmetry, spectrum, and isolated items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kinrank.neighbors import Neighbors
from kinrank.problem import Items
from kinrank.stages import gaussian_graph
from kinrank.stages import gaussian_graph as kernels
from kinrank.stages.csr import matrix_from_rows
from kinrank.stages.sparse_rows import Pattern
from kinrank.vector_input import to_unit_rows
from kinrank_bench.paper import lpmt_ablation
from reference import lpmt as twin

SCALES = ["local", "row", "global", "raw"]


def some_rows(rng: np.random.Generator, n: int, dimensions: int = 6) -> NDArray[np.float32]:
    return to_unit_rows(rng.standard_normal((n, dimensions)).astype(np.float32))


def farthest(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return twin.euclidean(rows).max(axis=1).astype(np.float32)


def layers_of(
    lists: Neighbors, k: int, sigma: float, scale: str = "local", far: NDArray[np.float32] | None = None, **more: Any
) -> gaussian_graph.GraphLayers:
    """Return graphs with the kernel lengths of `scale`."""
    lengths = gaussian_graph.kernel_lengths(lists, k, scale, far)
    settings = gaussian_graph.LayerSettings(k, sigma, own_scale=scale == "row", **more)
    return gaussian_graph.build_layers(lists, lengths, settings)


def degrees_of_layers(layers: gaussian_graph.GraphLayers) -> NDArray[np.int64]:
    """Return (n, m) the number of edges of an item in each graph."""
    rows = np.repeat(np.arange(len(layers.indptr) - 1), np.diff(layers.indptr))
    counts = np.zeros((len(layers.indptr) - 1, layers.count), np.int64)
    np.add.at(counts, rows, layers.values > 0)
    return counts


def test_reference_k_of_10_becomes_graphs_of_7_10_and_14_neighbours(rng: np.random.Generator) -> None:
    assert twin.graph_sizes(10) == [7, 10, 14]
    rows = some_rows(rng, 40)
    layers = layers_of(Items.from_gallery(rows).neighbors(15), 10, 0.5)
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
    lists = Items.from_gallery(rows).neighbors(60)
    layers = layers_of(lists, k, 0.5)
    for v, size in enumerate(twin.graph_sizes(k)):
        alone = layers_of(lists, size, 0.5, "raw", scales=(1.0,))
        assert np.array_equal(layers.layer(v).toarray() > 0, alone.layer(0).toarray() > 0)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("sigma", [0.3, 0.5, 1.0])
def test_weights_are_the_gaussian_of_equation_2(rng: np.random.Generator, scale: str, sigma: float) -> None:
    rows = some_rows(rng, 30)
    lists = Items.from_gallery(rows).neighbors(12)
    lengths = gaussian_graph.kernel_lengths(lists, 10, scale, farthest(rows))
    got = gaussian_graph.gaussian_weights(lists, lengths, sigma, scale == "row")
    d = twin.euclidean(rows)
    want = twin.gaussian(d, twin.nearest_first(d), sigma, scale, 10)
    np.testing.assert_allclose(got, np.take_along_axis(want, lists.indices, axis=1), rtol=2e-4)


@pytest.mark.parametrize("scale", SCALES)
def test_layers_equal_the_dense_graphs(rng: np.random.Generator, scale: str) -> None:
    rows = some_rows(rng, 30)
    layers = layers_of(Items.from_gallery(rows).neighbors(15), 10, 0.5, scale, farthest(rows))
    d = twin.euclidean(rows)
    rank = twin.nearest_first(d)
    weights = twin.gaussian(d, rank, 0.5, scale, 10)
    for v, size in enumerate(twin.graph_sizes(10)):
        want = twin.normalised(twin.adjacency(weights, rank, size))
        np.testing.assert_allclose(layers.layer(v).toarray(), want, rtol=1e-3, atol=1e-6)


def random_lists(rng: np.random.Generator, n: int, k: int) -> NDArray[np.int32]:
    """Return (n, k) random items, distinct within a list."""
    return np.stack([rng.permutation(n)[:k] for _ in range(n)]).astype(np.int32)


@pytest.mark.parametrize(("n", "k"), [(1, 0), (1, 1), (2, 1), (30, 0), (30, 1), (30, 7), (30, 30), (2000, 9)])
def test_patterns_hold_items_of_which_one_or_each_lists_the_other(rng: np.random.Generator, n: int, k: int) -> None:
    lists = random_lists(rng, n, k)
    for found, want in [
        (gaussian_graph.union_pattern(lists), twin.sparse_union(lists)),
        (lpmt_ablation.mutual_pattern(lists), twin.sparse_union(lists, both=True)),
    ]:
        indptr, indices = found
        assert (indptr.dtype, indices.dtype) == (np.int64, np.int32)
        np.testing.assert_array_equal(indptr, want.indptr)
        np.testing.assert_array_equal(indices, want.indices)


def test_weights_are_the_mean_of_both_directions_where_the_kernel_is_not_symmetric(rng: np.random.Generator) -> None:
    """W before normalisation, recovered from S and its degrees: (W_ij + W_ji) / 2, each with the length of its row."""
    lists = Items.from_gallery(some_rows(rng, 25)).neighbors(6)
    lengths, sigma = rng.uniform(0.5, 2.0, 25), 0.8
    pattern = gaussian_graph.union_pattern(np.ascontiguousarray(lists.indices[:, 1:]))
    indptr, indices = pattern
    weights, degrees = np.empty((len(indices), 1), np.float32), np.empty((25, 1))
    inputs = np.ascontiguousarray(lists.indices[:, 1:]), np.ascontiguousarray(lists.distances[:, 1:])
    kernel = kernels.GaussianKernel(sigma, True, np.array([5]))
    kernels.layer_weights(0, 25, kernels.GaussianLists(*inputs, lengths), kernel, pattern, weights, degrees)
    directed = np.zeros((25, 25))
    for i in range(25):
        d = lists.distances[i, 1:].astype(np.float64)
        directed[i, lists.indices[i, 1:]] = np.exp(-((d / (sigma * lengths[i])) ** 2))
    W = np.zeros((25, 25))
    W[np.repeat(np.arange(25), np.diff(indptr)), indices] = weights[:, 0]
    assert np.array_equal(W, W.T)
    np.testing.assert_allclose(W, (directed + directed.T) / 2, rtol=1e-6)
    np.testing.assert_allclose(degrees[:, 0], W.sum(axis=1), rtol=1e-6)
    assert not W.diagonal().any()  # an item is not its own neighbour here


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("scale", SCALES)
def test_layers_of_many_items_are_those_of_sparse_products(rng: np.random.Generator, scale: str, loops: bool) -> None:
    """1500 items, some of them equal."""
    rows = some_rows(rng, 1500)
    rows[700:730] = rows[:30]
    lists = Items.from_gallery(rows).neighbors(15)
    far = np.sqrt(np.maximum(2 - 2 * (rows @ rows.T).min(axis=1), 0))
    layers = layers_of(lists, 10, 0.5, scale, far, loops=loops)
    lengths = gaussian_graph.kernel_lengths(lists, 10, scale, far)
    for v, size in enumerate([7, 10, 14]):
        want = twin.sparse_graph(lists.indices, lists.distances, lengths, 0.5, size, scale == "row", loops)
        got = layers.layer(v)
        assert got.has_sorted_indices
        assert abs(got - want).max() < 1e-6
        np.testing.assert_array_equal(got.diagonal() > 0, loops)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("n", [2, 3, 12, 50])
def test_normalised_graphs_are_symmetric_with_spectral_radius_one(rng: np.random.Generator, scale: str, n: int) -> None:
    rows = some_rows(rng, n)
    layers = layers_of(Items.from_gallery(rows).neighbors(15), 10, 0.5, scale, farthest(rows))
    for v in range(layers.count):
        S = layers.layer(v).toarray().astype(np.float64)
        np.testing.assert_array_equal(S, S.T)
        eigenvalues = np.linalg.eigvalsh(S)
        assert np.abs(eigenvalues).max() <= 1 + 1e-6
        assert eigenvalues.max() == pytest.approx(1.0, abs=1e-5)  # sqrt of the degrees is its eigenvector
        assert S.min() >= 0


def test_mix_is_the_weighted_sum_of_the_layers(rng: np.random.Generator) -> None:
    layers = layers_of(Items.from_gallery(some_rows(rng, 30)).neighbors(15), 10, 0.5)
    beta = np.array([0.2, 0.5, 0.3])
    summed = sum(weight * layers.layer(v).toarray() for v, weight in enumerate(beta))
    np.testing.assert_allclose(matrix_from_rows(layers.mix(beta), 30).toarray(), summed, atol=1e-6)


def test_an_item_without_edges_keeps_an_empty_row() -> None:
    """As a row of zeros in one of the graphs, and as the only item."""
    pattern = Pattern(np.array([0, 2, 3, 4]), np.array([1, 2, 0, 0], np.int32))
    weights, values = np.array([[2], [0], [2], [0]], np.float32), np.empty((4, 1), np.float32)
    kernels.normalize_layers(0, 3, pattern, np.array([[2.0], [2.0], [0.0]]), weights, values)
    np.testing.assert_array_equal(values.ravel(), [1, 0, 1, 0])
    alone = Neighbors(np.zeros((1, 1), np.int32), np.zeros((1, 1), np.float32))
    layers = layers_of(alone, 10, 0.5)
    assert layers.indptr.tolist() == [0, 0]
    assert layers.values.shape == (0, 3)
    assert layers_of(alone, 10, 0.5, loops=True).layer(0).toarray().tolist() == [[1.0]]


def test_an_isolated_item_stays_connected_however_small_its_gaussian() -> None:
    """One item is opposite to all others: its weights underflow, its edges remain, S stays finite."""
    rng = np.random.default_rng(3)
    crowd = np.array([1.0, 0, 0]) + 1e-3 * rng.standard_normal((20, 3))
    rows = to_unit_rows(np.concatenate([crowd, [[-1.0, 0, 0]]]).astype(np.float32))
    layers = layers_of(Items.from_gallery(rows).neighbors(15), 10, 0.1, "raw")
    for v in range(layers.count):
        S = layers.layer(v).toarray()
        assert np.isfinite(S).all()
        assert (S[-1] > 0).sum() == twin.graph_sizes(10)[v]
        assert np.abs(np.linalg.eigvalsh(S.astype(np.float64))).max() <= 1 + 1e-5


@pytest.mark.parametrize("scale", SCALES)
def test_duplicates_have_the_largest_weight_and_no_division_by_zero(scale: str) -> None:
    rng = np.random.default_rng(5)
    rows = some_rows(rng, 8)
    rows = np.concatenate([np.repeat(rows[:1], 12, axis=0), rows])  # a dozen copies: every near distance is 0
    lists = Items.from_gallery(rows).neighbors(15)
    lengths = gaussian_graph.kernel_lengths(lists, 10, scale, farthest(rows))
    assert (lengths > 0).all()
    weights = gaussian_graph.gaussian_weights(lists, lengths, 0.5, scale == "row")
    assert np.isfinite(weights).all()
    np.testing.assert_array_equal(weights[0, :10], 1.0)
    layers = layers_of(lists, 10, 0.5, scale, farthest(rows))
    assert np.isfinite(layers.values).all()


def test_all_items_equal_gives_finite_graphs() -> None:
    rows = np.repeat(to_unit_rows(np.ones((1, 4), np.float32)), 9, axis=0)
    layers = layers_of(Items.from_gallery(rows).neighbors(15), 10, 0.5)
    assert np.isfinite(layers.values).all()
    np.testing.assert_allclose(layers.layer(0).sum(axis=1), 1.0, atol=0.35)


@pytest.mark.parametrize("scale", ["row", "global"])
def test_scales_by_the_farthest_item_are_refused_without_it(rng: np.random.Generator, scale: str) -> None:
    lists = Items.from_gallery(some_rows(rng, 5)).neighbors(3)
    with pytest.raises(RuntimeError, match="farthest"):
        gaussian_graph.kernel_lengths(lists, 2, scale)


def test_fewer_items_than_k_uses_what_there_is(rng: np.random.Generator) -> None:
    layers = layers_of(Items.from_gallery(some_rows(rng, 4)).neighbors(15), 10, 0.5)
    for v in range(3):
        assert np.array_equal(layers.layer(v).toarray() > 0, ~np.eye(4, dtype=bool))


def test_loops_add_the_item_itself_at_weight_one() -> None:
    rng = np.random.default_rng(11)
    rows = to_unit_rows(rng.normal(size=(20, 6)).astype(np.float32))
    lists = Items.from_gallery(rows).neighbors(8)
    plain = layers_of(lists, 4, 0.5, scales=(1.0,))
    looped = layers_of(lists, 4, 0.5, scales=(1.0,), loops=True)
    lengths = gaussian_graph.kernel_lengths(lists, 4)
    weights = twin.listed(lists.indices[:, 1:5], gaussian_graph.gaussian_weights(lists, lengths, 0.5)[:, 1:5]).toarray()
    expected = (weights + weights.T) / 2 + np.eye(20)
    half = 1.0 / np.sqrt(expected.sum(axis=1))
    np.testing.assert_allclose(looped.layer(0).toarray(), half[:, None] * expected * half, rtol=1e-5)
    assert not plain.layer(0).diagonal().any()


def test_kernel_lengths_are_what_their_names_say(rng: np.random.Generator) -> None:
    rows = some_rows(rng, 30)
    lists, d = Items.from_gallery(rows).neighbors(12), twin.euclidean(rows)
    far = farthest(rows)
    np.testing.assert_allclose(gaussian_graph.kernel_lengths(lists, 10), np.sort(d, axis=1)[:, 10], rtol=1e-5)
    np.testing.assert_allclose(gaussian_graph.kernel_lengths(lists, 50), np.sort(d, axis=1)[:, 11], rtol=1e-5)
    np.testing.assert_allclose(gaussian_graph.kernel_lengths(lists, 10, "row", far), d.max(axis=1), rtol=1e-5)
    np.testing.assert_allclose(gaussian_graph.kernel_lengths(lists, 10, "global", far), d.max(), rtol=1e-5)
    assert (gaussian_graph.kernel_lengths(lists, 10, "raw") == 1).all()


def test_an_item_among_duplicates_borrows_the_median_length() -> None:
    distances = np.array([[0, 0, 0], [0, 0, 2], [0, 1, 4], [0, 1, 9]], np.float32)
    lists = Neighbors(np.zeros((4, 3), np.int32), distances)
    assert gaussian_graph.kernel_lengths(lists, 2).tolist() == [4, 2, 4, 9]
    assert gaussian_graph.kernel_lengths(Neighbors(lists.indices, np.zeros_like(distances)), 2).tolist() == [1, 1, 1, 1]
