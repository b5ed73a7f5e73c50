"""`kinrank whiten`: files of vectors -> a file of whitened ones, and the whitening itself for those that come later."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from kinrank.cli.inputs import IdColumn, vectors
from kinrank.cli.output import STANDARD, Json, Quiet, separate, tell, writable
from kinrank.features import load
from kinrank.files.atomic import replacing
from kinrank.files.features import TABLES
from kinrank.files.names import read_lines
from kinrank.whitening import Whitening
from kinrank.whitening.whitening import FULL

File = Path | None
PAIRS = (".csv", ".npy")  # endings of files that hold them


def whiten(
    features: Annotated[Path, typer.Option("--features", "-f", help="Vectors: .npy and others; - for stdin.")],
    output: Annotated[File, typer.Option("--output", "-o", help="Whitened vectors to write: .npy.")] = None,
    learn: Annotated[
        File, typer.Option("--learn", help="Vectors to learn on, best of another set. Without: --features.")
    ] = None,
    pairs: Annotated[
        File,
        typer.Option("--pairs", help="Rows to learn by that match, two numbers from 0 per line: .csv or .npy."),
    ] = None,
    dimensions: Annotated[
        int | None, typer.Option("--dimensions", min=1, help="How many directions to keep. Without: all that vary.")
    ] = None,
    power: Annotated[
        float | None, typer.Option("--power", min=0, max=0.5, help="0.5 (unless given): fully; 0.25: half; 0: turned.")
    ] = None,
    save: Annotated[File, typer.Option("--save", help="Also write what was learned, for --with: .npz.")] = None,
    known: Annotated[File, typer.Option("--with", help="Use what --save wrote instead of learning.")] = None,
    features_key: Annotated[
        str | None, typer.Option("--features-key", help="Which array of an .npz, .h5, .mat or .safetensors to whiten.")
    ] = None,
    learn_key: Annotated[str | None, typer.Option("--learn-key", help="The same, for --learn.")] = None,
    id_column: IdColumn = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Whiten vectors: directions in which all of them differ count less, and weak ones more.

    \b
    kinrank whiten --features g.npy --learn other.npy -o g.white.npy --save w.npz
    kinrank whiten --features q.npy --with w.npz -o q.white.npy
    kinrank whiten --features g.npy --power 0.25 --dimensions 256 -o g.half.npy --save w.npz

    Queries must be whitened as the gallery is: save it once, then use --with. Learn on another set than the one you
    judge, and on many more rows than there are dimensions. With --pairs, rows that show the same thing, directions in
    which these differ are damped instead.

    Vectors of a network that whitens already lose by it. Only labels can tell: `kinrank tune --labels` tries it.
    """
    _check(output, save, (features, learn, pairs, known))
    settings = {"learn": learn, "learn_key": learn_key, "pairs": pairs, "dimensions": dimensions, "power": power}
    _check_known(known, {**settings, "save": save})
    rows = _read(features, features_key, id_column)
    if known is not None:
        found = Whitening.load(known)
    else:
        source, name = (rows, "--features") if learn is None else (_read(learn, learn_key, id_column), "--learn")
        chosen = None if pairs is None else read_pairs(pairs)
        found = Whitening.fit(source, dimensions, FULL if power is None else power, chosen, name=name)
    if output is not None:
        _write(found, rows, output)
    if save is not None:
        found.save(save)
    _tell(found, output, save, len(rows), json, quiet)


def read_pairs(path: Path) -> Any:
    """(m, 2) numbers of rows: a .npy of them, or lines of two numbers with a comma between, perhaps under a heading."""
    if path.suffix.lower() not in PAIRS:
        raise ValueError(f"{path} has the unknown ending {path.suffix!r}; pairs are {' | '.join(PAIRS)}")
    if path.suffix.lower() == ".npy":
        return load(path, mmap=False)
    found = []
    for number, line in enumerate(read_lines(path), start=1):
        cells = [cell.strip() for cell in line.split(",")]
        if number == 1 and not any(cell.isdecimal() for cell in cells):
            continue  # a heading
        if len(cells) != 2 or not all(cell.isdecimal() and len(cell) < 19 for cell in cells):
            raise ValueError(f"{path} line {number} is {line[:80]!r}; write two numbers of rows, from 0, as 3,17")
        found.append([int(cell) for cell in cells])
    return np.array(found, np.int64).reshape(-1, 2)


def _check(output: File, save: File, read: tuple[File, ...]) -> None:
    """Refuse, before anything is read, what cannot be written."""
    if output is None and save is None:
        raise ValueError(
            "nothing would be written; give -o for the whitened vectors, --save for the whitening, or both"
        )
    for path, ending in ((output, ".npy"), (save, ".npz")):
        separate(path, *read)
        if path is not None:
            writable(path, (ending,))


def _check_known(known: File, settings: dict[str, Any]) -> None:
    given = [f"--{name.replace('_', '-')}" for name, value in settings.items() if value is not None]
    if known is not None and given:
        raise ValueError(f"--with uses what was learned before, and {given[0]} is about learning; give one of them")
    if settings["learn_key"] is not None and settings["learn"] is None:
        raise ValueError("--learn-key says which array of --learn is meant; give --learn, or leave it out")


def _read(path: Path, key: str | None, id_column: str | None) -> Any:
    """The rows of a file; only tables have an id column."""
    table = path == STANDARD or path.suffix.lower() in TABLES
    return vectors(path, key, id_column if table else None)


def _write(found: Whitening, rows: Any, output: Path) -> None:
    """The whitened rows as a .npy file, some at a time: there may be more than memory holds."""
    shape = (len(rows), found.projection.shape[1])
    with replacing(output) as file:
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype("<f4")), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for block in found.blocks(rows, name="--features"):
            file.write(np.ascontiguousarray(block, "<f4").tobytes())


def _tell(found: Whitening, output: File, save: File, rows: int, json: bool, quiet: bool) -> None:
    facts = {
        "output": None if output is None else str(output),
        "saved": None if save is None else str(save),
        "rows": rows,
        "dimensions": found.projection.shape[1],
        "kind": found.kind,
        "power": found.power,
        **{f"learned_{name}": value for name, value in found.facts.items()},
        "whitening": repr(found),
    }
    words = "{saved}: {whitening}" if output is None else "{output}: {rows} vectors x {dimensions}, {whitening}"
    tell(words, facts, json, output, quiet)
