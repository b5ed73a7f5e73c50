"""`kinrank bench paper`: the paper's tables and figures on a user's features, as a folder with a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kinrank.bench.paper import run, written
from kinrank.bench.paper.page import summary
from kinrank.cli.bench_options import Anew, Kept, Sets, cache_of, check, going_on
from kinrank.cli.inputs import words
from kinrank.cli.output import Json, Quiet, append_line, bars, print_json, separate


def paper(
    data: Annotated[Path, typer.Option("--data", help="Folder with features, such as roxford5k_rgem.npz.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the page, the tables and the figures.")],
    parts: Annotated[str, typer.Option("--parts", help="What to measure.")] = ",".join(run.PARTS),
    sets: Sets = None,
    features: Annotated[
        str | None, typer.Option("--features", help="Which features, as in rgem,dolg. Without: all that are there.")
    ] = None,
    cache: Kept = None,
    no_cache: Anew = False,
    record: Annotated[Path | None, typer.Option("--record", help="Append the record to this .jsonl.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """The tables, ablations and figures of the LPMT paper, measured on your features beside the printed numbers.

    \b
    kinrank bench paper --data DIR -o paper
    kinrank bench paper --data DIR -o paper --parts tables,ablations --features rgem

    It takes any features: files such as roxford5k_rgem.npz, with gnd_roxford5k.pkl beside them; docs/datasets.md has
    all names.
    Stopped with Ctrl-C, nothing is lost: the same command goes on from there.
    """
    check(record)
    if output.exists() and not output.is_dir():
        raise ValueError(f"{output} is a file; give the path of a folder, it is made if it is not there")
    separate(output, data)
    kept = cache_of(cache, no_cache)
    with going_on(kept, quiet):
        found = run.paper(
            data,
            words(parts),
            None if sets is None else words(sets),
            None if features is None else words(features),
            kept,
            progress=bars(quiet),
            instead=output,
        )
    paths = written.write(found, output)
    if record is not None:
        append_line(record, found)
    if json:
        print_json(found)
    elif not quiet:
        print("\n".join(summary(found)))
        print(f"{len(paths)} files in {output}; open {paths[0]}")
