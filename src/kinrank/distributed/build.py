"""Building a Manifold on a Dask cluster, with the same result as `Manifold.build` on one machine."""

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
from kinrank.distributed import worker_tasks
from kinrank.distributed.dask_runner import WORKER_TIMEOUT_SECONDS, Cluster, check_wait, connect_client
from kinrank.distributed.worker_tasks import make_exchange_folder, share_gallery
from kinrank.ids import Ids
from kinrank.manifold import Manifold
from kinrank.manifold.snapshot import ObservedQueries, Snapshot, make_gallery
from kinrank.methods import Method, resolve_method
from kinrank.methods.base import require_prepared
from kinrank.neighbors import Neighbors
from kinrank.parameters import check_whole_number
from kinrank.progress import Progress, ProgressOption
from kinrank.stores import Store
from kinrank.stores.base import describe_if_approximate
from kinrank.stores.view import adapt_to_space
from kinrank.vector_space import Space, check_metric


def build(
    gallery: ArrayLike | str | os.PathLike[str],
    method: Method | str | None = None,
    *,
    client: Any = None,
    block: int = 4096,
    ids: ArrayLike | None = None,
    store: Callable[[], Store] | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: ProgressOption = None,
    wait: float = WORKER_TIMEOUT_SECONDS,
    metric: str = "cosine",
) -> Manifold:
    """Prepare a gallery on the workers of a Dask cluster.

    The result is bit-identical to `Manifold.build(gallery, method, ids)` if the gallery is searched exactly and all
    processors are of one kind, but lacks the record that `add` and `remove` need. For LPMT the workers run the loops of
    the pipeline (stages/pipeline.py), block by block; for other methods they find the neighbours, and this process does
    the rest.

    Args:
        gallery: a feature file, read block by block, or (n, d) rows.
        method: a Method with prepared search, or its name; default LPMT().
        client: a `distributed.Client`; by default the current one, or a local cluster for this call.
        block: rows per task. A task holds its rows and results; it reads everything else from mapped files.
        ids: one id per item; item numbers by default.
        store: a function without arguments that opens a Store of the same items on a worker, such as an index on a
            shared disk, which then finds the neighbours. Exact search by default.
        folder: folder for the exchange of files; every worker must see it under this name. By default the folder for
            temporary files, which is enough for workers on this machine.
        progress: True for a bar, or a callable `f(label, done, total)`.
        wait: seconds without any worker after which a TimeoutError ends the work.
        metric: "cosine", or "euclidean" if the length of vectors matters.

    Example:
        >>> manifold = kinrank.distributed.build("gallery.npy", client=Client("tcp://scheduler:8786"), folder="/shared")
    """
    method = require_prepared(resolve_method(method))
    method.load_weights()
    check_metric(metric)
    size, wait = check_whole_number(block, "block"), check_wait(wait)
    with connect_client(client) as running, make_exchange_folder(folder) as place:
        run = Cluster(running, place, size, Progress(progress), wait)
        shared, space = _share_rows(gallery, place, metric)
        run.register_file(shared, "vectors")
        n = len(shared)
        names = Ids.of_new_items(ids, n)

        def lists(k: int) -> Neighbors:
            width = min(k, n)
            lists = Neighbors(run.empty((n, width), np.int32), run.empty((n, width), np.float32))
            outputs = stages.kernels.compiler.Output(lists.indices), stages.kernels.compiler.Output(lists.distances)
            run.fill("neighbours", worker_tasks.find_neighbours, n, outputs, width, uuid.uuid4().hex, store, space)
            return lists

        index = None if store is None else adapt_to_space(store(), space)
        state = method.prepare_gallery(
            replace(make_gallery(shared, index, unit=space.unit), lists=lists, run=run), run.report, changes=False
        )
        vectors = np.array(shared)  # the files are removed with the folder
        arrays = {name: np.array(array) for name, array in state.to_arrays().items()}
        state = method.state.from_arrays(method, vectors, arrays, state.facts)
    searched, over = make_gallery(vectors, index, unit=space.unit), describe_if_approximate(index)
    return Manifold(Snapshot(method, searched, names, ObservedQueries.none(n), state, index, over, space=space))


def _share_rows(gallery: Any, place: Path, metric: str) -> tuple[NDArray[np.float32], Space]:
    """Write the rows of the gallery to a file that all workers read; return them and their space."""
    shared = share_gallery(gallery, place, check_metric(metric))
    if metric == "cosine":
        return shared, Space.of(gallery)
    space = Space.of(gallery, shared)
    return share_gallery(space.scale_rows(shared, "gallery"), place, metric), space
