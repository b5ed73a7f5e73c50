"""`kinrank evaluate`: a ranking and what is right -> scores with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import kinrank
from kinrank.cli.inputs import words
from kinrank.cli.names import read_names
from kinrank.cli.output import Json, print_json, separate
from kinrank.cli.truths import (
    Binary,
    File,
    GalleryCameras,
    GalleryLabels,
    Labels,
    LabelsKey,
    Protocol,
    QueryCameras,
    QueryLabels,
    TruthFile,
    truth_from,
)
from kinrank.files.rankings import load_ranking

if TYPE_CHECKING:
    from kinrank.ranking import Ranking


def evaluate(
    ranking: Annotated[Path, typer.Argument(help="A ranking: .npz, .trec or .csv.")],
    truth: TruthFile = None,
    protocol: Protocol = None,
    labels: Labels = None,
    query_labels: QueryLabels = None,
    gallery_labels: GalleryLabels = None,
    query_cameras: QueryCameras = None,
    gallery_cameras: GalleryCameras = None,
    labels_key: LabelsKey = None,
    measures: Annotated[
        str | None, typer.Option("--measures", help="Such as mAP,R@1,mP@10,nDCG@10,P@5,recall@100,MRR,CMC@1,mINP.")
    ] = None,
    query_ids: Annotated[
        File,
        typer.Option("--query-ids", help="Text file of the queries' names, one per line, in the order of the truth."),
    ] = None,
    item_ids: Annotated[
        File, typer.Option("--item-ids", help="The same for the items: all of the gallery, in its order.")
    ] = None,
    binary: Binary = False,
    ties: Annotated[
        str, typer.Option("--ties", help="Equal scores of a .trec: by their rank, or as trec_eval orders them.")
    ] = "rank",
    json: Json = False,
) -> None:
    """Score a ranking: mean of every measure with its 95 % interval over the queries.

    \b
    kinrank evaluate ranking.npz --truth gnd_roxford5k.pkl --protocol hard
    kinrank evaluate run.trec --truth qrels.txt --measures mAP,nDCG@10
    kinrank evaluate ranking.npz --query-labels ql.npy --gallery-labels gl.npy

    A .pkl is read without executing anything in it.

    Queries and items are matched by their names. A ranking without names goes by row and item number, counted from 0;
    --query-ids and --item-ids say which names these are. Labels have no names: if the ranking has some, --item-ids and
    --query-ids must say whose labels they are.

    Equal scores in a .trec keep the order of its ranks. trec_eval ignores ranks and puts the item whose name comes last
    in the alphabet first: --ties trec_eval does the same.
    """
    separate(None, query_ids, item_ids)
    found = load_ranking(ranking, ties=ties)
    names = read_names(query_ids), read_names(item_ids)
    cameras = query_cameras, gallery_cameras
    right, usual = truth_from(
        truth, protocol, labels, query_labels, gallery_labels, labels_key, *names, binary, cameras
    )
    wanted = words(measures or usual)
    scores = kinrank.evaluate(found, right, wanted)
    facts = {key: found.meta[key] for key in ("mode", "method") if key in found.meta}
    if json:
        print_json({**scores.to_dict(), **facts})
    else:
        print(scores)
        tied = _tied(found) if ranking.suffix.lower() == ".trec" and ties == "rank" else 0
        if tied:
            print(f"{tied} queries have equal scores, which keep the order of their ranks; see --ties trec_eval")
        if "method" in facts:
            print(", ".join(map(str, facts.values())))


def _tied(ranking: Ranking) -> int:
    """How many queries list two items at one distance."""
    near, far = ranking.distances[:, :-1], ranking.distances[:, 1:]
    return int(((near == far) & (ranking.indices[:, 1:] >= 0)).any(axis=1).sum())
