"""`kinrank compare`: your vectors and what is right -> which method is best on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import kinrank
from kinrank.cli.inputs import (
    AGAIN,
    CheckRows,
    GalleryKey,
    Metric,
    QueriesKey,
    Weights,
    combined,
    features,
    methods_in,
    words,
)
from kinrank.cli.names import read_names
from kinrank.cli.output import Json, Quiet, bars, print_json, separate, writable
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
from kinrank.cli.wording import refused_in_flags
from kinrank.evaluation import Trials
from kinrank.files.atomic import replacing
from kinrank.report import comparison

WRITERS: dict[str, Callable[[Trials], str]] = {
    ".csv": comparison.comparison_csv,
    ".html": comparison.comparison_page,
    ".md": comparison.comparison_markdown,
    ".json": lambda trials: json.dumps(trials.to_dict(), indent=2, ensure_ascii=False, allow_nan=False),
}
FIGURES = (".png", ".svg", ".pdf")
VECTORS = f"Vectors to rank, one row per item. {AGAIN}"
Queries = Annotated[
    list[Path] | None, typer.Option("--queries", help="Vectors that ask. Without: every item queries the others.")
]
Methods = Annotated[
    str, typer.Option("--methods", help="Names with commas between them, see `kinrank methods`, or all.")
]
Measures = Annotated[
    str | None, typer.Option("--measures", help="Such as mAP,mAP@10,R@1; the first decides about the order.")
]
Candidates = Annotated[
    int | None,
    typer.Option("--candidates", help="Re-rank only so many nearest items per query, in a graph of their own."),
]
MaxMemory = Annotated[
    str | None, typer.Option("--max-memory", help="A method that needs more, such as 2GB, is left out.")
]
QueryIds = Annotated[
    File, typer.Option("--query-ids", help="Text file of the queries' names, one per line, for qrels.")
]
ItemIds = Annotated[File, typer.Option("--item-ids", help="The same, for the items.")]


def compare(
    context: typer.Context,
    gallery: Annotated[list[Path], typer.Option("--gallery", "-g", help=VECTORS)],
    queries: Queries = None,
    methods: Methods = "all",
    truth: TruthFile = None,
    protocol: Protocol = None,
    labels: Labels = None,
    query_labels: QueryLabels = None,
    gallery_labels: GalleryLabels = None,
    query_cameras: QueryCameras = None,
    gallery_cameras: GalleryCameras = None,
    labels_key: LabelsKey = None,
    measures: Measures = None,
    candidates: Candidates = None,
    max_memory: MaxMemory = None,
    output: Annotated[
        File, typer.Option("--output", "-o", help="The table as a file: .html, .md, .csv or .json.")
    ] = None,
    plot: Annotated[File, typer.Option("--plot", help="A figure of the intervals: .png, .svg or .pdf.")] = None,
    metric: Metric = None,
    feature_weights: Weights = None,
    check_rows: CheckRows = True,
    queries_key: QueriesKey = None,
    gallery_key: GalleryKey = None,
    query_ids: QueryIds = None,
    item_ids: ItemIds = None,
    binary: Binary = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Try all or some methods on your data and compare each with no re-ranking, query by query.

    \b
    kinrank compare --gallery all.npy --labels labels.csv
    kinrank compare --gallery g.npy --queries q.npy --query-labels ql.npy --gallery-labels gl.npy --methods lpmt,aqe
    kinrank compare --gallery g.npy --queries q.npy --truth qrels.txt -o table.html --plot table.png

    Every method runs at its defaults. The table has every measure with its 95 % interval, what is gained over no
    re-ranking with the interval and p of a paired test, and the time per query. Methods that refuse, because they would
    need too much memory for example, are listed with the reason. Figures need kinrank[plot].
    """
    if output is not None:
        writable(output, tuple(WRITERS))
    if plot is not None:
        writable(plot, FIGURES)
        comparison.figure_class()  # whether figures can be drawn is known now, not after an hour of work
    for path in (output, plot):
        said = (truth, labels, query_labels, gallery_labels, query_cameras, gallery_cameras, query_ids, item_ids)
        separate(path, *gallery, *(queries or []), *said)
    asked = features(queries, queries_key)[0] if queries else None
    offered = combined(features(gallery, gallery_key)[0], feature_weights, check_rows)
    names = read_names(query_ids), read_names(item_ids)
    cameras = query_cameras, gallery_cameras
    right, usual = truth_from(
        truth, protocol, labels, query_labels, gallery_labels, labels_key, *names, binary, cameras
    )
    trials = kinrank.compare_methods(
        asked,
        offered,
        right,
        methods_in(methods),
        words(measures or usual),
        candidates=candidates,
        max_memory=max_memory,
        progress=bars(quiet),
        metric=metric,
    )
    trials = replace(trials, refused=refused_in_flags(trials.refused, context))
    _write(trials, output, plot)
    if json:
        print_json(trials.to_dict())
        return
    written = [path for path in (output, plot) if path is not None]
    if not (quiet and written):
        print(trials)
        for path in written:
            print(f"written: {path}")


def _write(trials: Trials, output: File, plot: File) -> None:
    if output is not None:
        with replacing(output) as file:
            file.write(WRITERS[output.suffix.lower()](trials).encode())
    if plot is not None:
        figure = comparison.comparison_figure(trials)
        with replacing(plot) as file:
            figure.savefig(file, format=plot.suffix[1:].lower())
