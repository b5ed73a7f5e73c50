"""A Snapshot <-> parts that can be pickled. What arrives is checked as files are; nothing here unpickles."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from kinrank.manifold.reading import snapshot_of
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import Method
from kinrank.stores import Store


class Parts(NamedTuple):
    """Everything a snapshot is made from."""

    method: type[Method]
    parameters: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    facts: dict[str, float]
    store: Store | None
    built_over: str | None


def parts_of(snapshot: Snapshot) -> Parts:
    """The parts of a snapshot; a TypeError that says what to do, if its store cannot be pickled."""
    method = snapshot.method
    parameters = {declared.name: getattr(method, declared.name) for declared in method.parameters()}
    if snapshot.store is not None:
        _check_travels(snapshot.store)
    return Parts(type(method), parameters, snapshot.arrays, snapshot.facts, snapshot.store, snapshot.built_over)


def put_together(parts: Parts) -> Snapshot:
    """The snapshot of parts that came from elsewhere; a ValueError if they do not fit together."""
    try:
        method = parts.method(**parts.parameters)
        return snapshot_of(method, parts.arrays, parts.facts, parts.store, parts.built_over)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ValueError(f"what was pickled is not a manifold that this version can use: {error}") from error


class _Nowhere:
    """A file that forgets what is written to it."""

    def write(self, content: Any) -> int:
        return len(content)


def _check_travels(store: Store) -> None:
    from multiprocessing.reduction import ForkingPickler  # late: few need it

    try:
        ForkingPickler(_Nowhere()).dump(store)
    except Exception as error:  # whatever its parts raise
        raise TypeError(
            f"this manifold cannot be pickled, because its store, a {type(store).__name__}, cannot be ({error}); save "
            "the manifold, and load it where it is needed with a store opened there"
        ) from error
