"""Files beside the vectors, or a published set -> what a report shows of items and queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.datasets.benchmark import BENCHMARKS, load, present
from kinrank.evaluation import Truth
from kinrank.evaluation.names import Naming
from kinrank.files.arrays import headers
from kinrank.files.names import read_labels
from kinrank.report.evidence.looks import Looks, Seen
from kinrank.report.html import png

SIZE = 192  # pixels of a picture's longest side
COUNTED = {"item": "items", "query": "queries"}


class Material(NamedTuple):
    """What a report is made of."""

    queries: Any
    gallery: Any
    truth: Truth
    measures: list[str]
    items: Looks
    asked: Looks | None
    title: str


def looks_of(
    kind: str,
    count: int,
    ids: Sequence[str] | None,
    naming: Naming | None,
    images: Path | None,
    texts: Path | None,
    classes: NDArray[Any] | None,
    fallback: Path | None = None,
) -> Looks:
    """How items or queries look: `images` must fit them, of `fallback` those are taken that are there by name."""
    names = None if ids is None else list(ids)
    if names is not None and len(names) != count:
        flag = {"item": "--item-ids", "query": "--query-ids"}[kind]
        raise ValueError(f"{flag} has {len(names)} names but there are {count} {COUNTED[kind]}; give one for each")
    if names is None and naming is not None and naming.in_order and len(naming.ids) == count:
        names = [str(name) for name in naming.ids.tolist()]
    words = None if classes is None else [str(name) for name in classes.tolist()]
    told = None if texts is None else _texts(texts, kind, count, names)
    picture, matching = None, ""
    if images is not None:
        picture, matching = _pictures(images, kind, count, names, ids is not None)
    elif fallback is not None and names is not None:
        picture = _by_name(fallback, names)
    return Looks(kind, names, told, words if words is None or len(words) == count else None, picture, matching)


def _texts(path: Path, kind: str, count: int, names: list[str] | None) -> list[str | None]:
    from kinrank.files.columns import cut, texts_of

    column = texts_of(path)
    if column.ids is None and len(column.values) != count:
        raise ValueError(
            f"{path} has {len(column.values)} texts but there are {count} {COUNTED[kind]}; give one for each"
        )
    order = names or [str(number) for number in range(count)]
    found = column.by_id(order, path, "text")
    return [cut(found[name]) if name in found else None for name in order]


def _pictures(
    path: Path, kind: str, count: int, names: list[str] | None, given: bool
) -> tuple[Callable[[int], Seen | None], str]:
    """Pictures by the names of the items, which may be `given`; else in the order of their own, and a sentence then."""
    from kinrank.web.shown.pictures import Pictures

    pictures, flag = Pictures.open(path, None), {"item": "--item-ids", "query": "--query-ids"}[kind]
    entries: list[str | None] = [] if names is None else [pictures.find(name) for name in names]
    matching = ""
    if not any(entry is not None for entry in entries):
        held = f"{path} holds {len(pictures.names)} pictures"
        if given and names is not None and pictures.names:
            raise ValueError(
                f"{held}, such as {pictures.names[0]}, and none is called like one of {flag}, such as {names[0]}; "
                "rename one of the two"
            )
        if len(pictures.names) != count:
            raise ValueError(f"{held} but there are {count} {COUNTED[kind]}; {flag} would say which belongs to which")
        entries = [*pictures.names]
        matching = (
            f"Pictures of {COUNTED[kind]} were matched by their order, not by name: first {entries[0]} is {kind} 0."
        )
    return lambda number: None if (entry := entries[number]) is None else pictures.thumbnail(entry, SIZE), matching


def _by_name(path: Path, names: list[str]) -> Callable[[int], Seen | None] | None:
    from kinrank.web.shown.pictures import Pictures

    pictures = Pictures.open(path, None)
    entries = [pictures.find(name) for name in names]
    if not any(entry is not None for entry in entries):
        return None
    return lambda number: None if (entry := entries[number]) is None else pictures.thumbnail(entry, SIZE)


def published(folder: Path, name: str | None, protocol: str | None) -> Material:
    """A published set from the folder that holds it, with its classes and pictures."""
    from kinrank.web.sources.published import NAMED, PICTURES, PIXELS, chosen

    if name is None and not present(folder):
        raise ValueError(
            f"{folder} holds no published set, such as {BENCHMARKS['orl'].files[0]}; docs/datasets.md has the names of "
            "their files"
        )
    name = chosen(folder, name)[0] if name is None or name in BENCHMARKS else name
    bench = load(name, folder)
    level = protocol or ("medium" if "medium" in bench.truths else next(iter(bench.truths)))
    if level not in bench.truths:
        raise ValueError(f"--protocol {level} is not known for {name}; give one of: {', '.join(bench.truths)}")
    truth = bench.truths[level]
    items, asked = _classes(folder / BENCHMARKS[name].files[0])
    sides: list[Looks | None] = []
    for kind, rows, naming, classes in (
        ("item", bench.gallery, truth.items, items),
        ("query", bench.queries, truth.queries, asked),
    ):
        if rows is None:
            sides.append(None)
            continue
        named = naming if name in NAMED else None
        pictures = folder / PICTURES[name] if name in PICTURES and (folder / PICTURES[name]).is_file() else None
        looks = looks_of(kind, len(rows), None, named, None, None, classes, pictures)
        if name in PIXELS:
            looks = Looks(kind, looks.names, None, looks.classes, _pixels(rows, PIXELS[name]))
        elif name == "cranfield":
            word = "abstract" if kind == "item" else "question"
            looks = Looks(kind, [f"{word} {number}" for number in looks.names or ()] or None)
        sides.append(looks)
    shown = f", {level}" if len(bench.truths) > 1 else ""
    called = BENCHMARKS[name].about.partition(":")[0]
    title = f"{called[:1].upper()}{called[1:]}{shown}: what re-ranking does"
    return Material(bench.queries, bench.gallery, truth, list(bench.measures), sides[0] or Looks(), sides[1], title)


def _classes(path: Path) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """The classes of the gallery and of the queries of a set, None where it has none."""
    found = headers(path) if path.suffix == ".npz" else {}
    if "label" not in found:
        return None, None
    labels = read_labels(path, "label")
    if "classes" in found:
        labels = read_labels(path, "classes")[labels]
    asking = read_labels(path, "is_query").astype(bool) if "is_query" in found else np.zeros(len(labels), bool)
    return labels[~asking], labels[asking]


def _pixels(rows: Any, shape: tuple[int, int]) -> Callable[[int], Seen | None]:
    """Pictures made of vectors that are pixels."""
    return lambda number: (png(np.asarray(rows[number], np.uint8).reshape(shape)), "image/png")
