"""`kinrank search`: a prepared gallery and queries it has never seen -> their nearest items."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import kinrank
from kinrank.cli.names import read_names
from kinrank.cli.output import Json, Quiet, bars, print_json, table, writable
from kinrank.features import load
from kinrank.files.rankings import save_ranking

if TYPE_CHECKING:
    from kinrank.ranking import Ranking

ENDINGS = (".npz", ".trec", ".csv")
LINES = 50  # of a table that is still read by people


def search(
    folder: Annotated[Path, typer.Argument(help="What `kinrank build` wrote.")],
    queries: Annotated[Path, typer.Option("--queries", help="Vectors that ask, one row per query.")],
    k: Annotated[int, typer.Option("-k", "--k", help="Items per query that are to be certain.")] = 10,
    depth: Annotated[int | None, typer.Option("--depth", help="Items to return. Without: k.")] = None,
    budget: Annotated[
        int | None,
        typer.Option("--budget", help="Most items to look at per query. Without: 5000, or 50 k if more."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Ranking to write: .npz, .trec or .csv.")
    ] = None,
    query_ids: Annotated[
        Path | None, typer.Option("--query-ids", help="Text file of the queries' names, one per line.")
    ] = None,
    queries_key: Annotated[
        str | None, typer.Option("--queries-key", help="Which array of an .npz, .h5, .mat or .safetensors.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Search a prepared gallery. Each query is answered on its own; none needs to be in the gallery.

    \b
    kinrank search gallery.manifold --queries q.npy
    kinrank search gallery.manifold --queries q.npy -k 100 -o ranking.npz
    kinrank search gallery.manifold --queries q.npy --json

    Without -o the first lines are printed, or all as JSON. A k larger than the gallery returns what there is. Items
    are written by their names; without names, by their numbers, which stay when others are removed.
    """
    if output is not None:
        writable(output, ENDINGS)
    bars(quiet)
    names = read_names(query_ids)
    manifold = kinrank.Manifold.load(folder)
    ranking = manifold.search(load(queries, queries_key), k, depth, budget)
    if names is not None and len(names) != len(ranking):
        raise ValueError(f"--query-ids has {len(names)} names but there are {len(ranking)} queries")
    ranking = ranking.with_ids(query_ids=names)
    facts = _facts(ranking)
    if output is not None:
        save_ranking(ranking, output)
        facts = {"output": str(output), **facts}
    found = [] if output is not None else _found(ranking)
    if json:
        print_json(facts if output is not None else {**facts, "results": found})
        return
    if found:
        _print_table(found)
    certain = facts.get("certain")
    print(
        ("" if output is None else f"{output}: ")
        + "{queries} queries x {depth} items, {mode}, {seconds:.3f} s".format(**facts)
        + ("" if certain is None else f"; the first {min(k, ranking.depth)} certain for {certain:.0%}")
    )


def _facts(ranking: Ranking) -> dict[str, Any]:
    """How the ranking came about, as plain values."""
    effort = ("certain", "settled", "budget")  # not every method has them, and none without queries
    kept = {name: value for name, value in ranking.meta.items() if name in effort}
    return {
        "queries": len(ranking),
        "depth": ranking.depth,
        "mode": ranking.meta["mode"],
        "method": ranking.meta["method"],
        **kept,
        "seconds": round(float(ranking.meta["seconds"]), 6),
    }


def _found(ranking: Ranking) -> list[dict[str, Any]]:
    """Per query its items by their ids, padding left out."""
    queries = range(len(ranking)) if ranking.query_ids is None else ranking.query_ids.tolist()
    rows = zip(ranking.indices.tolist(), ranking.ids.tolist(), ranking.distances.tolist(), strict=True)
    return [
        {
            "query": query,
            "items": [
                {"item": item, "distance": distance} for number, item, distance in zip(*row, strict=True) if number >= 0
            ],
        }
        for query, row in zip(queries, rows, strict=True)
    ]


def _print_table(found: list[dict[str, Any]]) -> None:
    lines = [
        (str(entry["query"]), str(rank), str(item["item"]), f"{item['distance']:.4f}")
        for entry in found
        for rank, item in enumerate(entry["items"], start=1)
    ]
    print(table([("query", "rank", "item", "distance"), *lines[:LINES]], right=(1, 3)))
    if len(lines) > LINES:
        print(f"... and {len(lines) - LINES} lines more: write them with -o, or print them with --json")
    print()
