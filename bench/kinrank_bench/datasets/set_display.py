"""Published sets for pages: what `kinrank serve` and `kinrank report` show of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.cli.report_inputs import DisplaySources, build_display
from kinrank.display import Display
from kinrank.display.display import PictureBytes
from kinrank.errors import InputError
from kinrank.evaluation.id_lookup import IdTable
from kinrank.files.numpy_files import read_headers
from kinrank.files.text_columns import read_labels
from kinrank.methods import Method
from kinrank.progress import ProgressOption
from kinrank.report.evidence.evidence_data import ReportInput
from kinrank.report.html import encode_png
from kinrank.vector_input import check_vectors
from kinrank.web.settings import Files
from kinrank.web.startup.scratch_files import ServedGallery, build_gallery, write_json, write_pictures
from kinrank_bench.datasets.benchmark import BENCHMARKS, Benchmark, list_available, load

DEFAULT_SET = "roxford5k"
IMAGE_SHAPES = {"coil20": (32, 32), "mpeg7": (32, 32), "orl": (56, 46), "omniglot": (32, 32)}  # height, width of a row
PICTURE_FILES = dict.fromkeys(("roxford5k", "roxford5k_rmac362"), "roxford5k_thumbnails.zip")
TRUTHS_BEYOND_LABELS = {"person", "relevant"}  # truths that labels do not tell
SETS_WITH_NAMES = (*PICTURE_FILES, "cranfield")  # sets whose items have names


def choose_set(folder: Path, name: str | None) -> tuple[str, list[str]]:
    """Return the set of that name, or the default one, and the other sets in the folder."""
    names = list_available(folder)
    if name is not None and name not in names:
        raise InputError(
            f"is not in {folder}",
            parameter="set_name",
            given=name,
            remedy=f"complete sets there: {', '.join(names) or 'none'}",
        )
    if name is None:
        name = DEFAULT_SET if DEFAULT_SET in names else names[0]
    return name, [other for other in names if other != name]


def prepare_set(
    folder: Path, name: str, method: Method | None, scratch: Path, progress: ProgressOption
) -> ServedGallery:
    """Prepare the gallery of a set in the folder, and write everything else as plain files."""
    benchmark = load(name, folder)
    ids = next(iter(benchmark.truths.values())).item_ids if name in SETS_WITH_NAMES else None
    return ServedGallery(
        manifold=build_gallery(benchmark.gallery, method, ids, scratch, progress),
        title=BENCHMARKS[name].about.partition(":")[0],
        files=_write_files(folder, benchmark, scratch, progress),
    )


def _write_files(folder: Path, benchmark: Benchmark, scratch: Path, progress: ProgressOption) -> Files:
    name, folder = benchmark.name, folder.absolute()
    paths = [folder / file for file in BENCHMARKS[name].files]
    queries, count = None, 0
    if benchmark.queries is not None:
        count = len(benchmark.queries)
        queries = str(scratch / "queries.npy")
        np.save(queries, np.ascontiguousarray(check_vectors(benchmark.queries, "queries")))
    if name in PICTURE_FILES:
        pictures = folder / PICTURE_FILES[name]
        return Files(images=str(pictures) if pictures.is_file() else None, queries=queries, truth=str(paths[1]))
    if name == "cranfield":  # its judgements number the queries by position, from 1
        numbers = scratch / "query_names.txt"
        numbers.write_text("".join(f"{number + 1}\n" for number in range(count)))
        return Files(queries=queries, truth=str(paths[1]), query_names=str(numbers))
    return _write_labelled_files(paths[0], benchmark, queries, scratch, progress)


def _write_labelled_files(
    path: Path, benchmark: Benchmark, queries: str | None, scratch: Path, progress: ProgressOption
) -> Files:
    """Write the files of a set with labels, in which some rows can be queries instead of items."""
    labels, query_labels = (_to_texts(classes) for classes in _read_set_classes(path))
    return Files(
        images=_write_pixel_pictures(benchmark, scratch, progress) if benchmark.name in IMAGE_SHAPES else None,
        labels=write_json(scratch / "labels.json", labels) if labels else None,
        queries=queries,
        query_labels=write_json(scratch / "query_labels.json", query_labels) if query_labels else None,
        truth=_write_truth(benchmark, scratch) if TRUTHS_BEYOND_LABELS & set(benchmark.truths) else None,
    )


def _write_pixel_pictures(benchmark: Benchmark, scratch: Path, progress: ProgressOption) -> str:
    """Write pictures of vectors that are pixels: "17" of item 17, "query 17" of query 17."""
    parts = [benchmark.gallery] if benchmark.queries is None else [benchmark.gallery, benchmark.queries]
    rows = np.concatenate([np.asarray(part, np.uint8) for part in parts])
    items = len(benchmark.gallery)
    names = [str(place) if place < items else f"query {place - items}" for place in range(len(rows))]
    height, width = IMAGE_SHAPES[benchmark.name]
    return write_pictures(scratch / "pictures.zip", names, rows.reshape(-1, height, width), ".png", progress)


def _write_truth(benchmark: Benchmark, scratch: Path) -> str:
    """Write ground truth in which some items are neither right nor wrong."""
    levels = {
        level: {
            part: [lists[query].tolist() for query in range(len(truth))]
            for part, lists in (("right", truth.positives), ("junk", truth.junk))
        }
        for level, truth in benchmark.truths.items()
    }
    return write_json(scratch / "truth.json", levels)


def _to_texts(labels: NDArray[Any] | None) -> list[str]:
    return [] if labels is None else [str(label) for label in labels.tolist()]


def load_published_set(folder: Path, name: str | None, protocol: str | None) -> ReportInput:
    """Load a published set with its classes and images."""
    if name is None and not list_available(folder):
        raise InputError(
            f"{folder} has no published set, such as {BENCHMARKS['orl'].files[0]}; docs/datasets.md lists their files"
        )
    name = choose_set(folder, name)[0] if name is None or name in BENCHMARKS else name
    bench = load(name, folder)
    level = protocol or ("medium" if "medium" in bench.truths else next(iter(bench.truths)))
    if level not in bench.truths:
        raise InputError(f"--protocol {level} is unknown for {name}; give one of: {', '.join(bench.truths)}")
    truth = bench.truths[level]
    item_labels, query_labels = _read_set_classes(folder / BENCHMARKS[name].files[0])

    def build(kind: str, rows: NDArray[Any], naming: IdTable | None, labels: NDArray[Any] | None) -> Display:
        pictures = folder / PICTURE_FILES[name] if name in PICTURE_FILES else None
        sources = DisplaySources(
            naming=naming if name in SETS_WITH_NAMES else None,
            labels=labels,
            fallback=pictures if pictures is not None and pictures.is_file() else None,
        )
        display = build_display(kind, len(rows), sources)
        if name in IMAGE_SHAPES:
            return replace(display, draw=_draw_pixels(rows, IMAGE_SHAPES[name]))
        if name == "cranfield":
            word = "abstract" if kind == "item" else "question"
            return Display.of(kind, names=[f"{word} {number}" for number in display.names.values()])
        return display

    suffix = f", {level}" if len(bench.truths) > 1 else ""
    called = BENCHMARKS[name].about.partition(":")[0]
    return ReportInput(
        bench.queries,
        bench.gallery,
        truth,
        list(bench.measures),
        build("item", bench.gallery, truth.items, item_labels),
        None if bench.queries is None else build("query", bench.queries, truth.queries, query_labels),
        f"{called[:1].upper()}{called[1:]}{suffix}: what re-ranking does",
    )


def _read_set_classes(path: Path) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Read the classes of the gallery and of the queries of a set; None if it has none."""
    headers = read_headers(path) if path.suffix == ".npz" else {}
    if "label" not in headers:
        return None, None
    labels = read_labels(path, "label")
    if "classes" in headers:
        labels = read_labels(path, "classes")[labels]
    is_query = read_labels(path, "is_query").astype(bool) if "is_query" in headers else np.zeros(len(labels), bool)
    return labels[~is_query], labels[is_query]


def _draw_pixels(rows: Any, shape: tuple[int, int]) -> Callable[[int], PictureBytes | None]:
    """Return a function that draws the image of a row whose values are pixels."""
    return lambda number: (encode_png(np.asarray(rows[number], np.uint8).reshape(shape)), "image/png")
