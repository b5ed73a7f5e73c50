"""A folder of pictures, or texts -> a gallery that is kept from one run to the next: only what is new is encoded."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from kinrank.encoders import Options
from kinrank.encoders.base import PICTURES
from kinrank.files.columns import cut
from kinrank.methods import Method
from kinrank.progress import Show
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
    folder = keep or _place(path, encoder, options, scratch)
    found = watched(path, folder, encoder, options, content=content, columns=columns, method=method)
    try:
        changed = follow(*found, progress=progress)
    except OtherEncoder:
        if keep is not None:
            raise
        shutil.rmtree(folder)  # it is in a cache: a library has become a newer one, and everything is made anew
        found.place.unlink()
        found = watched(path, folder, encoder, options, content=content, columns=columns, method=method)
        changed = follow(*found, progress=progress)
    return served(folder, found.ledger, scratch), changed


def served(folder: Path, ledger: Ledger, scratch: Path) -> Served:
    """A gallery with the pictures or texts that its ledger says it was made of."""
    if ledger.content == PICTURES:
        files = Files(images=ledger.source)
    else:
        files = Files(texts=written(scratch / "texts.json", _texts(ledger)))
    title = os.path.basename(ledger.source.rstrip("/")) or ledger.source
    return Served(folder, title, files, writable=True, encoder=ledger.recipe.to_dict(), follows=True)


def _texts(ledger: Ledger) -> dict[str, str]:
    source, known = ledger.opened(), {}
    for name in source.names:
        if name in ledger.items:
            with contextlib.suppress(ValueError):  # it has changed just now
                known[name] = cut(source.load(name))
    return known


def _place(path: Path, encoder: str | None, options: Options, scratch: Path) -> Path:
    """Where the gallery stays: one for each source and encoder."""
    try:
        home = cached("served", f"{os.path.realpath(path)}\n{encoder}\n{options}")
        home.mkdir(exist_ok=True)
        return home / NAME
    except OSError:  # nothing can be kept here: for this run only
        return scratch / NAME
