"""Vectors from other libraries, files and single queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.errors import InputError
from kinrank.vector_input import check_vectors

ROWS = np.random.default_rng(3).standard_normal((12, 4)).astype(np.float32)


class Column(Sequence[list[float]]):
    """A column of a Hugging Face dataset: a sequence of lists."""

    def __getitem__(self, row: Any) -> Any:
        return ROWS[row].tolist()

    def __len__(self) -> int:
        return len(ROWS)


class DLPack:
    """An array of a library without `__array__`."""

    def __init__(self, device: int = 1) -> None:
        self.device = device

    def __dlpack__(self, **options: Any) -> Any:
        if self.device != 1:
            raise BufferError("no copy from this device")
        return ROWS.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


class CuPy(DLPack):
    """An array on a device that refuses implicit conversion."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed")

    def get(self) -> Any:
        return ROWS


def arrow(kind: str) -> Callable[[], Any]:
    def make() -> Any:
        pa = pytest.importorskip("pyarrow")
        fixed = pa.FixedSizeListArray.from_arrays(pa.array(ROWS.ravel()), 4)
        return {
            "fixed": fixed,
            "sliced": pa.concat_arrays([fixed, fixed])[12:],
            "list": pa.array(ROWS.tolist()),
            "chunked": pa.chunked_array([fixed[:5], fixed[5:]]),
            "table": pa.table({f"x{place}": ROWS[:, place] for place in range(4)}),
            "column": pa.table({"x": fixed}),
            "tensor": pa.FixedShapeTensorArray.from_numpy_ndarray(ROWS),
        }[kind]

    return make


def frame(library: str, kind: str) -> Callable[[], Any]:
    def make() -> Any:
        module = pytest.importorskip(library)
        if kind == "frame":
            return module.DataFrame({f"x{place}": ROWS[:, place] for place in range(4)})
        if kind == "nullable":
            return module.DataFrame(ROWS).set_axis(list("xxyz"), axis=1).astype("Float32")
        if kind == "column":
            return module.DataFrame({"x": ROWS.tolist()})
        return module.Series(ROWS.tolist() if kind == "lists" else [row.copy() for row in ROWS])

    return make


def tensor(kind: str) -> Callable[[], Any]:
    def make() -> Any:
        torch = pytest.importorskip("torch")
        return {
            "gradient": lambda: torch.tensor(ROWS, requires_grad=True),
            "strided": lambda: torch.tensor(np.ascontiguousarray(ROWS.T)).T,
            "rows": lambda: [torch.tensor(row, requires_grad=True) for row in ROWS],
        }[kind]()

    return make


def dataset_column(form: str | None) -> Callable[[], Any]:
    def make() -> Any:
        pytest.importorskip(form or "datasets")
        data = pytest.importorskip("datasets").Dataset.from_dict({"x": ROWS.tolist()})
        return data.with_format(form)["x"]

    return make


SOURCES: dict[str, Callable[[], Any]] = {
    "lists": ROWS.tolist,
    "list of arrays": lambda: list(ROWS),
    "column": Column,
    "dlpack": DLPack,
    "cupy": lambda: CuPy(2),
    **{f"arrow {kind}": arrow(kind) for kind in ("fixed", "sliced", "list", "chunked", "table", "column", "tensor")},
    **{f"pandas {kind}": frame("pandas", kind) for kind in ("frame", "lists", "arrays", "nullable", "column")},
    **{f"polars {kind}": frame("polars", kind) for kind in ("frame", "lists", "arrays", "column")},
    **{f"torch {kind}": tensor(kind) for kind in ("gradient", "strided", "rows")},
    **{f"datasets {form}": dataset_column(form) for form in (None, "numpy", "torch")},
    "jax": lambda: pytest.importorskip("jax").numpy.asarray(ROWS),
}


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_vectors_of_other_libraries(make: Callable[[], Any]) -> None:
    np.testing.assert_allclose(check_vectors(make()), ROWS, rtol=1e-6)
    expected = kr.rerank(ROWS[:2], ROWS, "none", k=3)
    found = kr.rerank(make(), make(), "none", k=3)
    assert np.array_equal(found.indices[:2], expected.indices)


def test_files(tmp_path: Path) -> None:
    np.save(tmp_path / "g.npy", ROWS)
    np.savez(tmp_path / "both.npz", q=ROWS[:2], g=ROWS)
    expected = kr.rerank(ROWS[:2], ROWS, "aqe", k=3).indices
    for candidates in (None, 12):
        found = kr.rerank(f"{tmp_path / 'both.npz'}:q", tmp_path / "g.npy", "aqe", k=3, candidates=candidates)
        assert np.array_equal(found.indices, expected) or candidates
    manifold = kr.Manifold.build(str(tmp_path / "g.npy"), "aqe")
    assert len(manifold.search(f"{tmp_path / 'both.npz'}:q", 3)) == 2
    labels = np.arange(12) % 3
    truth = kr.Truth.from_labels(labels)
    trials = kr.compare(None, tmp_path / "g.npy", truth, methods="aqe", resamples=0)
    assert trials.items == 12
    with pytest.raises(InputError, match=r"absent\.npy"):
        kr.rerank(ROWS, "absent.npy")


def test_a_single_vector_is_one_query(tmp_path: Path) -> None:
    one = ROWS[5]
    store = kr.stores.ArrayStore(ROWS)
    manifold = kr.Manifold.build(ROWS, kr.LPMT())
    for ask in (
        lambda query: kr.rerank(query, ROWS, "aqe"),
        lambda query: kr.rerank(query, store, "aqe", candidates=5),
        lambda query: store.search(query, 3),
        lambda query: manifold.search(query, 3),
    ):
        found, expected = ask(one.tolist()), ask(one[None])
        assert len(found) == 1
        assert np.array_equal(found.indices, expected.indices)
    assert manifold.explain(one, 3) == manifold.explain(one[None], 3)
    assert manifold.observe(ROWS[0] + ROWS[1]) == 1
    with pytest.raises(InputError, match=r"gallery must be 2-d, one row per item; got shape \(4,\)"):
        kr.rerank(one, one, "aqe")


def test_a_single_query_of_several_features() -> None:
    gallery = kr.combine([ROWS, ROWS[:, :3]])
    manifold = kr.Manifold.build(gallery, "aqe")
    found = manifold.search([ROWS[2], ROWS[2, :3]], 4)
    assert np.array_equal(found.indices, manifold.search([ROWS[2:3], ROWS[2:3, :3]], 4).indices)


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (lambda: DLPack(2), r"cannot be copied to main memory \(no copy from this device\); pass a numpy array"),
        (lambda: np.array([np.zeros(2), np.zeros(3)], dtype=object), "is not an array of equal rows"),
        (lambda: pytest.importorskip("pyarrow").array([[1.0], [1.0, 2.0]]), "has rows of 1 to 2 numbers"),
        (lambda: {}.values(), "must be rows of numbers, one per item; got dict_values"),
        (lambda: (row for row in ROWS), r"got a generator, which can be read only once: pass np.array\(list\(vectors"),
        (lambda: pytest.importorskip("pyarrow").array([[1.0], None]), "contains 1 missing entries"),
        (lambda: pytest.importorskip("pyarrow").array([[1.0], [None]]), "contains 1 missing entries"),
    ],
)
def test_vectors_that_cannot_be_read(vectors: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_vectors(vectors())


def test_small_floats_of_torch_keep_their_values() -> None:
    torch = pytest.importorskip("torch")
    for kind in (torch.bfloat16, torch.float16, torch.float8_e4m3fn):
        rows = torch.tensor(ROWS).to(kind)
        assert np.array_equal(check_vectors(rows), rows.float().numpy())


def test_a_table_of_one_column_of_numbers_is_not_a_single_vector() -> None:
    pa = pytest.importorskip("pyarrow")
    assert check_vectors(pa.table({"x": [1.0, 2.0, 3.0]}), "queries").shape == (3, 1)
