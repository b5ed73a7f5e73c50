"""A gallery that gained and lost items -> its lists, graph, diffusion, states and costs, anew only where they change.

Neighbour lists and graph follow exactly. What is solved per item, and the steps taken from it, follow where it matters:

    rows of F   when the graph around them changed:   sum_j F_ij |a S'_j - a S_j|_1 / (1 - a)  exceeds LOOSE tolerances
    states      when the rows they average changed by more than the tolerance, or other rows are averaged
    costs       of new steps, and where the state at either end moved by more than the tolerance

Changes are L1, of mass 1. What stays below is added up per item in `Record.drift`, so that many small changes are
followed, too. An old item that a new one reaches gets F of the new one without a push: F is symmetric. With a tolerance
of 0 every row is solved, and the result is that of a rebuild with the same powers and weights of the graphs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.methods.lpmt import LPMT
from kinrank.methods.lpmt_served.lists import lists_after
from kinrank.methods.lpmt_served.offline import kept_width_of, kin_width_of, least_width_of
from kinrank.methods.lpmt_served.record import COSTS, ROWS, STATES, Record, spreading
from kinrank.methods.served import Gallery, Numbers, Turnover
from kinrank.stages.online import Attachment, chunk_of
from kinrank.stages.paths import Steps

# L1 change of a state, or of the states of a step, that is left alone. Measured against rebuilds with the same powers,
# after one to four changes of up to 4 of 100 items: 9.6 of the 10 best are the same, d* differs by 0.06 on average (in
# the worst of 40 sequences: 9.1, and by 0.11). After four times 1 % on published sets of thousands: 9.6 to 9.9.
TOLERANCE = 0.3
LARGE = 0.05  # share of the items in one change beyond which nothing is left alone
LOOSE = 5.0  # what is known of a row before it is solved is a bound, which holds with much room


@dataclass(frozen=True, eq=False)
class Repaired:
    """The record after a change, and what searches run over."""

    record: Record
    lengths: NDArray[np.float64]
    states: Any
    steps: Steps
    costs: NDArray[np.float32]
    solved: dict[str, int]


@dataclass(frozen=True, eq=False)
class Before:
    """What there was: states (n, n) csr, steps as csr of their costs."""

    record: Record
    states: Any
    links: Numbers
    ends: NDArray[np.int32]
    costs: NDArray[np.float32]


def repaired(
    method: LPMT,
    gallery: Gallery,
    before: Before,
    turn: Turnover,
    share: float,
    how: Attachment,
    tolerance: float,
) -> Repaired:
    """Everything after a change; the gallery holds those that stay, then the new ones."""
    from kinrank.stages import graph, offline

    old = before.record
    wide = kept_width_of(method)
    least = least_width_of(method) if tolerance else wide
    near = lists_after(old.near, gallery, turn, wide, least)
    lengths = graph.kernel_scale(near, method.scale, method.k)
    scales = (1.0,) if method.similarity == "bsd" else graph.SCALES
    layers = offline.layered(near, lengths, method.k, method.sigma, scales)
    weights = spreading(method, layers, old.beta)
    drift = np.zeros((turn.after, 3), np.float32)
    drift[: len(turn.stay)] = old.drift[turn.stay]
    shape = turn.after, min(kin_width_of(method), turn.after)
    record = Record(
        near, np.empty(shape, np.int32), np.empty(shape, np.float32),
        layers.indptr, layers.indices, weights, old.beta, drift,
    )  # fmt: skip
    del layers
    rows, touched = _diffuse(method, old, record, turn, tolerance)
    lists = record.near.indices, record.kin
    confident, shares = offline.confident_lists(*lists, method.k2, method.kappa, share)
    former = _former(before.states, turn)
    some = _restless(old, record, turn, method, share, touched, confident, shares, former[1], tolerance)
    states = _states(method, record, confident, shares, former[0], some)
    steps = offline.steps_between(np.ascontiguousarray(record.kin[:, : method.path_k + 1]), method.steps)
    costs, solved = _costs(before, steps, states, former[0], some, turn, record, gallery.vectors, how, tolerance)
    counts = {"rows": len(rows), "states": len(some), "steps": solved}
    return Repaired(record, lengths, states, steps, costs, counts)


def _diffuse(method: LPMT, old: Record, record: Record, turn: Turnover, tolerance: float) -> tuple[Numbers, Numbers]:
    """Fill kin and similar of the record; the rows that were solved, and all that changed."""
    from kinrank.stages.kernels import changes as kernels
    from kinrank.stages.kernels.compiled import in_chunks
    from kinrank.stages.kernels.diffusion import resolvent_nearest

    count = len(turn.stay)
    kin, similar = record.kin, record.similar
    touched = np.zeros(turn.after, np.bool_)
    if _other_width(old, record) or tolerance == 0 or not count:
        rows = np.arange(turn.after)
    else:
        kin[:count], similar[:count] = turn.renumbered(turn.of(old.kin)), turn.of(old.similar)
        gaps = np.flatnonzero((kin[:count] < 0).any(axis=1)) if count < turn.before else np.arange(0)
        touched[gaps] = True
        record.drift[gaps, ROWS] += np.where(kin[gaps] < 0, similar[gaps], 0.0).sum(axis=1)
        in_chunks(kernels.fill_up, len(gaps), gaps, record.near.indices, kin, similar, chunk=256)
        links = (old.starts, old.ends, old.weights), (record.starts, record.ends, record.weights)
        moved = _moved(*links, turn, np.arange(count))
        reach = _along(kin[:count], similar[:count], moved)
        record.drift[:count, ROWS] += reach * np.float32((1.0 + method.mu) / method.mu)
        thin = np.flatnonzero(similar[:count, min(method.path_k, kin.shape[1] - 1)] == 0)  # steps by distance
        changed = turn.renumbered(old.near.indices[turn.stay[thin]]) != record.near.indices[thin]
        restless = record.drift[:count, ROWS] > LOOSE * tolerance
        restless[thin[changed.any(axis=1)]] = True
        rows = np.concatenate([np.flatnonzero(restless), turn.new])
    restart = np.float32(method.mu / (1.0 + method.mu))
    in_chunks(
        resolvent_nearest, len(rows), rows, record.starts, record.ends, record.weights, restart,
        np.float32(method.tolerance), record.near.indices, kin, similar, chunk=chunk_of(len(rows)),
    )  # fmt: skip
    record.drift[rows, ROWS] = 0.0
    solved = np.zeros(turn.after, np.bool_)
    solved[rows] = True
    others, values = kin[turn.new], similar[turn.new]
    at, column = np.nonzero((values > 0) & ~solved[others])
    receivers = others[at, column].astype(np.int64)
    kernels.insert(receivers, turn.new[at], values[at, column], kin, similar)
    touched[rows] = touched[receivers] = True
    return rows, np.flatnonzero(touched)


def _other_width(old: Record, record: Record) -> bool:
    """Whether lists became longer or shorter, in small galleries: then everything is computed anew."""
    return (old.kin.shape[1], old.near.k) != (record.kin.shape[1], record.near.k)


Sparse = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]  # starts, items, values


def _moved(was: Sparse, now: Sparse, turn: Turnover, rows: Numbers) -> NDArray[np.float32]:
    """(n',) L1 change of these rows, of items that stayed; 0 for all others."""
    from kinrank.stages.kernels.changes import row_changes
    from kinrank.stages.kernels.compiled import in_chunks

    change = np.zeros(turn.after, np.float32)
    in_chunks(row_changes, len(rows), rows, turn.stay, turn.numbers, *was, *now, change, chunk=chunk_of(len(rows)))
    return change


def _along(items: NDArray[np.int32], values: NDArray[np.float32], moved: NDArray[np.float32]) -> NDArray[np.float32]:
    """(rows,) sum over each list of values * moved[item]."""
    from kinrank.stages.kernels.changes import reached_changes
    from kinrank.stages.kernels.compiled import in_chunks

    total = np.empty(len(items), np.float32)
    in_chunks(reached_changes, len(items), items, values, moved, total, chunk=chunk_of(len(items)))
    return total


def _lists(items: NDArray[np.int32], values: NDArray[np.float32]) -> Sparse:
    n, width = items.shape
    return np.arange(n + 1, dtype=np.int64) * width, items.reshape(-1), values.reshape(-1)


def _former(states: Any, turn: Turnover) -> tuple[Any, NDArray[np.bool_]]:
    """Old states under new numbers (n', n'), empty for new items; and whose state held an item that left."""
    from kinrank.stages.offline import sparse_rows

    torn = np.zeros(turn.after, np.bool_)
    rows = states if len(turn.stay) == turn.before else states[turn.stay]
    starts = np.concatenate([rows.indptr, np.full(turn.fresh, rows.indptr[-1])])
    if rows is states:
        return sparse_rows(starts, rows.indices, rows.data, turn.after), torn
    columns = turn.renumbered(rows.indices)
    torn[np.repeat(np.arange(len(turn.stay)), np.diff(rows.indptr))[columns < 0]] = True
    data = np.where(columns < 0, 0, rows.data)
    return sparse_rows(starts, np.maximum(columns, 0), data, turn.after), torn


def _restless(
    old: Record,
    record: Record,
    turn: Turnover,
    method: LPMT,
    share: float,
    touched: Numbers,
    confident: NDArray[np.int32],
    shares: NDArray[np.float32],
    torn: NDArray[np.bool_],
    tolerance: float,
) -> Numbers:
    """The items whose states are averaged anew: theirs changed, or they average others."""
    count = len(turn.stay)
    if tolerance == 0 or _other_width(old, record):
        return np.arange(turn.after)
    rows = touched[touched < count]
    moved = _moved(_lists(old.kin, old.similar), _lists(record.kin, record.similar), turn, rows)
    moved[rows] /= np.maximum(record.similar[rows].sum(axis=1), 1e-30)
    moved[count:] = 2.0
    forced = torn.copy()
    forced[count:] = True
    lists = [(old.near.indices, record.near.indices)] + ([(old.kin, record.kin)] if share > 0 else [])
    for was, now in lists:
        first, last = turn.renumbered(turn.of(was[:, : method.k2])), now[:count, : method.k2]
        other = np.flatnonzero((first != last).any(axis=1))
        forced[other] |= (np.sort(first[other], axis=1) != np.sort(last[other], axis=1)).any(axis=1)
    record.drift[:, STATES] += _along(confident, shares, moved)
    return np.flatnonzero(forced | (record.drift[:, STATES] > tolerance))


def _states(
    method: LPMT,
    record: Record,
    confident: NDArray[np.int32],
    shares: NDArray[np.float32],
    former: Any,
    some: Numbers,
) -> Any:
    """(n', n') csr: the states of `some` averaged anew, the others as they were."""
    from kinrank.stages import offline
    from kinrank.stages.kernels.changes import splice_rows
    from kinrank.stages.kernels.compiled import in_chunks

    n = len(record.kin)
    near, totals = confident[some], np.zeros(n, np.float32)
    needed = np.unique(near).astype(np.int64)
    marked = offline.mark(needed, record.kin, record.similar, method.k1, method.region, totals)
    fresh = offline.averaged(near, shares[some], totals, record.kin, marked, method.support)
    record.similar[needed] = np.abs(record.similar[needed])
    record.drift[some, STATES] = 0.0
    which = np.full(n, -1, np.int64)
    which[some] = np.arange(len(some))
    sizes = np.diff(former.indptr).astype(np.int64)
    sizes[some] = np.diff(fresh.indptr)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    items, masses = np.empty(int(starts[-1]), np.int32), np.empty(int(starts[-1]), np.float32)
    rows = (former.indptr, former.indices, former.data), (fresh.indptr, fresh.indices, fresh.data)
    in_chunks(splice_rows, n, which, *rows[0], *rows[1], starts, items, masses, chunk=chunk_of(n))
    return offline.sparse_rows(starts, items, masses, n)


def _costs(
    before: Before,
    steps: Steps,
    states: Any,
    former: Any,
    some: Numbers,
    turn: Turnover,
    record: Record,
    vectors: Vectors,
    how: Attachment,
    tolerance: float,
) -> tuple[NDArray[np.float32], int]:
    """Costs of all steps, and how many were solved; the others are those of before."""
    from kinrank.stages.kernels.changes import known_costs
    from kinrank.stages.kernels.compiled import in_chunks
    from kinrank.stages.online import all_costs, pair_costs

    n = turn.after
    record.drift[some, COSTS] += np.asarray(abs(states[some] - former[some]).sum(axis=1)).ravel()
    anew = record.drift[:, COSTS] >= tolerance
    anew[len(turn.stay) :] = True
    origins = steps.origins
    wanted = anew[origins] | anew[steps.ends]
    costs = np.zeros(len(steps.ends), np.float32)
    if not wanted.all():
        sources = np.full(n, -1, np.int64)
        sources[: len(turn.stay)] = turn.stay
        in_chunks(
            known_costs, n, sources, turn.numbers, before.links, before.ends, before.costs, steps.links, steps.ends,
            costs, chunk=chunk_of(n),
        )  # fmt: skip
        wanted |= costs < 0
    record.drift[anew, COSTS] = 0.0
    if wanted.all():
        return all_costs(steps, states, vectors, how), len(wanted) // 2
    few = np.flatnonzero(wanted & (origins < steps.ends))
    low, high = origins[few], steps.ends[few]
    sources = np.where(anew[high], high, low)  # whose steps are solved together
    found = pair_costs(sources, low + high - sources, states, vectors, how)
    costs[few] = costs[steps.mirror[few]] = found
    return costs, len(few)
