"""Declaration of a bench: its function, its flags on the command line, and the tables of its record."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from kinrank_bench.record import Record
from kinrank_bench.tables import Table


class Option(NamedTuple):
    """Declares a parameter of a bench as a flag of its command: `Annotated[type, Option(...)]`.

    Sequences are given on the command line as words separated by commas. A parameter without an Option is for callers
    in Python. A parameter of a dataclass stands for the fields of that dataclass.

    Attributes:
        help: its description.
        flag: name of the flag, if it is not the name of the parameter.
        least, most: smallest and largest number, also of each number of a sequence.
    """

    help: str
    flag: str = ""
    least: float | None = None
    most: float | None = None


PathLike = str | os.PathLike[str]
Folder = Annotated[PathLike, Option("Folder with published features.", "data")]
OxfordFolder = Annotated[PathLike | None, Option("Folder with the features of ROxford5k.", "data")]
OxfordOrRandom = Annotated[
    PathLike | None, Option("Folder with the features of ROxford5k. Default: random data.", "data")
]
MethodNames = Annotated[Sequence[str], Option("Names separated by commas, or all.")]
SetNames = Annotated[Sequence[str], Option("Names of sets.")]
FoundSets = Annotated[Sequence[str] | None, Option("Names of sets. Default: all that are found.")]
Parts = Annotated[Sequence[str], Option("What to measure.")]
Sizes = Annotated[Sequence[int], Option("Numbers of items.", least=200)]
QueryLimit = Annotated[int, Option("Maximum number of queries per set.", "queries", least=1)]


@dataclass(frozen=True)
class Bench:
    """A bench, from which `kinrank bench NAME` is made.

    Attributes:
        name: its name in records and on the command line.
        run: measures. Its flags are the parameters declared with `Option`, its docstring is the help of the command. If
            it has a parameter `cache`, the command can keep and continue measurements; `progress` is a progress bar.
        show: makes the tables and sentences that are printed.
        summary: one line for the list of commands.
        render: makes the content of a file with the suffix .md, .tex or .csv, for `--table`.
        write_files: writes all files to a folder and returns their paths; then `--output` is that folder.
    """

    name: str
    run: Callable[..., Record]
    show: Callable[[Record], Iterable[Table | str]]
    summary: str
    render: Callable[[Record, str], str] | None = None
    write_files: Callable[[Record, Path], list[Path]] | None = None

    @property
    def help(self) -> str:
        """Help of the command: the docstring of `run`, without the sections for callers in Python."""
        return re.split(r"\n\n(?:Args|Returns):", inspect.getdoc(self.run) or "")[0]


def option_of(hint: Any) -> Option | None:
    """Return the Option of an annotation, if it has one."""
    return next((entry for entry in getattr(hint, "__metadata__", ()) if isinstance(entry, Option)), None)
