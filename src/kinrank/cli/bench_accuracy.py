"""`kinrank bench accuracy`: methods x sets x modes, every cell kept as soon as it is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kinrank.bench import accuracy_tables, measured
from kinrank.bench.cells import FEW
from kinrank.cli.bench_options import Anew, Append, Kept, Names, Sets, cache_of, check, going_on, show
from kinrank.cli.inputs import words
from kinrank.cli.output import Json, Quiet, bars, separate, writable
from kinrank.files.atomic import replacing


def accuracy(
    data: Annotated[Path, typer.Option("--data", help="Folder with the published features.")],
    methods: Names = "all",
    sets: Sets = None,
    modes: Annotated[str, typer.Option("--modes", help="Which ways to run.")] = "joint,candidates,online",
    queries: Annotated[int, typer.Option("--queries", min=1, help="Most queries of a set over candidates.")] = FEW,
    cache: Kept = None,
    no_cache: Anew = False,
    output: Append = None,
    table: Annotated[
        Path | None, typer.Option("--table", help="Write the tables to this file, too: .md, .tex or .csv.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Scores with 95 % intervals on published sets, what each method gains over no re-ranking, and its time.

    \b
    kinrank bench accuracy --data DIR
    kinrank bench accuracy --data DIR --methods none,lpmt --sets roxford5k,coil20 --modes joint
    kinrank bench accuracy --data DIR -o results.jsonl --table results.tex

    Joint: queries and gallery in one graph. Candidates: each query over its 500 nearest. Online: queries in no graph.
    Stopped with Ctrl-C, nothing is lost: the same command goes on from there. Changed vectors, parameters or code are
    measured again. Sets are read from files of fixed names, such as orl_pixels.npz, and any features of the paper's
    sets from files such as roxford5k_rgem.npz; docs/datasets.md has all names.
    """
    check(output)
    if table is not None:
        writable(table, accuracy_tables.ENDINGS)
        separate(table, output)
    kept = cache_of(cache, no_cache)
    names = None if sets is None else words(sets)
    with going_on(kept, quiet):
        record = measured.accuracy(
            data, words(methods), names, bars(quiet), modes=words(modes), cache=kept, most=queries
        )
    if table is not None:
        with replacing(table) as file:
            file.write(accuracy_tables.written(record, table.suffix.lower()).encode())
    show(record, output, json)
