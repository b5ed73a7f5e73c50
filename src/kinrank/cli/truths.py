"""What is right: the flags that say so, and the files behind them -> a Truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from numpy.typing import NDArray

from kinrank.datasets.base import Arrays
from kinrank.evaluation import Truth
from kinrank.evaluation.splits import is_split
from kinrank.files.names import read_labels

LABELS = (".npy", ".npz", ".csv")
File = Path | None
TruthFile = Annotated[
    File,
    typer.Option(
        "--truth",
        help="Ground truth .pkl of revisited Oxford or Paris, TREC qrels .txt, a split list .txt, or labels.",
    ),
]
Protocol = Annotated[str | None, typer.Option("--protocol", help="easy, medium (unless given) or hard, for a .pkl.")]
Labels = Annotated[File, typer.Option("--labels", help="Labels .npz, .npy or .csv of items that query each other.")]
QueryLabels = Annotated[File, typer.Option("--query-labels", help="Labels of the queries.")]
GalleryLabels = Annotated[File, typer.Option("--gallery-labels", help="Labels of the gallery.")]
QueryCameras = Annotated[
    File,
    typer.Option(
        "--query-cameras",
        help="Which camera took each query, one per line; with --query-labels: who is on it. The own camera's pictures "
        "of that person do not count, nor those labelled -1.",
    ),
]
GalleryCameras = Annotated[File, typer.Option("--gallery-cameras", help="The same for the gallery.")]
LabelsKey = Annotated[str | None, typer.Option("--labels-key", help="Which array of an .npz holds the labels.")]
Binary = Annotated[bool, typer.Option("--binary", help="Relevance above 0 in qrels counts as 1 (for nDCG).")]


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
    cameras: tuple[File, File] = (None, None),
) -> tuple[Truth, str]:
    """What is right, from whichever kind of file was given, and the measures usual for it; `cameras` as the labels."""
    pair = query_labels is not None or gallery_labels is not None
    if [truth is not None, labels is not None, pair].count(True) != 1:
        raise ValueError("say what is right, once: --truth, or --labels, or --query-labels with --gallery-labels")
    if cameras != (None, None) and (None in cameras or not pair):
        raise ValueError(
            "--query-cameras and --gallery-cameras belong together, and with --query-labels and --gallery-labels"
        )
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
        if cameras[0] is not None and cameras[1] is not None:
            took = (_cameras(cameras[0]), _cameras(cameras[1]))
            return Truth.across_cameras(*both, *took, item_ids=item_ids, query_ids=query_ids), "mAP,CMC@1,mINP"
        return Truth.from_labels(*both, item_ids=item_ids, query_ids=query_ids), "mAP,R@1"
    if revisited:
        return Truth.revisited(truth, protocol or "medium", item_ids=item_ids, query_ids=query_ids), "mAP,mP@10"
    if is_split(truth):
        if query_ids is not None or item_ids is not None:
            raise ValueError(f"{truth} names its queries and items itself; leave out --query-ids and --item-ids")
        return Truth.from_split(truth), "mAP,R@1"
    return Truth.from_qrels(truth, query_ids, item_ids, graded=not binary), "mAP,nDCG@10"


def _cameras(path: Path) -> NDArray[Any]:
    """One camera per picture, from a file as labels have them; the array cam of an .npz."""
    if path.suffix.lower() == ".npz":
        return Arrays(path, "cameras are its array cam, or a .npy, .csv or .txt")["cam"]
    return read_labels(path)
