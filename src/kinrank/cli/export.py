"""`kinrank export`: a prepared gallery -> a folder of scipy's sparse matrices, and the ids of their rows."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated

import typer

import kinrank
from kinrank.cli.folder import Folder
from kinrank.cli.output import Json, Quiet, bars, print_json, separate, table
from kinrank.files.atomic import replacing
from kinrank.manifold.export import MEANINGS

IDS = "ids.csv"


def export(
    folder: Folder,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write; it is made if it is not there.")],
    only: Annotated[
        str | None, typer.Option("--only", help=f"Some of {','.join(MEANINGS)}. Without: all of them.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write what LPMT computed of a gallery as sparse matrices, one file each, and ids.csv with the ids of their rows.

    \b
    kinrank export gallery.manifold -o matrices
    kinrank export gallery.manifold --only states,steps -o matrices
    python -c "import scipy.sparse; print(scipy.sparse.load_npz('matrices/states.npz'))"

    graph.npz is what similarity spreads over, similarities.npz the diffused similarity of every item to its most
    similar ones, states.npz one probability distribution per item, steps.npz what chains pay between two items.
    """
    wanted = list(MEANINGS) if only is None else [word.strip() for word in only.split(",")]
    for word in wanted:
        if word not in MEANINGS:
            raise ValueError(f"--only names {word!r}; give some of {', '.join(MEANINGS)}")
    separate(output, folder)
    _check_target(output)
    manifold = kinrank.Manifold.load(folder)
    found = kinrank.manifold.export(manifold, bars(quiet))
    output.mkdir(exist_ok=True)
    from scipy.sparse import save_npz

    for name in wanted:
        with replacing(output / f"{name}.npz") as file:
            save_npz(file, found[name])
    with replacing(output / IDS) as file:
        file.write(_ids(manifold.ids.tolist()).encode())
    sizes = {name: int(found[name].nnz) for name in wanted}
    if json:
        print_json({"output": str(output), "items": len(manifold), "entries": sizes})
    if json or quiet:
        return
    rows = [("file", "entries", "what it holds")]
    rows += [(f"{name}.npz", str(sizes[name]), MEANINGS[name]) for name in wanted]
    print(table([*rows, (IDS, str(len(manifold)), "the id of every row and column")], right=(1,)))
    print(f"\n{output}: {len(manifold)} x {len(manifold)}, read them with scipy.sparse.load_npz")


def _check_target(output: Path) -> None:
    """A ValueError or an OSError before the work starts, where the folder cannot be written."""
    if output.exists() and not output.is_dir():
        raise ValueError(f"{output} is a file; give a folder with -o, which gets one file per matrix")
    if (output / "manifest.json").exists():
        raise ValueError(f"{output} is a prepared gallery; give another folder with -o")
    if not output.parent.is_dir():
        raise FileNotFoundError(f"the folder {output.parent} is not there; make it, or choose another path")


def _ids(ids: list[object]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", "id"])
    writer.writerows(enumerate(ids))
    return text.getvalue()
