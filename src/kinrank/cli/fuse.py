"""`kinrank fuse`: fuse several rankings into one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import kinrank
from kinrank.cli.input_files import ItemIds, QueryIds, parse_numbers, read_id_file
from kinrank.cli.option_groups import option
from kinrank.cli.output import RankingFile, describe_ranking
from kinrank.ranking import Ranking


def fuse(
    rankings: Annotated[list[Path], typer.Argument(help="Two or more rankings: .npz, .trec, .csv or .parquet.")],
    output: RankingFile,
    k: int | None = option(None, "Number of results per query. Default: all.", "-k", "--k"),
    rank_constant: float = option(60, "A larger constant gives the first ranks less weight."),
    weights: str | None = option(None, "One number >= 0 per ranking, such as 2,1. Default: all equal."),
    query_ids: QueryIds = None,
    item_ids: ItemIds = None,
) -> None:
    """Fuse rankings by reciprocal rank fusion: an item scores the sum of weight / (rank constant + its rank).

    \b
    kinrank fuse images.npz texts.npz -o both.npz
    kinrank fuse ours.npz theirs.trec --weights 2,1 -o both.trec

    Only ranks count, so rankings of different models and programs can be fused. They must rank the same queries.
    --query-ids and --item-ids are for rankings without ids.
    """
    output.check(*rankings, query_ids, item_ids)
    shares = None if weights is None else parse_numbers(weights, "weights")
    names = read_id_file(query_ids), read_id_file(item_ids)
    loaded = [_load_with_ids(path, *names) for path in rankings]
    fused = kinrank.fuse(loaded, rank_constant=rank_constant, weights=shares, k=k)
    output.save(fused)
    facts = {"output": str(output.output), **describe_ranking(fused)}
    output.print_summary("{output}: {queries} queries x {depth} items, {method}", facts, output.output)


def _load_with_ids(path: Path, query_ids: list[str] | None, item_ids: list[str] | None) -> Ranking:
    """Load a ranking with the ids of its file, or else those of the command line."""
    ranking = Ranking.load(path)
    return ranking.with_ids(
        item_ids=item_ids if ranking.has_numbers_only else None,
        query_ids=query_ids if ranking.query_ids is None else None,
    )
