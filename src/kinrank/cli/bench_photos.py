"""`kinrank bench photos`: pictures encoded in a second, and what re-ranking gains on them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kinrank.bench.photos import photos as measured
from kinrank.cli.bench_options import Append, check, show
from kinrank.cli.encoding import (
    Device,
    Encoder,
    Model,
    Preprocessing,
    Scales,
    Size,
    WeightsFile,
    Whitened,
    options_of,
)
from kinrank.cli.output import Json, Quiet, bars


def photos(
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Folder with ROxford5k's thumbnails and truth. Without: toys drawn on the spot."),
    ] = None,
    encoder: Encoder = None,
    model: Model = None,
    weights: WeightsFile = None,
    scales: Scales = None,
    size: Size = None,
    preprocessing: Preprocessing = None,
    whitening: Whitened = None,
    device: Device = None,
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
    options = asdict(options_of(model, weights, scales, size, device, preprocessing, whitening))
    given = {name: value for name, value in options.items() if value is not None}
    show(measured(data, encoder, given, bars(quiet)), output, json)
