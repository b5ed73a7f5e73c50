"""`kinrank add`, `remove`, `sync`, `observe`: a prepared gallery -> the same folder with other items, or more known."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import kinrank
from kinrank.cli.inputs import AGAIN, IdColumn, QueriesKey, features
from kinrank.cli.names import ids_meant, read_names
from kinrank.cli.output import Json, Quiet, bars, print_json, separate
from kinrank.cli.stores import URLS, opened
from kinrank.files.lock import WAIT

if TYPE_CHECKING:
    from kinrank.manifold import Manifold
    from kinrank.stores import Store

Folder = Annotated[Path, typer.Argument(help="What `kinrank build` wrote; it is changed.")]
Wait = Annotated[
    float, typer.Option("--wait", min=0, help="Seconds to wait for others who change this gallery at the same time.")
]
Refresh = Annotated[bool, typer.Option("--refresh", help="Build anew afterwards, so that nothing is approximated.")]


def add(
    folder: Folder,
    vectors: Annotated[list[Path], typer.Option("--vectors", help=f"Vectors to add, one row per item. {AGAIN}")],
    ids: Annotated[
        Path | None,
        typer.Option("--ids", help="Text file of their names, one per line; only if the others have names."),
    ] = None,
    vectors_key: Annotated[
        str | None, typer.Option("--vectors-key", help="Which array of an .npz, .h5, .mat or .safetensors.")
    ] = None,
    id_column: IdColumn = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Items whose names are there already take the place of those."),
    ] = False,
    refresh: Refresh = False,
    wait: Wait = WAIT,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Add items to a prepared gallery; only the neighbourhoods they enter are computed anew.

    \b
    kinrank add gallery.manifold --vectors new.npy
    kinrank add gallery.manifold --vectors new.npy --ids new-names.txt
    kinrank add gallery.manifold --vectors some.npy --ids names.txt --replace

    Without names, new items get the next numbers. Galleries built by lpmt or by query expansion can change. Only
    what changed is written, and it is there, whole, or not at all. Of several who change a gallery at the same time,
    one after the other has a turn.
    """
    separate(folder, *vectors, ids)
    rows, names = features(vectors, vectors_key, id_column, ids)
    if replace and names is None:
        raise ValueError("--replace needs the names of the items; give them with --ids or --id-column")

    def change(manifold: Manifold) -> None:
        meant = None if names is None else ids_meant(manifold, names)
        if replace:
            manifold.upsert(rows, meant or [])
        else:
            manifold.add(rows, meant)

    _change(folder, change, refresh, wait, json, quiet)


def remove(
    folder: Folder,
    item: Annotated[
        list[str] | None, typer.Option("--item", help="An item: its name, or its number. As often as needed.")
    ] = None,
    ids: Annotated[Path | None, typer.Option("--ids", help="Text file of names or numbers, one per line.")] = None,
    refresh: Refresh = False,
    wait: Wait = WAIT,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Remove items from a prepared gallery. The others keep their names, or their numbers where they have none.

    \b
    kinrank remove gallery.manifold --item beach_17 --item beach_18
    kinrank remove gallery.manifold --ids old-names.txt
    """
    separate(folder, ids)
    names = [*(item or []), *(read_names(ids) or [])]
    if not names:
        raise ValueError("nothing to remove; name items with --item NAME, or give a file of names with --ids")

    def change(manifold: Manifold) -> None:
        manifold.remove(ids_meant(manifold, names))

    _change(folder, change, refresh, wait, json, quiet)


def sync(
    folder: Folder,
    store: Annotated[str, typer.Option("--store", help=f"The vector database it was built from: a URL with {URLS}")],
    refresh: Refresh = False,
    wait: Wait = WAIT,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Follow the vector database that a gallery was built from: take in what changed there since.

    \b
    kinrank build --store 'lancedb:///data/shop?key=id#items' -o items.manifold
    kinrank sync items.manifold --store 'lancedb:///data/shop?key=id#items'

    All ids and vectors are read and compared. New items are added, those that are gone are removed, those with another
    vector are replaced. Nothing is written to the database.
    """

    def change(manifold: Manifold) -> dict[str, int]:
        return manifold.sync(bars(quiet))._asdict()

    with opened(store) as database:
        _change(folder, change, refresh, wait, json, quiet, database)


def observe(
    folder: Folder,
    queries: Annotated[
        list[Path] | None,
        typer.Option("--queries", help="Vectors that asked, one row per query. Once more for each feature."),
    ] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Forget all that are remembered.")] = False,
    queries_key: QueriesKey = None,
    id_column: IdColumn = None,
    refresh: Refresh = False,
    wait: Wait = WAIT,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Remember queries, so that later ones find more: chains may pass through them. They are never results.

    \b
    kinrank observe gallery.manifold --queries q.npy
    kinrank observe gallery.manifold --forget
    kinrank search gallery.manifold --queries q.npy --observe

    Near-copies of what is remembered are left out, and of more than --observed-limit (see `kinrank build`) the
    oldest are forgotten. Galleries built by lpmt remember.
    """
    if bool(queries) == forget:
        raise ValueError("give either --queries, which are remembered, or --forget")
    separate(folder, *(queries or []))
    rows = features(queries, queries_key, id_column)[0] if queries else None

    def change(manifold: Manifold) -> dict[str, int]:
        if rows is None:
            manifold.forget()
            return {}
        given = len(rows[0] if isinstance(rows, list) else rows)
        return {"given": given, "kept": manifold.observe(rows)}

    _change(folder, change, refresh, wait, json, quiet)


def _change(
    folder: Path,
    change: Callable[[Manifold], dict[str, int] | None],
    refresh: bool,
    wait: float,
    json: bool,
    quiet: bool,
    store: Store | None = None,
) -> None:
    """Change the gallery while nobody else does, build anew if asked to, and say what there is now."""
    progress = bars(quiet)
    with kinrank.Manifold.changing(folder, wait, store) as manifold:
        started = time.perf_counter()
        done = change(manifold) or {}
        if refresh:
            manifold.refresh(progress)
        seconds = time.perf_counter() - started
    facts: dict[str, Any] = {"folder": str(folder), **done, **manifold.info(), "seconds": round(seconds, 6)}
    if json:
        print_json(facts)
    elif not quiet:
        more = ", remembered queries: {observed}" if manifold.observed or "kept" in done else ""
        more += " ({kept} of {given} kept)" if "kept" in done else ""
        more += " ({added} added, {removed} removed, {changed} changed)" if "added" in done else ""
        line = "{folder}: {items} items x {dimensions} dimensions" + more + ", stale {stale:.3f}, {seconds:.2f} s"
        print(line.format(**facts))
