"""`kinrank tune` and `kinrank diagnose`: choose parameters, with or without labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import typer

import kinrank
from kinrank.cli.compare import Methods
from kinrank.cli.errors import exit_if_failed, flag_spelling, spell_reasons
from kinrank.cli.input_files import FeatureOptions, GalleryFiles, split_commas, split_methods
from kinrank.cli.methods import format_flags
from kinrank.cli.option_groups import File, OptionGroup, option
from kinrank.cli.output import OutputOptions, check_paths_differ, check_writable, print_json
from kinrank.cli.truth_options import TruthOptions
from kinrank.diagnosis import Tuned
from kinrank.diagnosis.parameter_choice import resolve_methods
from kinrank.errors import InputError, replace_references
from kinrank.files.atomic import atomic_write
from kinrank.methods import Method
from kinrank.methods.base import full_repr

VECTOR_FILES = ("gallery.npy", "queries.npy")  # in the folder of --vectors-to


class TuningOptions(OptionGroup):
    """Methods to tune, and how to choose among their parameters."""

    title = "Methods"
    methods: Methods = "lpmt"
    measure: str = option("mAP", "Measure to maximise.")
    folds: int = option(5, "Number of folds of the cross-validation.", min=2, max=50)
    seed: int = option(0, "Seed of the random split into folds.", min=0)
    prepare: bool = option(True, "Also try centred and half-whitened vectors.", "--prepare/--no-prepare")
    vectors_to: File = option(None, "Folder for the prepared vectors: gallery.npy and queries.npy.")

    def check(self, *inputs: File) -> None:
        """Check, before anything is read, that the prepared vectors can be written."""
        check_paths_differ(None, *inputs)
        if self.vectors_to is None:
            return
        if self.vectors_to.exists() and not self.vectors_to.is_dir():
            raise InputError(f"--vectors-to {self.vectors_to} is not a folder; give the path of one")
        for name in VECTOR_FILES:
            check_paths_differ(self.vectors_to / name, *inputs)
        check_writable(self.vectors_to / VECTOR_FILES[0] if self.vectors_to.is_dir() else self.vectors_to)


def tune(
    context: typer.Context,
    vectors: GalleryFiles,
    features: FeatureOptions,
    truth: TruthOptions,
    options: TuningOptions,
    output: OutputOptions,
) -> None:
    """Choose parameters by a few dozen judged queries.

    \b
    kinrank tune --gallery g.npy --queries q.npy --truth qrels.txt
    kinrank tune --gallery all.npy --labels labels.csv --methods lpmt,aqe,cas

    It tries parameters and chooses by cross-validation; the reported number comes from queries that had no part in the
    choice. Without labels, `kinrank diagnose` predicts whether re-ranking will help, and chooses parameters.
    """
    candidates = resolve_methods(split_commas(options.methods) and split_methods(options.methods))
    options.check(*vectors.paths, *truth.paths)
    if not any(truth.paths):
        raise InputError(
            "there are no labels; give --truth, --labels or others, or use `kinrank diagnose` without them, with "
            "--right for the number of relevant items per query"
        )
    queries, gallery = vectors.read(features)
    relevant = truth.read(*vectors.read_ids())
    tuned = kinrank.tune(
        queries,
        gallery,
        relevant,
        methods=candidates,
        measure=options.measure,
        metric=features.metric or "cosine",
        prepare=options.prepare,
        folds=options.folds,
        seed=options.seed,
        progress=output.progress,
    )
    tuned = replace(tuned, refused=spell_reasons(tuned.refused, context.command))
    if options.vectors_to is not None:
        _write_vectors(tuned, options.vectors_to, gallery, queries)
    if output.json:
        print_json(tuned.to_dict())
    else:
        print(tuned)
        if tuned.preparation is not None and options.vectors_to is None:
            print(f"\nIts vectors are {tuned.way}: --vectors-to writes them to a folder, for gallery and queries.")
        print(f"\n{_format_command(tuned.method, features.metric)}")
    exit_if_failed(tuned.failed)


def diagnose(
    context: typer.Context,
    vectors: GalleryFiles,
    features: FeatureOptions,
    output: OutputOptions,
    methods: Methods = "lpmt",
    right: float | None = option(
        None, "Number of relevant items per query, about. The gain depends on it.", "--right", "--relevant", min=1
    ),
) -> None:
    """Predict, without labels, whether re-ranking will help on your vectors, and choose parameters.

    \b
    kinrank diagnose --gallery g.npy
    kinrank diagnose --gallery g.npy --queries q.npy --right 1

    It measures neighbourhoods and predicts the gain or loss of LPMT for the number of relevant items that you give, or
    else for 1, 2, 4, 8 and 16 of them. With a few dozen judged queries `kinrank tune` chooses better.
    """
    candidates = resolve_methods(split_commas(methods) and split_methods(methods))
    check_paths_differ(None, *vectors.paths)
    queries, gallery = vectors.read(features)
    diagnosis = kinrank.diagnose(
        gallery, queries=queries, right=right, metric=features.metric or "cosine", progress=output.progress
    )
    chosen = [diagnosis.parameters(method) for method in candidates]
    spell = flag_spelling(context.command)
    sentences = [replace_references(sentence, spell) for sentence in diagnosis.sentences]
    if output.json:
        parameters = {method.name: full_repr(method) for method in chosen}
        print_json({**diagnosis.to_dict(), "sentences": sentences, "parameters": parameters})
        return
    print("\n".join(sentences))
    head = "Chosen without labels"
    if diagnosis.helps is False:
        loses = diagnosis.gain is None or round(diagnosis.gain.points) < 0
        head = f"{'Keep the search as it is' if loses else 'Little will change'}. If you re-rank, this loses least"
    print(f"\n{head}; add --gallery, --queries and -o:")
    for method in chosen:
        print(_format_command(method, features.metric))


def _write_vectors(tuned: Tuned, folder: Path, gallery: Any, queries: Any) -> None:
    folder.mkdir(exist_ok=True)
    for name, vectors in zip(VECTOR_FILES, (gallery, queries), strict=True):
        if vectors is not None:
            with atomic_write(folder / name) as file:
                np.save(file, tuned.prepared(vectors))


def _format_command(method: Method, metric: str | None) -> str:
    return f"kinrank rerank {format_flags(method)}" + ("" if metric is None else f" --metric {metric}")
