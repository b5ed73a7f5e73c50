"""The exported matrices are those of the equations and those that searches use."""

from __future__ import annotations

import io

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

import kinrank as kr
from kinrank.manifold import export

pytestmark = pytest.mark.slow

METHOD = kr.LPMT(k1=12, k2=3, k=4, path_k=3, support=9, tolerance=1e-6)


@pytest.fixture
def rows(rng: np.random.Generator) -> NDArray[np.float32]:
    centres = rng.normal(size=(4, 6))
    return (centres[np.arange(60) % 4] + 0.35 * rng.normal(size=(60, 6))).astype(np.float32)


def test_matrices_are_those_of_the_equations(rows: NDArray[np.float32]) -> None:
    found = export(kr.Manifold.build(rows, METHOD))
    assert list(found) == ["graph", "similarities", "states", "steps"]
    assert {matrix.shape for matrix in found.values()} == {(60, 60)}
    a = 1 / (1 + METHOD.mu)
    diffused = (1 - a) * np.linalg.inv(np.eye(60) - found["graph"].toarray().astype(np.float64))
    similar = found["similarities"].toarray()
    for item in range(60):
        listed = np.flatnonzero(similar[item])
        assert item in listed
        assert 1 < len(listed) <= METHOD.k1
        np.testing.assert_allclose(
            similar[item, listed], diffused[item, listed], rtol=5e-4, atol=1e-5
        )  # 11 bits are kept
        left = np.delete(diffused[item], listed)
        assert left.max(initial=0) <= similar[item, listed].min() + 2e-5 or len(listed) < METHOD.k1
    np.testing.assert_allclose(found["states"].sum(axis=1), 1, rtol=1e-5)
    assert np.diff(found["states"].indptr).max() <= METHOD.support
    steps = found["steps"]
    assert abs(steps - steps.T).max() == 0
    assert steps.diagonal().max() == 0


def test_missing_matrices_are_computed_again(rows: NDArray[np.float32]) -> None:
    kept, lean = (export(kr.Manifold.build(rows, METHOD, changes=changes)) for changes in (True, False))
    for name, matrix in kept.items():
        assert abs(matrix - lean[name]).max() == 0, name


def test_rows_follow_the_items_through_changes(rows: NDArray[np.float32]) -> None:
    manifold = kr.Manifold.build(rows, METHOD, ids=[f"n{number}" for number in range(60)])
    manifold.remove(["n3", "n10"])
    manifold.add(rows[3:4], ids=["again"])
    found = export(manifold)
    assert found["states"].shape == (len(manifold), len(manifold)) == (59, 59)
    last = manifold.ids.tolist().index("again")
    assert found["states"][[last]].nnz > 1


def test_exports_are_copies_and_need_no_pickle(rows: NDArray[np.float32]) -> None:
    manifold = kr.Manifold.build(rows, METHOD)
    before = manifold.search(rows[:5], k=5)
    found = export(manifold)
    for matrix in found.values():
        file = io.BytesIO()
        sparse.save_npz(file, matrix)
        file.seek(0)
        assert abs(sparse.load_npz(file) - matrix).max() == 0
        matrix.data[:] = 0
    after = manifold.search(rows[:5], k=5)
    np.testing.assert_array_equal(before.distances, after.distances)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_items(rows: NDArray[np.float32], count: int) -> None:
    found = export(kr.Manifold.build(rows[:count], METHOD))
    assert {matrix.shape for matrix in found.values()} == {(count, count)}
    if count == 1:
        assert found["similarities"].toarray()[0, 0] == pytest.approx(1 - 1 / (1 + METHOD.mu))


def test_other_methods_have_no_states(rows: NDArray[np.float32]) -> None:
    with pytest.raises(ValueError, match="was prepared by dfs, but only one prepared by lpmt"):
        export(kr.Manifold.build(rows, "dfs"))
