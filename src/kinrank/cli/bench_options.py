"""What the commands of `kinrank bench` share: options, lists in words, where records and measurements go."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from kinrank.bench.cache import Cache, default_folder
from kinrank.cli import bench_tables
from kinrank.cli.output import append_line, print_json, writable
from kinrank_entry import INTERRUPTED

Names = Annotated[str, typer.Option("--methods", help="Names with commas between them, or all.")]
Append = Annotated[Path | None, typer.Option("--output", "-o", help="Append the record to this .jsonl.")]
Sets = Annotated[str | None, typer.Option("--sets", help="Which sets. Without: all that are there.")]
Kept = Annotated[
    Path | None,
    typer.Option("--cache", help="Folder where every measurement is kept at once. Without: among this user's caches."),
]
Anew = Annotated[bool, typer.Option("--no-cache", help="Measure everything anew, and keep nothing.")]


def count(word: str, option: str = "--sizes", least: int = 200) -> int:
    """A whole number from a list of them."""
    if not word.isdecimal() or int(word) < least:
        raise ValueError(f"{option} {word!r} is not allowed; give whole numbers >= {least} with commas between them")
    return int(word)


def cache_of(folder: Path | None, anew: bool) -> Cache:
    """Where measurements are kept."""
    if anew and folder is not None:
        raise ValueError("--cache keeps measurements and --no-cache keeps none; give one of them")
    return Cache(None if anew else folder or default_folder())


@contextmanager
def going_on(kept: Cache, quiet: bool) -> Iterator[None]:
    """Work that may be stopped with Ctrl-C: then it is said that the same command goes on from there."""
    try:
        yield
    except KeyboardInterrupt:
        if kept.folder is not None and not quiet:
            print("\nkinrank: stopped; what was measured is kept, the same command goes on from there", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
        raise


def check(output: Path | None) -> None:
    """Refuse, before the work starts, a record that could not be written."""
    if output is not None:
        writable(output, (".jsonl",))


def show(measured: dict[str, Any], output: Path | None, json: bool) -> None:
    """Append the record where that is asked for, and print it or its tables."""
    if output is not None:
        append_line(output, measured)
    if json:
        print_json(measured)
    else:
        print(bench_tables.TABLES[measured["bench"]](measured))
