"""Bench of pictures: encoding speed, and the gain of re-ranking on the vectors."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import kinrank
from kinrank.datasets.turntable import TOY_NAMES, turntable
from kinrank.encoders import Embedded
from kinrank.evaluation import Truth, compare_scores, evaluate
from kinrank.files.user_folders import scratch_folder
from kinrank.progress import Progress, ProgressOption
from kinrank_bench.declaration import Option
from kinrank_bench.record import Panel, Record, gain_entries, make_record
from kinrank_bench.tables import Column, Table

PICTURE_FILE, TRUTH_FILE = "roxford5k_thumbnails.zip", "revisited/gnd_roxford5k.pkl"
BOX_SIDE_PIXELS = 1024  # longest side of the pictures on which the boxes of the queries were drawn
TOYS, VIEWS, PIXELS = 24, 36, 96
PHOTO_PANEL = Panel(
    (
        Column("truth", "{truth}", left=True),
        Column("queries", "{queries}"),
        Column("no re-ranking", "{before:.1p}"),
        Column("LPMT", "{after:.1p}"),
        Column("gained", "{gain:+.1p}"),
        Column("95 % interval", "{low:+.1p} to {high:+.1p}"),
    )
)


def photos(
    data: Annotated[
        str | os.PathLike[str] | None,
        Option("Folder with thumbnails and truth of ROxford5k. Default: drawn toy images."),
    ] = None,
    encoder: str | None = None,
    options: Mapping[str, Any] | None = None,
    progress: ProgressOption = None,
) -> dict[str, Any]:
    """Encode a folder of images, search and re-rank it, and measure times and accuracy.

    \b
    kinrank bench photos
    kinrank bench photos --data DIR --encoder efficientnet-lite --model lite2

    Returns:
        `pictures`, `seconds` and `rate` of reading, decoding and encoding; `opened`, seconds until the encoder was
        ready; `encoder`, its facts; `results`: dicts with truth, queries, before, after, gain, low and high, the 95 %
        interval of the gain, paired by query.
    """
    embed_options: dict[str, Any] = {"encoder": encoder or "efficientnet-lite", "progress": progress, **(options or {})}
    started = time.perf_counter()
    kinrank.encoders.open_encoder(
        embed_options["encoder"], **(options or {})
    )  # so that the times below cover pictures only
    opened = time.perf_counter() - started
    gallery, queries, truths, name = (
        _embed_toys(embed_options) if data is None else _embed_landmarks(Path(data), embed_options)
    )
    results = []
    for label, truth in truths.items():
        query_vectors = None if queries is None else queries.vectors
        plain, better = (kinrank.rerank(query_vectors, gallery.vectors, method) for method in ("none", "lpmt"))
        comparison = compare_scores(evaluate(plain, truth), evaluate(better, truth))
        results.append({"truth": label, **gain_entries(comparison)})
    parts = [gallery] if queries is None else [gallery, queries]
    pictures, seconds = sum(len(part.ids) for part in parts), sum(part.seconds for part in parts)
    return make_record(
        "photos",
        {
            "set": name,
            "pictures": pictures,
            "skipped": sum(len(part.skipped) for part in parts),
            "seconds": seconds,
            "rate": pictures / seconds,
            "opened": opened,
            "encoder": gallery.facts,
            "dimensions": int(gallery.vectors.shape[1]),
            "results": results,
        },
    )


def photo_summary(record: dict[str, Any]) -> str:
    """Summarize the encoding in a sentence: number of pictures, encoder and speed."""
    encoder = " ".join(str(record["encoder"][key]) for key in ("encoder", "model") if record["encoder"].get(key))
    skipped = f", {record['skipped']} skipped" if record["skipped"] else ""
    threads = record["machine"]["threads"]
    return (
        f"{record['set']}: {encoder} encoded {record['pictures']} pictures{skipped} as vectors of "
        f"{record['dimensions']} numbers in {record['seconds']:.0f} s ({record['rate']:.1f} pictures per second, "
        f"{threads} threads). Loading the encoder took {record['opened']:.1f} s."
    )


def show_photos(record: Record) -> list[Table | str]:
    """Return the summary and a table with a row per truth."""
    return [photo_summary(record), *PHOTO_PANEL.build(record), "mAP, joint."]


def _embed_landmarks(
    folder: Path, embed_options: dict[str, Any]
) -> tuple[Embedded, Embedded | None, dict[str, Truth], str]:
    """Embed the thumbnails of ROxford5k: cropped queries, and the gallery in the order of the ground truth."""
    pictures, truth = folder / PICTURE_FILE, folder / TRUTH_FILE
    gallery = kinrank.embed(pictures, names=truth, on_error="raise", **embed_options)
    queries = kinrank.embed(pictures, boxes=truth, boxes_size=BOX_SIDE_PIXELS, on_error="raise", **embed_options)
    truths = {level: Truth.revisited(truth, level) for level in ("easy", "medium", "hard")}
    return gallery, queries, truths, "roxford5k thumbnails"


def _embed_toys(embed_options: dict[str, Any]) -> tuple[Embedded, Embedded | None, dict[str, Truth], str]:
    """Embed toys on a turntable, saved as a folder of JPEGs; every picture queries the others."""
    from kinrank.lazy_import import import_extra

    images = import_extra("PIL.Image", "drawing pictures", "images")
    images_drawn, labels, angles = turntable(TOYS, VIEWS, PIXELS, progress=Progress(embed_options["progress"]))
    kinds = [TOY_NAMES[label] for label in labels.tolist()]
    with scratch_folder() as folder:
        for kind, angle, pixels in zip(kinds, angles.tolist(), images_drawn, strict=True):
            images.fromarray(pixels).save(folder / f"{kind}_{angle:03.0f}.jpg", quality=90)
        gallery = kinrank.embed(folder, **embed_options)
    labels_by_name = np.array([name.rpartition("_")[0] for name in gallery.ids])
    return gallery, None, {"toy": Truth.from_labels(labels_by_name)}, f"{TOYS} toys, {VIEWS} views of each"
