"""Saved arrays: sparse rows and LPMT's graph as named arrays, and checks of arrays from files.

Kernels follow item numbers without bounds checks, so they rely on the checks made here. Each check is one or two passes
over an array. For 200,000 items all of them together take a third of the time of the checksums, so all are always made.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.errors import InputError
from kinrank.neighbors import Neighbors
from kinrank.stages.lpmt_settings import LpmtSettings
from kinrank.stages.sparse_rows import Rows
from kinrank.vector_input import Vectors

if TYPE_CHECKING:
    from kinrank.stages.pipeline import LpmtGraph
    from kinrank.stages.states import PackedRows

Arrays = dict[str, NDArray[Any]]
ROWS_PER_BLOCK = 4096  # rows whose lengths are computed together
ROUNDING = 1e-3  # allowed deviation of a length or a sum from 1 in float32
MAX_UNIT_VALUE = 1.0 + ROUNDING  # upper limit of values that are at most 1 before rounding
POWER_NAMES = ("rho", "gamma", "share", "direct")


class BadArrayError(InputError):
    """A stored array that cannot be used. The message has the name of the array and the problem."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name} {problem}")
        self.name = name


def require_array(arrays: Arrays, name: str, kind: type, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Return a stored array; raise BadArrayError if it is missing or has another type or shape.

    None in `shape` allows any length.
    """
    array = arrays.get(name)
    if array is None:
        raise BadArrayError(name, "is missing")
    fits = array.ndim == len(shape) and all(size in (None, got) for size, got in zip(shape, array.shape, strict=True))
    if not fits or array.dtype != kind:
        raise BadArrayError(
            name, f"must have the shape {shape} of {np.dtype(kind)}; it has {array.shape} of {array.dtype}"
        )
    return array


def check_items(name: str, items: NDArray[Any], count: int, missing: bool = False) -> None:
    """Raise BadArrayError if an item number is outside the gallery; `missing` allows -1."""
    if items.size and (int(items.min()) < (-1 if missing else 0) or int(items.max()) >= count):
        raise BadArrayError(name, "contains numbers of items that do not exist")


def check_own_first(name: str, items: NDArray[Any]) -> None:
    """Raise BadArrayError unless every row (n, >= 1) of item numbers starts with the item itself."""
    if len(items) and not np.array_equal(items[:, 0], np.arange(len(items))):
        raise BadArrayError(name, "must start every row with the item itself")


def check_distinct(name: str, items: NDArray[Any]) -> None:
    """Raise BadArrayError if a row contains an item twice; -1 may be repeated."""
    ordered = np.sort(items, axis=1)
    if bool(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any()):
        raise BadArrayError(name, "must not repeat an item within a row")


def check_range(name: str, values: NDArray[Any], low: float, high: float = math.inf) -> None:
    """Raise BadArrayError if a number is outside low..high or NaN."""
    if values.size and not (low <= float(values.min()) and float(values.max()) <= high):
        allowed = f"from {low:g} to {high:g}" if high < math.inf else f"of {low:g} and above"
        raise BadArrayError(name, f"must hold numbers {allowed}; it holds {_find_outside(values, low, high):g}")


def check_finite(name: str, values: NDArray[Any], low: float = -math.inf) -> None:
    """Raise BadArrayError if a number is below `low`, infinite or NaN."""
    most = float(np.finfo(values.dtype).max)
    check_range(name, values, max(low, -most), most)


def _find_outside(values: NDArray[Any], low: float, high: float) -> float:
    """Return the first number outside low..high."""
    flat = values.reshape(-1)
    return float(flat[np.flatnonzero(~((flat >= low) & (flat <= high)))[0]])


def check_unit(name: str, rows: Vectors) -> None:
    """Raise BadArrayError unless every row has length 1. NaN, infinite and zero rows fail as well."""
    for start in range(0, len(rows), ROWS_PER_BLOCK):
        block = rows[start : start + ROWS_PER_BLOCK]
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.einsum("ij,ij->i", block, block)
        bad = np.flatnonzero(~(np.abs(squares - 1.0) <= ROUNDING))
        if len(bad):
            row = start + int(bad[0])
            raise BadArrayError(
                name, f"must hold rows of length 1; that of row {row} is {math.sqrt(squares[bad[0]]):g}"
            )


def require_rows(arrays: Arrays, name: str, count: int, kind: type = np.float32, high: float = math.inf) -> Rows:
    """Return sparse rows over `count` items, stored as name_indptr, name_indices and name_data, after checking them.

    Values must lie between 0 and `high`.
    """
    indptr = require_array(arrays, f"{name}_indptr", np.int64, (count + 1,))
    indices = require_array(arrays, f"{name}_indices", np.int32, (None,))
    data = require_array(arrays, f"{name}_data", kind, (len(indices),))
    if int(indptr[0]) != 0 or int(indptr[-1]) != len(indices) or bool((indptr[1:] < indptr[:-1]).any()):
        raise BadArrayError(f"{name}_indptr", f"does not fit {name}_indices")
    check_items(f"{name}_indices", indices, count)
    check_range(f"{name}_data", data, 0.0, high)
    return Rows(indptr, indices, data)


def check_ascending(name: str, rows: Rows) -> None:
    """Raise BadArrayError unless the items of every row ascend strictly."""
    ascends = rows.indices[1:] > rows.indices[:-1]
    starts = rows.indptr[1:-1]
    ascends[starts[(starts > 0) & (starts < len(rows.indices))] - 1] = True
    if not ascends.all():
        raise BadArrayError(f"{name}_indices", "must ascend in every row")


def check_distributions(name: str, rows: Rows, most: int) -> None:
    """Raise BadArrayError unless every row has 1 to `most` entries that sum to 1."""
    sizes = np.diff(rows.indptr)
    if not len(sizes):
        return
    if int(sizes.min()) < 1 or int(sizes.max()) > most:
        raise BadArrayError(f"{name}_indptr", f"must give every row 1 to {most} entries")
    sums = np.add.reduceat(rows.data, rows.indptr[:-1])
    bad = np.flatnonzero(~(np.abs(sums - 1.0) <= ROUNDING))
    if len(bad):
        raise BadArrayError(f"{name}_data", f"must sum to 1 in every row; row {int(bad[0])} sums to {sums[bad[0]]:g}")


def rows_from_arrays(arrays: Arrays, name: str) -> Rows:
    """Return sparse rows from arrays made in this process or checked by `require_rows`."""
    return Rows(*(arrays[f"{name}_{part}"] for part in Rows._fields))


def rows_to_arrays(name: str, rows: Rows) -> Arrays:
    """Return the named arrays that `rows_from_arrays` reads."""
    return {f"{name}_indptr": rows.indptr, f"{name}_indices": rows.indices, f"{name}_data": rows.data}


def graph_to_arrays(prepared: LpmtGraph[PackedRows]) -> Arrays:
    """Return named arrays with everything except the vectors and the powers.

    States are unpacked: files do not depend on the packing, and a change can renumber their items.
    """
    record = prepared.record
    arrays = rows_to_arrays("state", prepared.states.unpack()) | rows_to_arrays("step", prepared.steps)
    if prepared.powers.direct:
        arrays |= rows_to_arrays("wide", prepared.wide.unpack())
    arrays["lengths"] = prepared.lengths.astype(np.float32, copy=False)
    if record is not None:
        arrays |= rows_to_arrays("graph", record.graph)
        arrays |= {"near_indices": record.near.indices, "near_distances": record.near.distances}
        arrays |= {"nearest": record.nearest, "similar": record.unpack().similar}
        arrays |= {"beta": record.beta, "drift": record.drift}
    return arrays


def graph_from_arrays(vectors: Vectors, arrays: Arrays, facts: dict[str, float]) -> LpmtGraph[PackedRows]:
    """Rebuild the graph from arrays made in this process or checked by `check_graph_arrays`."""
    pipeline, record = stages.pipeline, None
    if "nearest" in arrays:
        near, spreading = Neighbors(arrays["near_indices"], arrays["near_distances"]), rows_from_arrays(arrays, "graph")
        record = pipeline.UpdateRecord(
            near, arrays["nearest"], arrays["similar"], spreading, arrays["beta"], arrays["drift"]
        )
    powers = pipeline.Powers(*(facts.get(name, 0.0) for name in POWER_NAMES))  # older folders have no wide states
    embedded, steps = rows_from_arrays(arrays, "state"), rows_from_arrays(arrays, "step")
    wide = rows_from_arrays(arrays, "wide") if powers.direct else stages.states.empty_states(len(vectors))
    return pipeline.LpmtGraph(vectors, embedded, steps, wide, arrays["lengths"], powers, record).pack()


def drop_empty_entries(arrays: Arrays) -> Arrays:
    """Remove entries of mass 0 from states; version 0.1.0 could save them twice for the same item.

    An entry without mass changes no result. Returns the same object if there are none.
    """
    repaired = dict(arrays)
    for name in ("state", "wide"):
        if f"{name}_data" in arrays:
            rows = rows_from_arrays(arrays, name)
            filled = rows.data != 0
            if not filled.all():
                before = np.concatenate([[0], np.cumsum(filled)])
                repaired |= rows_to_arrays(name, Rows(before[rows.indptr], rows.indices[filled], rows.data[filled]))
    return arrays if all(repaired[name] is array for name, array in arrays.items()) else repaired


def check_graph_arrays(n: int, arrays: Arrays, facts: dict[str, float], settings: LpmtSettings) -> None:
    """Raise BadArrayError if arrays from files do not match `graph_to_arrays` for n items and these settings."""
    embedded = require_rows(arrays, "state", n, high=MAX_UNIT_VALUE)
    check_distributions("state", embedded, settings.support or n)
    check_ascending("state", embedded)
    if facts.get("direct", 0.0):
        wide = require_rows(arrays, "wide", n, high=MAX_UNIT_VALUE)
        check_distributions("wide", wide, settings.answer_values.direct_support)
        check_ascending("wide", wide)
    steps = require_rows(arrays, "step", n)  # a price may be infinite: no chain takes such a step
    check_ascending("step", steps)
    check_finite("lengths", require_array(arrays, "lengths", np.float32, (n,)), np.finfo(np.float32).tiny)
    if "nearest" in arrays:
        _check_record(n, arrays, settings)


def _check_record(n: int, arrays: Arrays, settings: LpmtSettings) -> None:
    """Check the arrays of the UpdateRecord."""
    widths = stages.pipeline.ListSizes.of(settings)
    check_ascending("graph", require_rows(arrays, "graph", n, high=MAX_UNIT_VALUE))
    near = require_array(arrays, "near_indices", np.int32, (n, min(widths.kept, n)))
    check_items("near_indices", near, n, missing=True)
    check_own_first("near_indices", near)
    check_distinct("near_indices", near)
    _check_near(near, require_array(arrays, "near_distances", np.float32, near.shape), widths.needed)
    nearest = require_array(arrays, "nearest", np.int32, (n, min(widths.diffused, n)))
    check_items("nearest", nearest, n)
    check_own_first("nearest", nearest)
    check_distinct("nearest", nearest[:, : settings.path_k + 1])
    similar = require_array(arrays, "similar", np.float32, nearest.shape)
    check_range("similar", similar, 0.0, 2.0)  # at most 1, plus the error that the tolerance allows
    check_range("similar", similar[:, :1], np.finfo(np.float32).tiny)
    beta = require_array(arrays, "beta", np.float64, (len(stages.gaussian_graph.SCALES),))
    check_range("beta", beta, 0.0, MAX_UNIT_VALUE)
    check_range("beta", beta.sum(keepdims=True), 2.0 - MAX_UNIT_VALUE, MAX_UNIT_VALUE)
    check_finite("drift", require_array(arrays, "drift", np.float32, (n, 3)), 0.0)


def _check_near(near: NDArray[np.int32], distances: NDArray[np.float32], needed: int) -> None:
    """Raise BadArrayError unless lists have at least `needed` items, ascending by distance, padded with -1 and inf."""
    present = near >= 0
    if not present[:, :needed].all() or bool((present[:, 1:] & ~present[:, :-1]).any()):
        raise BadArrayError(
            "near_indices", f"must contain at least {min(needed, len(near))} items in every row, and -1 only after them"
        )
    check_range("near_distances", distances, 0.0)
    if not np.array_equal(np.isfinite(distances), present):
        raise BadArrayError(
            "near_distances", "must be finite where near_indices contains an item, and infinite elsewhere"
        )
    if bool((distances[:, 1:] < distances[:, :-1]).any()):
        raise BadArrayError("near_distances", "must ascend in every row")
