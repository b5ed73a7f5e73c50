"""What LPMT prepared <-> arrays and numbers by name, as they are saved; and checks of arrays that come from files."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.neighbors import Neighbors
from kinrank.stages.csr import Rows
from kinrank.stages.graph import SCALES
from kinrank.stages.pipeline import Measured, Prepared, Record

Arrays = dict[str, NDArray[Any]]
FACTS = ("rho", "gamma", "share")


def array_in(arrays: Arrays, name: str, kind: type, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """An array that was kept, or a ValueError if it is missing or of another kind; None allows any length."""
    array = arrays.get(name)
    if array is None:
        raise ValueError(f"{name} is missing")
    fits = array.ndim == len(shape) and all(want in (None, got) for want, got in zip(shape, array.shape, strict=True))
    if not fits or array.dtype != kind:
        raise ValueError(
            f"{name} must have the shape {shape} of {np.dtype(kind)}; it has {array.shape} of {array.dtype}"
        )
    return array


def check_items(name: str, items: NDArray[Any], count: int, missing: bool = False) -> None:
    """A ValueError if item numbers lie outside the gallery: compiled loops follow them without looking.

    `missing` allows -1.
    """
    if items.size and (int(items.min()) < (-1 if missing else 0) or int(items.max()) >= count):
        raise ValueError(f"{name} names items that are not there")


def rows_in(arrays: Arrays, name: str, count: int, kind: type = np.float32) -> Rows:
    """Sparse rows over `count` items that were kept as name_indptr, name_indices, name_data; checked."""
    indptr = array_in(arrays, f"{name}_indptr", np.int64, (count + 1,))
    indices = array_in(arrays, f"{name}_indices", np.int32, (None,))
    data = array_in(arrays, f"{name}_data", kind, (len(indices),))
    if int(indptr[0]) != 0 or int(indptr[-1]) != len(indices) or bool((np.diff(indptr) < 0).any()):
        raise ValueError(f"{name}_indptr does not fit {name}_indices")
    check_items(f"{name}_indices", indices, count)
    return Rows(indptr, indices, data)


def arrays_of(name: str, rows: Rows) -> Arrays:
    """What `rows_in` reads."""
    return {f"{name}_indptr": rows.indptr, f"{name}_indices": rows.indices, f"{name}_data": rows.data}


def saved(prepared: Prepared) -> tuple[Arrays, dict[str, float]]:
    """Everything but the vectors."""
    powers, record = prepared.powers, prepared.record
    arrays = arrays_of("state", prepared.states) | arrays_of("step", prepared.steps)
    arrays["lengths"] = prepared.lengths.astype(np.float32, copy=False)
    if record is not None:
        arrays |= arrays_of("graph", record.graph)
        arrays |= {"near_indices": record.near.indices, "near_distances": record.near.distances}
        arrays |= {"nearest": record.nearest, "similar": record.similar, "beta": record.beta, "drift": record.drift}
    return arrays, {"rho": powers.rho, "gamma": powers.gamma, "share": powers.share}


def restored(vectors: Vectors, arrays: Arrays, facts: dict[str, float], checked: bool = False) -> Prepared:
    """The same again; a ValueError if parts are missing or do not fit together. `checked`: they were made just now."""
    if not checked:
        _check(len(vectors), arrays, facts)
    states, steps, spreading = (
        Rows(*(arrays.get(f"{name}_{part}") for part in Rows._fields))  # type: ignore[arg-type]
        for name in ("state", "step", "graph")
    )
    record = None
    if "nearest" in arrays:
        near = Neighbors(arrays["near_indices"], arrays["near_distances"])
        record = Record(near, arrays["nearest"], arrays["similar"], spreading, arrays["beta"], arrays["drift"])
    powers = Measured(*(facts[name] for name in FACTS))
    return Prepared(vectors, states, steps, arrays["lengths"], powers, record)


def _check(n: int, arrays: Arrays, facts: dict[str, float]) -> None:
    rows_in(arrays, "state", n)
    rows_in(arrays, "step", n)
    array_in(arrays, "lengths", np.float32, (n,))
    missing = [name for name in FACTS if name not in facts]
    if missing:
        raise ValueError(f"the number {missing[0]} is missing")
    if "nearest" in arrays:
        rows_in(arrays, "graph", n)
        near = array_in(arrays, "near_indices", np.int32, (n, None))
        nearest = array_in(arrays, "nearest", np.int32, (n, None))
        check_items("near_indices", near, n, missing=True)
        check_items("nearest", nearest, n)
        array_in(arrays, "near_distances", np.float32, near.shape)
        array_in(arrays, "similar", np.float32, nearest.shape)
        array_in(arrays, "beta", np.float64, (len(SCALES),))
        array_in(arrays, "drift", np.float32, (n, 3))
