"""What the command line names -> the ledger, its place, the target and the encoder, for `watch` and `serve`."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from kinrank.encoders import Encoder, Options, Recipe
from kinrank.encoders.base import PICTURES, TEXTS
from kinrank.encoders.opening import source_of
from kinrank.encoders.registry import PLAIN
from kinrank.methods import Method
from kinrank.pictures.archives import UNREADABLE
from kinrank.watching.ledger import Ledger
from kinrank.watching.targets import FolderTarget, ServiceTarget, Target


class Watched(NamedTuple):
    """A source and the gallery that follows it."""

    ledger: Ledger
    place: Path
    target: Target
    encoder: Encoder | Recipe


def watched(
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
) -> Watched:
    """A source that is to be followed, from where it was left the last time.

    Args:
        source: a folder, a zip, or a file of texts.
        manifold: the folder of a Manifold, or the address of a service.
        encoder, options: what makes vectors; those of the last time, or the usual one, unless given.
        content: "pictures" or "texts", where the source could be both.
        columns: of a table, the one with the texts and the one with their ids.
        token: of the service.
        join: put items into a gallery that was made otherwise, by the same encoder.
        method: what a Manifold is built with that is not there yet.
    """
    address, path = os.fspath(manifold), os.path.abspath(source)
    remote = address.startswith(("http://", "https://"))
    place = cached("watched", f"{path}\n{address}", ".json") if remote else Ledger.beside(address)
    target: Target = ServiceTarget(address, token) if remote else FolderTarget(Path(address), method)
    if isinstance(target, ServiceTarget) and target.follows:
        raise ValueError(
            f"the service at {address} was started from a folder of pictures or texts; to follow that, start it with "
            "`kinrank serve FOLDER --watch`"
        )
    target.check()
    given, before = options or Options(), Ledger.load(place)
    if before is None:
        _refuse_foreign(target, address, join)
    else:
        _refuse_other(before, address, place, path, content, columns)
        before.skipped = {name: one for name, one in before.skipped.items() if not one[1].startswith(UNREADABLE)}
        if isinstance(target, ServiceTarget) and not all(target.has(name) for name in list(before.items)[:3]):
            before.items = {}  # another gallery is served there now
    if before is not None and encoder is None and given == Options():
        if ":" in before.recipe.name:  # a file must not be able to name code that is run
            raise ValueError(f"{address} was made by the function {before.recipe.name}; name it again with encoder=")
        return Watched(before, place, target, before.recipe)
    opened = None if encoder is None else Recipe(encoder, given).open()
    able = (PICTURES, TEXTS) if opened is None else opened.kinds
    found = source_of(path, content, able, column=columns[0], id_column=columns[1])
    recipe = Recipe(encoder or PLAIN[found.content], given)
    used = opened or recipe.open()
    ledger = before or Ledger(path, found.content, recipe, used.facts, columns)
    ledger.recipe = recipe
    return Watched(ledger, place, target, used)


def _refuse_foreign(target: Target, address: str, join: bool) -> None:
    """Nobody knows what made a gallery that has no ledger."""
    there = target.ids() if target.is_there else set()
    if not join and (there is None or there):
        raise ValueError(
            f"{address} holds items that were not put there by watch; if the same encoder made them, give join=True"
        )


def _refuse_other(
    before: Ledger, address: str, place: Path, path: str, content: str | None, columns: tuple[str | None, str | None]
) -> None:
    """What is given must be what it was the last time."""
    if before.source != path:
        raise ValueError(
            f"{address} follows {before.source}, not {path}; give another place, or delete {place} and the gallery"
        )
    if content not in (None, before.content) or (any(columns) and columns != before.columns):
        raise ValueError(
            f"{address} follows the {before.content} of {path}, columns {before.columns}; for others give another "
            f"place, or delete {place} and the gallery"
        )


def cached(kind: str, key: str, ending: str = "") -> Path:
    """A place of its own for a key, in the folder where programs keep what they can make again."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(home) / "kinrank" / kind
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()[:24]}{ending}"
