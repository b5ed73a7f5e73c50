"""`kinrank watch`: a folder of pictures, or texts -> a prepared gallery that follows it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kinrank.cli.encoding import Content, Encoder, TextColumn, TextIds, with_encoder
from kinrank.cli.output import Json, Quiet, bars, print_json
from kinrank.encoders import Options
from kinrank.watching import Followed, follow
from kinrank.watching.loop import watch as looked_at
from kinrank.watching.places import watched

SHOWN = 5  # names of each kind that are printed


@with_encoder
def watch(
    source: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A folder or .zip of pictures, or texts, as for `kinrank embed`.")
    ],
    manifold: Annotated[
        str,
        typer.Argument(
            metavar="MANIFOLD",
            help="The prepared gallery to keep in step: a folder, made where it is not there; or the address of a "
            "service.",
        ),
    ],
    once: Annotated[bool, typer.Option("--once", help="Look once and end, as for a nightly job.")] = False,
    every: Annotated[float, typer.Option("--every", min=0.1, max=86_400, help="Seconds between two looks.")] = 2.0,
    join: Annotated[
        bool, typer.Option("--join", help="Put items into a gallery that was made otherwise, by the same encoder.")
    ] = False,
    token: Annotated[
        str | None, typer.Option("--token", envvar="KINRANK_TOKEN", help="What a service with tokens asks for.")
    ] = None,
    encoder: Encoder = None,
    options: Options = Options(),  # noqa: B008 - its flags come from with_encoder
    content: Content = None,
    column: TextColumn = None,
    id_column: TextIds = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Keep a prepared gallery in step with a folder: what comes is added, what changes replaced, what goes removed.

    \b
    kinrank watch photos photos.manifold
    kinrank watch photos photos.manifold --once
    kinrank watch photos http://127.0.0.1:8000 --join
    kinrank watch notes.csv --column body notes.manifold

    The first time everything is encoded and the gallery built; later only what changed. What is known of each file
    stands in MANIFOLD.source.json. A gallery that is being served is changed through its service: give the address of
    that. A folder that cannot be read, or is empty, removes nothing.
    """
    followed = watched(
        source, manifold, encoder, options, content=content, columns=(column, id_column), token=token, join=join
    )
    if json and not once:
        raise ValueError("--json prints one document; give --once with it")

    def tell(found: Followed) -> None:
        if not quiet:
            print(f"{manifold}: {found}", flush=True)
            for name, why in list(found.skipped.items())[:SHOWN]:
                print(f"  skipped {name}: {why}", flush=True)

    def trouble(words: str) -> None:
        print(f"kinrank: {' '.join(words.split())}", file=sys.stderr, flush=True)

    found = follow(*followed, progress=bars(quiet))
    if json:
        print_json({"manifold": manifold, "added": found.added, "changed": found.changed, "removed": found.removed,
                    "skipped": found.skipped, "items": found.items})  # fmt: skip
        return
    tell(found)
    if not once:
        looked_at(followed, every, None, tell, trouble, bars(quiet))
