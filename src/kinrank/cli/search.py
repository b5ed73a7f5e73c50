"""`kinrank search`: a prepared gallery and queries it has never seen -> their nearest items."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import kinrank
from kinrank.cli.change import Wait
from kinrank.cli.inputs import IdColumn, QueriesKey, features
from kinrank.cli.names import ids_meant, read_names
from kinrank.cli.output import Format, Json, Quiet, check_ranking_target, ranking_target, separate, table, tell
from kinrank.cli.stores import Filter, StoreUrl, filter_of, opened
from kinrank.files.lock import WAIT
from kinrank.files.rankings import save_ranking

if TYPE_CHECKING:
    from kinrank.manifold import Manifold
    from kinrank.ranking import Ranking

LINES = 50  # of a table that is still read by people


def search(
    folder: Annotated[Path, typer.Argument(help="What `kinrank build` wrote.")],
    queries: Annotated[
        list[Path], typer.Option("--queries", help="Vectors that ask, one row per query. Once more for each feature.")
    ],
    k: Annotated[int, typer.Option("-k", "--k", help="Items per query that are to be certain.")] = 10,
    depth: Annotated[int | None, typer.Option("--depth", help="Items to return. Without: k.")] = None,
    budget: Annotated[
        int | None,
        typer.Option("--budget", help="Most items to look at per query. Without: 5000, or 50 k if more."),
    ] = None,
    max_distance: Annotated[
        float | None, typer.Option("--max-distance", help="Leave out items farther than this. Without: none.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Ranking to write: .npz, .trec or .csv; - for stdout.")
    ] = None,
    query_ids: Annotated[
        Path | None, typer.Option("--query-ids", help="Text file of the queries' names, one per line.")
    ] = None,
    where: Annotated[
        Path | None, typer.Option("--where", help="Text file: only these items are results, one name per line.")
    ] = None,
    store: StoreUrl = None,
    filter: Filter = None,
    positives: Annotated[
        str | None,
        typer.Option("--positives", help="Items that are right: names with commas between them, or a file of names."),
    ] = None,
    negatives: Annotated[str | None, typer.Option("--negatives", help="The same, for items that are wrong.")] = None,
    groups: Annotated[
        Path | None,
        typer.Option("--groups", help="Text file, a label per query: rows of one label are one query, answered once."),
    ] = None,
    observe: Annotated[
        bool, typer.Option("--observe", help="Remember these queries, too; see `kinrank observe`.")
    ] = False,
    wait: Wait = WAIT,
    queries_key: QueriesKey = None,
    id_column: IdColumn = None,
    format: Format = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Search a prepared gallery. Each query is answered on its own; none needs to be in the gallery.

    \b
    kinrank search gallery.manifold --queries q.npy
    kinrank search gallery.manifold --queries q.npy -k 100 -o ranking.npz
    kinrank search gallery.manifold --queries q.npy --json
    kinrank search gallery.manifold --queries q.npy --where allowed.txt
    kinrank search gallery.manifold --queries one.npy --positives beach_3,beach_9 --negatives dune_4
    kinrank search gallery.manifold --queries shape.npy --queries colour.npy
    kinrank search pictures.manifold --store qdrant://localhost:6333/pictures --queries q.npy --filter kind=cat

    Without -o the first lines are printed, or all as JSON. A k larger than the gallery returns what there is. Items
    are written by their names; without names, by their numbers, which stay when others are removed. Marked items,
    --positives and --negatives, are for galleries built by lpmt; with several queries they count for each of them.
    """
    if output is not None:
        check_ranking_target(output, format)
    separate(output, folder, *queries, query_ids, where, groups)
    if groups is not None and query_ids is not None:
        raise ValueError("--groups names the rows of the answer; leave --query-ids out")
    rows, names = features(queries, queries_key, id_column, query_ids, "--query-ids")
    count = len(rows[0] if isinstance(rows, list) else rows)
    if names is not None and len(names) != count:
        raise ValueError(f"--query-ids has {len(names)} names but there are {count} queries")
    with ExitStack() as stack:
        database = stack.enter_context(opened(store))
        if observe:
            manifold = stack.enter_context(kinrank.Manifold.changing(folder, wait, database))
        else:
            manifold = kinrank.Manifold.load(folder, store=database)
        allowed = _allowed(manifold, where, filter, store)
        right = _marked(manifold, positives, count, "--positives")
        wrong = _marked(manifold, negatives, count, "--negatives")
        labels = read_names(groups)
        ranking = manifold.search(
            rows, k, depth, budget, max_distance,
            where=allowed, positives=right, negatives=wrong, groups=labels, observe=observe,
        )  # fmt: skip
        remembered = manifold.observed
    ranking = ranking if groups is not None else ranking.with_ids(query_ids=names)
    facts = _facts(ranking) | ({"observed": remembered} if observe else {})
    if output is not None:
        with ranking_target(output, format) as path:
            save_ranking(ranking, path)
        facts = {"output": str(output), **facts}
    found = [] if output is not None else _found(ranking)
    if found and not json:
        _print_table(found, quiet)
    certain = facts.get("certain")
    line = "{queries} queries x {depth} items, {mode}, {seconds:.3f} s"
    line = line if output is None else "{output}: " + line
    if certain is not None:
        line += f"; the first {min(k, ranking.depth)} certain for {certain:.0%}"
    if observe:
        line += "; {observed} queries are remembered now"
    tell(line, facts if output is not None else {**facts, "results": found}, json, output, quiet)


def _allowed(manifold: Manifold, where: Path | None, words: list[str] | None, store: str | None) -> Any:
    """Who may be a result: a filter of the store, or the items of a file."""
    wanted = filter_of(words)
    if wanted is not None and (store is None or where is not None):
        raise ValueError("--filter is for a --store, and instead of --where; give --where, a file of names, or both "
                         "--store and --filter")  # fmt: skip
    return wanted if where is None else ids_meant(manifold, read_names(where) or [])


def _marked(manifold: Manifold, words: str | None, queries: int, flag: str) -> list[list[str | int]] | None:
    """For every query the items that were named: with commas between them, or in a file, one per line."""
    if words is None:
        return None
    known = set(map(str, manifold.ids.tolist()))
    named: list[str] | None = words.split(",")
    if not all(name.strip() in known for name in named or []) and os.path.isfile(words):  # False for very long ones
        named = read_names(Path(words))
    marked = [name.strip() for name in named or [] if name.strip()]
    if not marked:
        raise ValueError(f"{flag} names no item; give ids with commas between them, or a file of them, or leave it out")
    return [ids_meant(manifold, marked)] * queries


def _facts(ranking: Ranking) -> dict[str, Any]:
    """How the ranking came about, as plain values."""
    effort = ("certain", "settled", "budget")  # not every method has them, and none without queries
    kept = {name: value for name, value in ranking.meta.items() if name in effort}
    return {
        "queries": len(ranking),
        "depth": ranking.depth,
        "mode": ranking.meta["mode"],
        "method": ranking.meta["method"],
        "metric": ranking.meta["metric"],
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


def _print_table(found: list[dict[str, Any]], quiet: bool) -> None:
    """The first LINES for people, with a word about the others; all of them for those who asked for nothing else."""
    lines = [
        (str(entry["query"]), str(rank), str(item["item"]), f"{item['distance']:.4f}")
        for entry in found
        for rank, item in enumerate(entry["items"], start=1)
    ]
    print(table([("query", "rank", "item", "distance"), *(lines if quiet else lines[:LINES])], right=(1, 3)))
    if quiet:
        return
    if len(lines) > LINES:
        print(f"... and {len(lines) - LINES} lines more: write them with -o, or print them with --json")
    print()
