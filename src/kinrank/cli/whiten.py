"""`kinrank whiten`: learn a whitening, apply it to a file of vectors, and save it for further ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kinrank.cli.input_files import IdColumn, read_vectors
from kinrank.cli.option_groups import File, OptionGroup, option
from kinrank.cli.output import STDIO_PATH, OutputOptions, check_output
from kinrank.errors import InputError
from kinrank.files.atomic import atomic_write
from kinrank.files.text_columns import read_lines
from kinrank.files.vector_files import TABLE_READERS
from kinrank.vector_input import load
from kinrank.whitening import FULL_POWER, Whitening

PAIR_SUFFIXES = (".csv", ".npy")  # of files with pairs


class WhiteningFiles(OptionGroup):
    """Vectors to whiten, and the files to write."""

    title = "Vectors"
    features: Path = option(..., "Vectors to whiten: .npy and others, or FILE:KEY; - for stdin.", "--features", "-f")
    id_column: IdColumn = None
    output: File = option(None, "File for the whitened vectors: .npy.", "--output", "-o")
    save: File = option(None, "File for the whitening, for --with: .npz.")

    def check(self, *inputs: File) -> None:
        """Check, before anything is read, that the outputs can be written."""
        if self.output is None and self.save is None:
            raise InputError("there is no output; give -o for the whitened vectors, --save for the whitening, or both")
        check_output(self.output, (".npy",), self.features, *inputs)
        check_output(self.save, (".npz",), self.features, *inputs)


class WhiteningOptions(OptionGroup):
    """The whitening: a saved one, or how to learn one."""

    title = "Whitening"
    learn: File = option(None, "Vectors to learn on, preferably of another set. Default: --features.")
    pairs: File = option(None, "Pairs of matching rows to learn from, two numbers from 0 per line: .csv or .npy.")
    dimensions: int | None = option(None, "Number of directions to keep. Default: all that vary.", min=1)
    power: float | None = option(None, "0.5 (default): full; 0.25: half; 0: only rotate.", min=0, max=0.5)
    saved: File = option(None, "Whitening to apply, written by --save, instead of learning one.", "--with")

    def check(self, save: File) -> None:
        """Refuse to learn a whitening if there is a saved one."""
        settings = {"learn": self.learn, "pairs": self.pairs, "dimensions": self.dimensions, "power": self.power}
        given = [name for name, value in {**settings, "save": save}.items() if value is not None]
        if self.saved is not None and given:
            raise InputError(
                f"--with applies a saved whitening, and --{given[0]} is for learning one; give one of them"
            )

    def open(self, rows: Any, id_column: str | None) -> Whitening:
        """Load the saved whitening, or learn one: on vectors of its own, or on `rows`, which are to be whitened."""
        if self.saved is not None:
            return Whitening.load(self.saved)
        source, name = (rows, "--features") if self.learn is None else (_read_rows(self.learn, id_column), "--learn")
        pairs = None if self.pairs is None else read_pairs(self.pairs)
        power = FULL_POWER if self.power is None else self.power
        return Whitening.fit(source, dimensions=self.dimensions, power=power, pairs=pairs, name=name)


def whiten(files: WhiteningFiles, options: WhiteningOptions, output: OutputOptions) -> None:
    """Whiten vectors: reduce the weight of directions with large variance, and increase that of others.

    \b
    kinrank whiten --features g.npy --learn other.npy -o g.white.npy --save w.npz
    kinrank whiten --features q.npy --with w.npz -o q.white.npy
    kinrank whiten --features g.npy --power 0.25 --dimensions 256 -o g.half.npy --save w.npz

    Queries must be whitened like the gallery: save the whitening once, then use --with. Learn on another set than the
    one you evaluate on, with many more rows than dimensions. With --pairs of rows that show the same thing, directions
    in which these differ are damped instead.

    Whitening hurts vectors of networks that whiten already. Only labels can tell: `kinrank tune --labels` tries it.
    """
    files.check(options.learn, options.pairs, options.saved)
    options.check(files.save)
    rows = _read_rows(files.features, files.id_column)
    whitening = options.open(rows, files.id_column)
    if files.output is not None:
        _write_vectors(whitening, rows, files.output)
    if files.save is not None:
        whitening.save(files.save)
    facts = {
        "output": None if files.output is None else str(files.output),
        "saved": None if files.save is None else str(files.save),
        "rows": len(rows),
        "dimensions": whitening.projection.shape[1],
        "kind": whitening.kind,
        "power": whitening.power,
        **{f"learned_{name}": value for name, value in whitening.facts.items()},
        "whitening": repr(whitening),
    }
    line = "{saved}: {whitening}" if files.output is None else "{output}: {rows} vectors x {dimensions}, {whitening}"
    output.print_summary(line, facts, files.output)


def read_pairs(path: Path) -> Any:
    """Read (m, 2) row numbers from a .npy, or from a .csv with two per line and an optional heading."""
    if path.suffix.lower() not in PAIR_SUFFIXES:
        raise InputError(f"{path} has the unknown suffix {path.suffix!r}; give pairs as {' | '.join(PAIR_SUFFIXES)}")
    if path.suffix.lower() == ".npy":
        return load(path, mmap=False)
    rows = []
    for number, line in enumerate(read_lines(path), start=1):
        cells = [cell.strip() for cell in line.split(",")]
        if number == 1 and not any(cell.isdecimal() for cell in cells):
            continue  # a heading
        if len(cells) != 2 or not all(cell.isdecimal() and len(cell) < 19 for cell in cells):
            raise InputError(
                f"{path} line {number} is {line[:80]!r}; write two row numbers, counted from 0, such as 3,17"
            )
        rows.append([int(cell) for cell in cells])
    return np.array(rows, np.int64).reshape(-1, 2)


def _read_rows(path: Path, id_column: str | None) -> Any:
    """Read the rows of a file. Only tables have an id column."""
    table = path == STDIO_PATH or path.suffix.lower() in TABLE_READERS
    return read_vectors(path, id_column if table else None)


def _write_vectors(whitening: Whitening, rows: Any, output: Path) -> None:
    """Write the whitened rows as a .npy file, block by block, because they may exceed the memory."""
    shape = (len(rows), whitening.projection.shape[1])
    with atomic_write(output) as file:
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype("<f4")), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for block in whitening.blocks(rows, name="--features"):
            file.write(np.ascontiguousarray(block, "<f4").tobytes())
