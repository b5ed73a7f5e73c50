"""`kinrank.embed`: encode images or texts, in memory or to files, with resumption after an interruption."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from kinrank.encoders.base import PICTURES, TEXTS, Encoder, Options
from kinrank.encoders.embed_checkpoint import EncodeCheckpoint, count_cores, encode_missing
from kinrank.encoders.encoder_registry import DEFAULT_ENCODERS, Recipe
from kinrank.encoders.item_sources import Boxes, ItemChoice, Source, SourceInput, check_names, open_source
from kinrank.errors import InputError, MissingFileError
from kinrank.files.atomic import atomic_write, resolve_path
from kinrank.files.numpy_files import read_npy
from kinrank.files.user_folders import scratch_folder
from kinrank.files.vector_files import FACTS_SUFFIX
from kinrank.parameters import check_whole_number
from kinrank.progress import Progress, ProgressOption
from kinrank.vector_input import Vectors

BLOCK_ROWS = 4096  # copied at a time
OPENING_STAGE = "opening the encoder"
OPTION_NAMES = tuple(option.name for option in fields(Options))
MAX_NAMED_ITEMS = 5  # listed in an error
PLACEHOLDER = "{pooling}"  # in the name of the output, for the name of each pooling


@dataclass(frozen=True)
class Embedded:
    """Vectors of images or texts, with ids and provenance.

    Attributes:
        vectors: (n, d) array, one row per item; a memory map if they were written to a file.
        ids: names of the items, in the order of the rows.
        skipped: name -> reason why the item has no vector.
        left_out: reason why files are not items, such as links out of the folder -> number of files.
        facts: description of the encoder: name, model, checksum of the weights and so on.
        seconds: duration of this call, without the time before an interruption.
        pooled: pooling -> its vectors, if the option `pooling` was given; `vectors` and `facts` are those of the first.
    """

    vectors: Vectors
    ids: list[str]
    skipped: dict[str, str]
    left_out: dict[str, int]
    facts: dict[str, Any]
    seconds: float = field(compare=False)
    pooled: dict[str, Vectors] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        count, dimensions = self.vectors.shape
        return f"Embedded({count} x {dimensions}, {len(self.skipped)} skipped, {self.facts['encoder']})"


def embed(
    source: SourceInput,
    encoder: str | Encoder | None = None,
    output: str | os.PathLike[str] | None = None,
    *,
    content: str | None = None,
    names: str | os.PathLike[str] | Sequence[str] | None = None,
    boxes: Boxes | None = None,
    boxes_size: int | None = None,
    column: str | None = None,
    id_column: str | None = None,
    on_error: str = "skip",
    batch: int = 1,
    workers: int | None = None,
    progress: ProgressOption = None,
    **options: Any,
) -> Embedded:
    """Encode images or texts.

    With `batch=1` the same input gives the same bits, on any number of cores, also after an interruption.

    Args:
        source: a folder (searched recursively), a zip, an image, or a list of paths (.txt); a file of texts (.txt with
            one per line, .csv, .tsv, .json, .jsonl, .parquet) or a folder of .txt and .md files; or a sequence of
            paths, of Pillow images, or of texts.
        encoder: a name in `kinrank.encoders.ENCODERS`, your own function as "package.module:function", or an Encoder.
            Default: "efficientnet-lite" for images and "minilm" for texts.
        output: a .npy file to write. Its names, one per line, are written to .names.txt and its provenance to
            .embed.json next to it. After an interruption, repeat the call to continue. With several poolings, its name
            contains "{pooling}", which stands for the name of each: one file per pooling.
        content: "pictures" or "texts", if the source could be both.
        names: selection and order of the items: a sequence, a text file with one per line, a split list as published
            for CUB-200 (`folder/class/picture.jpg 0`), or a revisited ground truth (its `imlist`).
        boxes: name -> (left, top, right, bottom) in pixels, a .csv of these, or a revisited ground truth (its queries).
            Only these images are encoded, each cropped to its box first.
        boxes_size: longest side in pixels of the images to which the boxes refer, if yours are copies of another size,
            such as thumbnails.
        column, id_column: columns of a table that contain the texts and their ids.
        on_error: "skip" to skip and list items that cannot be encoded, or "raise".
        batch: number of items per call of the encoder. Larger batches help on a GPU; on a CPU 1 is fastest.
        workers: number of threads, each with its own batch; by default the number of cores.
        progress: True for a bar, or a callable `f(label, done, total)`.
        options: of the encoder: model, weights, scales, size, device, preprocessing, whitening; pooling, one or more of
            the names in `kinrank.encoders.descriptors.DESCRIPTORS`, all from one pass over the images.

    Example:
        >>> photos = kinrank.embed("photos", output="photos.npy", progress=True)
        >>> manifold = kinrank.Manifold.build(photos.vectors, ids=photos.ids)
    """
    started = time.perf_counter()
    if on_error not in ("skip", "raise"):
        raise InputError(parameter="on_error", given=on_error, allowed="skip or raise")
    batch = check_whole_number(batch, "batch")
    workers = count_cores() if workers is None else check_whole_number(workers, "workers")
    unknown = set(options) - set(OPTION_NAMES)
    if unknown:
        raise InputError(
            "is not an option of an encoder", parameter=min(unknown), allowed=f"one of {', '.join(OPTION_NAMES)}"
        )
    read = (source, names, boxes, options.get("weights"), options.get("preprocessing"))
    poolings = tuple(encoder.columns) if isinstance(encoder, Encoder) else Options(**options).pooling or ()
    targets = {} if output is None else _check_outputs(output, poolings, read)
    report = Progress(progress)
    named = _open_named_encoder(encoder, options, report)
    able = (PICTURES, TEXTS) if named is None else named.kinds
    items = open_source(source, ItemChoice(content, names, boxes, boxes_size, column, id_column), able)
    if targets:
        check_names(items.names)  # they are written one per line; check this before hours of work
    chosen_encoder = named or report.run(
        OPENING_STAGE, Recipe(DEFAULT_ENCODERS[items.content], Options(**options)).open
    )
    with ExitStack() as stack:
        if output is None:
            folder = stack.enter_context(scratch_folder()) / "part"
        else:
            folder = Path(f"{os.fspath(output).replace(PLACEHOLDER, '+'.join(poolings))}.part")
        with EncodeCheckpoint.open_folder(
            folder, chosen_encoder.facts, chosen_encoder.dimensions, items.identity
        ) as part:
            encode_missing(items, items.names, chosen_encoder, part, batch, workers, report)
            ids, numbers, skipped = _collect_outcomes(items, part)
            if skipped and (on_error == "raise" or not ids):
                raise InputError(_describe_skips(skipped, bool(ids)))
            facts, end = {**chosen_encoder.facts, "content": items.content}, 0
            whole = part.vectors(numbers) if output is None else np.empty((0, 0), np.float32)
            found: list[Embedded] = []
            for name, width in (chosen_encoder.columns or {"": chosen_encoder.dimensions}).items():
                columns, end = slice(end, end + width), end + width
                own = {**facts, "pool": name} if name else facts
                made = Embedded(np.ascontiguousarray(whole[:, columns]), ids, skipped, dict(items.skipped), own, 0.0)
                vectors = _write_files(targets[name], made, part, numbers, columns) if targets else made.vectors
                found.append(replace(made, vectors=vectors))
    pooled = {name: made.vectors for name, made in zip(chosen_encoder.columns, found, strict=False)}
    return replace(found[0], seconds=time.perf_counter() - started, pooled=pooled)


def _open_named_encoder(encoder: str | Encoder | None, options: dict[str, Any], report: Progress) -> Encoder | None:
    """Open the requested encoder before anything is read; return None if the source determines it."""
    if isinstance(encoder, Encoder):
        if options:
            raise InputError(
                "is for encoders given by name, but this one is already open", parameter=next(iter(options))
            )
        return encoder
    return None if encoder is None else report.run(OPENING_STAGE, Recipe(encoder, Options(**options)).open)


def output_paths(output: str | os.PathLike[str], poolings: Sequence[str]) -> dict[str, Path]:
    """Return the path of every pooling; that of "" if none was chosen."""
    path = os.fspath(output)
    if PLACEHOLDER in path and not poolings:
        raise InputError(f"contains {PLACEHOLDER}", parameter="output", given=path, remedy="also give `pooling`")
    if PLACEHOLDER not in path and len(poolings) > 1:
        raise InputError(
            f"is one file for {len(poolings)} poolings",
            parameter="output",
            given=path,
            remedy=f"put {PLACEHOLDER} into its name, such as photos_{PLACEHOLDER}.npy",
        )
    return {name: Path(path.replace(PLACEHOLDER, name)) for name in poolings or ("",)}


def _check_outputs(output: str | os.PathLike[str], poolings: Sequence[str], read: Sequence[Any]) -> dict[str, Path]:
    """Return the output paths. Raise InputError if one of the files to write would overwrite an input."""
    paths = output_paths(output, poolings)
    return {name: _check_output(path, read) for name, path in paths.items()}


def _check_output(path: Path, read: Sequence[Any]) -> Path:
    if path.suffix.lower() != ".npy":
        raise InputError(
            "does not end in .npy", parameter="output", given=os.fspath(path), allowed="the name of a .npy file"
        )
    if not path.parent.is_dir():
        raise MissingFileError(f"the folder {path.parent} does not exist; create it, or choose another path")
    inputs = [resolve_path(entry) for entry in read if isinstance(entry, (str, os.PathLike))]
    for written in (path, names_path(path), facts_path(path)):
        if resolve_path(written) in inputs:
            raise InputError(f"writing {written} would overwrite an input", remedy="choose another `output`")
    return path


def names_path(path: Path) -> Path:
    """Return the path of the names file."""
    return path.with_suffix(".names.txt")


def facts_path(path: Path) -> Path:
    """Return the path of the provenance file."""
    return path.with_suffix(FACTS_SUFFIX)


def _collect_outcomes(items: Source, part: EncodeCheckpoint) -> tuple[list[str], list[int], dict[str, str]]:
    """Return the items that have a vector, the numbers of their rows, and the skipped items with reasons."""
    ids, numbers, skipped = [], [], {}
    for name in items.names:
        try:
            outcome = part.lookup(name, items.stamp(name))
        except InputError as error:
            skipped[name] = str(error)
            continue
        if outcome is None:
            skipped[name] = "it changed during encoding; run this again"
        elif outcome.row is None:
            skipped[name] = str(outcome.why)
        else:
            ids.append(name)
            numbers.append(outcome.row)
    return ids, numbers, skipped


def _describe_skips(skipped: dict[str, str], others: bool) -> str:
    listed = "; ".join(f"{name!r:.100}: {why}" for name, why in list(skipped.items())[:MAX_NAMED_ITEMS])
    more = f"; and {len(skipped) - MAX_NAMED_ITEMS} more" if len(skipped) > MAX_NAMED_ITEMS else ""
    if not others:
        return f"none of the {len(skipped)} items can be encoded: {listed}{more}; nothing was written"
    return f"{len(skipped)} items cannot be encoded: {listed}{more}; repair or remove them, or give `on_error='skip'`"


def _write_files(path: Path, found: Embedded, part: EncodeCheckpoint, numbers: list[int], columns: slice) -> Vectors:
    """Write the three files, the vectors last and in blocks. Return the vectors as a memory map."""
    with atomic_write(names_path(path)) as file:
        file.write("".join(f"{name}\n" for name in found.ids).encode())
    provenance = {"made by": found.facts, "items": len(numbers), "skipped": found.skipped, "left out": found.left_out}
    with atomic_write(facts_path(path)) as file:
        file.write(json.dumps(provenance, indent=1, ensure_ascii=False).encode())
    with atomic_write(path) as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (len(numbers), columns.stop - columns.start)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(numbers), BLOCK_ROWS):
            file.write(part.vectors(numbers[start : start + BLOCK_ROWS])[:, columns].tobytes())
    return read_npy(path)
