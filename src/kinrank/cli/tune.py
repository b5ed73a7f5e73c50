"""`kinrank tune`: your vectors -> whether re-ranking will help, and with which parameters; chosen by labels, if any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import kinrank
from kinrank.cli.compare import VECTORS, ItemIds, Methods, Queries, QueryIds
from kinrank.cli.flags import flags_of
from kinrank.cli.inputs import CheckRows, GalleryKey, Metric, QueriesKey, Weights, combined, features, methods_in, words
from kinrank.cli.names import read_names
from kinrank.cli.output import Json, Quiet, bars, print_json, separate, writable
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
from kinrank.cli.wording import in_flags, refused_in_flags
from kinrank.diagnosis import Diagnosis, Tuned
from kinrank.diagnosis.choosing import named
from kinrank.files.atomic import replacing
from kinrank.methods import Method

WRITTEN = ("gallery.npy", "queries.npy")  # into the folder of --vectors-to


def tune(
    context: typer.Context,
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
    chosen = named(words(methods) and methods_in(methods))
    labelled = any(path is not None for path in (truth, labels, query_labels, gallery_labels))
    read = (*gallery, *(queries or []), truth, labels, query_labels, gallery_labels, query_ids, item_ids)
    _check(vectors_to, read, right, labelled)
    rows = combined(features(gallery, gallery_key)[0], feature_weights, check_rows)
    asked = features(queries, queries_key)[0] if queries else None
    commands, lengths = context.find_root().command, metric or "cosine"
    if not labelled:
        seen = kinrank.diagnose(rows, queries=asked, right=right, metric=lengths, progress=bars(quiet))
        _show_seen(seen, [seen.parameters(method) for method in chosen], metric, json, commands)
        return
    names = read_names(query_ids), read_names(item_ids)
    judged, _ = truth_from(truth, protocol, labels, query_labels, gallery_labels, labels_key, *names, binary)
    options: dict[str, Any] = {"prepare": prepare, "folds": folds, "seed": seed, "metric": lengths}
    found = kinrank.tune(asked, rows, judged, chosen, measure, **options, progress=bars(quiet))
    found = replace(found, refused=refused_in_flags(found.refused, context))
    if vectors_to is not None:
        _write(found, vectors_to, rows, asked)
    _show_found(found, vectors_to, metric, json)


def _check(vectors_to: File, read: Sequence[File], right: float | None, labelled: bool) -> None:
    """Refuse, before anything is read, what cannot be done."""
    separate(None, *read)
    if right is not None and labelled:
        raise ValueError("--right is for vectors without labels; labels say how many right answers there are")
    if vectors_to is None:
        return
    if not labelled:
        raise ValueError("--vectors-to writes the vectors that labels chose; give labels, or leave it out")
    if vectors_to.exists() and not vectors_to.is_dir():
        raise ValueError(f"--vectors-to {vectors_to} is not a folder; give the name of one")
    for name in WRITTEN:
        separate(vectors_to / name, *read)
    writable(vectors_to / WRITTEN[0] if vectors_to.is_dir() else vectors_to)


def _write(found: Tuned, folder: Path, gallery: Any, queries: Any) -> None:
    folder.mkdir(exist_ok=True)
    for name, vectors in zip(WRITTEN, (gallery, queries), strict=True):
        if vectors is not None:
            with replacing(folder / name) as file:
                np.save(file, found.prepared(vectors))


def _show_found(found: Tuned, vectors_to: File, metric: str | None, json: bool) -> None:
    if json:
        print_json(found.to_dict())
        return
    print(found)
    if found.preparation is not None and vectors_to is None:
        print(
            f"\nIts vectors are {found.way}: --vectors-to writes them into a folder, for the gallery and the queries."
        )
    print(f"\n{_command(found.method, metric)}")


def _show_seen(seen: Diagnosis, chosen: list[Method], metric: str | None, json: bool, commands: Any) -> None:
    said = [in_flags(sentence, commands, ["tune"]) for sentence in seen.sentences]
    if json:
        parameters = {one.name: one.spelled_out() for one in chosen}
        print_json({**seen.to_dict(), "sentences": said, "parameters": parameters})
        return
    print("\n".join(said))
    head = "Chosen without labels" if seen.helps else "Leave the search as it is. If you re-rank, this loses least"
    print(f"\n{head}; add --gallery, --queries and -o:")
    for method in chosen:
        print(_command(method, metric))


def _command(method: Method, metric: str | None) -> str:
    return f"kinrank rerank {flags_of(method)}" + ("" if metric is None else f" --metric {metric}")
