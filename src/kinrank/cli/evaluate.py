"""`kinrank evaluate`: a ranking and what is right -> scores with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import kinrank
from kinrank.cli.names import read_labels, read_names
from kinrank.cli.output import Json, print_json, separate
from kinrank.evaluation import Truth
from kinrank.files.rankings import load_ranking

if TYPE_CHECKING:
    from kinrank.evaluation import Truth
    from kinrank.ranking import Ranking

LABELS = (".npy", ".npz", ".csv")
File = Path | None


def evaluate(
    ranking: Annotated[Path, typer.Argument(help="A ranking: .npz, .trec or .csv.")],
    truth: Annotated[
        File,
        typer.Option("--truth", help="Ground truth .pkl of revisited Oxford or Paris, TREC qrels .txt, or labels."),
    ] = None,
    protocol: Annotated[
        str | None, typer.Option("--protocol", help="easy, medium (unless given) or hard, for a .pkl.")
    ] = None,
    labels: Annotated[
        File, typer.Option("--labels", help="Labels .npz, .npy or .csv of items that query each other.")
    ] = None,
    query_labels: Annotated[File, typer.Option("--query-labels", help="Labels of the queries.")] = None,
    gallery_labels: Annotated[File, typer.Option("--gallery-labels", help="Labels of the gallery.")] = None,
    labels_key: Annotated[
        str | None, typer.Option("--labels-key", help="Which array of an .npz holds the labels.")
    ] = None,
    measures: Annotated[
        str | None, typer.Option("--measures", help="Such as mAP,R@1,mP@10,nDCG@10,P@5,recall@100,MRR.")
    ] = None,
    query_ids: Annotated[
        File,
        typer.Option("--query-ids", help="Text file of the queries' names, one per line, in the order of the truth."),
    ] = None,
    item_ids: Annotated[
        File, typer.Option("--item-ids", help="The same for the items: all of the gallery, in its order.")
    ] = None,
    binary: Annotated[
        bool, typer.Option("--binary", help="Relevance above 0 in qrels counts as 1 (for nDCG).")
    ] = False,
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
    right, usual = truth_from(truth, protocol, labels, query_labels, gallery_labels, labels_key, *names, binary)
    wanted = [word.strip() for word in (measures or usual).split(",")]
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


def truth_from(
    truth: File,
    protocol: str | None,
    labels: File,
    query_labels: File,
    gallery_labels: File,
    key: str | None,
    query_ids: list[str] | None,
    item_ids: list[str] | None,
    binary: bool,
) -> tuple[Truth, str]:
    """What is right, from whichever kind of file was given, and the measures usual for it."""
    pair = query_labels is not None or gallery_labels is not None
    if [truth is not None, labels is not None, pair].count(True) != 1:
        raise ValueError("say what is right, once: --truth, or --labels, or --query-labels with --gallery-labels")
    if truth is not None and truth.suffix.lower() in LABELS:
        truth, labels = None, truth
    revisited = truth is not None and truth.suffix.lower() in (".pkl", ".pickle")
    if protocol is not None and not revisited:
        raise ValueError(f"--protocol {protocol} is for a ground truth .pkl only; leave it out")
    if labels is not None:
        return Truth.from_labels(read_labels(labels, key), item_ids=item_ids, query_ids=query_ids), "mAP,R@1"
    if truth is None:
        if query_labels is None or gallery_labels is None:
            raise ValueError("--query-labels and --gallery-labels belong together; give both")
        both = read_labels(query_labels, key), read_labels(gallery_labels, key)
        return Truth.from_labels(*both, item_ids=item_ids, query_ids=query_ids), "mAP,R@1"
    if revisited:
        names = {"item_ids": item_ids, "query_ids": query_ids}
        return Truth.revisited(truth, protocol or "medium", **names), "mAP,mP@10"
    return Truth.from_qrels(truth, query_ids, item_ids, graded=not binary), "mAP,nDCG@10"
