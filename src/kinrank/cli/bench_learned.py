"""`kinrank bench learned`: what the learned methods gain, by what they were fitted on, over several seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kinrank.bench.learned import learned
from kinrank.cli.bench_options import Append, check, count, show
from kinrank.cli.inputs import words
from kinrank.cli.output import Json, Quiet, bars


def learn(
    data: Annotated[Path, typer.Option("--data", help="Folder with the published features.")],
    sets: Annotated[str, typer.Option("--sets", help="Which sets.")] = "roxford5k,caltech101",
    methods: Annotated[str, typer.Option("--methods", help="Some of csa, ssr, lattqe.")] = "csa,ssr,lattqe",
    seeds: Annotated[str, typer.Option("--seeds", help="Of the fits.")] = "0,1,2",
    output: Append = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """mAP of the learned methods, joint, fitted on pseudo-labels and on labels, and of methods without weights.

    \b
    kinrank bench learned --data DIR
    kinrank bench learned --data DIR --sets caltech101 --methods csa --seeds 0

    Pseudo-labels: of the gallery that is searched. Labels: classes are dealt into two halves; fitted on the labels of
    one, judged on the other, and, for csa and ssr, on the other sets. The last step of a fit counts, never the best
    one. Needs torch: pip install 'kinrank[torch]'.
    """
    check(output)
    starts = [count(word, "--seeds", 0) for word in words(seeds)]
    show(learned(data, words(sets), words(methods), starts, bars(quiet)), output, json)
