"""LPMT, served: states, steps and their costs once; then per query a state, a few transports and a short search."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.features import Vectors
from kinrank.methods.lpmt_served import repair
from kinrank.methods.lpmt_served.offline import (
    is_small,
    kept_width_of,
    kin_width_of,
    least_width_of,
    plain_parts,
    small_parts,
    width_of,
)
from kinrank.methods.lpmt_served.record import contrast_of, record_in, recorded
from kinrank.methods.served import Answer, Chain, Gallery, Kept, Turnover
from kinrank.neighbors import Neighbors
from kinrank.progress import SILENT, Progress

if TYPE_CHECKING:
    from kinrank.methods.lpmt import LPMT
    from kinrank.stages.online import Attachment, Found, Mixture, Terrain

ENTRIES = 2  # first steps of a query, in units of path_k: it has no items that list it, which double those of others
BUDGET = 50  # settled items per item asked for
LEAST_BUDGET = 5000
ROWS = 16  # queries answered by one call of the loops

KEPT: dict[str, type] = {
    "state_starts": np.int64,
    "state_items": np.int32,
    "state_masses": np.float32,
    "step_starts": np.int64,
    "step_ends": np.int32,
    "step_costs": np.float32,
    "lengths": np.float32,
}


class Opened(NamedTuple):
    """What searches use: the prepared graph, and the powers that it was prepared with."""

    terrain: Terrain
    rho: float
    gamma: float


def memory(method: LPMT, items: int, dimensions: int, changes: bool) -> int:
    """Bytes at the peak; with `changes` also the lists that are not freed, and the graph."""
    if not is_small(method):
        return 4 * dimensions * items + method.memory(items, 0, dimensions)
    lists = 8 * (width_of(method) + kin_width_of(method))  # by distance and by F, numbers and values
    record = items * (8 * kept_width_of(method) + 24 * method.k) if changes else 0
    return items * (4 * dimensions + lists + 32 * method.k + 64) + 64 * 2**20 + record


def keep(method: LPMT, gallery: Gallery, progress: Progress, changes: bool) -> Kept:
    """Per item its state (`support` entries), about 1.4 path_k steps with their costs, one kernel length.

    With `changes` also the record that later changes need.
    """
    vectors = gallery.vectors
    if len(vectors) < 2:
        return Kept(_alone(len(vectors)), {"rho": 1.0, "gamma": 1.0})
    if gallery.run is not None and is_small(method):
        return Kept(*gallery.run.lpmt(method, len(vectors), gallery.lists))
    record: dict[str, NDArray[Any]] = {}
    if is_small(method):
        parts = small_parts(method, vectors, gallery.lists, progress, record if changes else None)
    else:
        parts = plain_parts(method, vectors, gallery.lists, progress)
    states, steps, lengths, fitted = parts
    costs = stages.online.all_costs(steps, states, vectors, attachment(method, fitted.rho, fitted.gamma))
    facts = {"rho": fitted.rho, "gamma": fitted.gamma}
    if record:
        near = Neighbors(record["near_items"], record["near_gaps"])
        contrast = contrast_of(near, least_width_of(method))
        facts |= {"share": fitted.share, "built": float(len(vectors)), "contrast": contrast}
    return Kept(kept_arrays(states, steps, costs, lengths) | record, facts)


def opened(vectors: Vectors, kept: Kept, checked: bool) -> Opened:
    arrays, facts, n = kept.arrays, kept.facts, len(vectors)
    if not checked:
        for name, kind in KEPT.items():
            if arrays[name].ndim != 1 or arrays[name].dtype != kind:
                raise ValueError(f"{name} must be one row of {np.dtype(kind)}")
        if len(arrays["lengths"]) != n or not {"rho", "gamma"} <= set(facts):
            raise ValueError("lengths or powers are missing")
        _check_rows(arrays["state_starts"], (arrays["state_items"], arrays["state_masses"]), n)
        _check_rows(arrays["step_starts"], (arrays["step_ends"], arrays["step_costs"]), n)
        if recorded(arrays, n) is not None and not {"share", "built", "contrast"} <= set(facts):
            raise ValueError("numbers that belong to the record of changes are missing")
    terrain = stages.online.Terrain(vectors, *(arrays[name] for name in KEPT))
    return Opened(terrain, facts["rho"], facts["gamma"])


def reach(method: LPMT, depth: int) -> int:
    return max(ENTRIES * method.path_k, method.k2, method.k, depth) + 1


def answer(
    method: LPMT, opened: Opened, queries: Vectors, found: Neighbors, k: int, depth: int, budget: int | None
) -> Answer:
    threads = stages.kernels.compiled.threads()
    k = max(1, min(k, len(opened.terrain.vectors)))
    budget = max(LEAST_BUDGET, BUDGET * k) if budget is None else budget
    spans = [slice(start, start + ROWS) for start in range(0, len(queries), ROWS)]
    blocks = [(queries[span], Neighbors(found.indices[span], found.distances[span])) for span in spans]
    if threads == 1 or len(blocks) == 1:
        parts = [_answer(method, opened, *block, k, depth, budget) for block in blocks]
    else:
        with ThreadPoolExecutor(threads) as pool:
            tasks = [pool.submit(_answer, method, opened, *block, k, depth, budget) for block in blocks]
            parts = [task.result() for task in tasks]
    certain = np.concatenate([part.certain for part in parts])
    settled = np.concatenate([part.settled for part in parts])
    facts = {"certain": float(certain.mean()), "budget": budget, "settled": float(np.median(settled))}
    return Answer(
        np.concatenate([part.indices for part in parts]),
        np.concatenate([part.distances for part in parts]),
        facts,
    )


def explain(method: LPMT, opened: Opened, query: Vectors, found: Neighbors, item: int, flows: int) -> Chain:
    terrain, online = opened.terrain, stages.online
    settings, mixture, own = _settings(method, opened, found)
    with terrain.scratch() as scratch:
        attached = online.attach(terrain, found, settings, own, scratch)
        chain, costs = online.chain_from(terrain, query, found, attached, mixture, item, scratch)
    if not chain:
        return Chain()
    size = int(attached.sizes[0])
    states = [(attached.places[0, :size], attached.masses[0, :size])]
    states += [online.state_of(terrain, node) for node in chain]
    plans = [online.plan_between(a, b, terrain.vectors, settings.rho) for a, b in itertools.pairwise(states)]
    return Chain(
        items=tuple(chain),
        reach=tuple(costs),
        flows=tuple(tuple(plan[:flows]) for plan in plans),
        moved=tuple(sum(flow[2] for flow in plan) for plan in plans),
        entropies=tuple(shannon(masses) for _, masses in states),
    )


def check_changes(kept: Kept, verb: str) -> None:
    if len(kept.arrays["lengths"]) > 1 and "near_items" not in kept.arrays:
        raise ValueError(
            f"this manifold was built without what it takes to {verb} items; build it with "
            "changes=True and LPMT's own similarity, solver, neighbors and scale"
        )


def change(method: LPMT, before: Kept, gallery: Gallery, turnover: Turnover, tolerance: float | None) -> Kept:
    """Repaired where the change reaches, or made anew where there is nothing to repair yet."""
    n, arrays, facts = turnover.before, before.arrays, before.facts
    if min(n, turnover.after, len(turnover.stay)) < 2:
        return keep(method, gallery, SILENT, changes=True)
    states = stages.offline.sparse_rows(arrays["state_starts"], arrays["state_items"], arrays["state_masses"], n)
    old = repair.Before(record_in(arrays), states, arrays["step_starts"], arrays["step_ends"], arrays["step_costs"])
    came_and_went = n - len(turnover.stay) + turnover.fresh
    if tolerance is None:
        tolerance = repair.TOLERANCE if came_and_went <= repair.LARGE * turnover.after else 0.0
    settings = attachment(method, facts["rho"], facts["gamma"])
    after = repair.repaired(method, gallery, old, turnover, facts["share"], settings, tolerance)
    kept = kept_arrays(after.states, after.steps, after.costs, after.lengths) | after.record.arrays()
    measured = {
        "changed": facts.get("changed", 0.0) + came_and_went,
        "contrast_now": contrast_of(after.record.near, least_width_of(method)),
    }
    return Kept(kept, facts | measured)


def stale(kept: Kept, items: int) -> float:
    """The largest of: the share of items that came or went, the mean total variation not followed, the contrast's move.

    0 right after a build; in [0, 1].
    """
    facts = kept.facts
    if "changed" not in facts:
        return 0.0
    share = facts["changed"] / max(facts["built"], items, 1.0)
    drift = float(kept.arrays["drift"].sum(axis=1).mean()) / 2.0
    contrast = abs(facts["contrast_now"] / max(facts["contrast"], 1e-3) - 1.0)
    return float(np.clip(max(share, drift, contrast), 0.0, 1.0))


def kept_arrays(states: Any, steps: Any, costs: Any, lengths: Any) -> dict[str, NDArray[Any]]:
    """What searches run over, by the names and in the types of KEPT."""
    kept = (states.indptr, states.indices, states.data, steps.links, steps.ends, costs, lengths)
    return {name: array.astype(kind, copy=False) for (name, kind), array in zip(KEPT.items(), kept, strict=True)}


def shannon(masses: Any) -> float:
    """S = - sum p log p of a state, in nats."""
    p = np.asarray(masses, np.float64)
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


def attachment(method: LPMT, rho: float, gamma: float) -> Attachment:
    iterations = method.iterations if method.transport == "sinkhorn" else 0
    entries = ENTRIES * method.path_k
    return stages.online.Attachment(
        method.sigma, method.k2, method.support, entries, rho, gamma, method.epsilon, iterations
    )


def _check_rows(starts: NDArray[Any], parts: tuple[NDArray[Any], NDArray[Any]], n: int) -> None:
    """Sparse rows whose numbers stay inside: compiled loops follow them without looking."""
    items, values = parts
    whole = len(starts) == n + 1 and int(starts[0]) == 0 and len(items) == len(values) == int(starts[-1])
    if not whole or bool((np.diff(starts) < 0).any()):
        raise ValueError("sparse rows do not fit together")
    if len(items) and (int(items.min()) < 0 or int(items.max()) >= n):
        raise ValueError("sparse rows name items that are not there")


def _answer(method: LPMT, opened: Opened, queries: Vectors, found: Neighbors, k: int, depth: int, budget: int) -> Found:
    terrain, online = opened.terrain, stages.online
    settings, mixture, own = _settings(method, opened, found)
    with terrain.scratch() as scratch:
        attached = online.attach(terrain, found, settings, own, scratch)
        return online.travel(terrain, queries, found, attached, mixture, k, depth, budget, scratch)


def _settings(method: LPMT, opened: Opened, found: Neighbors) -> tuple[Attachment, Mixture, NDArray[np.float32] | None]:
    """How queries are attached, how distances are mixed, and the kernel lengths of the queries."""
    count = len(opened.terrain.vectors)
    mixture = stages.online.Mixture(method.theta, opened.gamma, method.fusion, min(method.k, count))
    own = None
    if method.scale == "local" and found.k:  # the distance of the k-th item found, or of the last one
        there = np.maximum((found.indices >= 0).sum(axis=1), 1)
        own = found.distances[np.arange(len(found.indices)), np.minimum(method.k, there) - 1]
    return attachment(method, opened.rho, opened.gamma), mixture, own


def _alone(count: int) -> dict[str, NDArray[Any]]:
    """What is kept of no item or of one: its state is itself."""
    starts, none = np.arange(count + 1, dtype=np.int64), np.zeros(count + 1, np.int64)
    return {
        "state_starts": starts,
        "state_items": np.zeros(count, np.int32),
        "state_masses": np.ones(count, np.float32),
        "step_starts": none,
        "step_ends": np.empty(0, np.int32),
        "step_costs": np.empty(0, np.float32),
        "lengths": np.ones(count, np.float32),
    }
