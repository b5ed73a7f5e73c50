"""What LPMT prepared <-> arrays and numbers by name, as they are saved; and whether arrays from files are such."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.neighbors import Neighbors
from kinrank.stages import checks, direct
from kinrank.stages.checks import Arrays, BadArray, array_in
from kinrank.stages.csr import Rows
from kinrank.stages.graph import SCALES
from kinrank.stages.pipeline import Measured, Prepared, Record, Widths
from kinrank.stages.settings import Settings

FACTS = ("rho", "gamma", "share", "direct")
MOST = 1.0 + checks.ROUNDING  # of what is at most 1


def known_rows(arrays: Arrays, name: str) -> Rows:
    """Sparse rows of arrays that were made just now, or went through `checks.rows_in`."""
    return Rows(*(arrays[f"{name}_{part}"] for part in Rows._fields))


def arrays_of(name: str, rows: Rows) -> Arrays:
    """What `known_rows` reads."""
    return {f"{name}_indptr": rows.indptr, f"{name}_indices": rows.indices, f"{name}_data": rows.data}


def saved(prepared: Prepared) -> tuple[Arrays, dict[str, float]]:
    """Everything but the vectors."""
    powers, record = prepared.powers, prepared.record
    arrays = arrays_of("state", prepared.states) | arrays_of("step", prepared.steps)
    if powers.direct:
        arrays |= arrays_of("wide", prepared.wide)
    arrays["lengths"] = prepared.lengths.astype(np.float32, copy=False)
    if record is not None:
        arrays |= arrays_of("graph", record.graph)
        arrays |= {"near_indices": record.near.indices, "near_distances": record.near.distances}
        arrays |= {"nearest": record.nearest, "similar": record.similar, "beta": record.beta, "drift": record.drift}
    return arrays, {name: getattr(powers, name) for name in FACTS}


def restored(vectors: Vectors, arrays: Arrays, facts: dict[str, float]) -> Prepared:
    """The same again, of what was made just now, or went through `check`."""
    record = None
    if "nearest" in arrays:
        near, spreading = Neighbors(arrays["near_indices"], arrays["near_distances"]), known_rows(arrays, "graph")
        record = Record(near, arrays["nearest"], arrays["similar"], spreading, arrays["beta"], arrays["drift"])
    powers = Measured(*(facts.get(name, 0.0) for name in FACTS))  # folders of before have no wide states
    states, steps = known_rows(arrays, "state"), known_rows(arrays, "step")
    wide = known_rows(arrays, "wide") if powers.direct else direct.no_states(len(vectors))
    return Prepared(vectors, states, steps, wide, arrays["lengths"], powers, record)


def without_empty_entries(arrays: Arrays) -> Arrays:
    """Arrays without entries of mass 0 in their states, which version 0.1.0 could save twice for the same item.

    An entry without mass changes no result. Returns the same object if there are none.
    """
    repaired = dict(arrays)
    for name in ("state", "wide"):
        if f"{name}_data" in arrays:
            rows = known_rows(arrays, name)
            filled = rows.data != 0
            if not filled.all():
                before = np.concatenate([[0], np.cumsum(filled)])
                repaired |= arrays_of(name, Rows(before[rows.indptr], rows.indices[filled], rows.data[filled]))
    return arrays if all(repaired[name] is array for name, array in arrays.items()) else repaired


def check(n: int, arrays: Arrays, facts: dict[str, float], settings: Settings) -> None:
    """An error if arrays from files are not what `saved` makes of n items under these settings."""
    states = checks.rows_in(arrays, "state", n, high=MOST)
    checks.check_distributions("state", states, settings.support or n)
    checks.check_ascending("state", states)
    if facts.get("direct", 0.0):
        wide = checks.rows_in(arrays, "wide", n, high=MOST)
        checks.check_distributions("wide", wide, settings.direct_support)
        checks.check_ascending("wide", wide)
    steps = checks.rows_in(arrays, "step", n)  # a price may be infinite: nobody takes such a step
    checks.check_ascending("step", steps)
    checks.check_finite("lengths", array_in(arrays, "lengths", np.float32, (n,)), np.finfo(np.float32).tiny)
    if "nearest" in arrays:
        _check_record(n, arrays, settings)


def _check_record(n: int, arrays: Arrays, settings: Settings) -> None:
    widths = Widths.of(settings)
    checks.check_ascending("graph", checks.rows_in(arrays, "graph", n, high=MOST))
    near = array_in(arrays, "near_indices", np.int32, (n, min(widths.kept, n)))
    checks.check_items("near_indices", near, n, missing=True)
    checks.check_own_first("near_indices", near)
    checks.check_distinct("near_indices", near)
    _check_near(near, array_in(arrays, "near_distances", np.float32, near.shape), widths.needed)
    nearest = array_in(arrays, "nearest", np.int32, (n, min(widths.diffused, n)))
    checks.check_items("nearest", nearest, n)
    checks.check_own_first("nearest", nearest)
    checks.check_distinct("nearest", nearest[:, : settings.path_k + 1])
    similar = array_in(arrays, "similar", np.float32, nearest.shape)
    checks.check_range("similar", similar, 0.0, 2.0)  # at most 1, and an error that the tolerance allows
    checks.check_range("similar", similar[:, :1], np.finfo(np.float32).tiny)
    beta = array_in(arrays, "beta", np.float64, (len(SCALES),))
    checks.check_range("beta", beta, 0.0, MOST)
    checks.check_range("beta", beta.sum(keepdims=True), 2.0 - MOST, MOST)
    checks.check_finite("drift", array_in(arrays, "drift", np.float32, (n, 3)), 0.0)


def _check_near(near: NDArray[np.int32], distances: NDArray[np.float32], needed: int) -> None:
    """Lists of at least `needed` items, ascending by distance, -1 and inf behind them."""
    there = near >= 0
    if not there[:, :needed].all() or bool((there[:, 1:] & ~there[:, :-1]).any()):
        raise BadArray(
            "near_indices", f"must name {min(needed, len(near))} items or more in every row, and -1 only behind them"
        )
    checks.check_range("near_distances", distances, 0.0)
    if not np.array_equal(np.isfinite(distances), there):
        raise BadArray("near_distances", "must be finite where near_indices names an item, and infinite elsewhere")
    if bool((distances[:, 1:] < distances[:, :-1]).any()):
        raise BadArray("near_distances", "must ascend in every row")
