"""A gallery that gained and lost items -> its lists, graph, diffusion, states and prices, anew only where they change.

Neighbour lists and graph follow exactly. What is solved per item, and the steps taken from it, follow where it matters:

    rows of F   when the graph around them changed:   sum_j F_ij |a S'_j - a S_j|_1 / (1 - a)  exceeds LOOSE tolerances
    states      when the rows they average changed by more than the tolerance, or other rows are averaged
    prices      of new steps, and where the state at either end moved by more than the tolerance
    wide states of items whose state is made anew, or which lost an item; others follow at the next `refresh`

Changes are L1, of mass 1. What stays below is added up per item in `Record.drift`, so that many small changes are
followed, too. An old item that a new one reaches gets F of the new one without a diffusion of its own: F is symmetric.
With a tolerance of 0 every row is solved, and the result is that of `pipeline.prepare` with the same powers and weights
of the graphs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.stages import costs, diffusion, direct, graph, states
from kinrank.stages.changed_lists import Search, lists_after
from kinrank.stages.csr import Rows
from kinrank.stages.kernels import changes as kernels
from kinrank.stages.kernels.compiled import in_chunks
from kinrank.stages.kernels.transport import Transport
from kinrank.stages.pipeline import Prepared, Record, Widths, pricing
from kinrank.stages.run import chunk_of
from kinrank.stages.settings import Settings
from kinrank.stages.turnover import Numbers, Turnover

# L1 change of a state, or of the states of a step, that is left alone. Measured against rebuilds with the same powers,
# after one to four changes of up to 4 of 100 items: 9.6 of the 10 best are the same, d* differs by 0.06 on average (in
# the worst of 40 sequences: 9.1, and by 0.11). After four times 1 % on published sets of thousands: 9.6 to 9.9.
TOLERANCE = 0.3
LARGE = 0.05  # share of the items in one change beyond which nothing is left alone
LOOSE = 5.0  # what is known of a row before it is solved is a bound, and much larger than the change itself

F_DRIFT, STATE_DRIFT, PRICE_DRIFT = 0, 1, 2  # columns of `Record.drift`


def changed(
    before: Prepared,
    turnover: Turnover,
    vectors: Vectors,
    lists_of: Search,
    exact: bool,
    settings: Settings,
    tolerance: float | None = None,
    unit: bool = True,
) -> Prepared:
    """Everything after a change; vectors (n', d) are those that stay, then the new ones, and `lists_of` searches them.

    `before` must have its record. `unit`: the vectors have length one.
    `tolerance` None: TOLERANCE, or 0 where many items come or go at once.
    """
    old = before.record
    assert old is not None
    if tolerance is None:
        tolerance = TOLERANCE if turnover.moved <= LARGE * turnover.after else 0.0
    widths = Widths.of(settings)
    least = widths.needed if tolerance else widths.kept
    near = lists_after(old.near, vectors, lists_of, exact, turnover, widths.kept, least, unit)
    lengths = graph.kernel_lengths(near, settings.k)
    layers = graph.layered_graphs(near, lengths, settings.k, settings.sigma)
    spreading = diffusion.spreading_graph(layers, old.beta, settings.mu)
    del layers
    drift = np.zeros((turnover.after, 3), np.float32)
    drift[: len(turnover.stay)] = old.drift[turnover.stay]
    shape = turnover.after, min(widths.diffused, turnover.after)
    record = Record(near, np.empty(shape, np.int32), np.empty(shape, np.float32), spreading, old.beta, drift)
    same_width = (old.nearest.shape[1], old.near.k) == (record.nearest.shape[1], near.k)
    if not same_width or not len(turnover.stay):  # small galleries: lists became longer or shorter
        tolerance = 0.0
    touched = _diffuse(old, record, turnover, settings, tolerance)
    confident, weights = states.confident_lists(
        near.indices, record.nearest, settings.k2, settings.kappa, before.powers.share
    )
    former, truncated = _renumbered_states(before.states, turnover)
    if tolerance:
        unsettled = _unsettled(old, record, turnover, settings, before.powers.share, touched, confident, weights,
                               truncated, tolerance)  # fmt: skip
    else:
        unsettled = np.arange(turnover.after)
    embedded = _states(settings, record, confident, weights, former, unsettled)
    indptr, indices = costs.step_pattern(record.nearest, settings.path_k)
    transport = pricing(settings, before.powers, unit)
    prices = _prices(
        before.steps, indptr, indices, embedded, former, unsettled, turnover, record, vectors, transport, tolerance
    )
    wide = (
        _wide(before, turnover, record, embedded, unsettled, settings)
        if before.powers.direct
        else direct.no_states(turnover.after)
    )
    steps = Rows(indptr, indices, prices)
    return replace(before, vectors=vectors, states=embedded, steps=steps, wide=wide, lengths=lengths, record=record)


def _wide(
    before: Prepared, turnover: Turnover, record: Record, embedded: Rows, unsettled: Numbers, settings: Settings
) -> Rows:
    """The wide states, anew where the state is, or where an item left."""
    former, truncated = _renumbered_states(before.wide, turnover)
    truncated[unsettled] = True
    rows = np.flatnonzero(truncated)
    fresh = direct.wide_states(rows, record.graph, record.near.indices, embedded, settings)
    return _spliced(former, fresh, rows)


def _diffuse(old: Record, record: Record, turnover: Turnover, settings: Settings, tolerance: float) -> Numbers:
    """Fill nearest and similar of the record; the items whose rows changed."""
    count = len(turnover.stay)
    nearest, similar = record.nearest, record.similar
    touched = np.zeros(turnover.after, np.bool_)
    if tolerance == 0:
        rows = np.arange(turnover.after)
    else:
        nearest[:count], similar[:count] = turnover.renumbered(turnover.of(old.nearest)), turnover.of(old.similar)
        holes = np.flatnonzero((nearest[:count] < 0).any(axis=1)) if count < turnover.before else np.arange(0)
        touched[holes] = True
        record.drift[holes, F_DRIFT] += np.where(nearest[holes] < 0, similar[holes], 0.0).sum(axis=1)
        in_chunks(kernels.fill_up, len(holes), holes, record.near.indices, nearest, similar, chunk=256)
        moved = _row_changes(old.graph, record.graph, turnover, np.arange(count))
        bound = _weighted_sums(nearest[:count], similar[:count], moved)
        record.drift[:count, F_DRIFT] += bound * np.float32((1.0 + settings.mu) / settings.mu)
        # rows whose steps go by distance, because F reaches too few items
        few = np.flatnonzero(similar[:count, min(settings.path_k, nearest.shape[1] - 1)] == 0)
        other = turnover.renumbered(old.near.indices[turnover.stay[few]]) != record.near.indices[few]
        solve = record.drift[:count, F_DRIFT] > LOOSE * tolerance
        solve[few[other.any(axis=1)]] = True
        rows = np.concatenate([np.flatnonzero(solve), turnover.new])
    diffusion.renew_rows(rows, record.graph, settings.mu, settings.tolerance, record.near.indices, nearest, similar)
    record.drift[rows, F_DRIFT] = 0.0
    solved = np.zeros(turnover.after, np.bool_)
    solved[rows] = True
    others, values = nearest[turnover.new], similar[turnover.new]
    at, column = np.nonzero((values > 0) & ~solved[others])
    receivers = others[at, column].astype(np.int64)
    kernels.insert(receivers, turnover.new[at], values[at, column], nearest, similar)
    touched[rows] = touched[receivers] = True
    return np.flatnonzero(touched)


def _row_changes(before: Rows, after: Rows, turnover: Turnover, rows: Numbers) -> NDArray[np.float32]:
    """(n',) L1 change of these rows, of items that stayed; 0 for all others."""
    change = np.zeros(turnover.after, np.float32)
    arguments = rows, turnover.stay, turnover.numbers, before, after, change
    in_chunks(kernels.row_changes, len(rows), *arguments, chunk=chunk_of(len(rows)))
    return change


def _weighted_sums(
    items: NDArray[np.int32], values: NDArray[np.float32], moved: NDArray[np.float32]
) -> NDArray[np.float32]:
    """(rows,) sum over each list of values * moved[item]."""
    total = np.empty(len(items), np.float32)
    in_chunks(kernels.weighted_sums, len(items), items, values, moved, total, chunk=chunk_of(len(items)))
    return total


def _as_rows(items: NDArray[np.int32], values: NDArray[np.float32]) -> Rows:
    n, width = items.shape
    return Rows(np.arange(n + 1, dtype=np.int64) * width, items.reshape(-1), values.reshape(-1))


def _renumbered_states(before: Rows, turnover: Turnover) -> tuple[Rows, NDArray[np.bool_]]:
    """Old states under new numbers, empty for new items; and whose state held an item that left."""
    truncated = np.zeros(turnover.after, np.bool_)
    count = len(turnover.stay)
    sizes = np.zeros(turnover.after, np.int64)
    sizes[:count] = np.diff(before.indptr)[turnover.stay]
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    if count == turnover.before:
        return Rows(indptr, before.indices, before.data), truncated
    entries = np.arange(int(indptr[-1])) + np.repeat(before.indptr[turnover.stay] - indptr[:count], sizes[:count])
    items, data = turnover.renumbered(before.indices[entries]), before.data[entries]
    truncated[np.repeat(np.arange(count), sizes[:count])[items < 0]] = True
    return Rows(indptr, np.maximum(items, 0), np.where(items < 0, np.float32(0), data)), truncated


def _unsettled(
    old: Record,
    record: Record,
    turnover: Turnover,
    settings: Settings,
    share: float,
    touched: Numbers,
    confident: NDArray[np.int32],
    weights: NDArray[np.float32],
    truncated: NDArray[np.bool_],
    tolerance: float,
) -> Numbers:
    """The items whose states are averaged anew: rows of theirs changed, or they average others."""
    count = len(turnover.stay)
    rows = touched[touched < count]
    now = _as_rows(record.nearest, record.similar)
    moved = _row_changes(_as_rows(old.nearest, old.similar), now, turnover, rows)
    moved[rows] /= np.maximum(record.similar[rows].sum(axis=1), 1e-30)
    moved[count:] = 2.0
    forced = truncated.copy()
    forced[count:] = True
    lists = [(old.near.indices, record.near.indices)] + ([(old.nearest, record.nearest)] if share > 0 else [])
    for was, new in lists:
        first, last = turnover.renumbered(turnover.of(was[:, : settings.k2])), new[:count, : settings.k2]
        other = np.flatnonzero((first != last).any(axis=1))
        forced[other] |= (np.sort(first[other], axis=1) != np.sort(last[other], axis=1)).any(axis=1)
    record.drift[:, STATE_DRIFT] += _weighted_sums(confident, weights, moved)
    return np.flatnonzero(forced | (record.drift[:, STATE_DRIFT] > tolerance))


def _states(
    settings: Settings,
    record: Record,
    confident: NDArray[np.int32],
    weights: NDArray[np.float32],
    former: Rows,
    unsettled: Numbers,
) -> Rows:
    """The states of the unsettled averaged anew, the others as they were."""
    lists = confident[unsettled]
    needed = np.unique(lists).astype(np.int64)
    fresh = states.locality_states(
        lists, weights[unsettled], record.nearest, record.similar, settings.k1, settings.support, needed
    )
    record.similar[needed] = np.abs(record.similar[needed])
    record.drift[unsettled, STATE_DRIFT] = 0.0
    return _spliced(former, fresh, unsettled)


def _spliced(former: Rows, fresh: Rows, anew: Numbers) -> Rows:
    """Rows of before, but for those that were made anew."""
    n = len(former.indptr) - 1
    which = np.full(n, -1, np.int64)
    which[anew] = np.arange(len(anew))
    sizes = np.diff(former.indptr)
    sizes[anew] = np.diff(fresh.indptr)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    size = int(indptr[-1])
    spliced = Rows(indptr, np.empty(size, np.int32), np.empty(size, np.float32))
    in_chunks(kernels.splice_rows, n, which, former, fresh, spliced, chunk=chunk_of(n))
    return spliced


def _prices(
    before: Rows,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    embedded: Rows,
    former: Rows,
    unsettled: Numbers,
    turnover: Turnover,
    record: Record,
    vectors: Vectors,
    transport: Transport,
    tolerance: float,
) -> NDArray[np.float32]:
    """Prices of all steps; those of before where both ends stayed as they were."""
    n = turnover.after
    change = np.zeros(n, np.float32)
    same, everyone = np.arange(n), np.append(np.arange(n, dtype=np.int32), np.int32(-1))
    in_chunks(
        kernels.row_changes, len(unsettled), unsettled, same, everyone, former, embedded, change,
        chunk=chunk_of(len(unsettled)),
    )  # fmt: skip
    record.drift[:, PRICE_DRIFT] += change
    anew = record.drift[:, PRICE_DRIFT] >= tolerance
    anew[len(turnover.stay) :] = True
    origins = np.repeat(np.arange(n, dtype=np.int32), np.diff(indptr))
    wanted = anew[origins] | anew[indices]
    prices = np.zeros(len(indices), np.float32)
    if not wanted.all():
        sources = np.full(n, -1, np.int64)
        sources[: len(turnover.stay)] = turnover.stay
        arguments = sources, turnover.numbers, before, indptr, indices, prices
        in_chunks(kernels.known_prices, n, *arguments, chunk=chunk_of(n))
        wanted |= prices < 0
    record.drift[anew, PRICE_DRIFT] = 0.0
    if wanted.all():
        return costs.step_costs(indptr, indices, embedded, vectors, transport)
    few = np.flatnonzero(wanted & (origins < indices))
    low, high = origins[few], indices[few]
    sources = np.where(anew[high], high, low)  # whose steps are solved together
    prices[few] = costs.pair_costs(sources, low + high - sources, embedded, vectors, transport)
    costs.mirror(indptr, indices, prices)
    return prices
