"""Results -> stdout as a table or as one JSON document; where files go is checked before the work starts."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from kinrank.files.atomic import writable as writable
from kinrank.files.scratch import scratch_folder
from kinrank.manifold import NotFolded

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Format = Annotated[str | None, typer.Option("--format", help="csv (unless given) or trec, for `-o -`.")]
STANDARD = Path("-")  # standard input where something is read, standard output where something is written
RANKINGS = (".npz", ".trec", ".csv")


def hush(quiet: bool) -> bool:
    """With `quiet`, let this process print results, errors and warnings about lost data, and nothing else."""
    logging.getLogger("kinrank").setLevel(logging.ERROR if quiet else logging.NOTSET)
    if quiet:
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", NotFolded)
    return quiet


Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", callback=hush, help="Print only the result, errors, and warnings about lost data."),
]


def bars(quiet: bool) -> bool:
    """Whether to draw progress bars on stderr: only for people, and not where they asked for quiet."""
    return not quiet and sys.stderr.isatty()


def print_json(document: Any) -> None:
    """One document, and nothing else on stdout. A number that JSON does not know is a bug, not `NaN`."""
    print(_as_json(document))


def _as_json(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)


def tell(line: str, facts: dict[str, Any], json: bool, output: Path | None, quiet: bool = False) -> None:
    """What was done, as JSON, or as a line unless quiet: on stdout, or on stderr where stdout carries the result."""
    if json or not quiet:
        piped = output == STANDARD
        words = line.format(**{**facts, "output": "standard output"} if piped else facts)
        print(_as_json(facts) if json else words, file=sys.stderr if piped else sys.stdout)


def table(rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Rows of text, the first one the heading, as columns; those numbered in `right` end together."""
    cells = [list(map(str, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def separate(output: Path | None, *inputs: Path | None) -> None:
    """Refuse, before anything is read, an output that would overwrite an input, and two inputs from one pipe.

    A link to an input, another spelling of its path, an input inside a folder that is written and an output inside a
    folder that is read count as well.
    """
    given = [path for path in inputs if path is not None]
    if given.count(STANDARD) > 1:
        raise ValueError("only one input can be - (standard input); give files for the others")
    if output is None or output == STANDARD:
        return
    for path in given:
        if path == STANDARD:
            continue
        if _same(output, path):
            raise ValueError(f"writing {output} would overwrite {path}, which is read; choose another path")
        if any(_same(output, parent) for parent in path.resolve().parents):
            raise ValueError(f"{path} lies in {output}, which is written; copy it to another place first")
        if path.is_dir() and any(_same(path, parent) for parent in output.resolve().parents):
            raise ValueError(f"{output} lies in {path}, which is read; choose another path")


def _same(first: Path, second: Path) -> bool:
    try:
        return os.path.samefile(first, second)
    except (OSError, ValueError):  # one of them is not there, or has a name that no file can have
        return False


def check_ranking_target(output: Path, format: str | None) -> None:
    """Refuse, before the work starts, a place where no ranking can be written."""
    if output != STANDARD:
        if format is not None:
            raise ValueError("--format is for -o - only; elsewhere the ending of the path says it")
        writable(output, RANKINGS)
    elif format not in (None, "csv", "trec"):
        raise ValueError(f"--format {format!r} is not known; give csv or trec")


@contextmanager
def ranking_target(output: Path, format: str | None) -> Iterator[Path]:
    """Where to save a ranking; for `-` a place whose content goes to standard output when it is whole."""
    if output != STANDARD:
        yield output
        return
    with scratch_folder() as folder:
        path = folder / f"ranking.{format or 'csv'}"
        yield path
        sys.stdout.flush()
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)


def append_line(path: Path, document: Any) -> None:
    """Add the document to a file of JSON lines, in one write."""
    line = json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n"
    number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(number, line.encode())
    finally:
        os.close(number)
