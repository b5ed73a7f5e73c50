"""`kinrank build`: a file of vectors -> a folder that answers queries."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import kinrank
from kinrank.cli.flags import method_from
from kinrank.cli.inputs import AGAIN, CheckRows, GalleryKey, IdColumn, Metric, Weights, combined, features
from kinrank.cli.output import Json, Quiet, bars, print_json, separate
from kinrank.cli.stores import URLS, opened
from kinrank.manifold.files import check_target
from kinrank.stores.faiss import FaissStore

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinrank.stores import Store

STORES = ("array", "faiss-flat", "faiss-ivf", "faiss-hnsw")


def build(
    context: typer.Context,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write.")],
    gallery: Annotated[
        list[Path] | None, typer.Option("--gallery", "-g", help=f"Vectors to prepare, one row per item. {AGAIN}")
    ] = None,
    ids: Annotated[
        Path | None, typer.Option("--ids", help="Text file of the items' names, one per line, no two alike.")
    ] = None,
    method: Annotated[str, typer.Option("--method", "-m", help="lpmt, dfs, fsr, eir, or a query expansion.")] = "lpmt",
    store: Annotated[
        str,
        typer.Option(
            "--store",
            help=f"What finds the neighbours: {' | '.join(STORES)}. Or the URL of a vector database to prepare, "
            f"instead of a file: {URLS}",
        ),
    ] = "array",
    max_memory: Annotated[
        str | None,
        typer.Option("--max-memory", help="Refuse, before starting, what needs more, such as 2GB."),
    ] = None,
    observed_limit: Annotated[
        int | None,
        typer.Option("--observed-limit", help="Most queries to remember. Without: a third of the items."),
    ] = None,
    metric: Metric = None,
    feature_weights: Weights = None,
    check_rows: CheckRows = True,
    gallery_key: GalleryKey = None,
    id_column: IdColumn = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Prepare a gallery once, so that new queries are answered in milliseconds.

    \b
    kinrank build --gallery g.npy -o gallery.manifold
    kinrank build --gallery g.npy --ids names.txt --k2 7 --theta 0.3 -o gallery.manifold
    kinrank build --gallery g.npy --store faiss-hnsw -o gallery.manifold
    kinrank build --gallery shape.npy --gallery colour.npy --feature-weights 2,1 -o gallery.manifold
    kinrank build --store 'qdrant://localhost:6333/pictures' -o pictures.manifold
    kinrank search gallery.manifold --queries q.npy

    Every parameter of the method is a flag: `kinrank methods lpmt`. Neighbours are found exactly (array,
    faiss-flat) or approximately, for large galleries (faiss-ivf, faiss-hnsw; these need kinrank[faiss]). The index
    itself is not kept: `kinrank search` compares queries with all items. The folder holds arrays and a manifest with
    checksums; one that is there is replaced when the new one is whole.
    """
    check_target(output)
    url = store if ":" in store else None
    if (url is None) == (not gallery):
        raise ValueError("give either --gallery, a file of vectors, or --store, the URL of a vector database")
    separate(output, *(gallery or []), ids)
    chosen = method_from(method, context.args)
    with opened(url) as database:
        source: Any = database
        names = None
        if database is None:
            vectors, names = features(gallery or [], gallery_key, id_column, ids)
            source = _source(combined(vectors, feature_weights, check_rows), store, metric)
        started = time.perf_counter()
        manifold = kinrank.Manifold.build(
            source, chosen, names, max_memory, bars(quiet), metric=metric, observed_limit=observed_limit
        )
    seconds = time.perf_counter() - started
    manifold.save(output)
    facts = {"output": str(output), **manifold.info(), "seconds": round(seconds, 6)}
    if json:
        print_json(facts)
    elif not quiet:
        line = "{output}: {items} items x {dimensions} dimensions, {chosen!r}, {seconds:.2f} s"
        print(line.format(chosen=chosen, **facts))


def _source(vectors: NDArray[Any], name: str, metric: str | None) -> NDArray[Any] | Store:
    """The vectors themselves, searched exactly, or an index over them."""
    if name not in STORES:
        raise ValueError(f"--store {name!r} is not known; give one of: {', '.join(STORES)}")
    if name == "array":
        return vectors
    return FaissStore(vectors, kind=name.removeprefix("faiss-"), metric=metric or "cosine")
