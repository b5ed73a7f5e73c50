"""A gallery and a cluster -> a Manifold, the same as `Manifold.build` makes on one machine."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import stages
from kinrank.distributed import tasks
from kinrank.distributed.cluster import WAIT, Cluster, connected, seconds
from kinrank.distributed.files import share_gallery, workplace
from kinrank.manifold import Manifold
from kinrank.manifold.gallery import gallery_over
from kinrank.manifold.names import Names, check_new_ids
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import Method, resolve
from kinrank.methods.served import Kept
from kinrank.neighbors import Neighbors
from kinrank.parameters import whole_number
from kinrank.progress import Progress, Show
from kinrank.space import Space, check_metric
from kinrank.stores import Store
from kinrank.stores.scaled import in_space
from kinrank.stores.words import in_words


def build(
    gallery: ArrayLike | str | os.PathLike[str],
    method: Method | str | None = None,
    client: Any = None,
    block: int = 4096,
    ids: ArrayLike | None = None,
    store: Callable[[], Store] | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: Show = None,
    wait: float = WAIT,
    metric: str = "cosine",
) -> Manifold:
    """Prepare a gallery on the workers of a Dask cluster.

    The result has the bits of `Manifold.build(gallery, method, ids)` where the gallery is searched exactly and all
    processors are of one kind, without the record that `add` and `remove` need. For LPMT the workers run the loops of
    the one pipeline (stages/pipeline.py), block by block; for other methods they find the neighbours, and the rest is
    done by this process.

    Args:
        gallery: a feature file, read block by block, or (n, d) rows.
        method: a Method that can be served, or its name; LPMT() unless given.
        client: a `distributed.Client`; the one in force, or a cluster on this machine for this call, unless given.
        block: rows per task. A task holds its rows and results; everything else it reads from mapped files.
        ids: one name per item; item numbers unless given.
        store: a function without arguments that opens a Store of the same items on a worker, such as an index on a
            shared disk; asked for neighbours. Exact search unless given.
        folder: where files are exchanged; every worker must see it under this name. The folder for temporary files
            unless given, which is enough for workers on this machine.
        progress: True for a bar, or a callable `f(label, done, total)`.
        wait: seconds after which the work is given up, with a TimeoutError, when the cluster has no worker.
        metric: "cosine", or "euclidean" where the length of vectors matters.

    Example:
        >>> manifold = kinrank.distributed.build("gallery.npy", client=Client("tcp://scheduler:8786"), folder="/shared")
    """
    method = resolve(method)
    method.check_served()
    method.check_ready()
    check_metric(metric)
    size, wait = whole_number(block, "block"), seconds(wait)
    with connected(client) as running, workplace(folder) as place:
        run = Cluster(running, place, size, Progress(progress), wait)
        shared, space = _shared(gallery, place, metric)
        run.know(shared, "vectors")
        n = len(shared)
        names = Names(n, check_new_ids(ids, n))

        def lists(k: int) -> Neighbors:
            width = min(k, n)
            lists = Neighbors(run.empty((n, width), np.int32), run.empty((n, width), np.float32))
            outputs = stages.run.Output(lists.indices), stages.run.Output(lists.distances)
            run.fill("neighbours", tasks.neighbours, n, outputs, width, uuid.uuid4().hex, store, space)
            return lists

        index = None if store is None else in_space(store(), space)
        kept = method.keep(
            replace(gallery_over(shared, index, unit=space.unit), lists=lists, run=run), run.report, changes=False
        )
        vectors = np.array(shared)  # the files go away with the folder
        kept = Kept({name: np.array(array) for name, array in kept.arrays.items()}, kept.facts)
    return Manifold(Snapshot.of(method, vectors, names, kept, index, built_over=in_words(index), space=space))


def _shared(gallery: Any, place: Path, metric: str) -> tuple[NDArray[np.float32], Space]:
    """The gallery's rows in a file that all workers read, and how they were made."""
    shared = share_gallery(gallery, place, check_metric(metric))
    if metric == "cosine":
        return shared, Space.of(gallery)
    space = Space.of(gallery, shared)
    return share_gallery(space.scaled(shared, "gallery"), place, metric), space
