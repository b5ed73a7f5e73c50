"""Settings of a service from its source: opens an existing gallery, or prepares one for this run."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.datasets.published_sets import import_set_display
from kinrank.datasets.turntable import TOY_NAMES, turntable
from kinrank.encoders import Recipe
from kinrank.encoders.base import TEXTS
from kinrank.errors import ExactSearchWarning, InputError
from kinrank.files.text_columns import read_names
from kinrank.files.vector_files import read_content, split_key
from kinrank.manifold import Manifold
from kinrank.manifold.saved_folder import MANIFEST, check_target
from kinrank.methods import TEXT_METHOD, Method
from kinrank.progress import Progress, ProgressOption
from kinrank.report.demo import embed_pixels
from kinrank.stores.url import StoreUrl, open_store
from kinrank.sync_folder import SyncResult
from kinrank.vector_input import load_with_ids
from kinrank.web.collection import Collection
from kinrank.web.settings import Files, Settings
from kinrank.web.startup.folder_vectors import embed_folder, open_known_gallery
from kinrank.web.startup.gallery_source import MANIFOLD, SETS, STORE, TOYS, UNENCODED, VECTORS, GallerySource
from kinrank.web.startup.scratch_files import GALLERY_NAME, ServedGallery, build_gallery, write_json, write_pictures

TOY_PIXELS = 64  # on a side of the generated pictures
MAX_SKIPPED_SHOWN = 5  # items without a vector that are named


def ignore_note(sentence: str) -> None:
    """Print nothing."""


def prepare_service(
    source: GallerySource,
    base: Settings,
    *,
    progress: ProgressOption = None,
    tell: Callable[[str], None] = ignore_note,
) -> Settings:
    """Return the settings of a service, with a complete gallery on disk.

    Args:
        source: what to serve.
        base: all other settings. Its files replace those of a published set; labels and queries can also be
            FILE.npz:KEY. `scratch` is the folder for files that are needed only while the service runs.
        progress: True for a bar, or a callable `f(label, done, total)`.
        tell: called with sentences that are worth printing.
    """
    (path, key, set_name), kind = source.split(), source.detect_kind()
    method, scratch = source.method, Path(base.scratch)
    if kind == STORE:
        gallery = _build_over_store(path, str(source.store), method, scratch, progress)
    elif kind == TOYS or path is None:
        gallery = prepare_toys(scratch, method, progress)
    elif kind == UNENCODED:
        gallery, changed = embed_folder(path, source, scratch, progress)
        for note in _describe_changes(changed):
            tell(note)
    elif kind == MANIFOLD:
        known = open_known_gallery(path, scratch, source.encoder is not None, tell)
        gallery = known or ServedGallery(path, path.name, writable=True)
    elif kind == SETS:
        sets = import_set_display()
        name, rest = sets.choose_set(path, set_name)
        if rest and set_name is None:
            tell(f"{name} is shown; also available: {', '.join(rest)} (choose one as {path}:{rest[0]})")
        gallery = sets.prepare_set(path, name, method, scratch, progress)
    else:
        gallery = _build_from_vectors(path, key, source, scratch, progress)
    order = None if source.ids is None or kind == VECTORS else read_names(Path(source.ids))
    return replace(
        base,
        manifold=str(gallery.manifold.absolute()),
        writable=gallery.writable,
        title=gallery.title,
        store=gallery.store,
        follows=gallery.follows,
        files=_check_files(gallery, base.files, order, scratch),
        encoder=gallery.encoder if source.encoder is None else Recipe(source.encoder, source.options).to_dict(),
    )


def _describe_changes(changed: SyncResult) -> list[str]:
    skipped = list(changed.skipped.items())[:MAX_SKIPPED_SHOWN]
    return [str(changed), *(f"skipped {name}: {reason}" for name, reason in skipped)] if changed else []


def _build_over_store(
    folder: Path | None, url: str, method: Method | None, scratch: Path, progress: ProgressOption
) -> ServedGallery:
    """Open a manifold over a vector database, or build it if it does not exist."""
    place = scratch / GALLERY_NAME if folder is None else folder
    if not (place / MANIFEST).is_file():
        check_target(place)
        store = open_store(url)
        try:
            Manifold.build(store, method, progress=progress).save(place)
        finally:
            if hasattr(store, "close"):
                store.close()
    elif method is not None:
        raise InputError(
            f"has no effect on {place}, which is prepared already", parameter="method", remedy="leave it out"
        )
    title = str(StoreUrl.parse(url))  # without its password
    return ServedGallery(place, title if folder is None else folder.name, store=url)


def _build_from_vectors(
    path: Path, key: str | None, source: GallerySource, scratch: Path, progress: ProgressOption
) -> ServedGallery:
    """Prepare a gallery from a file of vectors, for this run."""
    if source.id_column is not None and source.ids is not None:
        raise InputError(f"`ids` and `id_column` both name the rows of {path}; give one of them")
    rows, names = load_with_ids(path, key, id_column=source.id_column)
    names = read_names(Path(source.ids)) if source.ids is not None else names
    method = TEXT_METHOD if source.method is None and read_content(path) == TEXTS else source.method
    return ServedGallery(build_gallery(rows, method, names, scratch, progress), path.name)


def _check_files(gallery: ServedGallery, chosen: Files, order: list[str] | None, scratch: Path) -> Files:
    """Return the files of the source, or those given instead, after opening them once to find mistakes now.

    Texts, labels and truth follow the order of the ids, which can change later, so that order is saved.
    """
    paths = {name: _make_absolute(path) for name, path in asdict(chosen).items() if path is not None}
    files = replace(gallery.files, **paths)
    if not paths:
        return files
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExactSearchWarning)  # only the ids are needed here
        manifold = Manifold.load(gallery.manifold)
    ids: NDArray[Any] = manifold.ids
    if order is not None or gallery.writable or gallery.store is not None:
        entries = [str(name) for name in ids.tolist()] if order is None else order
        files = replace(files, ids=write_json(scratch / "ids.json", entries))
    queries = Collection.open(files, ids, None).queries
    width = manifold.info()["dimensions"]
    if queries is not None and np.shape(queries)[1] != width:
        raise InputError(
            f"have {np.shape(queries)[1]} numbers per vector, but the gallery has {width}; both must come from the "
            "same model",
            parameter="queries",
        )
    return files


def _make_absolute(path: str) -> str:
    """Return an absolute path, so that a worker in another folder finds the file; a key stays after it."""
    file, key = split_key(path)
    return str(file.absolute()) + ("" if key is None else f":{key}")


def prepare_toys(
    scratch: Path, method: Method | None, progress: ProgressOption, objects: int = 24, views: int = 72
) -> ServedGallery:
    """Draw the first toys from several sides: items such as "house_015", labels such as "house"."""
    images, labels, angles = turntable(objects, views, TOY_PIXELS, progress=Progress(progress))
    kinds = [TOY_NAMES[label] for label in labels.tolist()]
    names = [f"{kind}_{angle:03.0f}" for kind, angle in zip(kinds, angles.tolist(), strict=True)]
    return ServedGallery(
        manifold=build_gallery(embed_pixels(images), method, names, scratch, progress),
        title=f"{objects} toys on a turntable, {views} views of each",
        encoder=Recipe("kinrank.web.startup.service_setup:embed_picture").to_dict(),
        files=Files(
            images=write_pictures(scratch / "pictures.zip", names, images, ".jpg", progress),
            labels=write_json(scratch / "labels.json", kinds),
        ),
    )


def embed_picture(image: Any) -> NDArray[np.float32]:
    """Return the vector of any picture in the same way as for toys, so that one can be dropped on the page."""
    vector: NDArray[np.float32] = embed_pixels(np.asarray(image.resize((TOY_PIXELS, TOY_PIXELS)), np.uint8)[None])[0]
    return vector
