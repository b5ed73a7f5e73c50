"""`kinrank build`: prepare a gallery, from a file of vectors or a vector database, in a folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import kinrank
from kinrank.cli.input_files import URL_SCHEMES, FeatureOptions, Gallery, IdColumn, open_database, read_features
from kinrank.cli.methods import MaxMemory, parse_method
from kinrank.cli.option_groups import File, OptionGroup, option
from kinrank.cli.output import OutputOptions, check_paths_differ
from kinrank.errors import InputError
from kinrank.manifold.saved_folder import check_target
from kinrank.stores.faiss import FaissStore

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinrank.stores import Store

STORE_KINDS = ("array", "faiss-flat", "faiss-ivf", "faiss-hnsw")


class BuildInputs(OptionGroup):
    """Vectors of the items, from files or a vector database, and their ids."""

    title = "Vectors"
    gallery: Gallery = None
    ids: File = option(None, "Text file with the ids of the items, one per line, all different.")
    id_column: IdColumn = None
    store: str = option(
        "array",
        f"Search for neighbours: {' | '.join(STORE_KINDS)}. Or the URL of a vector database, "
        f"instead of a file: {URL_SCHEMES}",
    )

    @property
    def url(self) -> str | None:
        """URL of the vector database; None for a file."""
        return self.store if ":" in self.store else None


class BuildMethod(OptionGroup):
    """Method that prepares the gallery."""

    title = "Method"
    method: str = option("lpmt", "lpmt, dfs, fsr, eir, a query expansion, or none.", "--method", "-m")
    max_memory: MaxMemory = None
    observed_limit: int | None = option(None, "Maximum number of remembered queries. Default: a third of the items.")


def build(
    context: typer.Context,
    inputs: BuildInputs,
    features: FeatureOptions,
    method: BuildMethod,
    output: OutputOptions,
    target: Path = option(..., "Folder to write.", "--output", "-o"),
) -> None:
    """Prepare a gallery once, so that searches take milliseconds.

    \b
    kinrank build --gallery g.npy -o gallery.manifold
    kinrank build --gallery g.npy --ids names.txt --k2 7 --theta 0.3 -o gallery.manifold
    kinrank build --gallery g.npy --store faiss-hnsw -o gallery.manifold
    kinrank build --gallery shape.npy --gallery colour.npy --feature-weights 2,1 -o gallery.manifold
    kinrank build --store 'qdrant://localhost:6333?table=pictures' -o pictures.manifold
    kinrank search gallery.manifold --queries q.npy

    Every parameter of the method is a flag: `kinrank methods lpmt`. --answers says how many right answers a query
    usually has; for texts of `kinrank embed` the default is one. Neighbours are searched exactly (array, faiss-flat)
    or approximately, for large galleries (faiss-ivf, faiss-hnsw; these need kinrank[faiss]). The index itself is not
    stored: `kinrank search` compares queries with all items. The folder holds arrays and a manifest with checksums. An
    existing folder is replaced when the new one is complete.
    """
    check_target(target)
    if (inputs.url is None) == (not inputs.gallery):
        raise InputError("give either --gallery, a file of vectors, or --store, the URL of a vector database")
    check_paths_differ(target, *(inputs.gallery or []), inputs.ids)
    parsed_method = parse_method(method.method, context.args, inputs.gallery or ())
    with open_database(inputs.url) as database:
        source: Any = database
        names = None
        if database is None:
            vectors, names = read_features(inputs.gallery or [], inputs.id_column, inputs.ids)
            source = _open_source(features.combine(vectors), inputs.store, features.metric)
        started = time.perf_counter()
        manifold = kinrank.Manifold.build(
            source,
            parsed_method,
            ids=names,
            max_memory=method.max_memory,
            progress=output.progress,
            metric=features.metric,
            observed_limit=method.observed_limit,
        )
    seconds = time.perf_counter() - started
    manifold.save(target)
    facts = {"output": str(target), **manifold.info(), "seconds": round(seconds, 6)}
    text = repr(parsed_method).replace("{", "{{").replace("}", "}}")
    output.print_summary("{output}: {items} items x {dimensions} dimensions, " + text + ", {seconds:.2f} s", facts)


def _open_source(vectors: NDArray[Any], name: str, metric: str | None) -> NDArray[Any] | Store:
    """Return the vectors, which are searched exactly, or an index over them."""
    if name not in STORE_KINDS:
        raise InputError(f"--store {name!r} is unknown; give one of: {', '.join(STORE_KINDS)}")
    if name == "array":
        return vectors
    return FaissStore(vectors, kind=name.removeprefix("faiss-"), metric=metric or "cosine")
