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

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.manifold.offline import width_of
from kinrank.manifold.record import COSTS, ROWS, STATES, Record, spreading
from kinrank.methods.lpmt import LPMT
from kinrank.neighbors import Neighbors, nearest
from kinrank.stages.online import Attachment
from kinrank.stages.paths import Steps

# L1 change of a state, or of the states of a step, that is left alone. Measured against rebuilds with the same powers,
# after changes of up to half of 100 items: 9.8 of the 10 best are the same, d* differs by 0.03 on average (in the worst
# of 40 sequences: 9.4, and by 0.09). The differences are about proportional to the tolerance.
TOLERANCE = 0.2
LOOSE = 3.0  # what is known of a row before it is solved is a bound, which holds with much room
PAIRS = 2**24  # inner products at once

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Turnover:
    """stay: (s,) old numbers of those that stay, ascending, which become 0..s-1; then come `fresh` new ones."""

    before: int
    stay: Numbers
    fresh: int

    @property
    def after(self) -> int:
        return len(self.stay) + self.fresh

    @property
    def new(self) -> Numbers:
        return np.arange(len(self.stay), self.after)

    def renumbered(self, items: NDArray[np.int32]) -> NDArray[np.int32]:
        """New numbers in place of old ones; -1 for those who left."""
        if len(self.stay) == self.before:
            return items
        numbers = np.full(self.before, -1, np.int32)
        numbers[self.stay] = np.arange(len(self.stay))
        return numbers[items]


def lists_after(near: Neighbors, vectors: Vectors, turn: Turnover, width: int) -> Neighbors:
    """(n', min(width, n')) exact neighbours: lists that lost an entry are searched again, the new enter the others."""
    from kinrank.stages._kernels import changes as kernels
    from kinrank.stages._kernels.compiled import in_chunks

    old, n = len(turn.stay), turn.after
    size = min(width, n)
    indices = np.full((n, size), np.iinfo(np.int32).max, np.int32)
    gaps = np.full((n, size), np.inf, np.float32)
    both = min(size, near.k)
    moved = turn.renumbered(near.indices[turn.stay])
    indices[:old, :both], gaps[:old, :both] = moved[:, :both], near.distances[turn.stay, :both]
    lost = (moved < 0).any(axis=1) & (turn.fresh >= 0)
    again = np.concatenate([np.flatnonzero(lost), turn.new])
    if len(again):
        found = nearest(vectors[again], vectors, size, own=again)
        indices[again], gaps[again] = found.indices, found.distances
    if turn.fresh and old:
        open_to = np.where(lost, -np.inf, gaps[:old, -1])  # those searched again have met the new ones
        rows, items = _within(vectors, turn, open_to)
        order = np.argsort(rows, kind="stable")
        rows, items = rows[order], items[order]
        distances = np.empty(len(rows), np.float32)
        in_chunks(kernels.pair_gaps, len(rows), rows, items, vectors, distances, chunk=4096)
        np.negative(gaps, out=gaps)
        kernels.insert(rows, items, -distances, indices, gaps)
        np.negative(gaps, out=gaps)
    return Neighbors(indices, gaps)


def _within(vectors: Vectors, turn: Turnover, reach: NDArray[Any]) -> tuple[Numbers, Numbers]:
    """(old, new) pairs that are about as near as `reach` of the old one, or nearer."""
    from kinrank.stages._kernels.search import ROUNDING

    least = 1.0 - 0.5 * (np.where(reach < 0, -2.0, reach.astype(np.float64) ** 2) + 2 * ROUNDING)
    least[reach < 0] = np.inf
    block = max(1, PAIRS // len(turn.stay))
    rows, items = [], []
    for start in range(0, turn.fresh, block):
        new = turn.new[start : start + block]
        item, row = np.nonzero(vectors[new] @ vectors[: len(turn.stay)].T >= least.astype(np.float32))
        rows.append(row)
        items.append(new[item])
    return np.concatenate(rows), np.concatenate(items)


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
    vectors: Vectors,
    before: Before,
    turn: Turnover,
    share: float,
    how: Attachment,
    tolerance: float,
) -> Repaired:
    """Everything after a change; vectors (n', d) are those that stay, then the new ones."""
    from kinrank.stages import graph, offline

    old = before.record
    near = lists_after(old.near, vectors, turn, width_of(method))
    lengths = graph.kernel_scale(near, method.scale, method.k)
    scales = (1.0,) if method.similarity == "bsd" else graph.SCALES
    layers = offline.layered(near, lengths, method.k, method.sigma, scales)
    weights = spreading(method, layers, old.beta)
    drift = np.zeros((turn.after, 3), np.float32)
    drift[: len(turn.stay)] = old.drift[turn.stay]
    record = Record(
        near, np.empty_like(near.indices), np.empty_like(near.distances),
        layers.indptr, layers.indices, weights, old.beta, drift,
    )  # fmt: skip
    del layers
    rows = _diffuse(method, old, record, turn, tolerance)
    confident, shares = _confident(method, record, share)
    former = _former(before.states, turn)
    some = _restless(old, record, turn, method, share, confident, shares, former[1], tolerance)
    states = _states(method, record, confident, shares, former[0], some)
    steps = offline.steps_between(np.ascontiguousarray(record.kin[:, : method.path_k + 1]), method.steps)
    costs, solved = _costs(before, steps, states, former[0], some, turn, record, vectors, how, tolerance)
    counts = {"rows": len(rows), "states": len(some), "steps": solved}
    return Repaired(record, lengths, states, steps, costs, counts)


def _diffuse(method: LPMT, old: Record, record: Record, turn: Turnover, tolerance: float) -> Numbers:
    """Fill kin and similar of the record; the rows that were solved."""
    from kinrank.stages._kernels import changes as kernels
    from kinrank.stages._kernels.compiled import in_chunks

    stay, count = turn.stay, len(turn.stay)
    kin, similar = record.kin, record.similar
    if kin.shape[1] != old.kin.shape[1] or tolerance == 0 or not count:
        rows = np.arange(turn.after)
    else:
        kin[:count], similar[:count] = turn.renumbered(old.kin[stay]), old.similar[stay]
        gaps = np.flatnonzero((kin[:count] < 0).any(axis=1)) if count < turn.before else np.arange(0)
        record.drift[gaps, ROWS] += np.where(kin[gaps] < 0, similar[gaps], 0.0).sum(axis=1)
        in_chunks(kernels.fill_up, len(gaps), gaps, record.near.indices, kin, similar, chunk=256)
        moved = _moved_links(old, record, turn).astype(np.float32)
        reach = np.einsum("ij,ij->i", similar[:count], moved[kin[:count]])
        record.drift[:count, ROWS] += reach * np.float32((1.0 + method.mu) / method.mu)
        changed = (turn.renumbered(old.near.indices[stay]) != record.near.indices[:count]).any(axis=1)
        thin = changed & (similar[:count, min(method.path_k, kin.shape[1] - 1)] == 0)  # steps by distance
        rows = np.concatenate(
            [np.flatnonzero((record.drift[:count, ROWS] > LOOSE * tolerance) | thin), turn.new]
        )
    restart = np.float32(method.mu / (1.0 + method.mu))
    in_chunks(
        kernels.diffused_rows, len(rows), rows, record.starts, record.ends, record.weights, restart,
        np.float32(method.tolerance), record.near.indices, kin, similar, chunk=32,
    )  # fmt: skip
    record.drift[rows, ROWS] = 0.0
    solved = np.zeros(turn.after, np.bool_)
    solved[rows] = True
    others, values = kin[turn.new], similar[turn.new]
    at, column = np.nonzero((values > 0) & ~solved[others])
    kernels.insert(others[at, column].astype(np.int64), turn.new[at], values[at, column], kin, similar)
    return rows


def _moved_links(old: Record, record: Record, turn: Turnover) -> NDArray[np.float64]:
    """(n',) L1 change of every row of a S_beta; 0 for new items."""
    from scipy import sparse

    count, n = len(turn.stay), turn.after
    whole = (turn.before, turn.before)
    former = sparse.csr_array((old.weights, old.ends, old.starts), shape=whole)[turn.stay]
    columns = turn.renumbered(former.indices)
    gone = sparse.csr_array(
        (np.where(columns < 0, former.data, 0), former.indices, former.indptr), shape=former.shape
    )
    lost = np.asarray(gone.sum(axis=1)).ravel()
    data = np.where(columns < 0, 0, former.data)
    former = sparse.csr_array((data, np.maximum(columns, 0), former.indptr), shape=(count, n))
    entries = int(record.starts[count])
    now = sparse.csr_array(
        (record.weights[:entries], record.ends[:entries], record.starts[: count + 1]), shape=(count, n)
    )
    moved = np.zeros(n)
    moved[:count] = np.asarray(abs(now - former).sum(axis=1)).ravel() + lost
    return moved


def _confident(method: LPMT, record: Record, share: float) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The items whose regions each state averages, and their weights, as `offline.small_parts` has them."""
    from kinrank.stages import offline

    near = np.ascontiguousarray(record.near.indices[:, : method.k2])
    weights = offline.confident(near, method.kappa)
    if share <= 0:
        return near, weights
    alike = np.ascontiguousarray(record.kin[:, : method.k2])
    both = (1.0 - share) * weights, share * offline.confident(alike, method.kappa)
    return np.concatenate([near, alike], axis=1), np.concatenate(both, axis=1).astype(np.float32)


def _former(states: Any, turn: Turnover) -> tuple[Any, NDArray[np.bool_]]:
    """Old states under new numbers (n', n'), empty for new items; and whose state held an item that left."""
    from scipy import sparse

    rows = states[turn.stay]
    columns = turn.renumbered(rows.indices)
    torn = np.zeros(turn.after, np.bool_)
    torn[np.repeat(np.arange(len(turn.stay)), np.diff(rows.indptr))[columns < 0]] = True
    starts = np.concatenate([rows.indptr, np.full(turn.fresh, rows.indptr[-1])])
    data = np.where(columns < 0, 0, rows.data)
    return sparse.csr_array((data, np.maximum(columns, 0), starts), shape=(turn.after, turn.after)), torn


def _restless(
    old: Record,
    record: Record,
    turn: Turnover,
    method: LPMT,
    share: float,
    confident: NDArray[np.int32],
    shares: NDArray[np.float32],
    torn: NDArray[np.bool_],
    tolerance: float,
) -> Numbers:
    """The items whose states are averaged anew: theirs changed, or they average others."""
    count = len(turn.stay)
    if tolerance == 0 or record.kin.shape[1] != old.kin.shape[1]:
        return np.arange(turn.after)
    moved = np.full(turn.after, 2.0)
    moved[:count] = _moved_rows(old, record, turn)
    forced = torn.copy()
    forced[count:] = True
    lists = [(old.near.indices, record.near.indices)] + ([(old.kin, record.kin)] if share > 0 else [])
    for was, now in lists:
        first = turn.renumbered(was[turn.stay, : method.k2])
        forced[:count] |= (np.sort(first, axis=1) != np.sort(now[:count, : method.k2], axis=1)).any(axis=1)
    record.drift[:, STATES] += (shares * moved[confident]).sum(axis=1)
    return np.flatnonzero(forced | (record.drift[:, STATES] > tolerance))


def _moved_rows(old: Record, record: Record, turn: Turnover) -> NDArray[np.float64]:
    """(s,) L1 change of F on the lists of those that stay, in units of its sum there."""
    from scipy import sparse

    count, n = len(turn.stay), turn.after
    width = record.kin.shape[1]
    starts = np.arange(count + 1, dtype=np.int64) * width
    columns, values = turn.renumbered(old.kin[turn.stay]).ravel(), old.similar[turn.stay].ravel()
    lost = np.where(columns < 0, values, 0).reshape(count, width).sum(axis=1)
    was = sparse.csr_array(
        (np.where(columns < 0, 0, values), np.maximum(columns, 0), starts), shape=(count, n)
    )
    now = sparse.csr_array(
        (record.similar[:count].ravel(), record.kin[:count].ravel(), starts), shape=(count, n)
    )
    change = np.asarray(abs(now - was).sum(axis=1)).ravel() + lost
    return np.asarray(change / np.maximum(record.similar[:count].sum(axis=1), 1e-30), np.float64)


def _states(
    method: LPMT,
    record: Record,
    confident: NDArray[np.int32],
    shares: NDArray[np.float32],
    former: Any,
    some: Numbers,
) -> Any:
    """(n', n') csr: the states of `some` averaged anew, the others as they were."""
    from scipy import sparse

    from kinrank.stages._kernels.changes import region_rows
    from kinrank.stages._kernels.compiled import in_chunks, threads
    from kinrank.stages._kernels.online import mean_states

    n, width = record.kin.shape
    near, weights = confident[some], shares[some]
    needed = np.unique(near).astype(np.int64)
    regions = np.zeros_like(record.similar)
    regions[needed] = record.similar[needed]
    k1 = min(method.k1, width)
    in_chunks(
        region_rows, len(needed), needed, record.kin, k1, method.region == "reciprocal", regions, chunk=128
    )
    support = method.support
    places, masses = np.empty((len(some), support), np.int32), np.empty((len(some), support), np.float32)
    sizes = np.zeros(len(some), np.int64)
    rows = np.arange(n + 1, dtype=np.int64) * width, record.kin.reshape(-1), regions.reshape(-1)
    chunk = max(64, len(some) // (4 * threads()))

    def part(start: int) -> None:
        room = np.zeros(n, np.float32)
        stop = min(start + chunk, len(some))
        mean_states(start, stop, near, weights, *rows, support, room, places, masses, sizes)

    with ThreadPoolExecutor(threads()) as pool:
        list(pool.map(part, range(0, len(some), chunk)))
    record.drift[some, STATES] = 0.0
    there = np.arange(support) < sizes[:, None]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    fresh = sparse.csr_array((masses[there], places[there], starts), shape=(len(some), n))
    order = np.arange(n)
    order[some] = n + np.arange(len(some))
    return sparse.csr_array(sparse.vstack([former, fresh], format="csr")[order])


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
    from kinrank.stages.online import all_costs

    n = turn.after
    record.drift[some, COSTS] += np.asarray(abs(states[some] - former[some]).sum(axis=1)).ravel()
    anew = record.drift[:, COSTS] >= tolerance
    anew[len(turn.stay) :] = True
    origins = steps.origins
    wanted = anew[origins] | anew[steps.ends]
    costs = np.zeros(len(steps.ends), np.float32)
    if not wanted.all():
        former_origins = np.repeat(np.arange(turn.before, dtype=np.int32), np.diff(before.links))
        left, right = turn.renumbered(former_origins), turn.renumbered(before.ends)
        there = (left >= 0) & (right >= 0)
        keys = left[there].astype(np.int64) * n + right[there]
        mine = origins.astype(np.int64) * n + steps.ends
        at = np.minimum(np.searchsorted(keys, mine), max(len(keys) - 1, 0))
        known = keys[at] == mine if len(keys) else np.zeros(len(mine), np.bool_)
        costs[known] = before.costs[there][at[known]]
        wanted |= ~known
    positions = np.cumsum(wanted) - 1
    links = np.concatenate([[0], np.cumsum(wanted)])[steps.links]
    few = Steps(links.astype(np.int64), steps.ends[wanted], positions[steps.mirror[wanted]])
    costs[wanted] = all_costs(few, states, vectors, how)
    record.drift[anew, COSTS] = 0.0
    return costs, int(wanted.sum()) // 2
