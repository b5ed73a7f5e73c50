"""A folder of pictures, or texts -> a gallery that is kept from one run to the next: only what is new is encoded."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from kinrank.encoders import Options, Recipe
from kinrank.encoders.base import PICTURES
from kinrank.encoders.embedding import OPENING
from kinrank.files.columns import cut
from kinrank.methods import Method
from kinrank.progress import Progress, Show
from kinrank.watching import Followed, Ledger, OtherEncoder, follow
from kinrank.watching.places import cached, watched
from kinrank.web.settings import Files
from kinrank.web.sources.served import NAME, Served, written


def encoded(
    path: Path,
    encoder: str | None,
    options: Options,
    content: str | None,
    columns: tuple[str | None, str | None],
    method: Method | None,
    keep: Path | None,
    scratch: Path,
    progress: Show,
) -> tuple[Served, Followed]:
    """A gallery of what is at a path, in step with it, and what that took.

    Args:
        keep: the folder of the gallery; a place of its own in this user's cache unless given.
    """
    folder = keep or _place(path, f"{encoder} {options} {content} {columns}", scratch)

    def look() -> tuple[Path, Followed]:
        found = watched(path, folder, encoder, options, content=content, columns=columns, method=method)
        opened = found.encoder  # opened now, though there may be nothing to encode: it has to be the one that was
        if isinstance(opened, Recipe):
            opened = Progress(progress).one(OPENING, opened.open)
        return found.place, follow(*found._replace(encoder=opened), progress=progress)

    try:
        place, changed = look()
    except OtherEncoder:
        if keep is not None:
            raise
        shutil.rmtree(folder, ignore_errors=True)  # a cache: a library has become a newer one, all is made anew
        Ledger.beside(folder).unlink(missing_ok=True)
        place, changed = look()
    ledger = Ledger.load(place)
    assert ledger is not None, "it has just been written"
    return served(folder, ledger, scratch), changed


def known(folder: Path, scratch: Path, chosen: bool, tell: Callable[[str], None]) -> Served | None:
    """A gallery that is there, with what its ledger says it was made of; None where there is no ledger, or no source.

    Args:
        chosen: whether an encoder was named, so that the one of the ledger is not needed. A function that a ledger
            names is never called: a file must not be able to name code that is run.
    """
    ledger = Ledger.load(Ledger.beside(folder))
    if ledger is None or not Path(ledger.source).exists():
        return None
    try:
        found = served(folder, ledger, scratch)
        ledger.opened()
    except (ValueError, OSError) as error:
        tell(f"{ledger.source}, which {folder.name} was made of, cannot be read, and is not shown: {error}")
        return None
    tell(f"{folder.name} was made of {ledger.source}, which is shown")
    if not chosen and ":" in ledger.recipe.name:
        tell(f"it was made by the function {ledger.recipe.name}; to search by pictures, name it again with --encoder")
        return found._replace(encoder=None)
    if not chosen and ledger.recipe.open().facts != ledger.facts:
        tell("its encoder has changed since, so that pictures and words cannot search it; make it anew")
        return found._replace(encoder=None, follows=False)
    return found


def served(folder: Path, ledger: Ledger, scratch: Path) -> Served:
    """A gallery with the pictures or texts that its ledger says it was made of."""
    if ledger.content == PICTURES:
        files = Files(images=ledger.source)
    else:
        files = Files(texts=written(scratch / "texts.json", texts_in(ledger)))
    title = os.path.basename(ledger.source.rstrip("/")) or ledger.source
    title = os.fsencode(title).decode("utf-8", "replace")  # names on a disk are bytes
    return Served(folder, title, files, writable=True, encoder=ledger.recipe.to_dict(), follows=True)


def texts_in(ledger: Ledger) -> dict[str, str]:
    """The texts that are shown, by their ids."""
    source, texts = ledger.opened(), {}
    for name in source.names:
        if name in ledger.items:
            with contextlib.suppress(ValueError):  # it has changed just now
                texts[name] = cut(source.load(name))
    return texts


def _place(path: Path, settings: str, scratch: Path) -> Path:
    """Where the gallery stays: one for each source, encoder and so on."""
    try:
        home = cached("served", f"{os.path.realpath(path)}\n{settings}")
        home.mkdir(exist_ok=True)
        return home / NAME
    except OSError:  # nothing can be kept here: for this run only
        return scratch / NAME
