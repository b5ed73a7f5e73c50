"""More than 200 kinds of bad input: each must raise `InputError`, because any other exception counts as a bug."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.errors import InputError
from kinrank.parameters import Parameter

ROWS, DIMENSIONS, QUERIES = 30, 6, 4
Case = Callable[[Path], object]


def rows(count: int = ROWS, dimensions: int = DIMENSIONS, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(count, dimensions)).astype(np.float32)


def with_entry(value: float) -> Any:
    broken = rows()
    broken[3, 2] = value
    return broken


GALLERY, SEARCHED = rows(), rows(QUERIES, seed=1)
LABELS, QUERY_LABELS = np.arange(ROWS) % 3, np.arange(QUERIES) % 3
TRUTH = kr.Truth.from_labels(QUERY_LABELS, LABELS)
RANKING = kr.Ranking(np.tile(np.arange(5), (QUERIES, 1)), np.tile(np.linspace(0, 1, 5), (QUERIES, 1)))


def manifold(**options: Any) -> kr.Manifold:
    return kr.Manifold.build(GALLERY, "aqe", **options)


def bad_rows() -> dict[str, Any]:
    """Arrays that are not rows of finite numbers."""
    zero = rows()
    zero[5] = 0
    return {
        "nothing": None,
        "one number": 3.0,
        "one vector": GALLERY[0],
        "three axes": GALLERY[None],
        "text": [["a", "b"], ["c", "d"]],
        "a path": "vectors.npy",
        "ragged rows": [[1.0, 2.0], [3.0]],
        "complex numbers": GALLERY.astype(np.complex64),
        "objects": np.array([[object(), object()]]),
        "dates": np.array([["2020-01-01", "2020-01-02"]], "datetime64[D]"),
        "NaN": with_entry(math.nan),
        "infinity": with_entry(math.inf),
        "a zero vector": zero,
        "no columns": np.empty((ROWS, 0), np.float32),
        "a dict": {"a": [1.0, 2.0]},
        "a mask": np.ma.masked_array(GALLERY, mask=np.eye(ROWS, DIMENSIONS, dtype=bool)),
    }


def row_cases() -> Iterator[tuple[str, Case]]:
    """Every kind of bad rows, at every place that takes vectors."""
    for name, value in bad_rows().items():
        if name != "one vector":  # which is one query
            yield f"rerank queries: {name}", lambda _, v=value: kr.rerank(v if v is not None else 7, GALLERY, "aqe")
            yield f"search: {name}", lambda _, v=value: manifold().search(v)
        yield f"rerank gallery: {name}", lambda _, v=value: kr.rerank(SEARCHED, v, "aqe")
        yield f"build: {name}", lambda _, v=value: kr.Manifold.build(v, "aqe")
        yield f"add: {name}", lambda _, v=value: manifold().add(v)
        yield f"whiten: {name}", lambda _, n=name, v=value: kr.whiten(v if n != "a zero vector" else 5)
        yield f"diagnose: {name}", lambda _, v=value: kr.diagnose(v)
        yield f"groups: {name}", lambda _, v=value: kr.near_duplicates(v)


def rejected(entry: Parameter) -> list[Any]:
    """Values outside the declared range of a hyper-parameter."""
    values: list[Any] = [[1], {"a": 1}]
    if entry.choices is not None:
        return [*values, "no such choice", 3]
    if entry.kind is bool:
        return [*values, "yes", 2]
    if entry.kind in (int, float):
        values += ["1", math.nan, True]
        values += [] if entry.low is None else [entry.low - 1]
        values += [] if entry.high is None else [entry.high + 1]
        values += [1.5] if entry.kind is int else []
    return values


def parameter_cases() -> Iterator[tuple[str, Case]]:
    """Every hyper-parameter of every method, with values that its declaration excludes."""
    for name, kind in kr.METHODS.items():
        for entry in kind.parameters():
            for value in rejected(entry):
                yield f"{name} {entry.name}={value!r}", lambda _, k=kind, e=entry, v=value: k(**{e.name: v})


def write(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def option_cases() -> Iterator[tuple[str, Case]]:
    """Options of the public functions."""
    for name, value in {"zero": 0, "negative": -1, "text": "10", "a fraction": 2.5, "a truth value": True}.items():
        yield f"rerank candidates: {name}", lambda _, v=value: kr.rerank(SEARCHED, GALLERY, "aqe", candidates=v)
        yield f"rerank k: {name}", lambda _, v=value: kr.rerank(SEARCHED, GALLERY, "aqe", k=v)
        yield f"search k: {name}", lambda _, v=value: manifold().search(SEARCHED, k=v)
        yield f"search depth: {name}", lambda _, v=value: manifold().search(SEARCHED, depth=v)
        yield f"search budget: {name}", lambda _, v=value: kr.Manifold.build(GALLERY).search(SEARCHED, budget=v)
        yield f"groups k: {name}", lambda _, v=value: kr.near_duplicates(GALLERY, k=v)
        yield f"fuse k: {name}", lambda _, v=value: kr.fuse([RANKING, RANKING], k=v)
        yield f"head: {name}", lambda _, v=value: RANKING.head(v if v != 0 else -2)
        yield f"observed limit: {name}", lambda _, v=value: manifold(observed_limit=v if v != 0 else -3)
    for name, limit in {"zero": 0, "words": "a lot", "negative": -5, "unit": "3XB", "a list": [1]}.items():
        yield f"max_memory: {name}", lambda _, v=limit: kr.rerank(SEARCHED, GALLERY, "aqe", max_memory=v)
    for name, method in {"unknown": "no-such-method", "a number": 3, "empty": "", "a class": kr.LPMT}.items():
        yield f"method: {name}", lambda _, v=method: kr.rerank(SEARCHED, GALLERY, v)
        yield f"build method: {name}", lambda _, v=method: kr.Manifold.build(GALLERY, v)
    for metric in ("manhattan", "", 3, ["cosine"]):
        yield f"metric: {metric!r}", lambda _, v=metric: kr.rerank(SEARCHED, GALLERY, "aqe", metric=v)
    for name, measure in {"unknown": "mBP", "empty": "", "no depth": "R@", "zero": "R@0", "none": []}.items():
        yield f"measure: {name}", lambda _, v=measure: kr.evaluate(RANKING, TRUTH, v)
    for name, share in {"zero": 0.0, "one": 1.0, "text": "95%", "NaN": math.nan}.items():
        yield f"confidence: {name}", lambda _, v=share: kr.evaluate(RANKING, TRUTH, confidence=v)
    yield "rerank dimensions", lambda _: kr.rerank(rows(2, 5), GALLERY, "aqe")
    yield "search dimensions", lambda _: manifold().search(rows(2, 5))
    yield "add dimensions", lambda _: manifold().add(rows(2, 5))
    yield "fuse nothing", lambda _: kr.fuse([])
    yield "fuse other things", lambda _: kr.fuse([GALLERY, GALLERY])
    yield "fuse weights", lambda _: kr.fuse([RANKING, RANKING], weights=[1.0])
    yield "fuse text weights", lambda _: kr.fuse([RANKING, RANKING], weights=["a", "b"])  # type: ignore[list-item]
    yield "fuse negative weights", lambda _: kr.fuse([RANKING, RANKING], weights=[1.0, -1.0])
    yield "combine nothing", lambda _: kr.combine([])
    yield "combine counts", lambda _: kr.combine([GALLERY, rows(ROWS - 1)])
    yield "combine weights", lambda _: kr.combine([GALLERY, GALLERY], weights=[1.0])
    yield "whiten power", lambda _: kr.whiten(GALLERY, power=2.0)
    yield "whiten dimensions", lambda _: kr.whiten(GALLERY, dimensions=DIMENSIONS + 1)
    yield "whiten equal rows", lambda _: kr.whiten(np.ones((5, 3)))
    yield "augment recipe", lambda _: kr.augmentation.augment(GALLERY, "dba")  # type: ignore[arg-type]
    yield "expand text", lambda _: kr.rerank(SEARCHED, GALLERY, "aqe", candidates=9, expand="yes")  # type: ignore[arg-type]
    yield "expand negative", lambda _: kr.rerank(SEARCHED, GALLERY, "aqe", candidates=9, expand=-1)
    yield "explain query", lambda _: kr.explain(SEARCHED, GALLERY, query=QUERIES, item=0)
    yield "explain item", lambda _: kr.explain(SEARCHED, GALLERY, query=0, item=ROWS)
    yield "explain method", lambda _: kr.explain(SEARCHED, GALLERY, query=0, item=0, method="aqe")
    yield "explain flows", lambda _: kr.explain(SEARCHED, GALLERY, query=0, item=0, flows=-1)
    yield "tune folds", lambda _: kr.tune(SEARCHED, GALLERY, TRUTH, folds=1)
    yield "tune measure", lambda _: kr.tune(SEARCHED, GALLERY, TRUTH, measure="mBP")
    yield "tune methods", lambda _: kr.tune(SEARCHED, GALLERY, TRUTH, methods=[])
    yield "tune labels", lambda _: kr.tune(SEARCHED, GALLERY, LABELS)  # type: ignore[arg-type]
    yield "compare labels", lambda _: kr.compare(SEARCHED, GALLERY, LABELS)  # type: ignore[arg-type]
    yield "evaluate labels", lambda _: kr.evaluate(RANKING, LABELS)  # type: ignore[arg-type]
    yield "compare methods", lambda _: kr.compare(SEARCHED, GALLERY, TRUTH, methods=["no-such-method"])
    yield "compare measures", lambda _: kr.compare(SEARCHED, GALLERY, TRUTH, methods=["aqe"], measures=["mBP"])
    yield "diagnose right", lambda _: kr.diagnose(GALLERY, right=-1)


def id_cases() -> Iterator[tuple[str, Case]]:
    """Ids, filters and marks."""
    named = [f"item {number}" for number in range(ROWS)]
    yield "too few ids", lambda _: manifold(ids=named[:-1])
    yield "repeated ids", lambda _: manifold(ids=[*named[:-1], named[0]])
    yield "mixed ids", lambda _: manifold(ids=[1, *named[1:]])
    yield "missing ids", lambda _: manifold(ids=[None, *named[1:]])
    yield "ids are fractions", lambda _: manifold(ids=np.linspace(0, 1, ROWS))
    yield "ids are too large", lambda _: manifold(ids=[2**70, *range(1, ROWS)])
    yield "ids in two axes", lambda _: manifold(ids=np.arange(ROWS)[:, None])
    yield "add known id", lambda _: manifold(ids=named).add(GALLERY[:1], ids=[named[0]])
    yield "add without ids", lambda _: manifold(ids=named).add(GALLERY[:1])
    yield "add numbers to names", lambda _: manifold(ids=named).add(GALLERY[:1], ids=[7])
    yield "remove unknown", lambda _: manifold(ids=named).remove(["nothing"])
    yield "remove twice", lambda _: manifold(ids=named).remove([named[0], named[0]])
    yield "upsert repeated", lambda _: manifold(ids=named).upsert(GALLERY[:2], ids=["a", "a"])
    yield "where unknown", lambda _: manifold(ids=named).search(SEARCHED, where=["nothing"])
    yield "where mask", lambda _: manifold().search(SEARCHED, where=np.ones(ROWS - 1, bool))
    yield "where empty", lambda _: manifold().search(SEARCHED, where=[])
    yield "positives unknown", lambda _: manifold(ids=named).search(SEARCHED, positives=[["nothing"]] * QUERIES)
    yield "positives per query", lambda _: manifold().search(SEARCHED, positives=[[1]])
    yield "both marks", lambda _: manifold().search(SEARCHED[:1], positives=[[1]], negatives=[[1]])
    yield "groups count", lambda _: manifold().search(SEARCHED, groups=[0])
    yield "max_distance", lambda _: manifold().search(SEARCHED, max_distance="near")  # type: ignore[arg-type]
    yield "explain unknown", lambda _: kr.Manifold.build(GALLERY, ids=named).explain(SEARCHED[0], "nothing")
    yield "changes off", lambda _: kr.Manifold.build(GALLERY, changes=False).add(GALLERY[:1])


def truth_cases() -> Iterator[tuple[str, Case]]:
    """Ground truth and rankings."""
    yield "labels differ in kind", lambda _: kr.Truth.from_labels(["a"], [1, 2])
    yield "labels in two axes", lambda _: kr.Truth.from_labels([[1]], [1])
    yield "item outside", lambda _: kr.Truth.from_lists([[99]], gallery_size=5)
    yield "negative item", lambda _: kr.Truth.from_lists([[-1]], gallery_size=5)
    yield "gallery size", lambda _: kr.Truth.from_lists([[1]], gallery_size="5")  # type: ignore[arg-type]
    yield "both right and junk", lambda _: kr.Truth.from_lists([[1]], [[1]], gallery_size=5)
    yield "junk for one query", lambda _: kr.Truth.from_lists([[1], [2]], [[3]], gallery_size=5)
    yield "precision", lambda _: kr.Truth.from_lists([[1]], gallery_size=5, average_precision="area")  # type: ignore[arg-type]
    yield "difficulty", lambda _: kr.Truth.revisited({"gnd": [], "imlist": [], "qimlist": []}, "impossible")
    yield "revisited keys", lambda _: kr.Truth.revisited({"a": 1})
    yield "cameras", lambda _: kr.Truth.across_cameras([1], [1, 2], query_cameras=[1], gallery_cameras=[1])
    yield "subset", lambda _: TRUTH.subset([QUERIES])
    yield "ranking of others", lambda _: kr.evaluate(RANKING.head(3), kr.Truth.from_labels([1], [1, 2]))
    yield "no ranking", lambda _: kr.evaluate("ranking", TRUTH)
    yield "item not in truth", lambda _: kr.evaluate(np.full((QUERIES, 2), ROWS), TRUTH)
    yield "shapes differ", lambda _: kr.Ranking(np.zeros((2, 3), int), np.zeros((2, 2)))
    yield "ids of other length", lambda _: RANKING.with_ids(["a"])
    yield "qrels without relevance", lambda _: kr.Truth.from_qrels({"q": {"d": "much"}})


def file_cases() -> Iterator[tuple[str, Case]]:
    """Files and folders: missing, empty, damaged or of another kind."""
    text, junk = "no vectors here", b"\x00\x01\x02\x03" * 40
    yield "load: not a folder", lambda p: kr.Manifold.load(write(p, "file", text))
    yield "load: empty folder", lambda p: kr.Manifold.load(p)
    yield "load: damaged manifest", lambda p: write(p, "manifest.json", "{") and kr.Manifold.load(p)
    yield "load: other manifest", lambda p: write(p, "manifest.json", json.dumps({"a": 1})) and kr.Manifold.load(p)
    yield "save: a file", lambda p: manifold().save(write(p, "file", text))
    yield "ranking: text", lambda p: kr.Ranking.load(write(p, "run.trec", text))
    yield "ranking: npz", lambda p: kr.Ranking.load(write(p, "run.npz", junk))
    yield "ranking: ending", lambda p: kr.Ranking.load(write(p, "run.xyz", text))
    yield "save ranking: ending", lambda p: RANKING.save(p / "run.xyz")
    yield "whitening: junk", lambda p: kr.whitening.Whitening.load(write(p, "w.npz", junk))
    yield "qrels: text", lambda p: kr.Truth.from_qrels(write(p, "qrels.txt", text))
    yield "split: text", lambda p: kr.Truth.from_split(write(p, "split.txt", text))
    yield "revisited: junk", lambda p: kr.Truth.revisited(write(p, "gnd.pkl", junk))
    yield "embed: unknown encoder", lambda p: kr.embed(p, "no-such-encoder")
    yield "embed: on_error", lambda p: kr.embed(p, on_error="ignore")
    yield (
        "weights: junk",
        lambda p: (
            kr.methods.CSA(weights=str(write(p, "w.npz", junk)))
            and kr.rerank(SEARCHED, GALLERY, kr.methods.CSA(weights=str(write(p, "w.npz", junk))))
        ),
    )
    yield "weights: none", lambda _: kr.rerank(SEARCHED, GALLERY, "csa")
    yield "fit: a method without weights", lambda p: kr.fit("aqe", GALLERY, LABELS, path=p / "w.npz")
    yield "fit: labels", lambda p: kr.fit("csa", GALLERY, LABELS[:-1], path=p / "w.npz")
    yield "fit: option", lambda p: kr.fit("csa", GALLERY, LABELS, path=p / "w.npz", no_such_option=1)
    for url in (
        "",
        "nothing",
        "mysql://host/db",
        "faiss:",
        "sqlite:",
        "pgvector:///",
        "qdrant://host?x=1",
        "usearch:x",
    ):
        yield f"store: {url!r}", lambda _, u=url: kr.open_store(u)


CASES: dict[str, Case] = {
    name: case
    for cases in (row_cases, parameter_cases, option_cases, id_cases, truth_cases, file_cases)
    for name, case in cases()
}


def test_there_are_many_kinds() -> None:
    kinds = [name for name in CASES if name not in dict(parameter_cases())]
    assert len(kinds) > 200


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_an_input_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        CASES[name](tmp_path)
    message = str(caught.value)
    assert message
    assert "\n" not in message
    assert len(message) < 1000
