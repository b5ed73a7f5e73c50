"""`kinrank bench whitening`: what whitening vectors changes, on published sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kinrank.bench.whitening import whitening
from kinrank.cli.bench_options import Anew, Append, Kept, Sets, cache_of, check, going_on, show
from kinrank.cli.inputs import words
from kinrank.cli.output import Json, Quiet, bars


def whiten(
    data: Annotated[Path, typer.Option("--data", help="Folder with the published features.")],
    sets: Sets = None,
    powers: Annotated[str, typer.Option("--powers", help="Of the whitening, from 0 to 0.5.")] = "0,0.25,0.5",
    on: Annotated[str, typer.Option("--on", help="What it is learned on: gallery or others.")] = "gallery",
    cache: Kept = None,
    no_cache: Anew = False,
    output: Append = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """mAP of the search and of LPMT, joint, on vectors as they are and whitened.

    \b
    kinrank bench whitening --data DIR
    kinrank bench whitening --data DIR --sets orl,lfw --powers 0.25 --on others

    gallery: learned on the gallery that is searched. others: classes are dealt into two halves, five times, and
    each is searched with a whitening learned on the other, by variance (pca) and by pairs of the same class (learned).
    Sets are read from files of fixed names, such as orl_pixels.npz; docs/datasets.md has all names.
    """
    check(output)
    kept, names = cache_of(cache, no_cache), None if sets is None else words(sets)
    with going_on(kept, quiet):
        found = whitening(data, names, [_power(word) for word in words(powers)], on, bars(quiet), kept)
    show(found, output, json)


def _power(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"--powers {word!r} is not allowed; give numbers with commas between, as 0.25,0.5") from None
