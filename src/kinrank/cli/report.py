"""`kinrank report`: your vectors and what is right -> a page that shows what re-ranking does to them, and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from kinrank.cli.compare import VECTORS, Candidates, ItemIds, MaxMemory, Measures, Methods, Queries, QueryIds
from kinrank.cli.inputs import CheckRows, GalleryKey, Metric, QueriesKey, Weights, combined, features, methods_in, words
from kinrank.cli.names import read_names
from kinrank.cli.output import Json, Quiet, bars, print_json, separate, writable
from kinrank.cli.truths import (
    LABELS,
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
from kinrank.files.names import read_labels

PICTURED = "A folder or zip of pictures called like the items, or as many as these, in the order of their names."


def report(
    context: typer.Context,
    gallery: Annotated[list[Path] | None, typer.Option("--gallery", "-g", help=VECTORS)] = None,
    queries: Queries = None,
    methods: Methods = "none,lpmt,aqe,cas",
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
    online: Annotated[
        bool, typer.Option("--online", help="One query at a time, against a gallery that is prepared once.")
    ] = False,
    max_memory: MaxMemory = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML page to write.")] = Path(
        "kinrank-report.html"
    ),
    images: Annotated[File, typer.Option("--images", help=PICTURED)] = None,
    query_images: Annotated[
        File, typer.Option("--query-images", help="The same for the queries. Without: those of --images, by name.")
    ] = None,
    texts: Annotated[
        File, typer.Option("--texts", help="What is shown of items: .txt, .csv, .tsv, .json, .jsonl or .parquet.")
    ] = None,
    query_texts: Annotated[File, typer.Option("--query-texts", help="The same for the queries.")] = None,
    data: Annotated[File, typer.Option("--data", help="A folder of published sets, instead of files.")] = None,
    set_name: Annotated[str | None, typer.Option("--set", help="Which of the published sets in --data.")] = None,
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
    """Write a page of evidence: every method with intervals, every query's change, results before and after, and why.

    \b
    kinrank report --gallery all.npy --labels labels.csv --images photos
    kinrank report --gallery g.npy --queries q.npy --truth qrels.txt --texts texts.csv -o report.html
    kinrank report --data DIR --set roxford5k

    The page is one file that needs no network. It shows the chains behind the largest gains and losses where lpmt is
    among the methods, and maps by t-SNE where kinrank[tsne] is installed. Pictures need kinrank[web]. The sets of
    --data are read from files of fixed names, such as orl_pixels.npz; docs/datasets.md has all names.
    """
    writable(output, (".html", ".htm"))
    files = [truth, labels, query_labels, gallery_labels, query_cameras, gallery_cameras, query_ids, item_ids, texts,
             query_texts, images, query_images]  # fmt: skip
    read = [*(gallery or []), *(queries or []), *(path for path in files if path is not None)]
    separate(output, *read)
    if data is not None:
        if read:
            raise ValueError(f"--data {data} has all it needs; leave out other files, such as {read[0]}")
        from kinrank.cli.report_looks import published

        material = published(data, set_name, protocol)
    elif set_name is not None:
        raise ValueError(f"--set {set_name} needs the folder that holds it; give --data")
    elif not gallery:
        raise ValueError("there is nothing to report on; give --gallery, or a published set with --data")
    else:
        rows = combined(features(gallery, gallery_key)[0], feature_weights, check_rows)
        asked = features(queries, queries_key)[0] if queries else None
        names = read_names(query_ids), read_names(item_ids)
        cameras = query_cameras, gallery_cameras
        right, usual = truth_from(
            truth, protocol, labels, query_labels, gallery_labels, labels_key, *names, binary, cameras
        )
        shown = {"images": (images, query_images), "texts": (texts, query_texts)}
        known = _classes(truth, labels, query_labels, gallery_labels, labels_key)
        material = _material(rows, asked, right, usual, names, shown, known)
    _write(context, material, methods, measures, output, json, quiet,
           candidates=candidates, online=online, max_memory=max_memory, metric=metric)  # fmt: skip


def _classes(truth: File, labels: File, query_labels: File, gallery_labels: File, key: str | None) -> tuple[Any, Any]:
    """Labels of the items and of the queries, where there are files of them."""
    if truth is not None and truth.suffix.lower() in LABELS:
        labels = truth
    if labels is not None:
        return read_labels(labels, key), None
    if query_labels is None or gallery_labels is None:
        return None, None
    return read_labels(gallery_labels, key), read_labels(query_labels, key)


def _material(
    rows: Any, asked: Any, right: Any, usual: str, names: tuple[Any, Any], shown: dict[str, tuple[File, File]],
    known: tuple[Any, Any],
) -> Any:  # fmt: skip
    from kinrank.cli.report_looks import Material, looks_of

    (images, query_images), (texts, query_texts) = shown["images"], shown["texts"]
    items = looks_of("item", len(rows), names[1], right.items, images, texts, known[0])
    queries = None
    if asked is not None:
        count = len(asked[0]) if isinstance(asked, list) else len(asked)
        queries = looks_of("query", count, names[0], right.queries, query_images, query_texts, known[1], images)
    elif query_images is not None or query_texts is not None:
        raise ValueError("--query-images and --query-texts are for --queries; without them every item asks")
    return Material(asked, rows, right, usual.split(","), items, queries, "What re-ranking does to your data")


def _write(
    context: typer.Context, material: Any, methods: str, measures: str | None, output: Path, json: bool, quiet: bool,
    **settings: Any,
) -> None:  # fmt: skip
    from kinrank.report.evidence import evidence_page, gather
    from kinrank.report.html import write_page

    found = gather(
        material.queries,
        material.gallery,
        material.truth,
        methods_in(methods),
        words(measures) if measures is not None else material.measures,
        items=material.items,
        asked=material.asked,
        title=material.title,
        progress=bars(quiet),
        **settings,
    )
    trials = replace(found.trials, refused=refused_in_flags(found.trials.refused, context))
    found = replace(found, trials=trials)
    write_page(output, evidence_page(found))
    if json:
        print_json({**found.trials.to_dict(), "page": str(output)})
    elif not quiet:
        print(found.trials)
        print(f"\nThe page: {output}")
