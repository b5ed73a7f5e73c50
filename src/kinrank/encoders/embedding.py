"""`kr.embed`: pictures or texts -> vectors and their names, in memory or in files, resumed where it was interrupted."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from kinrank.encoders.base import PICTURES, TEXTS, Encoder, Options
from kinrank.encoders.opening import Boxes, Given, source_of
from kinrank.encoders.part import Part
from kinrank.encoders.registry import PLAIN, Recipe
from kinrank.encoders.running import cores, encode_missing
from kinrank.encoders.sources import Source, check_names
from kinrank.features import Vectors
from kinrank.files.arrays import read_npy
from kinrank.files.atomic import replacing
from kinrank.files.scratch import scratch_folder
from kinrank.parameters import whole_number
from kinrank.progress import Progress, Show

BLOCK = 4096  # rows that are copied at a time
OPENING = "opening the encoder"
OPTIONS = tuple(one.name for one in fields(Options))
MANY = 5  # items without a vector that an error names


@dataclass(frozen=True)
class Embedded:
    """Vectors of pictures or texts, and what there is to know of them.

    Attributes:
        vectors: (n, d) one row per item; a memory map where they were written to a file.
        ids: the names of the items, in the order of the rows.
        skipped: name -> why that item has no vector.
        left_out: why files are not even among the items, such as links that lead out of the folder -> how many.
        facts: what the encoder is: its name, its model, the checksum of its weights and so on.
        seconds: how long it took; less where an interrupted run was continued.
    """

    vectors: Vectors
    ids: list[str]
    skipped: dict[str, str]
    left_out: dict[str, int]
    facts: dict[str, Any]
    seconds: float = field(compare=False)

    def __repr__(self) -> str:
        count, dimensions = self.vectors.shape
        return f"Embedded({count} x {dimensions}, {len(self.skipped)} skipped, {self.facts['encoder']})"


def embed(
    source: Given,
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
    progress: Show = None,
    **options: Any,
) -> Embedded:
    """Vectors of a folder, zip or list of pictures, or of texts.

    The same input gives the same bits, on any number of cores, interrupted or not, as long as `batch` is 1.

    Args:
        source: a folder with everything below it, a zip, a picture, a list of paths (.txt); a file of texts (.txt with
            one per line, .csv, .tsv, .json, .jsonl, .parquet) or a folder of .txt and .md files; or a sequence of
            paths, of pictures of Pillow, or of texts.
        encoder: one of `kinrank.encoders.ENCODERS`, a function of yours as "package.module:function", or an Encoder;
            "efficientnet-lite" for pictures and "minilm" for texts unless given.
        output: a .npy file to write. Beside it stand the names, one per line, as .names.txt, and how it was made, as
            .embed.json. After an interruption the same call goes on where it was.
        content: "pictures" or "texts", where the source could be both.
        names: which items and in which order: a sequence, a text file, or a revisited ground truth (its `imlist`).
        boxes: name -> (left, top, right, bottom) in pixels, a .csv of these, or a revisited ground truth (its queries):
            these pictures only, cut out before anything else is done to them.
        boxes_size: the longest side of the pictures that the boxes were drawn on, where yours are copies of another
            size, such as thumbnails.
        column, id_column: which columns of a table hold the texts and their ids.
        on_error: "skip" items that cannot be read and list them, or "raise".
        batch: how many items the encoder is given at once. Larger ones help on a GPU; on a CPU one at a time is the
            fastest.
        workers: how many threads encode, one batch each; as many as there are cores unless given.
        progress: True for a bar, or a callable `f(label, done, total)`.
        options: of the encoder: model, weights, scales, size, device, preprocessing, whitening.

    Example:
        >>> photos = kinrank.embed("photos", output="photos.npy", progress=True)
        >>> manifold = kinrank.Manifold.build(photos.vectors, ids=photos.ids)
    """
    started = time.perf_counter()
    if on_error not in ("skip", "raise"):
        raise ValueError(f"on_error={on_error!r} is not known; give skip or raise")
    batch = whole_number(batch, "batch")
    workers = cores() if workers is None else whole_number(workers, "workers")
    unknown = set(options) - set(OPTIONS)
    if unknown:
        raise ValueError(f"{min(unknown)}= is no option of an encoder; these are {', '.join(OPTIONS)}")
    read = (source, names, boxes, options.get("weights"), options.get("preprocessing"))
    target = None if output is None else _target(output, read)
    report = Progress(progress)
    opened = _early(encoder, options, report)
    able = (PICTURES, TEXTS) if opened is None else opened.kinds
    items = source_of(
        source, content, able, names=names, boxes=boxes, boxes_size=boxes_size, column=column, id_column=id_column
    )
    if target is not None:
        check_names(items.names)  # they are written one per line: known now, not after an hour of work
    used = opened or report.one(OPENING, Recipe(PLAIN[items.content], Options(**options)).open)
    with ExitStack() as stack:
        if target is None:
            folder = stack.enter_context(scratch_folder()) / "part"
        else:
            folder = target.with_name(f"{target.name}.part")
        with Part.opened(folder, used.facts, used.dimensions, items.identity) as part:
            encode_missing(items, items.names, used, part, batch, workers, report)
            ids, numbers, skipped = _outcomes(items, part)
            if skipped and (on_error == "raise" or not ids):
                raise ValueError(_sentence(skipped, bool(ids)))
            facts = {**used.facts, "content": items.content}
            found = Embedded(np.empty(0, np.float32), ids, skipped, dict(items.skipped), facts, 0.0)
            vectors = part.vectors(numbers) if target is None else _written(target, found, part, numbers)
    return Embedded(vectors, ids, skipped, dict(items.skipped), facts, time.perf_counter() - started)


def _early(encoder: str | Encoder | None, options: dict[str, Any], report: Progress) -> Encoder | None:
    """The encoder that was asked for, opened before anything is read; None where the source decides."""
    if isinstance(encoder, Encoder):
        if options:
            raise ValueError(f"{next(iter(options))}= is for encoders given by name; this one is open already")
        return encoder
    return None if encoder is None else report.one(OPENING, Recipe(encoder, Options(**options)).open)


def _target(output: str | os.PathLike[str], read: Sequence[Any]) -> Path:
    """Where vectors go, if they can, and if none of the three files is one that is read."""
    path = Path(output)
    if path.suffix.lower() != ".npy":
        raise ValueError(f"output={os.fspath(output)!r} has another ending than .npy; give the name of a .npy file")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} is not there; make it, or choose another path")
    inputs = [Path(one).resolve() for one in read if isinstance(one, (str, os.PathLike))]
    for written in (path, names_of(path), facts_of(path)):
        if written.resolve() in inputs:
            raise ValueError(f"writing {written} would overwrite what is read; choose another output=")
    return path


def names_of(path: Path) -> Path:
    """Where the names of the rows stand."""
    return path.with_suffix(".names.txt")


def facts_of(path: Path) -> Path:
    """Where it stands how the rows were made."""
    return path.with_suffix(".embed.json")


def _outcomes(items: Source, part: Part) -> tuple[list[str], list[int], dict[str, str]]:
    """The items that have a vector, the numbers of their rows, and the others."""
    ids, numbers, skipped = [], [], {}
    for name in items.names:
        try:
            outcome = part.known(name, items.stamp(name))
        except ValueError as error:
            skipped[name] = str(error)
            continue
        if outcome is None:
            skipped[name] = "it changed while it was encoded; run this again"
        elif outcome.row is None:
            skipped[name] = str(outcome.why)
        else:
            ids.append(name)
            numbers.append(outcome.row)
    return ids, numbers, skipped


def _sentence(skipped: dict[str, str], others: bool) -> str:
    some = "; ".join(f"{name!r:.100}: {why}" for name, why in list(skipped.items())[:MANY])
    more = f"; and {len(skipped) - MANY} more" if len(skipped) > MANY else ""
    if not others:
        return f"none of the {len(skipped)} items can be encoded: {some}{more}; nothing was written"
    return (
        f"{len(skipped)} items cannot be encoded: {some}{more}; mend or remove them, or skip them with on_error='skip'"
    )


def _written(path: Path, found: Embedded, part: Part, numbers: list[int]) -> Vectors:
    """Write the three files, the vectors last, block by block; the vectors as they are on disk."""
    with replacing(names_of(path)) as file:
        file.write("".join(f"{name}\n" for name in found.ids).encode())
    told = {"made by": found.facts, "items": len(numbers), "skipped": found.skipped, "left out": found.left_out}
    with replacing(facts_of(path)) as file:
        file.write(json.dumps(told, indent=1, ensure_ascii=False).encode())
    with replacing(path) as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (len(numbers), part.dimensions)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(numbers), BLOCK):
            file.write(part.vectors(numbers[start : start + BLOCK]).tobytes())
    return read_npy(path)
