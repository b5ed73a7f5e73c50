"""What the command line was given -> Settings: a gallery that is there, or one prepared for this run."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.encoders import Options, Recipe
from kinrank.features import load_with_ids
from kinrank.files.columns import keyed
from kinrank.files.names import read_names
from kinrank.files.opening import FileProblem
from kinrank.manifold import Manifold
from kinrank.manifold.files import check_target
from kinrank.manifold.manifest import MANIFEST
from kinrank.manifold.telling import SearchedExactly
from kinrank.methods import Method
from kinrank.progress import Show
from kinrank.stores.address import Address
from kinrank.stores.opening import open_store
from kinrank.watching import Followed
from kinrank.web.settings import Files, Settings
from kinrank.web.shown.collection import Collection
from kinrank.web.sources.encoded import encoded, known
from kinrank.web.sources.kinds import (
    MANIFOLD,
    SETS,
    STORE,
    TOYS,
    UNENCODED,
    VECTORS,
    File,
    kind_of,
    parted,
    refuse_needless,
)
from kinrank.web.sources.published import chosen, published
from kinrank.web.sources.served import NAME, Served, built, written
from kinrank.web.sources.toys import toys

SHOWN = 5  # items without a vector that are named


def settings_for(
    source: File = None,
    *,
    images: File = None,
    texts: File = None,
    labels: File = None,
    truth: File = None,
    queries: File = None,
    query_names: File = None,
    query_labels: File = None,
    ids: File = None,
    gallery_key: str | None = None,
    id_column: str | int | None = None,
    set_name: str | None = None,
    method: Method | None = None,
    store: str | None = None,
    encoder: str | None = None,
    options: Options | None = None,
    content: str | None = None,
    column: str | None = None,
    keep: File = None,
    scratch: Path,
    progress: Show = None,
    tell: Callable[[str], None] | None = None,
    **others: Any,
) -> Settings:
    """Everything a service needs to know, with a gallery that is whole on disk; a sentence where it cannot be.

    Args:
        source: what is served: None for toys drawn on the spot; a folder or zip of pictures; a file of texts; a folder
            of a manifold; a file of vectors, or FILE:KEY; a folder with published sets, FOLDER:SET or FOLDER/SET.
        images, texts, labels, truth, queries, query_names, query_labels: see `Files`; those of a published set unless
            given. Labels and queries may be FILE.npz:KEY, too.
        ids: a file of names: of the rows of a file of vectors; of a manifold, the ids that labels and texts were
            written for, in their order.
        gallery_key, id_column: of a file of vectors, as in `features.load`.
        set_name: which of several published sets.
        method: what prepares a gallery that is not prepared yet; LPMT unless given.
        store: the URL of a vector database; `source` is then the folder of a manifold over it, which is built there
            where there is none, or in `scratch`.
        encoder, options: what makes vectors of pictures or texts, by its name; of pictures and texts the usual one, of
            a manifold the one that made it, unless given.
        content, column: of what is to be encoded, see `encoders.embed`; id_column names its ids, too.
        keep: the folder where the gallery of pictures or texts stays for the next time.
        scratch: a folder for what is only needed as long as the service runs.
        progress: True for a bar, or a callable `f(label, done, total)`.
        tell: is given a sentence that is worth printing.
        others: further fields of `Settings`.
    """
    paths = {
        "images": images, "texts": texts, "labels": labels, "truth": truth, "queries": queries,
        "query_names": query_names, "query_labels": query_labels,
    }  # fmt: skip
    path, source_key, source_set = parted(source)
    key, named = gallery_key or source_key, set_name or source_set
    given, kind = options or Options(), kind_of(path, source, store, column is not None or content is not None)
    refuse_needless(
        kind,
        {"gallery_key": key, "id_column": id_column, "set_name": named, "ids": ids, "method": method,
         "column": column, "content": content, "keep": keep},
    )  # fmt: skip
    if kind == STORE:
        served = _over_store(path, str(store), method, scratch, progress)
    elif kind == TOYS or path is None:
        served = toys(scratch, method, progress)
    elif kind == UNENCODED:
        columns, kept = (column, None if id_column is None else str(id_column)), None if keep is None else Path(keep)
        served, changed = encoded(path, encoder, given, content, columns, method, kept, scratch, progress)
        _tell_changed(changed, tell)
    elif kind == MANIFOLD:
        served = _prepared(path, scratch, encoder is not None, tell)
    elif kind == SETS:
        name, rest = chosen(path, named)
        if rest and named is None and tell is not None:
            tell(f"{name} is shown; also there: {', '.join(rest)} (say which, as {path}:{rest[0]})")
        served = published(path, name, method, scratch, progress)
    else:
        served = _of_vectors(path, key, id_column, ids, method, scratch, progress)
    order = None if ids is None or kind == VECTORS else read_names(Path(ids))
    files = _checked(served, {name: str(path) for name, path in paths.items() if path is not None}, order, scratch)
    return Settings(
        manifold=str(served.manifold.absolute()), writable=served.writable, title=served.title,
        store=served.store, follows=served.follows, files=files, scratch=str(scratch),
        encoder=served.encoder if encoder is None else Recipe(encoder, given).to_dict(), **others,
    )  # fmt: skip


def _prepared(folder: Path, scratch: Path, chosen: bool, tell: Callable[[str], None] | None) -> Served:
    """A gallery that is there; with the pictures or texts it was made of, where it is known that they are there."""
    return known(folder, scratch, chosen, tell or (lambda words: None)) or Served(folder, folder.name, writable=True)


def _tell_changed(changed: Followed, tell: Callable[[str], None] | None) -> None:
    if tell is not None and changed:
        tell(str(changed))
        for name, why in list(changed.skipped.items())[:SHOWN]:
            tell(f"skipped {name}: {why}")


def _over_store(folder: Path | None, url: str, method: Method | None, scratch: Path, progress: Show) -> Served:
    """A manifold over a vector database; built where it is not there yet."""
    place = scratch / NAME if folder is None else folder
    if not (place / MANIFEST).is_file():
        check_target(place)
        store = open_store(url)
        try:
            Manifold.build(store, method, progress=progress).save(place)
        finally:
            if hasattr(store, "close"):
                store.close()
    elif method is not None:
        raise ValueError(f"method= has no meaning for {place}, which is prepared already; leave it out")
    shown = str(Address.of(url))  # without its password
    return Served(place, shown if folder is None else folder.name, store=url)


def _of_vectors(
    path: Path, key: str | None, id_column: str | int | None, ids: File, method: Method | None, scratch: Path,
    progress: Show,
) -> Served:  # fmt: skip
    """A gallery prepared from a file, for this run."""
    if id_column is not None and ids is not None:
        raise ValueError(f"ids= and id_column= both name the rows of {path}; give one of them")
    try:
        rows, names = load_with_ids(path, key, id_column=id_column)
    except FileProblem as problem:
        hint = ", or name one behind the path, as FILE:KEY" if "pass key=" in str(problem) else ""
        raise FileProblem(f"{problem}{hint}") from problem
    names = read_names(Path(ids)) if ids is not None else names
    return Served(built(rows, method, names, scratch, progress), path.name)


def _checked(served: Served, given: dict[str, str], order: list[str] | None, scratch: Path) -> Files:
    """The files of the source, or those given instead; opened once, so that what is wrong is known now.

    Texts, labels and truth go by the order of the ids, which changes later, so it is written down.
    """
    files = replace(served.files, **{name: _absolute(path) for name, path in given.items()})
    if not given:
        return files
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SearchedExactly)  # only its ids are of interest here
        manifold = Manifold.load(served.manifold)
    ids: NDArray[Any] = manifold.ids
    if order is not None or served.writable or served.store is not None:
        entries = [str(name) for name in ids.tolist()] if order is None else order
        files = replace(files, ids=written(scratch / "ids.json", entries))
    found = Collection.open(files, ids, None).queries
    width = manifold.info()["dimensions"]
    if found is not None and np.shape(found)[1] != width:
        raise ValueError(
            f"queries= has vectors of {np.shape(found)[1]} numbers but the gallery of {width}; both must come from the "
            "same model"
        )
    return files


def _absolute(path: str) -> str:
    """So that a worker that runs elsewhere finds it; a key stays behind it."""
    file, key = keyed(path)
    return str(file.absolute()) + ("" if key is None else f":{key}")
