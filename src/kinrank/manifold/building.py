"""A gallery and a method -> the first Snapshot of it; refused before any work where memory would not suffice."""

from __future__ import annotations

from numpy.typing import ArrayLike

from kinrank.manifold.gallery import gallery_over, local_index
from kinrank.manifold.names import Names, check_new_ids
from kinrank.manifold.remembered import Remembered
from kinrank.manifold.snapshot import Snapshot
from kinrank.memory import NotEnoughMemory, allowed_bytes, in_words, parse_bytes
from kinrank.methods import Method, resolve
from kinrank.progress import Progress
from kinrank.stores import Store
from kinrank.stores.engine import EngineStore
from kinrank.stores.keyed import Keyed
from kinrank.stores.rows import gallery_with_ids
from kinrank.stores.scaled import in_space
from kinrank.stores.words import in_words as store_in_words


def built(
    gallery_or_store: ArrayLike | Store,
    method: Method | str | None,
    ids: ArrayLike | None,
    max_memory: int | str | None,
    report: Progress,
    changes: bool,
    metric: str | None,
    observed_limit: int | None,
) -> Snapshot:
    """See `Manifold.build`."""
    method = resolve(method)
    method.check_served()
    method.check_ready()
    vectors, space, own = gallery_with_ids(gallery_or_store, metric)
    if own is not None and ids is not None:
        raise ValueError(f"ids= is not needed: the items have those of {gallery_or_store!r}; leave it out")
    names = Names(len(vectors), check_new_ids(ids, len(vectors)) if own is None else own)
    if isinstance(gallery_or_store, EngineStore):
        store: Store | None = Keyed(gallery_or_store, names.all, vectors, space.scale)
    else:
        store = in_space(gallery_or_store if isinstance(gallery_or_store, Store) else None, space)
    remembered = Remembered.none(len(vectors), observed_limit)
    if observed_limit is not None:
        method.check_observed()
        if not changes:
            raise ValueError("observed_limit= has no meaning without changes, which remembering needs; leave it out")
    budget = allowed_bytes() if max_memory is None else parse_bytes(max_memory)
    needed = method.limited(len(vectors)).memory_kept(len(vectors), vectors.shape[1], changes) + names.size
    if needed > budget:
        raise NotEnoughMemory(
            f"a manifold of {len(vectors)} items needs about {in_words(needed)} to build but max_memory allows "
            f"{in_words(budget)}; build from fewer items, or pass a larger max_memory="
        )
    index = local_index(vectors, store, space.unit)
    kept = method.keep(gallery_over(vectors, index, report, space.unit), report, changes)
    over = store_in_words(store)
    return Snapshot.of(method, vectors, names, kept, store, built_over=over, remembered=remembered, space=space)
