"""Results -> stdout as a table or as one JSON document; where files go is checked before the work starts."""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


def hush(quiet: bool) -> bool:
    """Let nobody in this process say more than results and mistakes, if so."""
    logging.getLogger("kinrank").setLevel(logging.ERROR if quiet else logging.NOTSET)
    if quiet:
        warnings.simplefilter("ignore")
    return quiet


Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", callback=hush, help="Print nothing but the result, if one is printed at all."),
]


def bars(quiet: bool) -> bool:
    """Whether to draw progress bars on stderr: only for people, and not where they asked for quiet."""
    return not quiet and sys.stderr.isatty()


def print_json(document: Any) -> None:
    """One document, and nothing else on stdout. A number that JSON does not know is a bug, not `NaN`."""
    print(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


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


def writable(path: Path, endings: Sequence[str] = ()) -> Path:
    """The path, if a file can be written there: known now, not after an hour of work."""
    if endings and path.suffix.lower() not in endings:
        raise ValueError(f"{path} has the unknown ending {path.suffix!r}; give {' | '.join(endings)}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} is not there; make it, or choose another path")
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise OSError(f"the folder {path.parent} cannot be written to ({error.strerror})") from None
    return path


def append_line(path: Path, document: Any) -> None:
    """Add the document to a file of JSON lines, in one write."""
    line = json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n"
    number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(number, line.encode())
    finally:
        os.close(number)
