"""`kinrank evaluate`: score a ranking, with intervals."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

import kinrank
from kinrank.cli.input_files import ItemIds, QueryIds, read_id_file, split_commas
from kinrank.cli.option_groups import option
from kinrank.cli.output import Json, check_paths_differ, print_json
from kinrank.cli.truth_options import TruthOptions
from kinrank.errors import TruncatedRankingWarning
from kinrank.ranking import Ranking


def evaluate(
    ranking: Annotated[Path, typer.Argument(help="File with a ranking: .npz, .trec, .csv or .parquet.")],
    truth: TruthOptions,
    measures: str | None = option(None, "Such as mAP,R@1,mP@10,nDCG@10,P@5,recall@100,MRR,CMC@1,mINP."),
    query_ids: QueryIds = None,
    item_ids: ItemIds = None,
    ties: str = option("rank", "Order of equal scores in a .trec: rank, or trec_eval."),
    json: Json = False,
) -> None:
    """Score a ranking: mean of every measure with its 95 % interval over the queries.

    \b
    kinrank evaluate ranking.npz --truth gnd_roxford5k.pkl --protocol hard
    kinrank evaluate run.trec --truth qrels.txt --measures mAP,nDCG@10
    kinrank evaluate ranking.npz --query-labels ql.npy --gallery-labels gl.npy

    A .pkl is read without executing anything in it.

    Queries and items are matched by their ids. A ranking without ids uses row and item numbers, counted from 0;
    --query-ids and --item-ids give their ids, in the order of the truth and of the gallery. Labels have no ids: if the
    ranking has some, --item-ids and --query-ids must give those of the labels.

    Equal scores in a .trec keep the order of its ranks. trec_eval ignores ranks and sorts them by descending id: --ties
    trec_eval does the same.
    """
    check_paths_differ(None, query_ids, item_ids)
    loaded = Ranking.load(ranking, ties=ties)
    relevant = truth.read(read_id_file(query_ids), read_id_file(item_ids))
    with warnings.catch_warnings():
        if not json:  # the table says the same
            warnings.simplefilter("ignore", TruncatedRankingWarning)
        scores = kinrank.evaluate(loaded, relevant, split_commas(measures) if measures else None)
    facts = {key: loaded.meta[key] for key in ("mode", "method") if key in loaded.meta}
    if json:
        print_json({**scores.to_dict(), **facts})
    else:
        print(scores)
        tied = _count_tied_queries(loaded) if ranking.suffix.lower() == ".trec" and ties == "rank" else 0
        if tied:
            print(f"{tied} queries have equal scores, which keep the order of their ranks; see --ties trec_eval")
        if "method" in facts:
            print(", ".join(map(str, facts.values())))


def _count_tied_queries(ranking: Ranking) -> int:
    """Count the queries that list two items at the same distance."""
    near, far = ranking.distances[:, :-1], ranking.distances[:, 1:]
    return int(((near == far) & (ranking.indices[:, 1:] >= 0)).any(axis=1).sum())
