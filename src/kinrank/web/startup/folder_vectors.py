"""Gallery of a folder of pictures or texts, kept between runs: only new files are encoded."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from kinrank.encoders import Recipe
from kinrank.encoders.base import PICTURES
from kinrank.encoders.embeddings import OPENING_STAGE
from kinrank.errors import EncoderMismatchError, InputError
from kinrank.files.text_columns import shorten_text
from kinrank.progress import Progress, ProgressOption
from kinrank.sync_folder import Ledger, SyncResult, sync_source
from kinrank.sync_folder.setup import cache_path, prepare_sync
from kinrank.warmup import compile_meanwhile
from kinrank.web.settings import Files
from kinrank.web.startup.gallery_source import GallerySource
from kinrank.web.startup.scratch_files import GALLERY_NAME, ServedGallery, write_json


def embed_folder(
    path: Path, source: GallerySource, scratch: Path, progress: ProgressOption
) -> tuple[ServedGallery, SyncResult]:
    """Create or update the gallery of the files at a path; return it and what has changed.

    Args:
        path: folder or zip of pictures, or file of texts.
        source: encoder, content, columns and method; it may name the folder of the gallery, which is by default a
            folder in this user's cache.
        scratch: folder for files of this run.
        progress: True for a bar, or a callable `f(label, done, total)`.
    """
    columns, content = (source.column, source.id_column), source.content
    settings = f"{source.encoder} {source.options} {content} {columns}"
    folder = _choose_folder(path, settings, scratch) if source.keep is None else Path(source.keep)

    def update() -> tuple[Path, SyncResult]:
        setup = prepare_sync(
            path, folder, source.encoder, source.options, content=content, columns=columns, method=source.method
        )
        opened = setup.encoder  # opened even if there is nothing to encode, to check that it is the same encoder
        if isinstance(opened, Recipe):
            opened = Progress(progress).run(OPENING_STAGE, opened.open)
        with compile_meanwhile("prepared", needed=True) as finish_compiling:  # needed after the last item is encoded
            changed = sync_source(*setup._replace(encoder=opened), progress=progress)
            finish_compiling()  # the loops of searches, which the service would otherwise begin again
        return setup.place, changed

    try:
        place, changed = update()
    except EncoderMismatchError:
        if source.keep is not None:
            raise
        shutil.rmtree(folder, ignore_errors=True)  # only a cache: a library was updated, so everything is rebuilt
        Ledger.path_for(folder).unlink(missing_ok=True)
        place, changed = update()
    ledger = Ledger.load(place)
    assert ledger is not None, "it has just been written"
    return make_served_gallery(folder, ledger, scratch), changed


def open_known_gallery(folder: Path, scratch: Path, chosen: bool, tell: Callable[[str], None]) -> ServedGallery | None:
    """Open a gallery with the files of which it was made; None if there is no ledger, or the files are gone.

    Args:
        folder: folder of the gallery.
        scratch: folder for files of this run.
        chosen: True if an encoder was given, so that the one of the ledger is not needed. A function that a ledger
            names is never called: a file must not be able to run code.
        tell: called with sentences for the user.
    """
    ledger = Ledger.load(Ledger.path_for(folder))
    if ledger is None or not Path(ledger.source).exists():
        return None
    try:
        gallery = make_served_gallery(folder, ledger, scratch)
        ledger.opened()
    except (InputError, OSError) as error:
        tell(f"{ledger.source}, of which {folder.name} was made, cannot be read and is not shown: {error}")
        return None
    tell(f"{folder.name} was made of {ledger.source}, which is shown")
    if not chosen and ":" in ledger.recipe.name:
        tell(f"its vectors come from the function {ledger.recipe.name}; to search by pictures, give it as --encoder")
        return gallery._replace(encoder=None)
    if not chosen and ledger.recipe.open().facts != ledger.facts:
        tell("its encoder has changed since, so that pictures and texts cannot search it; build it again")
        return gallery._replace(encoder=None, follows=False)
    return gallery


def make_served_gallery(folder: Path, ledger: Ledger, scratch: Path) -> ServedGallery:
    """Return a gallery with the pictures or texts of its ledger."""
    if ledger.content == PICTURES:
        files = Files(images=ledger.source)
    else:
        files = Files(texts=write_json(scratch / "texts.json", read_texts(ledger)))
    title = os.path.basename(ledger.source.rstrip("/")) or ledger.source
    title = os.fsencode(title).decode("utf-8", "replace")  # file names are bytes
    return ServedGallery(folder, title, files, writable=True, encoder=ledger.recipe.to_dict(), follows=True)


def read_texts(ledger: Ledger) -> dict[str, str]:
    """Return the texts to show, by their ids."""
    source, texts = ledger.opened(), {}
    for name in source.names:
        if name in ledger.items:
            with contextlib.suppress(InputError):  # it has just changed
                texts[name] = shorten_text(source.load(name))
    return texts


def _choose_folder(path: Path, settings: str, scratch: Path) -> Path:
    """Return the folder where the gallery is kept: one for each combination of source and settings."""
    try:
        home = cache_path("served", f"{os.path.realpath(path)}\n{settings}")
        home.mkdir(exist_ok=True)
        return home / GALLERY_NAME
    except OSError:  # nothing can be kept there, so use it for this run only
        return scratch / GALLERY_NAME
