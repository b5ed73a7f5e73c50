"""`kinrank bench diagnosis`: whether what is said without labels holds, on published sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kinrank.bench.diagnosis import PARTS, diagnosis
from kinrank.cli.bench_options import Anew, Append, Kept, Sets, cache_of, check, show
from kinrank.cli.inputs import words
from kinrank.cli.output import Json, Quiet, bars


def diagnose(
    data: Annotated[Path, typer.Option("--data", help="Folder with the published features.")],
    sets: Sets = None,
    parts: Annotated[str, typer.Option("--parts", help="What to measure.")] = ",".join(PARTS),
    cache: Kept = None,
    no_cache: Anew = False,
    output: Append = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Whether LPMT's gain is predicted without labels, and what parameters chosen without labels are worth. Joint.

    \b
    kinrank bench diagnosis --data DIR
    kinrank bench diagnosis --data DIR --parts gain --sets orl,mpeg7,coil20

    gain: the rule is fitted on all sets but one and predicts that one, in turn. thinned: the same sets with one, two,
    four, ... right answers per query. prepared: LPMT on centred and half-whitened vectors. Sets are read from files of
    fixed names, such as orl_pixels.npz; docs/datasets.md has all names.
    """
    check(output)
    names = None if sets is None else words(sets)
    show(diagnosis(data, names, words(parts), bars(quiet), cache_of(cache, no_cache)), output, json)
