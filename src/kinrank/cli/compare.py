"""`kinrank compare`: compare re-ranking methods on labelled data."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

import typer

import kinrank
from kinrank.cli.errors import exit_if_failed, spell_reasons
from kinrank.cli.input_files import FeatureOptions, FilesOrStore, open_database, split_commas, split_methods
from kinrank.cli.option_groups import File, OptionGroup, option
from kinrank.cli.output import FIGURE_SUFFIXES, OutputOptions, check_output, print_json, write_figure, write_text
from kinrank.cli.rerank import Candidates
from kinrank.cli.truth_options import TruthOptions
from kinrank.evaluation import Trials
from kinrank.lazy_import import import_extra
from kinrank.report import comparison

WRITERS: dict[str, Callable[[Trials], str]] = {
    ".csv": comparison.comparison_csv,
    ".html": comparison.comparison_page,
    ".md": comparison.comparison_markdown,
    ".tex": comparison.comparison_latex,
    ".json": lambda trials: json.dumps(trials.to_dict(), indent=2, ensure_ascii=False, allow_nan=False),
}
Methods = Annotated[str, typer.Option("--methods", help="Names separated by commas, see `kinrank methods`, or all.")]


class TrialOptions(OptionGroup):
    """Methods to compare, and how."""

    title = "Methods and measures"
    methods: Methods = "all"
    measures: str | None = option(None, "Such as mAP,mAP@10,R@1; the first one determines the order.")
    candidates: Candidates = None
    max_memory: str | None = option(None, "Leave out methods that need more memory than this, such as 2GB.")


class CompareOptions(TrialOptions):
    """Methods to compare, how many items they rank, and how they are tested."""

    tune: bool = option(False, "Choose the parameters of every method by cross-validation. Takes many times as long.")
    correction: str = option("holm", "Correction of the p-values for the number of methods: holm or none.")
    k: int | None = option(None, "Number of items to rank per query. Default: all, or --candidates.", "-k", "--k")


class ComparisonOutput(OutputOptions):
    """Files for the comparison."""

    output: File = option(None, "File for the table: .html, .md, .csv, .json or .tex.", "--output", "-o")
    plot: File = option(None, "File for a figure of the intervals: .png, .svg or .pdf.")

    def check(self, *inputs: File) -> None:
        """Check, before the work starts, that the files can be written."""
        check_output(self.output, tuple(WRITERS), *inputs)
        check_output(self.plot, FIGURE_SUFFIXES, *inputs)
        if self.plot is not None:
            import_extra("matplotlib", "--plot", "plot")  # fail now, not after an hour of work

    def write(self, trials: Trials) -> list[File]:
        """Write the table and the figure, and return their paths."""
        if self.output is not None:
            write_text(self.output, WRITERS[self.output.suffix.lower()](trials))
        if self.plot is not None:
            write_figure(self.plot, comparison.comparison_figure(trials))
        return [path for path in (self.output, self.plot) if path is not None]


def compare(
    context: typer.Context,
    vectors: FilesOrStore,
    features: FeatureOptions,
    truth: TruthOptions,
    options: CompareOptions,
    output: ComparisonOutput,
) -> None:
    """Try methods on your data and compare each with no re-ranking, query by query.

    \b
    kinrank compare --gallery all.npy --labels labels.csv
    kinrank compare --gallery g.npy --queries q.npy --query-labels ql.npy --gallery-labels gl.npy --methods lpmt,aqe
    kinrank compare --gallery g.npy --queries q.npy --truth qrels.txt -o table.html --plot table.png
    kinrank compare --store qdrant://localhost:6333?table=pictures --queries q.npy --truth qrels.txt

    Every method runs with its default parameters, or, with --tune, with parameters that were chosen on other queries.
    The table shows every measure with its 95 % interval, the gain over no re-ranking with its interval, the p-values of
    paired tests against no re-ranking and against the best method, and the time per query. A .tex file has superscripts
    for all significant differences. Methods that cannot rank the data, for example because they need too much memory,
    are listed with the reason. Figures need kinrank[plot].
    """
    vectors.check_source()
    output.check(*vectors.paths, *truth.paths)
    with open_database(vectors.store) as database:
        trials = kinrank.compare(
            *vectors.read(features, database),
            truth.read(*vectors.read_ids()),
            methods=split_methods(options.methods),
            measures=None if options.measures is None else split_commas(options.measures),
            candidates=options.candidates,
            k=options.k,
            max_memory=options.max_memory,
            progress=_print_run if options.tune and not (output.quiet or output.progress) else output.progress,
            metric=features.metric,
            correction=options.correction,
            tune=options.tune,
        )
    trials = replace(trials, refused=spell_reasons(trials.refused, context.command))
    files = output.write(trials)
    if output.json:
        print_json(trials.to_dict())
    elif not (output.quiet and files):
        print(trials)
        for path in files:
            print(f"written: {path}")
    exit_if_failed(trials.failed)


def _print_run(label: str, done: int, total: int) -> None:
    """Print the progress of a long comparison where no bar can be drawn."""
    print(f"kinrank: {done} of {total} {label}", file=sys.stderr)
