"""Pickled Manifolds are equal in the other process and checked there; stores that cannot be pickled are refused."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank as kr
from kinrank.errors import ConcurrentSaveError
from reference.stores import Elsewhere

pytestmark = pytest.mark.slow


def rows_of(seed: int, items: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(items, 6)).astype("f4")


@pytest.fixture(scope="module")
def manifold() -> kr.Manifold:
    return kr.Manifold.build(rows_of(1, 80), kr.LPMT(k2=4), ids=[f"n{i}" for i in range(80)])


def assert_same(left: kr.Manifold, right: kr.Manifold) -> None:
    a, b = left.search(rows_of(2, 9), k=12), right.search(rows_of(2, 9), k=12)
    np.testing.assert_array_equal(a.indices, b.indices)
    np.testing.assert_array_equal(a.distances, b.distances)
    assert left.ids.tolist() == right.ids.tolist()
    assert left.method == right.method
    assert left.info() == right.info()


def best(manifold: kr.Manifold) -> Any:
    return manifold.search(rows_of(2, 9), k=12).indices


def test_a_manifold_is_pickled_and_copied(manifold: kr.Manifold, tmp_path: Path) -> None:
    assert_same(pickle.loads(pickle.dumps(manifold)), manifold)
    assert_same(copy.deepcopy(manifold), manifold)
    manifold.save(tmp_path / "m")
    mapped = kr.Manifold.load(tmp_path / "m")
    mapped.remove(["n5"])
    mapped.add(rows_of(3, 1), ["new"])
    travelled = pickle.loads(pickle.dumps(mapped))
    assert_same(travelled, mapped)
    travelled.add(rows_of(4, 1), ["newer"])  # and it can be changed
    assert len(travelled) == 81


def test_it_travels_to_another_process(manifold: kr.Manifold) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        np.testing.assert_array_equal(pool.submit(best, manifold).result(), best(manifold))


def test_a_method_of_ones_own_travels(manifold: kr.Manifold) -> None:
    own = kr.Manifold.build(rows_of(1, 30), Own(k=3))
    assert pickle.loads(pickle.dumps(own)).method == Own(k=3)


class Own(kr.methods.AQE):
    name = "own"


def test_a_pickled_manifold_knows_its_folder(manifold: kr.Manifold, tmp_path: Path) -> None:
    """A copy in another process must not undo the changes of others either."""
    kr.Manifold(manifold.snapshot).save(tmp_path / "m")
    here = kr.Manifold.load(tmp_path / "m")
    there = pickle.loads(pickle.dumps(here))
    here.remove(["n0"])
    here.save(tmp_path / "m")
    with pytest.raises(ConcurrentSaveError):
        there.save(tmp_path / "m")


def test_pickles_are_checked_like_folders(manifold: kr.Manifold) -> None:
    restore, ((kind, parameters, arrays, *rest), known) = manifold.__reduce__()
    wrong = arrays["step_indices"].copy()
    wrong[0] = 10**6
    with pytest.raises(
        ValueError, match=r"the pickle is not a manifold .* contains numbers of items that do not exist"
    ):
        restore((kind, parameters, arrays | {"step_indices": wrong}, *rest), known)
    with pytest.raises(ValueError, match=r"k2=-1 is not allowed"):
        restore((kind, parameters | {"k2": -1}, arrays, *rest), known)
    with pytest.raises(ValueError, match="it contains no vectors"):
        restore((kind, parameters, {}, *rest), known)


class Connected(Elsewhere):
    """A store with a part that cannot be pickled, such as a connection."""

    def __init__(self, rows: NDArray[np.float32]) -> None:
        super().__init__(rows)
        self.lock = threading.Lock()


def test_a_store_travels_if_it_can() -> None:
    stored = kr.Manifold.build(kr.stores.ArrayStore(rows_of(1, 80)))
    travelled = pickle.loads(pickle.dumps(stored))
    assert_same(travelled, stored)
    assert travelled.info()["store"] == "ArrayStore"
    connected = kr.Manifold.build(Connected(rows_of(1, 80)))
    with pytest.raises(TypeError, match=r"its store, a Connected, cannot be .*lock.*; save the manifold, and load it"):
        pickle.dumps(connected)


def test_faiss_travels() -> None:
    faiss = pytest.importorskip("kinrank.stores.faiss", reason="needs FAISS: pip install '.[faiss]'")
    pytest.importorskip("faiss", reason="needs FAISS: pip install '.[faiss]'")
    stored = kr.Manifold.build(faiss.FaissStore(rows_of(1, 300), "hnsw"))
    assert_same(pickle.loads(pickle.dumps(stored)), stored)
