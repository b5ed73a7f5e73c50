"""Output of commands: tables or one JSON document on stdout, and checks of the files to write."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinrank.cli.option_groups import File, OptionGroup, option
from kinrank.errors import InputError, UnappliedChangesWarning
from kinrank.files.atomic import atomic_write, resolve_path
from kinrank.files.atomic import check_writable as check_writable
from kinrank.files.user_folders import scratch_folder
from kinrank.files.vector_files import split_key
from kinrank.progress import ProgressLines, ProgressOption

if TYPE_CHECKING:
    from kinrank.ranking import Ranking

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
STDIO_PATH = Path("-")  # standard input or standard output
RANKING_FACTS = ("mode", "method", "metric", "certain", "settled", "budget", "seconds")  # certain etc. only online
RANKING_HELP = "Ranking to write: .npz, .trec, .csv or .parquet; - for stdout."
RANKING_SUFFIXES = (".npz", ".trec", ".csv", ".parquet")
FIGURE_SUFFIXES = (".png", ".svg", ".pdf")


def silence(quiet: bool) -> bool:
    """With `quiet`, let this process print results, errors and warnings about lost data, and nothing else."""
    logging.getLogger("kinrank").setLevel(logging.ERROR if quiet else logging.NOTSET)
    if quiet:
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UnappliedChangesWarning)
    return quiet


class QuietOption(OptionGroup):
    """Option of a command that prints little."""

    title = "Output"
    quiet: bool = option(
        False, "Print only the result, errors, and warnings about lost data.", "--quiet", "-q", callback=silence
    )

    @property
    def progress(self) -> ProgressOption:
        """Bars on a terminal, a line every ten seconds elsewhere, and nothing if quiet."""
        return False if self.quiet else sys.stderr.isatty() or ProgressLines()


class OutputOptions(QuietOption):
    """Options of the text that a command prints."""

    json: Json = False

    def print_result(self, text: str, facts: Any, piped: bool = False) -> None:
        """Print facts as JSON, or the text unless quiet: to stdout, or to stderr if stdout carries the result."""
        if self.json or not self.quiet:
            print(_format_json(facts) if self.json else text, file=sys.stderr if piped else sys.stdout)

    def print_summary(self, line: str, facts: dict[str, Any], output: File = None) -> None:
        """Print facts as JSON, or in a line, which is a template."""
        piped = output == STDIO_PATH
        self.print_result(line.format(**{**facts, "output": "standard output"} if piped else facts), facts, piped)


class RankingOutput(OutputOptions):
    """Options of a command that prints a ranking or writes it."""

    output: File = option(None, f"{RANKING_HELP} Default: print the first results.", "--output", "-o")
    format: str | None = option(None, "csv (default) or trec, for `-o -`.")

    def check(self, *inputs: File) -> None:
        """Check, before the work starts, that the ranking can be written, and is none of the inputs."""
        if self.output is not None and self.output != STDIO_PATH:
            if self.format is not None:
                raise InputError("--format is for -o - only; otherwise the suffix of the path decides")
        elif self.format not in (None, "csv", "trec"):
            raise InputError(f"--format {self.format!r} is unknown; give csv or trec")
        check_output(self.output, RANKING_SUFFIXES, *inputs)

    def save(self, ranking: Ranking, query_ids: Any = None, item_ids: Any = None) -> None:
        """Write the ranking to its file, or to standard output for `-`."""
        if self.output is None:
            return
        ranking = ranking.with_ids(item_ids=item_ids, query_ids=query_ids)
        if self.output != STDIO_PATH:
            ranking.save(self.output)
            return
        with scratch_folder() as folder:
            path = folder / f"ranking.{self.format or 'csv'}"
            ranking.save(path)
            sys.stdout.flush()
            with path.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)


class RankingFile(RankingOutput):
    """Options of a command that always writes a ranking."""

    output: Path = option(..., RANKING_HELP, "--output", "-o")


def describe_ranking(ranking: Ranking) -> dict[str, Any]:
    """Return facts about a ranking as plain values."""
    facts = {"queries": len(ranking), "depth": ranking.depth}
    facts |= {name: ranking.meta[name] for name in RANKING_FACTS if name in ranking.meta}
    return facts | ({"seconds": round(float(facts["seconds"]), 6)} if "seconds" in facts else {})


def print_json(document: Any) -> None:
    """Print one document, the only output on stdout. NaN and infinity, which JSON lacks, raise a ValueError."""
    print(_format_json(document))


def _format_json(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_write(path) as file:
        file.write(text.encode())


def write_figure(path: Path, figure: Any) -> None:
    """Write a matplotlib figure atomically, in the format of its suffix."""
    with atomic_write(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower())


def check_output(output: File, suffixes: Sequence[str], *inputs: File) -> None:
    """Check, before the work starts, that a file, if any, can be written, and is none of the inputs."""
    if output is not None and output != STDIO_PATH:
        check_writable(output, suffixes)
    check_paths_differ(output, *inputs)


def check_paths_differ(output: File, *inputs: File) -> None:
    """Refuse, before anything is read, an output that would overwrite an input, and two inputs from standard input.

    This covers links, other spellings of a path, inputs inside an output folder, and outputs inside an input folder.
    """
    paths = [split_key(path)[0] for path in inputs if path is not None]
    if paths.count(STDIO_PATH) > 1:
        raise InputError("only one input can be - (standard input)", remedy="give files for the others")
    if output is None or output == STDIO_PATH:
        return
    for path in paths:
        if path == STDIO_PATH:
            continue
        if _is_same_file(output, path):
            raise InputError(f"writing {output} would overwrite the input {path}; choose another path")
        if any(_is_same_file(output, parent) for parent in resolve_path(path).parents):
            raise InputError(f"the input {path} is inside the output {output}; copy it to another place first")
        if path.is_dir() and any(_is_same_file(path, parent) for parent in resolve_path(output).parents):
            raise InputError(f"the output {output} is inside the input {path}; choose another path")


def _is_same_file(first: Path, second: Path) -> bool:
    try:
        return os.path.samefile(first, second)
    except (OSError, ValueError):  # one of them does not exist, or its name is not valid
        return False
