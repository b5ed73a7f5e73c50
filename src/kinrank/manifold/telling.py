"""A Snapshot -> what is told of it: in a line, as facts, and what it costs to search it without its store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import Method
from kinrank.stores.scaled import ScaledStore


class SearchedExactly(UserWarning):
    """A Manifold was built over a store that searches approximately, and is loaded without it."""


def in_a_line(snapshot: Snapshot) -> str:
    count = snapshot.remembered.count
    more = f", {count} remembered {'query' if count == 1 else 'queries'}" if count else ""
    return f"Manifold({len(snapshot)} items x {snapshot.vectors.shape[1]} dimensions{more}, {snapshot.method!r})"


def facts_of(snapshot: Snapshot) -> dict[str, Any]:
    """For people and JSON."""
    method, store = snapshot.method, snapshot.store if snapshot.engine is None else snapshot.engine
    store = store.base if isinstance(store, ScaledStore) else store
    return {
        "items": len(snapshot),
        "observed": snapshot.remembered.count,
        "observed_limit": snapshot.remembered.most(len(snapshot)) if _remembers(method) else 0,
        "dimensions": int(snapshot.vectors.shape[1]),
        "method": method.name,
        "parameters": {declared.name: getattr(method, declared.name) for declared in method.parameters()},
        "facts": snapshot.facts,
        "bytes": snapshot.size,
        "bytes_of_vectors": int(snapshot.vectors.nbytes),
        "ids": snapshot.names.kind,
        "metric": snapshot.space.metric,
        "combined": snapshot.space.in_words,
        "stale": snapshot.stale,
        "store": None if store is None else type(store).__name__,
        "built_over": snapshot.built_over,
    }


def _remembers(method: Method) -> bool:
    try:
        method.check_observed()
    except ValueError:
        return False
    return True


def cost_of(folder: Path, snapshot: Snapshot) -> str:
    """What a search without the store takes, where it was built over one that is not there."""
    n, d = snapshot.vectors.shape
    products = f"{n * d:,}" if n * d < 1e6 else f"{n * d / 1e6:,.1f} million"
    return (
        f"{folder} was built over {snapshot.built_over}, which is not saved with it, and is searched exactly now: a "
        f"query is compared with all {n:,} items, which takes {products} multiplications ({n:,} x {d}); "
        "in Python, Manifold.load(path, store=...) searches that store instead"
    )
