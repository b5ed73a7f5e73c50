"""`kinrank explain`: a prepared gallery, a query and an item -> the chain between them, in words, JSON or a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import kinrank
from kinrank.cli.inputs import QueriesKey, vectors
from kinrank.cli.names import ids_meant
from kinrank.cli.output import Json, print_json, separate, writable
from kinrank.files.atomic import replacing

FIGURES = (".png", ".svg", ".pdf")


def explain(
    folder: Annotated[Path, typer.Argument(help="What `kinrank build` wrote.")],
    queries: Annotated[
        list[Path], typer.Option("--queries", help="Vectors that ask, one row per query. Once more for each feature.")
    ],
    item: Annotated[str, typer.Option("--item", help="The item: its name, or its number without names.")],
    query: Annotated[int, typer.Option("--query", help="Which row of the queries, counted from 0.")] = 0,
    flows: Annotated[int, typer.Option("--flows", help="Largest movements of mass to keep per step.")] = 5,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A figure of the chain: .png, .svg or .pdf.")
    ] = None,
    queries_key: QueriesKey = None,
    json: Json = False,
) -> None:
    """Show the chain of items that leads from a query to a result, and what each step costs, moves and produces.

    \b
    kinrank explain gallery.manifold --queries q.npy --query 3 --item beach_17
    kinrank explain gallery.manifold --queries q.npy --query 3 --item 17 --json
    kinrank explain gallery.manifold --queries q.npy --query 3 --item 17 -o chain.svg

    Figures need kinrank[plot].
    """
    if output is not None:
        writable(output, FIGURES)
    separate(output, folder, *queries)
    manifold = kinrank.Manifold.load(folder)
    parts = [vectors(path, queries_key) for path in queries]
    for path, rows in zip(queries, parts, strict=True):
        if not 0 <= query < len(rows):
            raise ValueError(f"--query {query} is not there; {path} has {len(rows)} rows, counted from 0")
    asked = parts[0][query] if len(parts) == 1 else [rows[query] for rows in parts]
    why = manifold.explain(asked, ids_meant(manifold, [item])[0], flows)
    if output is not None:
        figure = why.figure()
        with replacing(output) as file:
            figure.savefig(file, format=output.suffix[1:].lower())
    if json:
        print_json(why.to_dict())
    else:
        print(why)
