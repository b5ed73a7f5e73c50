"""A folder of pictures -> how many are encoded in a second, and what re-ranking gains on their vectors."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import kinrank
from kinrank.bench.record import record
from kinrank.datasets.turntable import NAMES, turntable
from kinrank.encoders import Embedded
from kinrank.evaluation import Truth, compare, evaluate
from kinrank.files.scratch import scratch_folder
from kinrank.progress import Progress, Show

PICTURES, TRUTH = "roxford5k_thumbnails.zip", "revisited/gnd_roxford5k.pkl"
FULL = 1024  # pixels of the longest side of the pictures that the boxes of the queries were drawn on
TOYS, VIEWS, PIXELS = 24, 36, 96
HEAD = ("truth", "queries", "no re-ranking", "LPMT", "gained", "95 % interval")


def photos(
    data: str | os.PathLike[str] | None = None,
    encoder: str | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Show = None,
) -> dict[str, Any]:
    """A record: pictures encoded in a second, and mAP without and with LPMT, joint.

    Args:
        data: the folder with the thumbnails of ROxford5k and its ground truth; without, toys are drawn on the spot and
            saved as pictures first.
        encoder, options: as for `kinrank.embed`.
        progress: True for a bar, or a callable `f(label, done, total)`.

    Returns:
        `pictures`, `seconds` and `rate`, of reading, decoding and encoding; `opened`, seconds until the encoder was
        ready; `encoder`, its facts; `results`: dicts with truth, queries, before, after, gain, low and high, the 95 %
        interval of the gain, paired by query.
    """
    given: dict[str, Any] = {"encoder": encoder or "efficientnet-lite", "progress": progress, **(options or {})}
    started = time.perf_counter()
    kinrank.encoders.open_encoder(given["encoder"], **(options or {}))  # so that what follows is about pictures
    opened = time.perf_counter() - started
    gallery, queries, truths, name = _toys(given) if data is None else _landmarks(Path(data), given)
    results = []
    for label, truth in truths.items():
        asked = None if queries is None else queries.vectors
        plain, better = (kinrank.rerank(asked, gallery.vectors, method) for method in ("none", "lpmt"))
        found = compare(evaluate(plain, truth), evaluate(better, truth))
        results.append({
            "truth": label, "queries": found.queries, "before": found.mean_a, "after": found.mean_b,
            "gain": found.difference, "low": found.low, "high": found.high,
        })  # fmt: skip
    parts = [gallery] if queries is None else [gallery, queries]
    pictures, seconds = sum(len(part.ids) for part in parts), sum(part.seconds for part in parts)
    return record("photos", {
        "set": name, "pictures": pictures, "skipped": sum(len(part.skipped) for part in parts), "seconds": seconds,
        "rate": pictures / seconds, "opened": opened, "encoder": gallery.facts,
        "dimensions": int(gallery.vectors.shape[1]), "results": results,
    })  # fmt: skip


def summary(record: dict[str, Any]) -> str:
    """What was encoded, by what, and how fast, in a sentence."""
    called = " ".join(str(record["encoder"][key]) for key in ("encoder", "model") if record["encoder"].get(key))
    skipped = f", {record['skipped']} skipped" if record["skipped"] else ""
    threads = record["machine"]["threads"]
    return (
        f"{record['set']}: {record['pictures']} pictures{skipped} became vectors of {record['dimensions']} numbers by "
        f"{called} in {record['seconds']:.0f} s: {record['rate']:.1f} pictures a second, {threads} threads; the "
        f"encoder was ready after {record['opened']:.1f} s."
    )


def table_rows(record: dict[str, Any]) -> list[tuple[str, ...]]:
    """A row per truth, under HEAD."""
    rows: list[tuple[str, ...]] = []
    for row in record["results"]:
        before, after, gain, low, high = (100 * row[key] for key in ("before", "after", "gain", "low", "high"))
        interval = f"{low:+.1f} to {high:+.1f}"
        rows.append((row["truth"], str(row["queries"]), f"{before:.1f}", f"{after:.1f}", f"{gain:+.1f}", interval))
    return rows


def _landmarks(folder: Path, given: dict[str, Any]) -> tuple[Embedded, Embedded | None, dict[str, Truth], str]:
    """The thumbnails of ROxford5k: the queries cut out of theirs, the gallery in the order of the ground truth."""
    pictures, truth = folder / PICTURES, folder / TRUTH
    gallery = kinrank.embed(pictures, names=truth, on_error="raise", **given)
    queries = kinrank.embed(pictures, boxes=truth, boxes_size=FULL, on_error="raise", **given)
    truths = {level: Truth.revisited(truth, level) for level in ("easy", "medium", "hard")}
    return gallery, queries, truths, "roxford5k thumbnails"


def _toys(given: dict[str, Any]) -> tuple[Embedded, Embedded | None, dict[str, Truth], str]:
    """Toys on a turntable, as a folder of JPEGs; every picture queries the others."""
    from kinrank.deferred import needed

    images = needed("PIL.Image", "drawing pictures", "images")
    drawn, labels, angles = turntable(TOYS, VIEWS, PIXELS, progress=Progress(given["progress"]))
    kinds = [NAMES[label] for label in labels.tolist()]
    with scratch_folder() as folder:
        for kind, angle, pixels in zip(kinds, angles.tolist(), drawn, strict=True):
            images.fromarray(pixels).save(folder / f"{kind}_{angle:03.0f}.jpg", quality=90)
        gallery = kinrank.embed(folder, **given)
    named = np.array([name.rpartition("_")[0] for name in gallery.ids])
    return gallery, None, {"toy": Truth.from_labels(named)}, f"{TOYS} toys, {VIEWS} views of each"
