"""`kinrank tune`: your vectors -> whether re-ranking will help, and with which parameters; with labels, chosen by them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import kinrank
from kinrank.cli.compare import VECTORS, ItemIds, Methods, Queries, QueryIds
from kinrank.cli.flags import flags_of
from kinrank.cli.inputs import CheckRows, GalleryKey, QueriesKey, Weights, combined, features
from kinrank.cli.names import read_names
from kinrank.cli.output import Json, Quiet, bars, print_json
from kinrank.cli.truths import (
    Binary,
    File,
    GalleryLabels,
    Labels,
    LabelsKey,
    Protocol,
    QueryLabels,
    TruthFile,
    truth_from,
)
from kinrank.features import check
from kinrank.files.atomic import replacing
from kinrank.methods import Method, resolve


def tune(
    gallery: Annotated[list[Path], typer.Option("--gallery", "-g", help=VECTORS)],
    queries: Queries = None,
    methods: Methods = "lpmt",
    right: Annotated[
        float | None, typer.Option("--right", min=1, help="How many right answers a query has, if you know it.")
    ] = None,
    truth: TruthFile = None,
    protocol: Protocol = None,
    labels: Labels = None,
    query_labels: QueryLabels = None,
    gallery_labels: GalleryLabels = None,
    labels_key: LabelsKey = None,
    measure: Annotated[str, typer.Option("--measure", help="What to choose by, with labels.")] = "mAP",
    folds: Annotated[int, typer.Option("--folds", min=2, max=50, help="Of the cross-validation.")] = 5,
    seed: Annotated[int, typer.Option("--seed", min=0, help="How queries are dealt into folds.")] = 0,
    prepare: Annotated[
        bool, typer.Option("--prepare/--no-prepare", help="Try centred and half-whitened vectors, too.")
    ] = True,
    vectors_to: Annotated[
        File, typer.Option("--vectors-to", help="Folder for the vectors as chosen, gallery.npy and queries.npy.")
    ] = None,
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
    """Whether re-ranking is likely to help on your vectors, and with which parameters.

    \b
    kinrank tune --gallery g.npy
    kinrank tune --gallery g.npy --queries q.npy --right 1
    kinrank tune --gallery g.npy --queries q.npy --truth qrels.txt
    kinrank tune --gallery all.npy --labels labels.csv --methods lpmt,aqe,cas

    Without labels it looks at neighbourhoods only, says what LPMT is expected to gain, and when it is likely to hurt.
    With a few dozen judged queries it tries parameters and chooses by cross-validation; the number it reports is of
    queries that had no part in the choice.
    """
    rows = combined(features(gallery, gallery_key)[0], feature_weights, check_rows)
    asked = features(queries, queries_key)[0] if queries else None
    chosen = [resolve(word.strip()) for word in methods.split(",") if word.strip()]
    if all(path is None for path in (truth, labels, query_labels, gallery_labels)):
        _without_labels(rows, asked, right, chosen, json, quiet)
        return
    if vectors_to is not None and vectors_to.exists() and not vectors_to.is_dir():
        raise ValueError(f"--vectors-to {vectors_to} is not a folder; give the name of one")
    if right is not None:
        raise ValueError("--right is for vectors without labels; labels say how many right answers there are")
    names = read_names(query_ids), read_names(item_ids)
    judged, _ = truth_from(truth, protocol, labels, query_labels, gallery_labels, labels_key, *names, binary)
    found = kinrank.tune(
        asked, rows, judged, chosen, measure, prepare=prepare, folds=folds, seed=seed, progress=bars(quiet)
    )
    if vectors_to is not None:
        vectors_to.mkdir(parents=True, exist_ok=True)
        for name, vectors in (("gallery", rows), ("queries", asked)):
            if vectors is not None:
                with replacing(vectors_to / f"{name}.npy") as file:
                    np.save(file, found.prepared(check(vectors, name)))
    if json:
        print_json(found.to_dict())
        return
    print(found)
    print(f"\nkinrank rerank {flags_of(found.method)}")


def _without_labels(rows: Any, asked: Any, right: float | None, methods: list[Method], json: bool, quiet: bool) -> None:
    seen = kinrank.diagnose(rows, asked, right=right, progress=bars(quiet))
    chosen = [seen.parameters(method) for method in methods]
    if json:
        print_json({**seen.to_dict(), "parameters": {one.name: one.spelled_out() for one in chosen}})
        return
    print(seen)
    print("\nParameters without labels:")
    for method in chosen:
        print(f"kinrank rerank {flags_of(method)}")
