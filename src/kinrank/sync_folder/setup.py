"""Setup of a synchronisation from command-line arguments: ledger, target and encoder, for `watch` and `serve`."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from kinrank.encoders import Encoder, Options, Recipe
from kinrank.encoders.base import PICTURES, TEXTS
from kinrank.encoders.encoder_registry import DEFAULT_ENCODERS
from kinrank.encoders.item_sources import ItemChoice, open_source
from kinrank.errors import InputError
from kinrank.files.user_folders import cache_folder
from kinrank.methods import TEXT_METHOD, Method
from kinrank.pictures.archives import UNREADABLE
from kinrank.sync_folder.ledger import Ledger
from kinrank.sync_folder.targets import FolderTarget, ServiceTarget, Target


class SyncSetup(NamedTuple):
    """A source and the gallery that follows it; `place` is the file of the ledger."""

    ledger: Ledger
    place: Path
    target: Target
    encoder: Encoder | Recipe


def prepare_sync(
    source: str | os.PathLike[str],
    manifold: str | os.PathLike[str],
    encoder: str | None = None,
    options: Options | None = None,
    *,
    content: str | None = None,
    columns: tuple[str | None, str | None] = (None, None),
    token: str | None = None,
    join: bool = False,
    method: Method | None = None,
) -> SyncSetup:
    """Prepare the synchronisation of a source, continuing the last one if there was one.

    Args:
        source: a folder, a zip, or a file of texts.
        manifold: the folder of a Manifold, or the URL of a service.
        encoder, options: the encoder. Default: those of the last time, or the default encoder.
        content: "pictures" or "texts", if the source could be both.
        columns: of a table, the columns with the texts and with their ids.
        token: of the service.
        join: put items into a gallery that was made otherwise with the same encoder.
        method: method with which a new Manifold is built. Default: LPMT; for texts, with `answers="one"`.
    """
    address, path = os.fspath(manifold), os.path.abspath(source)
    remote = address.startswith(("http://", "https://"))
    place = cache_path("watched", f"{path}\n{address}", ".json") if remote else Ledger.path_for(address)
    target: Target = ServiceTarget(address, token) if remote else FolderTarget(Path(address), method)
    if isinstance(target, ServiceTarget) and target.follows:
        raise InputError(
            f"the service at {address} was started from a folder of pictures or texts",
            remedy="to follow that folder, start it with `kinrank serve FOLDER --watch`",
        )
    target.check()
    given, before = options or Options(), Ledger.load(place)
    if before is None:
        _refuse_foreign(target, address, join)
    else:
        _refuse_changed_source(before, address, place, path, content, columns)
        before.skipped = {name: entry for name, entry in before.skipped.items() if not entry[1].startswith(UNREADABLE)}
        if isinstance(target, ServiceTarget) and not all(target.has(name) for name in list(before.items)[:3]):
            before.items = {}  # the service has another gallery now
    if before is not None and encoder is None and given == Options():
        if ":" in before.recipe.name:  # a file must not be able to choose code to run
            raise InputError(
                f"{address} was made by the function {before.recipe.name}", remedy="give it again as `encoder`"
            )
        return SyncSetup(before, place, target, before.recipe)
    opened = None if encoder is None else Recipe(encoder, given).open()
    able = (PICTURES, TEXTS) if opened is None else opened.kinds
    opened_source = open_source(path, ItemChoice(content, column=columns[0], id_column=columns[1]), able)
    recipe = Recipe(encoder or DEFAULT_ENCODERS[opened_source.content], given)
    used = opened or recipe.open()
    ledger = before or Ledger(path, opened_source.content, recipe, used.facts, columns)
    ledger.recipe = recipe
    if isinstance(target, FolderTarget) and method is None and ledger.content == TEXTS:
        target = FolderTarget(Path(address), TEXT_METHOD)
    return SyncSetup(ledger, place, target, used)


def _refuse_foreign(target: Target, address: str, join: bool) -> None:
    """Refuse a gallery without a ledger, because its encoder is unknown."""
    existing = target.ids() if target.exists else set()
    if not join and (existing is None or existing):
        raise InputError(
            f"{address} contains items that watch did not put there",
            remedy="if the same encoder made them, give `join=True`",
        )


def _refuse_changed_source(
    before: Ledger, address: str, place: Path, path: str, content: str | None, columns: tuple[str | None, str | None]
) -> None:
    """Refuse arguments that differ from those of the last time."""
    if before.source != path:
        raise InputError(
            f"{address} follows {before.source}, not {path}",
            remedy=f"give another gallery, or delete {place} and the gallery",
        )
    if content not in (None, before.content) or (any(columns) and columns != before.columns):
        raise InputError(
            f"{address} follows the {before.content} of {path}, columns {before.columns}",
            remedy=f"give another gallery, or delete {place} and the gallery",
        )


def cache_path(kind: str, key: str, ending: str = "") -> Path:
    """Return the path for a key in the cache folder of the user."""
    folder = cache_folder(kind)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()[:24]}{ending}"
