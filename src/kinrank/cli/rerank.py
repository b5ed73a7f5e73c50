"""`kinrank rerank`: files of vectors -> a file with the ranking."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import kinrank
from kinrank.cli.flags import method_from
from kinrank.cli.inputs import AGAIN, CheckRows, GalleryKey, IdColumn, Metric, QueriesKey, Weights, combined, features
from kinrank.cli.names import places_meant, read_names
from kinrank.cli.output import Format, Json, Quiet, bars, check_ranking_target, ranking_target, separate, tell
from kinrank.files.rankings import save_ranking


def rerank(
    context: typer.Context,
    gallery: Annotated[
        list[Path],
        typer.Option("--gallery", "-g", help=f"Vectors to rank, one row per item; - for stdin. {AGAIN}"),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Ranking to write: .npz, .trec or .csv; - for stdout.")
    ],
    queries: Annotated[
        list[Path] | None,
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
    where: Annotated[
        Path | None, typer.Option("--where", help="Text file: only these items are results, one name or number a line.")
    ] = None,
    metric: Metric = None,
    feature_weights: Weights = None,
    check_rows: CheckRows = True,
    queries_key: QueriesKey = None,
    gallery_key: GalleryKey = None,
    query_ids: Annotated[
        Path | None, typer.Option("--query-ids", help="Text file of names, one per line, for the ranking.")
    ] = None,
    item_ids: Annotated[Path | None, typer.Option("--item-ids", help="The same, for the items of the gallery.")] = None,
    id_column: IdColumn = None,
    query_id_column: Annotated[
        str | None, typer.Option("--query-id-column", help="The same, for the queries; the other is for the gallery.")
    ] = None,
    format: Format = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Re-rank a gallery for every query and write the ranking.

    \b
    kinrank rerank --queries q.npy --gallery g.npy -o ranking.npz
    kinrank rerank --queries q.npy --gallery g.npy --k1 60 --theta 0.3 -o run.trec
    kinrank rerank --gallery all.npy --method aqe --k 4 --depth 100 -o ranking.csv
    kinrank rerank --gallery all.csv --id-column name -o - | head

    Every parameter of the chosen method is a flag: `kinrank methods lpmt` lists those of LPMT with their
    meaning, default and range, `kinrank methods` all methods. --k1 60 and --k1=60 are the same, and so are
    dashes and underscores in names.

    Vectors are read from npy, npz, csv, tsv, fvecs, bvecs, pkl, mat; with kinrank[io] also h5, parquet and
    safetensors. Queries and gallery share one graph (joint) unless --candidates is given. One input can be -, which
    is standard input with a .npy or .csv file. No output may overwrite an input.
    """
    check_ranking_target(output, format)
    separate(output, *gallery, *(queries or []), query_ids, item_ids, where)
    chosen = method_from(method, context.args)
    offered, item_names = features(gallery, gallery_key, id_column, item_ids, "--item-ids")
    offered = combined(offered, feature_weights, check_rows)
    if queries:
        asked, query_names = features(
            queries, queries_key, query_id_column, query_ids, "--query-ids", "--query-id-column"
        )
    elif query_id_column is not None:
        raise ValueError("--query-id-column is for --queries; without queries the items ask, by their --id-column")
    else:
        asked, query_names = None, item_names if query_ids is None else read_names(query_ids)
    allowed = None if where is None else places_meant(read_names(where) or [], item_names)
    ranking = kinrank.rerank(asked, offered, chosen, candidates, depth, max_memory, bars(quiet), metric, where=allowed)
    with ranking_target(output, format) as path:
        save_ranking(ranking, path, query_names, item_names)
    facts = {
        "output": str(output),
        "queries": len(ranking),
        "depth": ranking.depth,
        "mode": ranking.meta["mode"],
        "method": ranking.meta["method"],
        "metric": ranking.meta["metric"],
        "seconds": round(float(ranking.meta["seconds"]), 6),
    }
    tell("{output}: {queries} queries x {depth} items, {mode}, {method}, {seconds:.2f} s", facts, json, output, quiet)
