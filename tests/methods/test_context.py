"""The context methods: published outputs, slow references, and edge cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank
from kinrank.methods import METHODS, Method
from kinrank.neighbors import find_nearest
from kinrank.problem import Items
from kinrank.progress import SILENT
from kinrank.stages import gaussian_graph, reciprocal_sets
from kinrank.vector_input import to_unit_rows
from reference import context as twin

NAMES = ["knn", "k-reciprocal", "sca", "ecn", "gnn", "conaff", "stml"]
SMALL = [
    kinrank.methods.KNN(k=3),
    kinrank.KReciprocal(k1=4, k2=2),
    kinrank.KReciprocal(k1=4, k2=2, lam=0),
    kinrank.methods.SCA(k1=4, k2=2),
    kinrank.methods.ECN(k=4, t=2, q=2),
    kinrank.methods.GNN(k1=4, k2=2),
    kinrank.methods.ConAff(k1=4, k2=2),
    kinrank.methods.STML(k=4),
]


def matrix(method: Method, queries: NDArray[Any], gallery: NDArray[Any]) -> NDArray[Any]:
    """Return (q, g) distances, two queries at a time, to test blocks too."""
    items = Items.joint(queries, gallery)
    prepared = method.prepare(items, SILENT)
    blocks = [np.arange(i, min(i + 2, len(queries))) for i in range(0, len(queries), 2)]
    return np.concatenate([method.distances(prepared, block) for block in blocks])


def clustered(rng: np.random.Generator, groups: int, each: int, dimensions: int = 16) -> NDArray[np.float32]:
    centres = rng.normal(size=(groups, dimensions))
    rows = np.repeat(centres, each, axis=0) + 0.5 * rng.normal(size=(groups * each, dimensions))
    return to_unit_rows(rng.permutation(rows).astype(np.float32))


@pytest.fixture(scope="module")
def published(shared_dir: Path) -> dict[str, NDArray[Any]]:
    file = shared_dir / "golden" / "reference.npz"
    if not file.is_file():
        pytest.skip(f"published outputs not found at {file}; set KINRANK_SHARED to the folder that holds golden/")
    with np.load(file) as arrays:
        return dict(arrays)


@pytest.mark.parametrize(
    ("output", "sign", "method"),
    [
        ("knn", 1, kinrank.methods.KNN(k=20)),
        ("k_reciprocal", 1, kinrank.KReciprocal(k1=20, k2=6, lam=0.3)),
        ("k_reciprocal_d4", 1, kinrank.KReciprocal(k1=20, k2=6, lam=0.3, variant="published")),
        ("ecn", 1, kinrank.methods.ECN(k=25, t=3, q=8)),
        ("gnn", -1, kinrank.methods.GNN(k1=20, k2=5, alpha=2, variant="published")),
        ("stml", -1, kinrank.methods.STML(k=20, variant="published")),
    ],
)
def test_published_outputs(published: dict[str, NDArray[Any]], output: str, sign: int, method: Method) -> None:
    wanted = sign * published[f"out_{output}"].astype(np.float64)
    got = matrix(method, to_unit_rows(published["queries"]), to_unit_rows(published["gallery"])).astype(np.float64)
    tolerance = 1e-4 * np.ptp(wanted)
    if output != "ecn":
        assert np.abs(got - wanted).max() < tolerance
    order = np.argsort(wanted, axis=1, kind="stable")
    steps = np.diff(np.take_along_axis(wanted, order, axis=1), axis=1) > (1e-6 if output == "ecn" else tolerance)
    assert (np.diff(np.take_along_axis(got, order, axis=1), axis=1)[steps] > 0).all()


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(
    ("method", "slow", "sign"),
    [
        (kinrank.methods.KNN(k=6), lambda q, x: twin.knn(q, x, 6), -1),
        (kinrank.KReciprocal(k1=7, k2=3, lam=0.2), lambda q, x: twin.k_reciprocal(q, x, 7, 3, 0.2), 1),
        (
            kinrank.KReciprocal(k1=9, k2=1, variant="published"),
            lambda q, x: twin.k_reciprocal(q, x, 9, 1, 0.3, power=2),
            1,
        ),
        (kinrank.methods.SCA(k1=8, k2=3), lambda q, x: twin.sca(q, x, 8, 3), 1),
        (kinrank.methods.SCA(k1=5, k2=2, weights="cosine"), lambda q, x: twin.sca(q, x, 5, 2, "cosine"), 1),
        (kinrank.methods.ECN(k=7, t=2, q=4), lambda q, x: twin.ecn(q, x, 7, 2, 4), 1),
        (kinrank.methods.ECN(k=3, t=4, q=6), lambda q, x: twin.ecn(q, x, 3, 4, 6), 1),
        (kinrank.methods.GNN(k1=8, k2=3), lambda q, x: twin.gnn(q, x, 8, 3, 2), -1),
        (kinrank.methods.GNN(k1=6, k2=2, alpha=1, lam=0.3), lambda q, x: twin.gnn(q, x, 6, 2, 1, 0.3), -1),
        (
            kinrank.methods.GNN(k1=6, k2=8, variant="published"),
            lambda q, x: twin.gnn(q, x, 6, 8, 2, identity=True),
            -1,
        ),
        (kinrank.methods.ConAff(k1=9, k2=4), lambda q, x: twin.gnn(q, x, 9, 4, 2), -1),
        (kinrank.methods.STML(k=8), lambda q, x: twin.stml(q, x, 8, 1, 0.1), -1),
        (kinrank.methods.STML(k=7, variant="published"), lambda q, x: twin.stml(q, x, 7, 2, 0.1), -1),
        (
            kinrank.methods.STML(k=8, variant="loss"),
            lambda q, x: twin.stml(q, x, 8, 1, 3.0, scale=False, restrict=True),
            -1,
        ),
    ],
    ids=lambda value: repr(value) if isinstance(value, Method) else "",
)
def test_agrees_with_its_definition(method: Method, slow: Any, sign: int, seed: int) -> None:
    rows = clustered(np.random.default_rng(seed), 6, 8)
    queries, gallery = rows[:5], rows[5:]
    np.testing.assert_allclose(matrix(method, queries, gallery), sign * slow(queries, gallery), atol=2.1e-5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("queries", "gallery"), [(1, 1), (2, 1), (1, 2), (3, 4)])
def test_k_larger_than_the_set(rng: np.random.Generator, name: str, queries: int, gallery: int) -> None:
    ranking = kinrank.rerank(rng.normal(size=(queries, 8)), rng.normal(size=(gallery, 8)), name)
    assert np.isfinite(ranking.distances).all()
    assert (np.sort(ranking.indices, axis=1) == np.arange(gallery)).all()


@pytest.mark.parametrize("name", NAMES)
def test_all_duplicates_are_finite(name: str) -> None:
    ranking = kinrank.rerank(np.ones((2, 4)), np.ones((30, 4)), name)
    assert np.isfinite(ranking.distances).all()


@pytest.mark.parametrize("method", SMALL, ids=repr)
def test_copies_of_the_query_come_first_whatever_else_is_copied(method: Method) -> None:
    gallery = np.concatenate([np.tile([[1.0, -1.0]], (8, 1)), np.ones((8, 2))])
    ranking = kinrank.rerank(np.ones((1, 2)), gallery, method)
    assert set(ranking.indices[0, :8]) == set(range(8, 16))


@pytest.mark.parametrize("name", NAMES)
def test_every_item_queries_the_others(rng: np.random.Generator, name: str) -> None:
    rows = clustered(rng, 4, 6)
    ranking = kinrank.rerank(None, rows, name)
    assert np.isfinite(ranking.distances).all()
    for own, row in enumerate(ranking.indices):
        assert sorted(row) == [i for i in range(len(rows)) if i != own]


@pytest.mark.parametrize(
    "method",
    [method for method in SMALL if method.name not in ("knn", "stml")],
    ids=repr,
)
def test_out_of_reach_follows_in_the_order_of_the_distance(rng: np.random.Generator, method: Method) -> None:
    near = np.concatenate([np.ones((8, 1)), 0.1 * rng.normal(size=(8, 9))], axis=1)
    far = np.concatenate([-np.ones((8, 1)), 0.1 * rng.normal(size=(8, 9))], axis=1)
    queries, gallery = (
        to_unit_rows(near[:1].astype(np.float32)),
        to_unit_rows(np.concatenate([near[1:], far]).astype(np.float32)),
    )
    found = kinrank.rerank(queries, gallery, method).indices[0]
    plain = kinrank.rerank(queries, gallery, "none").indices[0]
    assert set(found[:7]) == set(range(7))
    assert list(found[7:]) == list(plain[7:])


def test_farthest_is_the_row_maximum(rng: np.random.Generator) -> None:
    rows = to_unit_rows(rng.normal(size=(2300, 5)).astype(np.float32))
    rows[:3] = rows[3]
    squared = ((rows[:50, None] - rows[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(reciprocal_sets.find_farthest_squared(rows)[:50], squared.max(axis=1), rtol=1e-5)
    same = np.repeat(rows[:1], 4, axis=0)
    assert (reciprocal_sets.find_farthest_squared(same) > 0).all()
    close = to_unit_rows((1 + 1e-3 * rng.normal(size=(6, 5))).astype(np.float32))
    squared = ((close[:, None].astype(np.float64) - close[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(reciprocal_sets.find_farthest_squared(close), squared.max(axis=1), rtol=1e-4)


def test_reciprocal_and_expanded_sets(rng: np.random.Generator) -> None:
    rows = clustered(rng, 5, 9)
    lists = find_nearest(rows, rows, 13, own=np.arange(len(rows))).indices
    rank = twin.joint(rows[:0], rows)[1]
    wide, half = twin.reciprocal(rank, 13), twin.reciprocal(rank, 7)
    np.testing.assert_array_equal(gaussian_graph.reciprocal_matrix(lists, 13).toarray() > 0, wide)
    sets = reciprocal_sets.expand_reciprocal_sets(lists, 13, 7)
    sets.data[:] = 1
    np.testing.assert_array_equal(sets.toarray(), twin.expanded(wide, half).astype(float))


@pytest.mark.parametrize("name", NAMES)
def test_forty_thousand_items_fit_three_gigabytes(name: str) -> None:
    assert METHODS[name]().memory(40_100, 100, 128) < 3 * 10**9 - 100 * 40_000 * 12 - 40_000 * 40
