"""`kinrank rerank`: files of vectors -> a file with the ranking."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import kinrank
from kinrank.cli.flags import method_from
from kinrank.cli.inputs import AGAIN, CheckRows, GalleryKey, IdColumn, Metric, QueriesKey, Weights, combined, features
from kinrank.cli.names import places_meant, read_names
from kinrank.cli.output import Format, Json, Quiet, bars, check_ranking_target, ranking_target, separate, tell
from kinrank.cli.stores import Filter, StoreUrl, filter_of, opened
from kinrank.files.rankings import save_ranking


def rerank(
    context: typer.Context,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Ranking to write: .npz, .trec or .csv; - for stdout.")
    ],
    gallery: Annotated[
        list[Path] | None,
        typer.Option("--gallery", "-g", help=f"Vectors to rank, one row per item; - for stdin. {AGAIN}"),
    ] = None,
    store: StoreUrl = None,
    queries: Annotated[
        list[Path] | None,
        typer.Option("--queries", help="Vectors that ask. Without: every item queries the others."),
    ] = None,
    method: Annotated[str, typer.Option("--method", "-m", help="See `kinrank methods`.")] = "lpmt",
    candidates: Annotated[
        int | None,
        typer.Option("--candidates", help="Re-rank only so many nearest items per query, in a graph of their own."),
    ] = None,
    expand: Annotated[
        int,
        typer.Option("--expand", min=0, help="Rounds in which --candidates grow by neighbours of the best of them."),
    ] = 0,
    depth: Annotated[int | None, typer.Option("--depth", help="Items to return per query. Without: all.")] = None,
    max_memory: Annotated[
        str | None,
        typer.Option("--max-memory", help="Refuse, before starting, what needs more, such as 2GB."),
    ] = None,
    where: Annotated[
        Path | None, typer.Option("--where", help="Text file: only these items are results, one name or number a line.")
    ] = None,
    filter: Filter = None,
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
    kinrank rerank --store 'postgresql://me@host/shop?table=items&vector=embedding&key=id' \\
        --queries q.npy --candidates 500 --filter kind=shoe -o ranking.csv

    Every parameter of the chosen method is a flag: `kinrank methods lpmt` lists those of LPMT with their
    meaning, default and range, `kinrank methods` all methods. --k1 60 and --k1=60 are the same, and so are
    dashes and underscores in names.

    Vectors are read from npy, npz, csv, tsv, fvecs, bvecs, pkl, mat; with kinrank[io] also h5, parquet and
    safetensors. Queries and gallery share one graph (joint) unless --candidates is given. One input can be -, which
    is standard input with a .npy or .csv file. No output may overwrite an input.
    """
    check_ranking_target(output, format)
    if (store is None) == (not gallery):
        raise ValueError("give either --gallery, a file of vectors, or --store, the URL of a vector database")
    separate(output, *(gallery or []), *(queries or []), query_ids, item_ids, where)
    chosen = method_from(method, context.args)
    with opened(store) as database:
        if database is None:
            offered, item_names = features(gallery or [], gallery_key, id_column, item_ids, "--item-ids")
            offered = combined(offered, feature_weights, check_rows)
        else:
            offered, item_names = database, None
            _only_files(
                gallery_key=gallery_key, id_column=id_column, item_ids=item_ids, feature_weights=feature_weights
            )
        if queries:
            asked, query_names = features(
                queries, queries_key, query_id_column, query_ids, "--query-ids", "--query-id-column"
            )
        elif query_id_column is not None:
            raise ValueError("--query-id-column is for --queries; without queries the items ask, by their --id-column")
        else:
            asked, query_names = None, item_names if query_ids is None else read_names(query_ids)
        ranking = kinrank.rerank(
            asked, offered, chosen, candidates, depth, max_memory, bars(quiet), metric,
            where=_allowed(where, filter, item_names, store), expand=expand,
        )  # fmt: skip
    with ranking_target(output, format) as path:
        save_ranking(ranking, path, query_names, item_names)
    facts: dict[str, Any] = {
        "output": str(output),
        "queries": len(ranking),
        "depth": ranking.depth,
        "mode": ranking.meta["mode"],
        "method": ranking.meta["method"],
        "metric": ranking.meta["metric"],
        "seconds": round(float(ranking.meta["seconds"]), 6),
    }
    if store is not None:
        facts["seconds_in"] = {part: round(value, 6) for part, value in ranking.meta.get("seconds_in", {}).items()}
    tell("{output}: {queries} queries x {depth} items, {mode}, {method}, {seconds:.2f} s", facts, json, output, quiet)


def _only_files(**flags: Any) -> None:
    """A ValueError for flags that are about a file of vectors."""
    for name, value in flags.items():
        if value is not None:
            raise ValueError(f"--{name.replace('_', '-')} is for a --gallery; leave it out beside --store")


def _allowed(where: Path | None, words: list[str] | None, item_names: list[Any] | None, store: str | None) -> Any:
    """Who may be a result: a filter of the store, or the items of a file."""
    wanted = filter_of(words)
    if wanted is not None and store is None:
        raise ValueError("--filter is for a --store, whose items have fields; for a --gallery give --where, a file")
    if wanted is not None and where is not None:
        raise ValueError("--filter and --where both say who may be a result; give one of them")
    return wanted if where is None else places_meant(read_names(where) or [], item_names)
