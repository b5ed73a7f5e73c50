"""`kinrank add` and `kinrank remove`: a prepared gallery -> the same folder with more or fewer items."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import kinrank
from kinrank.cli.explain import item_named
from kinrank.cli.names import read_names
from kinrank.cli.output import Json, Quiet, bars, print_json
from kinrank.features import load
from kinrank.manifold.files import check_target

if TYPE_CHECKING:
    from kinrank.manifold import Manifold

Folder = Annotated[Path, typer.Argument(help="What `kinrank build` wrote; it is changed.")]
Refresh = Annotated[bool, typer.Option("--refresh", help="Build anew afterwards, so that nothing is approximated.")]


def add(
    folder: Folder,
    vectors: Annotated[Path, typer.Option("--vectors", help="Vectors to add, one row per item.")],
    ids: Annotated[
        Path | None,
        typer.Option("--ids", help="Text file of their names, one per line; only if the others have names."),
    ] = None,
    vectors_key: Annotated[
        str | None, typer.Option("--vectors-key", help="Which array of an .npz, .h5, .mat or .safetensors.")
    ] = None,
    refresh: Refresh = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Add items to a prepared gallery; only the neighbourhoods they enter are computed anew.

    \b
    kinrank add gallery.manifold --vectors new.npy
    kinrank add gallery.manifold --vectors new.npy --ids new-names.txt

    Without names, new items get the next numbers. Galleries built by lpmt or by query expansion can change. The
    folder is replaced when the new one is whole.
    """
    manifold, started = _opened(folder)
    manifold.add(load(vectors, vectors_key), read_names(ids))
    _finish(folder, manifold, started, refresh, json, quiet)


def remove(
    folder: Folder,
    item: Annotated[
        list[str] | None, typer.Option("--item", help="An item: its name, or its number. As often as needed.")
    ] = None,
    ids: Annotated[Path | None, typer.Option("--ids", help="Text file of names or numbers, one per line.")] = None,
    refresh: Refresh = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Remove items from a prepared gallery. The others keep their names, or their numbers where they have none.

    \b
    kinrank remove gallery.manifold --item beach_17 --item beach_18
    kinrank remove gallery.manifold --ids old-names.txt
    """
    names = [*(item or []), *(read_names(ids) or [])]
    if not names:
        raise ValueError("nothing to remove; name items with --item NAME, or give a file of names with --ids")
    manifold, started = _opened(folder)
    manifold.remove([item_named(manifold, name) for name in names])
    _finish(folder, manifold, started, refresh, json, quiet)


def _opened(folder: Path) -> tuple[Manifold, float]:
    """The manifold of a folder that can be written to, and the time."""
    manifold = kinrank.Manifold.load(folder)
    check_target(folder)
    return manifold, time.perf_counter()


def _finish(folder: Path, manifold: Manifold, started: float, refresh: bool, json: bool, quiet: bool) -> None:
    """Build anew if asked to, save, and say what there is now."""
    if refresh:
        manifold.refresh(bars(quiet))
    seconds = time.perf_counter() - started
    manifold.save(folder)
    facts: dict[str, Any] = {"folder": str(folder), **manifold.info(), "seconds": round(seconds, 6)}
    if json:
        print_json(facts)
    elif not quiet:
        print("{folder}: {items} items x {dimensions} dimensions, stale {stale:.3f}, {seconds:.2f} s".format(**facts))
