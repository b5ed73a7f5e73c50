"""`kinrank bench photos`: pictures encoded in a second, and what re-ranking gains on them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kinrank.bench.photos import photos as measured
from kinrank.cli.bench_options import Append, check, show
from kinrank.cli.encoding import Encoder, with_encoder
from kinrank.cli.output import Json, Quiet, bars
from kinrank.encoders import Options


@with_encoder
def photos(
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Folder with ROxford5k's thumbnails and truth. Without: toys drawn on the spot."),
    ] = None,
    encoder: Encoder = None,
    options: Options = Options(),  # noqa: B008 - its flags come from with_encoder
    output: Append = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Encode a folder of pictures, search it, re-rank it: how fast, and how much better.

    \b
    kinrank bench photos
    kinrank bench photos --data DIR --encoder efficientnet-lite --model lite2
    """
    check(output)
    given = {name: value for name, value in asdict(options).items() if value is not None}
    show(measured(data, encoder, given, bars(quiet)), output, json)
