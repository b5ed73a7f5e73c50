"""Commands that change, describe, verify or export a prepared gallery: add, remove, sync, observe, info, ..."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import kinrank
from kinrank.cli.input_files import (
    REPEAT_HELP,
    URL_SCHEMES,
    IdColumn,
    open_database,
    parse_ids,
    read_features,
    read_id_file,
)
from kinrank.cli.option_groups import File, option
from kinrank.cli.output import Json, OutputOptions, check_paths_differ, print_json, write_text
from kinrank.errors import InputError, MissingFileError
from kinrank.files.atomic import LOCK_WAIT_SECONDS, atomic_write
from kinrank.manifold.matrix_export import MATRIX_MEANINGS
from kinrank.manifold.verify import verify as verify_folder
from kinrank.memory_limit import format_bytes
from kinrank.tables import align_columns, render_csv

if TYPE_CHECKING:
    from kinrank.manifold import Manifold
    from kinrank.stores import Store

GalleryFolder = Annotated[Path, typer.Argument(help="Folder written by `kinrank build`.")]
ChangedFolder = Annotated[Path, typer.Argument(help="Folder written by `kinrank build`; it is changed.")]
Wait = Annotated[
    float, typer.Option("--wait", min=0, help="Seconds to wait while other processes change this gallery.")
]
IDS_FILE = "ids.csv"


class ChangeOptions(OutputOptions):
    """Options of a change of a gallery, and of what is printed."""

    title = "Change and output"
    refresh: bool = option(False, "Rebuild afterwards, so that nothing is approximated.")
    wait: Wait = LOCK_WAIT_SECONDS

    @contextmanager
    def change(self, folder: Path, store: Store | None = None) -> Iterator[tuple[Manifold, dict[str, int]]]:
        """Lock a gallery, let the block change it, save it, and print its new state and the counts of the block."""
        counts: dict[str, int] = {}
        with kinrank.Manifold.changing(folder, wait=self.wait, store=store) as manifold:
            started = time.perf_counter()
            yield manifold, counts
            if self.refresh:
                manifold.refresh(self.progress)
            seconds = time.perf_counter() - started
        facts: dict[str, Any] = {"folder": str(folder), **counts, **manifold.info(), "seconds": round(seconds, 6)}
        details = ", remembered queries: {observed}" if manifold.n_observed or "kept" in counts else ""
        details += " ({kept} of {given} kept)" if "kept" in counts else ""
        details += " ({added} added, {removed} removed, {changed} changed)" if "added" in counts else ""
        details += ", staleness {staleness:.3f}, {seconds:.2f} s"
        self.print_summary("{folder}: {items} items x {dimensions} dimensions" + details, facts)


def add(
    folder: ChangedFolder,
    options: ChangeOptions,
    vectors: list[Path] = option(..., f"Vectors to add, one row per item; or FILE:KEY. {REPEAT_HELP}"),
    ids: File = option(None, "Text file with their ids, one per line; only if the gallery has ids of its own."),
    id_column: IdColumn = None,
    replace: bool = option(False, "Replace items whose ids exist already."),
) -> None:
    """Add items to a prepared gallery. Only the neighbourhoods they enter are computed again.

    \b
    kinrank add gallery.manifold --vectors new.npy
    kinrank add gallery.manifold --vectors new.npy --ids new-names.txt
    kinrank add gallery.manifold --vectors some.npy --ids names.txt --replace

    Without --ids, new items get the next numbers. Galleries built by lpmt, query expansion or none can change. Only the
    changes are written, all of them or none. Processes that change a gallery at the same time take turns.
    """
    check_paths_differ(folder, *vectors, ids)
    rows, names = read_features(vectors, id_column, ids)
    if replace and names is None:
        raise InputError("--replace needs the ids of the items; give --ids or --id-column")
    with options.change(folder) as (manifold, _):
        new_ids = None if names is None else parse_ids(manifold, names)
        if replace:
            manifold.upsert(rows, new_ids or [])
        else:
            manifold.add(rows, new_ids)


def remove(
    folder: ChangedFolder,
    options: ChangeOptions,
    item: list[str] | None = option(None, "Id of an item. Repeat it for several items."),
    ids: File = option(None, "Text file with ids, one per line."),
) -> None:
    """Remove items from a prepared gallery. The others keep their ids.

    \b
    kinrank remove gallery.manifold --item beach_17 --item beach_18
    kinrank remove gallery.manifold --ids old-names.txt
    """
    check_paths_differ(folder, ids)
    names = [*(item or []), *(read_id_file(ids) or [])]
    if not names:
        raise InputError("nothing to remove; give --item, or a file of ids with --ids")
    with options.change(folder) as (manifold, _):
        manifold.remove(parse_ids(manifold, names))


def sync(
    folder: ChangedFolder,
    options: ChangeOptions,
    store: str = option(..., f"URL of the vector database it was built from: {URL_SCHEMES}"),
) -> None:
    """Apply the changes of the vector database that a gallery was built from.

    \b
    kinrank build --store 'lancedb:///data/shop?table=items&key=id' -o items.manifold
    kinrank sync items.manifold --store 'lancedb:///data/shop?table=items&key=id'

    All ids and vectors are read and compared. New items are added, missing ones are removed, and items with another
    vector are replaced. Nothing is written to the database.
    """
    with open_database(store) as database, options.change(folder, database) as (manifold, counts):
        counts |= manifold.sync(options.progress)._asdict()


def observe(
    folder: ChangedFolder,
    options: ChangeOptions,
    queries: list[Path] | None = option(None, "Query vectors, one row per query. Repeat it for further features."),
    forget: bool = option(False, "Forget all remembered queries."),
    id_column: IdColumn = None,
) -> None:
    """Remember queries, so that later ones find more. Chains can pass through them, but they are never results.

    \b
    kinrank observe gallery.manifold --queries q.npy
    kinrank observe gallery.manifold --forget
    kinrank search gallery.manifold --queries q.npy --observe

    Near-duplicates of remembered queries are left out. Beyond --observed-limit (see `kinrank build`) the oldest are
    forgotten. Only galleries built by lpmt remember queries.
    """
    if bool(queries) == forget:
        raise InputError("give either --queries or --forget")
    check_paths_differ(folder, *(queries or []))
    rows = read_features(queries, id_column)[0] if queries else None
    with options.change(folder) as (manifold, counts):
        if rows is None:
            manifold.forget()
        else:
            counts |= {"given": len(rows[0] if isinstance(rows, list) else rows), "kept": manifold.observe(rows)}


def info(folder: GalleryFolder, json: Json = False) -> None:
    """Describe a prepared gallery: number of items, method and parameters, size.

    \b
    kinrank info gallery.manifold
    """
    manifold = kinrank.Manifold.load(folder)
    facts = manifold.info()
    if json:
        print_json({"folder": str(folder), **facts})
        return
    del facts["parameters"]  # the method shows those that differ from their defaults
    facts["method"] = repr(manifold.method)
    rows = [(name.replace("_", " "), _format_fact(name, value)) for name, value in facts.items()]
    print(align_columns([("folder", folder), *(row for row in rows if row[1])]))


def verify(folder: GalleryFolder, json: Json = False) -> None:
    """Check the checksum and the content of every file of a prepared gallery. Exit code 1 if any is damaged.

    \b
    kinrank verify gallery.manifold
    """
    result = verify_folder(folder)
    if json:
        bad = [{"file": file, "problem": problem} for file, problem in result.bad.items()]
        print_json({"folder": str(folder), "whole": result.whole, "files": len(result.checked), "bad": bad})
    elif result.whole:
        print(f"{folder}: whole, {len(result.checked)} files")
    else:
        print("\n".join(" ".join(problem.split()) for problem in result.bad.values()))
    if not result.whole:
        raise typer.Exit(1)


def _format_fact(name: str, value: Any) -> str:
    """Format a fact about a gallery for reading; "" if there is none."""
    if isinstance(value, dict):
        return ", ".join(f"{key}={_format_fact(key, entry)}" for key, entry in value.items())
    if name.startswith("bytes"):
        return format_bytes(value)
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def export(
    folder: GalleryFolder,
    output: OutputOptions,
    target: Path = option(..., "Folder to write; it is created if it does not exist.", "--output", "-o"),
    only: str | None = option(None, f"Names among {','.join(MATRIX_MEANINGS)}. Default: all."),
) -> None:
    """Write the matrices that LPMT computed as sparse matrices, one file each, and ids.csv with the ids of their rows.

    \b
    kinrank export gallery.manifold -o matrices
    kinrank export gallery.manifold --only states,steps -o matrices
    python -c "import scipy.sparse; print(scipy.sparse.load_npz('matrices/states.npz'))"

    graph.npz: the graph on which similarity diffuses. similarities.npz: the diffused similarity of every item to its
    most similar ones. states.npz: one probability distribution per item. steps.npz: the costs of steps between items.
    """
    names = list(MATRIX_MEANINGS) if only is None else [word.strip() for word in only.split(",")]
    for word in names:
        if word not in MATRIX_MEANINGS:
            raise InputError(f"--only has {word!r}; give names among {', '.join(MATRIX_MEANINGS)}")
    check_paths_differ(target, folder)
    _check_export_folder(target)
    manifold = kinrank.Manifold.load(folder)
    matrices = kinrank.manifold.export(manifold, output.progress)
    target.mkdir(exist_ok=True)
    from scipy.sparse import save_npz

    for name in names:
        with atomic_write(target / f"{name}.npz") as file:
            save_npz(file, matrices[name])
    write_text(target / IDS_FILE, render_csv(["row", "id"], list(enumerate(manifold.ids.tolist()))))
    sizes, count = {name: int(matrices[name].nnz) for name in names}, len(manifold)
    rows: list[tuple[str, object, str]] = [("file", "entries", "content")]
    rows += [(f"{name}.npz", sizes[name], MATRIX_MEANINGS[name]) for name in names]
    rows.append((IDS_FILE, count, "the id of every row and column"))
    text = f"{align_columns(rows, right=(1,))}\n\n{target}: {count} x {count}, read them with scipy.sparse.load_npz"
    output.print_result(text, {"output": str(target), "items": count, "entries": sizes})


def _check_export_folder(output: Path) -> None:
    """Check, before the work starts, that the folder can be written."""
    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file; give a folder with -o, for one file per matrix")
    if (output / "manifest.json").exists():
        raise InputError(f"{output} is a prepared gallery; give another folder with -o")
    if not output.parent.is_dir():
        raise MissingFileError(f"the folder {output.parent} does not exist; create it, or choose another path")
