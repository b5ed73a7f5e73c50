"""LPMT, served: states, steps and their costs once; then per query a state, a few transports and a short search."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.manifold.explanation import ENTROPY_PER_MASS, OnlineExplanation, shannon
from kinrank.manifold.offline import is_small as _small
from kinrank.manifold.offline import kin_width_of, least_width_of, plain_parts, small_parts, width_of
from kinrank.manifold.serving import Answer
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import Method
from kinrank.methods.lpmt import LPMT
from kinrank.neighbors import Neighbors
from kinrank.progress import Progress

if TYPE_CHECKING:
    from kinrank.stages.online import Attachment, Found, Mixture, Terrain

ENTRIES = 2  # first steps of a query, in units of path_k: it has no items that list it, which double those of others
BUDGET = 50  # settled items per item asked for
LEAST_BUDGET = 5000
ROWS = 16  # queries answered by one call of the loops


class ServingLPMT:
    """Kept per item: its state (`support` entries), about 1.4 path_k steps with their costs, one kernel length."""

    def check(self, method: Method) -> None:
        assert isinstance(method, LPMT)
        if method.distance != "transport":
            raise ValueError(
                f"a Manifold searches along chains, and distance={method.distance!r} has none; "
                "use LPMT(distance='transport')"
            )

    def memory(self, method: Method, items: int, dimensions: int) -> int:
        assert isinstance(method, LPMT)
        if not _small(method):
            return 4 * dimensions * items + method.memory(items, 0, dimensions)
        lists = 8 * (width_of(method) + kin_width_of(method))  # by distance and by F, numbers and values
        return items * (4 * dimensions + lists + 32 * method.k + 64) + 64 * 2**20

    def offline(
        self,
        method: Method,
        vectors: Vectors,
        lists_of: Callable[[int], Neighbors],
        progress: Progress,
        keep: bool = False,
    ) -> tuple[dict[str, NDArray[Any]], dict[str, float]]:
        """With `keep` also the record that later changes need."""
        assert isinstance(method, LPMT)
        from kinrank.stages import online

        if len(vectors) < 2:
            return _alone(len(vectors)), {"rho": 1.0, "gamma": 1.0}
        record: dict[str, NDArray[Any]] = {}
        if _small(method):
            parts = small_parts(method, vectors, lists_of, progress, record if keep else None)
        else:
            parts = plain_parts(method, vectors, lists_of, progress)
        states, steps, lengths, fitted = parts
        costs = online.all_costs(steps, states, vectors, attachment(method, fitted.rho, fitted.gamma))
        facts = {"rho": fitted.rho, "gamma": fitted.gamma}
        if record:
            from kinrank.manifold.record import contrast_of

            near = Neighbors(record["near_items"], record["near_gaps"])
            contrast = contrast_of(near, least_width_of(method))
            facts |= {"share": fitted.share, "built": float(len(vectors)), "contrast": contrast}
        return kept_arrays(states, steps, costs, lengths) | record, facts

    def restore(
        self, method: Method, vectors: Vectors, arrays: dict[str, NDArray[Any]], facts: dict[str, float]
    ) -> Terrain:
        from kinrank.manifold.record import recorded

        n = len(vectors)
        for name, kind in KEPT.items():
            if arrays[name].ndim != 1 or arrays[name].dtype != kind:
                raise ValueError(f"{name} must be one row of {np.dtype(kind)}")
        if len(arrays["lengths"]) != n or not {"rho", "gamma"} <= set(facts):
            raise ValueError("lengths or powers are missing")
        _check_rows(arrays["state_starts"], (arrays["state_items"], arrays["state_masses"]), n)
        _check_rows(arrays["step_starts"], (arrays["step_ends"], arrays["step_costs"]), n)
        if recorded(arrays, n) is not None and not {"share", "built", "contrast"} <= set(facts):
            raise ValueError("numbers that belong to the record of changes are missing")
        return self.terrain(vectors, arrays)

    def terrain(self, vectors: Vectors, arrays: dict[str, NDArray[Any]]) -> Terrain:
        """What searches run over, of arrays that are known to be whole."""
        from kinrank.stages.online import Terrain

        return Terrain(vectors, *(arrays[name] for name in KEPT))

    def reach(self, method: Method, depth: int) -> int:
        assert isinstance(method, LPMT)
        return max(ENTRIES * method.path_k, method.k2, method.k, depth) + 1

    def online(
        self, snapshot: Snapshot, queries: Vectors, found: Neighbors, k: int, depth: int, budget: int | None
    ) -> Answer:
        from kinrank.stages.kernels.compiled import threads

        k = max(1, min(k, len(snapshot)))
        budget = max(LEAST_BUDGET, BUDGET * k) if budget is None else budget
        spans = [slice(start, start + ROWS) for start in range(0, len(queries), ROWS)]
        rows = [(queries[span], Neighbors(found.indices[span], found.distances[span])) for span in spans]
        if threads() == 1 or len(rows) == 1:
            parts = [_answer(snapshot, *some, k, depth, budget) for some in rows]
        else:
            with ThreadPoolExecutor(threads()) as pool:
                tasks = [pool.submit(_answer, snapshot, *some, k, depth, budget) for some in rows]
                parts = [task.result() for task in tasks]
        certain = np.concatenate([part.certain for part in parts])
        settled = np.concatenate([part.settled for part in parts])
        facts = {"certain": float(certain.mean()), "budget": budget, "settled": float(np.median(settled))}
        return Answer(
            np.concatenate([part.indices for part in parts]),
            np.concatenate([part.distances for part in parts]),
            facts,
        )

    def explain(self, snapshot: Snapshot, query: Vectors, found: Neighbors, item: int, flows: int) -> OnlineExplanation:
        from kinrank.stages import online

        terrain: Terrain = snapshot.prepared
        how, mixture, own = _settings(snapshot, found)
        with terrain.scratch() as room:
            attached = online.attach(terrain, found, how, own, room)
            chain, reach = online.chain_from(terrain, query, found, attached, mixture, item, room)
        gap = query[0] - snapshot.vectors[item]
        names = tuple(snapshot.named(np.array(chain or [item])).tolist())
        if not chain:
            infinity = float("inf")
            return OnlineExplanation(("item",), (item,), (), infinity, float(np.sqrt(gap @ gap)), (), names)
        size = int(attached.sizes[0])
        states = [(attached.places[0, :size], attached.masses[0, :size])]
        states += [online.state_of(terrain, node) for node in chain]
        plans = [online.plan_between(a, b, terrain.vectors, how.rho) for a, b in itertools.pairwise(states)]
        moved = tuple(sum(flow[2] for flow in plan) for plan in plans)
        return OnlineExplanation(
            kinds=("query", *("item" for _ in chain)),
            items=(0, *chain),
            costs=tuple(b - a for a, b in itertools.pairwise([0.0, *reach])),
            total=reach[-1],
            distance=float(np.sqrt(gap @ gap)),
            flows=tuple(tuple(plan[:flows]) for plan in plans),
            names=names,
            moved=moved,
            entropy=tuple(mass * ENTROPY_PER_MASS for mass in moved),
            entropy_of_states=tuple(shannon(b[1]) - shannon(a[1]) for a, b in itertools.pairwise(states)),
        )


KEPT: dict[str, type] = {
    "state_starts": np.int64,
    "state_items": np.int32,
    "state_masses": np.float32,
    "step_starts": np.int64,
    "step_ends": np.int32,
    "step_costs": np.float32,
    "lengths": np.float32,
}


def kept_arrays(states: Any, steps: Any, costs: Any, lengths: Any) -> dict[str, NDArray[Any]]:
    """What searches run over, by the names and in the types of KEPT."""
    kept = (states.indptr, states.indices, states.data, steps.links, steps.ends, costs, lengths)
    return {name: array.astype(kind, copy=False) for (name, kind), array in zip(KEPT.items(), kept, strict=True)}


def _check_rows(starts: NDArray[Any], parts: tuple[NDArray[Any], NDArray[Any]], n: int) -> None:
    """Sparse rows whose numbers stay inside: compiled loops follow them without looking."""
    items, values = parts
    whole = len(starts) == n + 1 and int(starts[0]) == 0 and len(items) == len(values) == int(starts[-1])
    if not whole or bool((np.diff(starts) < 0).any()):
        raise ValueError("sparse rows do not fit together")
    if len(items) and (int(items.min()) < 0 or int(items.max()) >= n):
        raise ValueError("sparse rows name items that are not there")


def _answer(snapshot: Snapshot, queries: Vectors, found: Neighbors, k: int, depth: int, budget: int) -> Found:
    from kinrank.stages import online

    terrain: Terrain = snapshot.prepared
    how, mixture, own = _settings(snapshot, found)
    with terrain.scratch() as room:
        attached = online.attach(terrain, found, how, own, room)
        return online.travel(terrain, queries, found, attached, mixture, k, depth, budget, room)


def _settings(snapshot: Snapshot, found: Neighbors) -> tuple[Attachment, Mixture, NDArray[np.float32] | None]:
    """How queries are attached, how distances are mixed, and the kernel lengths of the queries."""
    from kinrank.stages.online import Mixture

    method = snapshot.method
    assert isinstance(method, LPMT)
    rho, gamma = snapshot.facts["rho"], snapshot.facts["gamma"]
    mixture = Mixture(method.theta, gamma, method.fusion, min(method.k, len(snapshot)))
    own = None
    if method.scale == "local" and found.k:  # the distance of the k-th item found, or of the last one
        there = np.maximum((found.indices >= 0).sum(axis=1), 1)
        own = found.distances[np.arange(len(found.indices)), np.minimum(method.k, there) - 1]
    return attachment(method, rho, gamma), mixture, own


def attachment(method: LPMT, rho: float, gamma: float) -> Attachment:
    from kinrank.stages.online import Attachment

    iterations = method.iterations if method.transport == "sinkhorn" else 0
    entries = ENTRIES * method.path_k
    return Attachment(method.sigma, method.k2, method.support, entries, rho, gamma, method.epsilon, iterations)


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
