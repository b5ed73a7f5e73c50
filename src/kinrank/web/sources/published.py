"""A folder of published sets -> one of them, with its queries, its truth, and its pictures where there are some."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.datasets.benchmark import BENCHMARKS, Benchmark, load, present
from kinrank.features import check
from kinrank.files.arrays import headers
from kinrank.files.names import read_labels
from kinrank.methods import Method
from kinrank.progress import Show
from kinrank.web.settings import Files
from kinrank.web.sources.served import Served, built, pictured, saved, written

SHOWN_FIRST = "roxford5k"
PIXELS = {"coil20": (32, 32), "mpeg7": (32, 32), "orl": (56, 46), "omniglot": (32, 32)}  # height, width of a row
PICTURES = {"roxford5k": "roxford5k_thumbnails.zip"}
NAMED = ("roxford5k", "cranfield")  # sets whose items have names


def chosen(folder: Path, name: str | None) -> tuple[str, list[str]]:
    """The set of that name, or the one to be shown first; and the others in the folder."""
    found = present(folder)
    if name is not None and name not in found:
        known = ", ".join(found) or "none"
        raise ValueError(f"set_name={name!r} is not in {folder}; the sets that are there whole: {known}")
    if name is None:
        name = SHOWN_FIRST if SHOWN_FIRST in found else found[0]
    return name, [other for other in found if other != name]


def published(folder: Path, name: str, method: Method | None, scratch: Path, progress: Show) -> Served:
    """A set that is in the folder: its gallery prepared, everything else as plain files beside it."""
    benchmark = load(name, folder)
    ids = next(iter(benchmark.truths.values())).item_ids if name in NAMED else None
    return Served(
        manifold=built(benchmark.gallery, method, ids, scratch, progress),
        title=BENCHMARKS[name].about.partition(":")[0],
        files=_files(folder, benchmark, scratch, progress),
    )


def _files(folder: Path, benchmark: Benchmark, scratch: Path, progress: Show) -> Files:
    name, folder = benchmark.name, folder.absolute()
    paths = [folder / file for file in BENCHMARKS[name].files]
    queries, count = None, 0
    if benchmark.queries is not None:
        count = len(benchmark.queries)
        queries = saved(scratch / "queries.npy", check(benchmark.queries, "queries"))
    if name == "roxford5k":
        pictures = folder / PICTURES[name]
        return Files(images=str(pictures) if pictures.is_file() else None, queries=queries, truth=str(paths[1]))
    if name == "cranfield":  # its judgements number the queries from 1, by position
        numbers = scratch / "query_names.txt"
        numbers.write_text("".join(f"{number + 1}\n" for number in range(count)))
        return Files(queries=queries, truth=str(paths[1]), query_names=str(numbers))
    return _labelled(paths[0], benchmark, queries, scratch, progress)


def _labelled(path: Path, benchmark: Benchmark, queries: str | None, scratch: Path, progress: Show) -> Files:
    """Of a set whose items have labels, some of which may ask and are then not in the gallery."""
    found = headers(path)
    labels = read_labels(path, "label")
    if "classes" in found:
        labels = read_labels(path, "classes")[labels]
    asking = read_labels(path, "is_query").astype(bool) if "is_query" in found else np.zeros(len(labels), bool)
    return Files(
        images=_pixels(benchmark, scratch, progress) if benchmark.name in PIXELS else None,
        labels=written(scratch / "labels.json", _texts(labels[~asking])),
        queries=queries,
        query_labels=None if queries is None else written(scratch / "query_labels.json", _texts(labels[asking])),
        truth=_across_cameras(benchmark, scratch) if "person" in benchmark.truths else None,
    )


def _pixels(benchmark: Benchmark, scratch: Path, progress: Show) -> str:
    """Pictures made of vectors that are pixels: "17" of item 17, "query 17" of query 17."""
    parts = [benchmark.gallery] if benchmark.queries is None else [benchmark.gallery, benchmark.queries]
    rows = np.concatenate([np.asarray(part, np.uint8) for part in parts])
    items = len(benchmark.gallery)
    names = [str(place) if place < items else f"query {place - items}" for place in range(len(rows))]
    height, width = PIXELS[benchmark.name]
    return pictured(scratch / "pictures.zip", names, rows.reshape(-1, height, width), ".png", progress)


def _across_cameras(benchmark: Benchmark, scratch: Path) -> str:
    """Truth in which some items are neither right nor wrong."""
    levels = {
        level: {
            part: [lists[query].tolist() for query in range(len(truth))]
            for part, lists in (("right", truth.positives), ("junk", truth.junk))
        }
        for level, truth in benchmark.truths.items()
    }
    return written(scratch / "truth.json", levels)


def _texts(labels: NDArray[Any]) -> list[str]:
    return [str(label) for label in labels.tolist()]
