"""`kinrank rerank`: files of vectors -> a file with the ranking."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import kinrank
from kinrank.cli.flags import method_from
from kinrank.cli.names import read_names
from kinrank.cli.output import Json, Quiet, bars, print_json, writable
from kinrank.features import load
from kinrank.files.rankings import save_ranking

ENDINGS = (".npz", ".trec", ".csv")


def rerank(
    context: typer.Context,
    gallery: Annotated[Path, typer.Option("--gallery", "-g", help="Vectors to rank, one row per item.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Ranking to write: .npz, .trec or .csv.")],
    queries: Annotated[
        Path | None,
        typer.Option("--queries", help="Vectors that ask. Without: every item queries the others."),
    ] = None,
    method: Annotated[str, typer.Option("--method", "-m", help="See `kinrank methods`.")] = "lpmt",
    candidates: Annotated[
        int | None,
        typer.Option("--candidates", help="Re-rank only so many nearest items per query, in a graph of their own."),
    ] = None,
    depth: Annotated[int | None, typer.Option("--depth", help="Items to return per query. Without: all.")] = None,
    max_memory: Annotated[
        str | None,
        typer.Option("--max-memory", help="Refuse, before starting, what needs more, such as 2GB."),
    ] = None,
    queries_key: Annotated[
        str | None, typer.Option("--queries-key", help="Which array of an .npz, .h5, .mat or .safetensors.")
    ] = None,
    gallery_key: Annotated[str | None, typer.Option("--gallery-key", help="The same, for the gallery.")] = None,
    query_ids: Annotated[
        Path | None, typer.Option("--query-ids", help="Text file of names, one per line, for the ranking.")
    ] = None,
    item_ids: Annotated[Path | None, typer.Option("--item-ids", help="The same, for the items of the gallery.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Re-rank a gallery for every query and write the ranking.

    \b
    kinrank rerank --queries q.npy --gallery g.npy -o ranking.npz
    kinrank rerank --queries q.npy --gallery g.npy --k1 60 --theta 0.3 -o run.trec
    kinrank rerank --gallery all.npy --method aqe --k 4 --depth 100 -o ranking.csv

    Every parameter of the chosen method is a flag: `kinrank methods lpmt` lists those of LPMT with their
    meaning, default and range, `kinrank methods` all methods. --k1 60 and --k1=60 are the same, and so are
    dashes and underscores in names.

    Vectors are read from npy, npz, csv, tsv, fvecs, bvecs, pkl, mat; with kinrank[io] also h5, parquet and
    safetensors. Queries and gallery share one graph (joint) unless --candidates is given.
    """
    writable(output, ENDINGS)
    chosen = method_from(method, context.args)
    asked = None if queries is None else load(queries, queries_key)
    offered = load(gallery, gallery_key)
    names = read_names(query_ids), read_names(item_ids)
    if asked is None and query_ids is None:
        names = names[1], names[1]  # the items are the queries
    ranking = kinrank.rerank(asked, offered, chosen, candidates, depth, max_memory, bars(quiet))
    save_ranking(ranking, output, *names)
    facts = {
        "output": str(output),
        "queries": len(ranking),
        "depth": ranking.depth,
        "mode": ranking.meta["mode"],
        "method": ranking.meta["method"],
        "seconds": round(float(ranking.meta["seconds"]), 6),
    }
    if json:
        print_json(facts)
    elif not quiet:
        print("{output}: {queries} queries x {depth} items, {mode}, {method}, {seconds:.2f} s".format(**facts))
