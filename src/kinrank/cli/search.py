"""`kinrank search` and `kinrank explain`: results of a prepared gallery, and the chains that lead to them."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kinrank
from kinrank.cli.gallery import GalleryFolder, Wait
from kinrank.cli.input_files import (
    FilterOptions,
    IdColumn,
    QueryIds,
    QueryRows,
    StoreUrl,
    open_database,
    parse_ids,
    read_features,
    read_id_file,
    read_vectors,
)
from kinrank.cli.option_groups import File, OptionGroup, option
from kinrank.cli.output import (
    FIGURE_SUFFIXES,
    Json,
    RankingOutput,
    check_output,
    describe_ranking,
    print_json,
    write_figure,
    write_text,
)
from kinrank.errors import InputError
from kinrank.files.atomic import LOCK_WAIT_SECONDS
from kinrank.tables import align_columns

if TYPE_CHECKING:
    from kinrank.manifold import Manifold
    from kinrank.ranking import Ranking

MAX_PRINTED_LINES = 50  # of the table of results, unless --quiet


class QueryOptions(OptionGroup):
    """Queries of a search."""

    title = "Queries"
    queries: QueryRows
    query_ids: QueryIds = None
    id_column: IdColumn = None
    groups: File = option(None, "Text file with a label per query: rows with the same label are one query.")
    observe: bool = option(False, "Also remember these queries; see `kinrank observe`.")
    wait: Wait = LOCK_WAIT_SECONDS

    def read(self) -> tuple[Any, list[Any] | None, int]:
        """Read the vectors, their ids and their number."""
        if self.groups is not None and self.query_ids is not None:
            raise InputError("--groups gives the ids of the results; leave out --query-ids")
        rows, names = read_features(self.queries, self.id_column, self.query_ids, "query_ids")
        count = len(rows[0] if isinstance(rows, list) else rows)
        if names is not None and len(names) != count:
            raise InputError(f"--query-ids has {len(names)} ids but there are {count} queries; give one each")
        return rows, names, count


class SearchOptions(OptionGroup):
    """Number of results, and effort of the search."""

    title = "Search"
    k: int = option(10, "Number of results that should be certain.", "-k", "--k")
    depth: int | None = option(None, "Number of results. Default: k.")
    budget: int | None = option(None, "Maximum number of items to visit per query. Default: 5000, or 50 k if larger.")
    max_distance: float | None = option(None, "Leave out items farther than this. Default: no limit.")
    store: StoreUrl = None


class SearchFilters(FilterOptions):
    """Options that restrict the results, and items that the user has marked."""

    title = "Filters and marks"
    positives: str | None = option(None, "Ids of relevant items, separated by commas, or a file of ids.")
    negatives: str | None = option(None, "Ids of irrelevant items, in the same form.")


def search(
    folder: GalleryFolder, queries: QueryOptions, options: SearchOptions, filters: SearchFilters, output: RankingOutput
) -> None:
    """Search a prepared gallery. Queries are independent of each other and need not be in the gallery.

    \b
    kinrank search gallery.manifold --queries q.npy
    kinrank search gallery.manifold --queries q.npy -k 100 -o ranking.npz
    kinrank search gallery.manifold --queries q.npy --json
    kinrank search gallery.manifold --queries q.npy --where allowed.txt
    kinrank search gallery.manifold --queries one.npy --positives beach_3,beach_9 --negatives dune_4
    kinrank search gallery.manifold --queries shape.npy --queries colour.npy
    kinrank search pictures.manifold --store qdrant://localhost:6333?table=pictures --queries q.npy --filter kind=cat

    Without -o it prints the first results, or all of them as JSON. A k larger than the gallery returns all items. Items
    are listed by id; a gallery without ids uses item numbers, which do not change when other items are removed.
    --positives and --negatives need a gallery built by lpmt; with several queries they apply to each of them.
    """
    output.check(folder, *queries.queries, queries.query_ids, queries.groups, filters.where)
    rows, names, count = queries.read()
    with ExitStack() as stack:
        database = stack.enter_context(open_database(options.store))
        if queries.observe:
            manifold = stack.enter_context(kinrank.Manifold.changing(folder, wait=queries.wait, store=database))
        else:
            manifold = kinrank.Manifold.load(folder, store=database)
        ranking = manifold.search(
            rows,
            options.k,
            depth=options.depth,
            budget=options.budget,
            max_distance=options.max_distance,
            where=filters.read(options.store, lambda words: parse_ids(manifold, words)),
            positives=_read_marks(manifold, filters.positives, count, "--positives"),
            negatives=_read_marks(manifold, filters.negatives, count, "--negatives"),
            groups=read_id_file(queries.groups),
            observe=queries.observe,
        )
        remembered = manifold.n_observed
    ranking = ranking if queries.groups is not None else ranking.with_ids(query_ids=names)
    output.save(ranking)
    facts = describe_ranking(ranking)
    line = "{queries} queries x {depth} items, {mode}, {seconds:.3f} s"
    if facts.get("certain") is not None:
        line += f"; the first {min(options.k, ranking.depth)} certain for {facts['certain']:.0%}"
    if queries.observe:
        facts["observed"], line = remembered, line + "; {observed} queries are remembered"
    if output.output is not None:
        facts, line = {"output": str(output.output), **facts}, "{output}: " + line
    elif output.json:
        facts["results"] = [
            {"query": found.query_id, "items": [{"item": item, "distance": distance} for item, distance in found]}
            for found in ranking
        ]
    elif len(ranking):
        _print_table(ranking, output.quiet)
    output.print_summary(line, facts, output.output)


def _read_marks(manifold: Manifold, words: str | None, queries: int, flag: str) -> list[list[str | int]] | None:
    """Read marked items, separated by commas or one per line of a file, and repeat them for every query."""
    if words is None:
        return None
    known = set(map(str, manifold.ids.tolist()))
    named: list[str] | None = words.split(",")
    if not all(name.strip() in known for name in named or []) and os.path.isfile(words):  # False for very long words
        named = read_id_file(Path(words))
    marked = [name.strip() for name in named or [] if name.strip()]
    if not marked:
        raise InputError(f"{flag} has no id; give ids separated by commas, or a file of them, or leave it out")
    return [parse_ids(manifold, marked)] * queries


def _print_table(ranking: Ranking, quiet: bool) -> None:
    """Print the first MAX_PRINTED_LINES results, or all of them if `quiet`."""
    lines = [
        (found.query_id, rank, item, f"{distance:.4f}")
        for found in ranking
        for rank, (item, distance) in enumerate(found, start=1)
    ]
    shown = lines if quiet else lines[:MAX_PRINTED_LINES]
    print(align_columns([("query", "rank", "item", "distance"), *shown], right=(1, 3)))
    if len(lines) > len(shown):
        print(f"... and {len(lines) - len(shown)} more lines: write them with -o, or print them with --json")
    if not quiet:
        print()


def explain(
    folder: GalleryFolder,
    queries: QueryRows,
    item: str = option(..., "Id of the item."),
    query: int = option(0, "Row of the query, counted from 0."),
    flows: int = option(5, "Number of largest movements of mass to show per step."),
    output: File = option(None, "File for a figure of the chain: .png, .svg or .pdf.", "--output", "-o"),
    json: Json = False,
) -> None:
    """Show the chain of items from a query to a result, with each step's share of the cost, moved mass and entropy.

    \b
    kinrank explain gallery.manifold --queries q.npy --query 3 --item beach_17
    kinrank explain gallery.manifold --queries q.npy --query 3 --item 17 --json
    kinrank explain gallery.manifold --queries q.npy --query 3 --item 17 -o chain.svg

    Figures other than .svg need kinrank[plot].
    """
    check_output(output, FIGURE_SUFFIXES, folder, *queries)
    manifold = kinrank.Manifold.load(folder)
    parts = [read_vectors(path) for path in queries]
    for path, rows in zip(queries, parts, strict=True):
        if not 0 <= query < len(rows):
            raise InputError(f"--query {query} does not exist; {path} has {len(rows)} rows, counted from 0")
    vector = parts[0][query] if len(parts) == 1 else [rows[query] for rows in parts]
    chain = manifold.explain(vector, parse_ids(manifold, [item])[0], flows=flows)
    if output is not None:
        if output.suffix.lower() == ".svg":
            write_text(output, chain.to_svg())
        else:
            write_figure(output, chain.figure())
    if json:
        print_json(chain.to_dict())
    else:
        print(chain)
