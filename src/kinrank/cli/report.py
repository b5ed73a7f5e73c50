"""`kinrank report` and `kinrank demo`: HTML pages that show what re-ranking does, on your data or on toy images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from kinrank.cli.compare import Methods, TrialOptions
from kinrank.cli.errors import exit_if_failed, spell_reasons
from kinrank.cli.input_files import FeatureOptions, VectorFiles, split_commas, split_methods
from kinrank.cli.option_groups import File, OptionGroup, option
from kinrank.cli.output import OutputOptions, check_paths_differ, check_writable
from kinrank.cli.truth_options import TruthOptions
from kinrank.datasets.published_sets import import_set_display
from kinrank.errors import InputError
from kinrank.evaluation.trials import Trials
from kinrank.report.demo import run_demo
from kinrank.warmup import compile_meanwhile

IMAGES_HELP = "Folder or .zip of images named like the items; or one per item, in the order of their names."


class ReportVectors(VectorFiles):
    """Files of vectors, or a published set instead of them."""

    data: File = option(None, "Folder of published sets, instead of files.")
    set_name: str | None = option(None, "Name of the published set in --data.", "--set")


class ReportTrials(TrialOptions):
    """Methods to report on, and how."""

    methods: Methods = "none,lpmt,aqe,cas"
    online: bool = option(False, "Answer one query at a time from a prepared gallery.")


class DisplayFiles(OptionGroup):
    """Images and texts of items and queries."""

    title = "Images and texts"
    images: File = option(None, IMAGES_HELP)
    query_images: File = option(None, "Images of the queries. Default: those of --images, by name.")
    texts: File = option(None, "Texts of the items: .txt, .csv, .tsv, .json, .jsonl or .parquet.")
    query_texts: File = option(None, "Texts of the queries.")


class PageOutput(OutputOptions):
    """The page to write."""

    output: Path = option(Path("kinrank-report.html"), "The HTML page to write.", "--output", "-o")


class DemoOutput(PageOutput):
    """The page to write, of the demo."""

    output: Path = option(Path("kinrank-demo.html"), "The HTML page to write.", "--output", "-o")


def report(
    context: typer.Context,
    vectors: ReportVectors,
    features: FeatureOptions,
    truth: TruthOptions,
    options: ReportTrials,
    display: DisplayFiles,
    output: PageOutput,
) -> None:
    """Write a page that shows the scores of every method, the change of every query, and results before and after.

    \b
    kinrank report --gallery all.npy --labels labels.csv --images photos
    kinrank report --gallery g.npy --queries q.npy --truth qrels.txt --texts texts.csv -o report.html
    kinrank report --data DIR --set roxford5k

    The page is one file that needs no network. If lpmt is among the methods, it explains the largest gains and losses
    by their chains. It has t-SNE maps if kinrank[tsne] is installed. Images need kinrank[web]. --data needs
    kinrank[bench], and files with fixed names, such as orl_pixels.npz; docs/datasets.md lists them.
    """
    check_writable(output.output, (".html", ".htm"))
    shown = [display.texts, display.query_texts, display.images, display.query_images]
    files = [path for path in (*vectors.paths, *truth.paths, *shown) if path is not None]
    check_paths_differ(output.output, *files)
    if vectors.data is not None:
        if files:
            raise InputError(f"--data {vectors.data} is complete; leave out other files, such as {files[0]}")
        material = import_set_display().load_published_set(vectors.data, vectors.set_name, truth.protocol)
    elif vectors.set_name is not None:
        raise InputError(f"--set {vectors.set_name} needs the folder that holds it; give --data")
    elif not vectors.gallery:
        raise InputError("there is nothing to report on; give --gallery, or a published set with --data")
    else:
        material = _read_material(vectors, features, truth, display)
    from kinrank.report.evidence import RunOptions, evidence_page, gather
    from kinrank.report.html import write_page

    if options.measures is not None:
        material = replace(material, measures=split_commas(options.measures))
    run = RunOptions(options.candidates, options.online, options.max_memory, features.metric)
    evidence = gather(material, split_methods(options.methods), run, output.progress)
    trials = replace(evidence.trials, refused=spell_reasons(evidence.trials.refused, context.command))
    write_page(output.output, evidence_page(replace(evidence, trials=trials)))
    _print_trials(trials, output)


def _print_trials(trials: Trials, output: PageOutput) -> None:
    facts = {**trials.to_dict(), "page": str(output.output)}
    output.print_result(f"{trials}\n\nThe page: {output.output}", facts)
    exit_if_failed(trials.failed)


def _read_material(vectors: VectorFiles, features: FeatureOptions, truth: TruthOptions, display: DisplayFiles) -> Any:
    """Read the data of a report from the files of the user."""
    from kinrank.cli.report_inputs import DisplaySources, build_display
    from kinrank.report.evidence import ReportInput

    queries, gallery = vectors.read(features)
    query_ids, item_ids = vectors.read_ids()
    relevant = truth.read(query_ids, item_ids)
    item_classes, query_classes = truth.read_classes()
    shown = DisplaySources(item_ids, relevant.items, display.images, display.texts, item_classes)
    items, query_display = build_display("item", len(gallery), shown), None
    if queries is not None:
        count = len(queries[0]) if isinstance(queries, list) else len(queries)
        shown = DisplaySources(
            query_ids, relevant.queries, display.query_images, display.query_texts, query_classes, display.images
        )
        query_display = build_display("query", count, shown)
    elif display.query_images is not None or display.query_texts is not None:
        raise InputError("--query-images and --query-texts need --queries; without it the items are the queries")
    return ReportInput(queries, gallery, relevant, list(relevant.usual_measures), items, query_display)


def demo(output: DemoOutput) -> None:
    """Re-rank images of toys on a turntable and write a page that shows the result. Needs no data and no network."""
    check_writable(output.output, (".html", ".htm"))
    with compile_meanwhile("steps", needed=True):
        evidence = run_demo(output.output, output.progress)
    _print_trials(evidence.trials, output)
