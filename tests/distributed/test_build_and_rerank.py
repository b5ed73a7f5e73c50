"""A cluster of real processes gives bit-identical results to one machine, even if a worker is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank
from kinrank.distributed.worker_tasks import allocate_on_disk
from kinrank.stores import ArrayStore
from kinrank.testing import GALLERY_KINDS, realistic_gallery
from kinrank_bench.synthetic import curves

pytest.importorskip("distributed", reason="needs Dask: pip install '.[dask]'")

import kinrank.distributed as spread

pytestmark = pytest.mark.slow

ITEMS, DIMENSIONS = 1200, 24
PARTS = ("indptr", "indices", "data")
KEPT = {"lengths", *(f"{rows}_{part}" for rows in ("state", "step") for part in PARTS)}
WIDE = {f"wide_{part}" for part in PARTS}  # of two items and more


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    import dask.config
    from distributed import Client, LocalCluster

    with (
        # The name of a lost worker is released after 15 s if it has not returned. Tests kill one worker after the
        # other, so the timer of one kill could fall into the restart after the next and close the restarting nanny.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"}),
        LocalCluster(
            n_workers=3,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            host="127.0.0.1",
            env={"KINRANK_THREADS": "1"},
            silence_logs=50,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def gallery() -> np.ndarray[Any, Any]:
    rows = curves(ITEMS, DIMENSIONS)
    rows[100:130] = rows[7]  # duplicates: ties must be broken in the same way
    return rows


@pytest.fixture(scope="module")
def queries() -> np.ndarray[Any, Any]:
    return curves(60, DIMENSIONS, seed=1)


class Killer:
    """A progress callback that kills a worker once, in the middle of a stage, preferably a busy one."""

    def __init__(self, client: Any, stage: str) -> None:
        self.client, self.stage = client, stage
        self.killed: int | None = None

    def __call__(self, label: str, done: int, total: int) -> None:
        if label != self.stage or self.killed is not None or done < 2 or total <= 4:  # 4: the stages themselves
            return
        assert done < total, "too late to matter"
        workers = sorted(self.client.processing().items(), key=lambda worker: -len(worker[1]))
        address = workers[0][0]
        self.killed = self.client.run(os.getpid, workers=[address])[address]
        os.kill(self.killed, signal.SIGKILL)


class Mortal(ArrayStore):
    """A store whose first search kills the worker during a block of work."""

    def __init__(self, path: str, marker: Path) -> None:
        super().__init__(np.load(path))
        self.marker = marker

    def search(self, queries: Any, k: int) -> kinrank.Ranking:
        try:
            self.marker.open("x").close()  # only one of all workers succeeds
        except FileExistsError:
            return super().search(queries, k)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("still alive")


def same_ranking(one: Any, other: Any) -> None:
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_array_equal(one.distances, other.distances)


def assert_same(one: kinrank.Manifold, other: kinrank.Manifold) -> None:
    mine, theirs = one.snapshot, other.snapshot
    assert np.array_equal(mine.vectors, theirs.vectors)
    kept = KEPT | WIDE if len(one) > 1 else KEPT
    assert kept == set(mine.state.to_arrays()) <= set(theirs.state.to_arrays())
    for name in kept:
        assert mine.state.to_arrays()[name].dtype == theirs.state.to_arrays()[name].dtype, name
        np.testing.assert_array_equal(mine.state.to_arrays()[name], theirs.state.to_arrays()[name], err_msg=name)
    assert mine.facts.items() <= theirs.facts.items()


@pytest.mark.parametrize("stage", ["neighbours", "graphs", "diffusion", "states", "steps"])
def test_build_with_a_killed_worker_gives_the_same_answer(
    client: Any, gallery: Any, tmp_path: Path, stage: str
) -> None:
    np.save(tmp_path / "gallery.npy", gallery)
    before = set(client.run(os.getpid).values())
    killer = Killer(client, stage)
    made = spread.build(tmp_path / "gallery.npy", client=client, block=90, progress=killer)
    assert killer.killed in before
    assert_same(made, kinrank.Manifold.build(gallery))
    client.wait_for_workers(3, timeout=120)
    assert killer.killed not in set(client.run(os.getpid).values())


def test_build_searches_like_the_local_one(client: Any, gallery: Any, queries: Any, tmp_path: Path) -> None:
    names = [f"item {number}" for number in range(ITEMS)]
    made = spread.build(gallery, client=client, block=700, ids=names, folder=tmp_path)
    local = kinrank.Manifold.build(gallery, ids=names)
    mine, theirs = made.search(queries, k=10), local.search(queries, k=10)
    same_ranking(mine, theirs)
    assert mine.ids.tolist() == theirs.ids.tolist()
    assert not list(tmp_path.iterdir()), "files are left"


@pytest.mark.parametrize(
    "method",
    [
        kinrank.LPMT(share=0.5, support=10),
        kinrank.LPMT(transport="exact", share=0.0, support=8),
        kinrank.LPMT(support=0, cycles=3, lam=0.1, rho=1.0, gamma=2.0),
        kinrank.DFS(),  # only its search is distributed
    ],
    ids=repr,
)
def test_build_with_other_settings(client: Any, gallery: Any, method: kinrank.Method) -> None:
    rows, made = gallery[:400], spread.build(gallery[:400], method, client=client, block=130)
    local = kinrank.Manifold.build(rows, method)
    asked = curves(5, DIMENSIONS, seed=2)
    same_ranking(made.search(asked, k=20), local.search(asked, k=20))
    for name, array in made.snapshot.state.to_arrays().items():
        np.testing.assert_array_equal(array, local.snapshot.state.to_arrays()[name], err_msg=name)


@pytest.mark.parametrize("kind", GALLERY_KINDS)
def test_realistic_galleries_are_built_saved_and_ranked(client: Any, kind: str, tmp_path: Path) -> None:
    data = realistic_gallery(kind)
    made = spread.build(data.gallery, client=client, block=150)
    assert_same(made, kinrank.Manifold.build(data.gallery))
    made.save(tmp_path / "m")
    same_ranking(kinrank.Manifold.load(tmp_path / "m").search(data.queries, k=10), made.search(data.queries, k=10))
    arguments: dict[str, Any] = {"candidates": 50, "k": 70}
    ranking = spread.rerank(data.queries, data.gallery, client=client, block=3, **arguments)
    same_ranking(ranking, kinrank.rerank(data.queries, data.gallery, **arguments))


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_build_of_hardly_anything(client: Any, gallery: Any, count: int) -> None:
    made = spread.build(gallery[:count], client=client, block=2)
    assert len(made) == count
    assert_same(made, kinrank.Manifold.build(gallery[:count]))


def test_a_worker_that_dies_at_work_changes_nothing(client: Any, gallery: Any, queries: Any, tmp_path: Path) -> None:
    path, marker, store = str(tmp_path / "gallery.npy"), tmp_path / "died", ArrayStore(gallery[:600])
    np.save(path, gallery[:600])
    rows = store.vectors(np.arange(600))  # the input of a local build
    made = spread.build(rows, client=client, block=150, store=partial(Mortal, path, marker))
    assert marker.exists()
    assert_same(made, kinrank.Manifold.build(store))
    marker.unlink()
    ranking = spread.rerank(queries, partial(Mortal, path, marker), candidates=30, client=client, block=6)
    assert marker.exists()
    local = kinrank.rerank(queries, store, candidates=30)
    same_ranking(ranking, local)


def test_rerank_with_a_killed_worker_gives_the_same_answer(client: Any, gallery: Any, queries: Any) -> None:
    killer = Killer(client, "queries")
    arguments: dict[str, Any] = {"candidates": 50, "k": 70}
    made = spread.rerank(queries, gallery, client=client, block=4, progress=killer, **arguments)
    local = kinrank.rerank(queries, gallery, **arguments)
    assert killer.killed is not None
    same_ranking(made, local)
    assert {**made.meta, "seconds": 0, "seconds_in": 0} == {**local.meta, "seconds": 0, "seconds_in": 0}
    assert made.meta["seconds_in"].keys() == local.meta["seconds_in"].keys()


def test_rerank_from_a_store_that_workers_open(client: Any, gallery: Any, queries: Any) -> None:
    rows = gallery[:300]
    arguments: dict[str, Any] = {"method": "aqe", "candidates": 20}
    made = spread.rerank(queries, lambda: Short(rows), client=client, block=7, **arguments)
    local = kinrank.rerank(queries, Short(rows), **arguments)
    same_ranking(made, local)


class Short(ArrayStore):
    """A store like an approximate index: rows are padded, and only as wide as the longest row needs."""

    def search(self, queries: Any, k: int) -> kinrank.Ranking:
        found = super().search(queries, k)
        kept = np.where(np.asarray(queries)[:, 0] > 0, k, k // 2)
        width = int(kept.max(initial=0))
        there = np.arange(width) < kept[:, None]
        indices = np.where(there, found.indices[:, :width], -1)
        return kinrank.Ranking(indices, np.where(there, found.distances[:, :width], np.inf), {})


def test_no_queries_give_no_rows(client: Any, gallery: Any) -> None:
    made = spread.rerank(np.empty((0, DIMENSIONS)), gallery[:50], candidates=10, client=client)
    assert made.indices.shape == (0, 10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rows, client: spread.build(rows, block=0, client=client), "block"),
        (lambda rows, client: spread.build(rows, folder="nowhere", client=client), "folder='nowhere'"),
        (lambda rows, client: spread.build(rows, "egt", client=client), "cannot use it"),
        (lambda rows, client: spread.build(rows[0], client=client), "2-d"),
        (lambda rows, client: spread.build(_broken(rows), client=client), "row 3 "),
        (lambda rows, client: spread.rerank(rows, ArrayStore(rows), client=client), "opens a Store"),
        (lambda rows, client: spread.rerank(None, rows, client=client), "queries=None"),
        (lambda rows, client: spread.rerank(rows * 0, rows, client=client), "row 0 is a zero vector"),
        (lambda rows, client: spread.rerank(rows[:, :5], rows, client=client), "dimensions are needed"),
    ],
)
def test_mistakes_are_told(client: Any, gallery: Any, call: Callable[[Any, Any], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(gallery[:20], client)


@pytest.fixture
def deserted() -> Iterator[Any]:
    """Return a scheduler without workers."""
    from distributed import Client, LocalCluster

    options = {"n_workers": 0, "processes": False, "protocol": "tcp", "host": "127.0.0.1", "silence_logs": 50}
    with LocalCluster(dashboard_address=":0", **options) as cluster, Client(cluster) as client:
        yield client


@pytest.mark.parametrize("call", [spread.build, partial(spread.rerank, np.eye(3, DIMENSIONS))])
def test_without_workers_it_ends_with_a_sentence(call: Callable[..., object], deserted: Any, gallery: Any) -> None:
    with pytest.raises(TimeoutError, match="no worker for 1 seconds; start workers for its scheduler"):
        call(gallery[:100], client=deserted, wait=1)


def test_when_all_workers_are_lost_it_ends_with_a_sentence(deserted: Any, gallery: Any) -> None:
    deserted.cluster.scale(1)
    deserted.wait_for_workers(1, timeout=180)
    reports: list[str] = []

    def lose(label: str, done: int, total: int) -> None:
        reports.append(label)
        deserted.cluster.scale(0)
        while deserted.nthreads():
            time.sleep(0.05)

    with pytest.raises(TimeoutError, match="no worker for 2 seconds"):
        spread.rerank(gallery[:60], gallery, "none", candidates=5, block=10, client=deserted, wait=2, progress=lose)
    assert reports


@pytest.mark.parametrize("wait", [0, -1, True, "soon", float("nan"), None])
def test_how_long_to_wait_is_checked(wait: Any, client: Any, gallery: Any) -> None:
    with pytest.raises(ValueError, match=r"wait=.* is not allowed; give seconds > 0"):
        spread.build(gallery[:20], client=client, wait=wait)
    with pytest.raises(ValueError, match=r"wait=.* is not allowed; give seconds > 0"):
        spread.rerank(gallery[:20], gallery[:20], client=client, wait=wait)


def test_more_of_everything_than_there_is_works_on_a_cluster_too(client: Any, gallery: Any) -> None:
    """Numbers of items beyond the gallery mean all of it."""
    rows, many = gallery[:60], 10**9
    method = kinrank.LPMT(k1=many, k2=many, k=many, path_k=many, support=many)
    made = spread.build(rows, method, client=client, block=20)
    here = kinrank.Manifold.build(rows, method)
    assert made.search(rows[:5], k=many).indices.tolist() == here.search(rows[:5], k=many).indices.tolist()
    ranked = spread.rerank(rows[:3], rows, "aqe", candidates=many, k=many, client=client)
    assert ranked.indices.shape == (3, 60)


def _broken(rows: Any) -> Any:
    rows = rows.copy()
    rows[3, 2] = np.nan
    return rows


def test_without_dask_the_error_says_what_to_install(gallery: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[dask\]'"):
        spread.build(gallery)


def test_a_sheet_takes_room_only_where_it_is_touched() -> None:
    rows = allocate_on_disk((10**9, 100), np.float32)  # 400 GB
    rows[5 * 10**8] = 1.0
    assert rows[5 * 10**8].sum() == 100.0
    assert not rows[5 * 10**8 + 1].any()


def test_the_plan_on_paper_uses_recorded_numbers() -> None:
    """docs/scale.md takes its inputs from the records that it names; test_docs.py runs its arithmetic."""
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs" / "scale.md").read_text("utf-8")
    records = [json.loads(line) for line in (root / "benchmarks" / "results.jsonl").read_text().splitlines()]
    used = {kind: f"{when} UTC" for when, kind in re.findall(r"([\d-]+ \d\d:\d\d) \((\w+)\)", page)}
    scale, speed = (
        next(record for record in records if (record["bench"], record["date"]) == (kind, used[kind]))
        for kind in ("scale", "speed")
    )
    stated: dict[str, Any] = {}
    exec(re.findall(r"^measured = {.*?^}", page, flags=re.DOTALL | re.MULTILINE)[0], stated)
    measured = stated["measured"]
    point = next(point for point in scale["results"] if point["items"] == measured["items"])
    for name in ("neighbour_search_seconds", "build_seconds", "searched_bytes_per_vector_byte"):
        assert measured[name] == round(point[name], 4), name
    assert measured["threads"] == scale["machine"]["threads"] == speed["machine"]["threads"]
    growth = next(row["growth"] for row in speed["results"] if row["method"] == "lpmt")
    points = {point["items"]: point["search_seconds"] for point in growth["points"]}
    assert measured["exact_seconds"] == round(points[measured["exact_items"]], 4)
    last = re.findall(r"(\d+) s there, ([\d.]+) ms of a thread per item \(record of ([\d-]+ \d\d:\d\d)\)", page)[0]
    largest = next(record for record in records if (record["bench"], record["date"]) == ("scale", f"{last[2]} UTC"))
    (million,) = largest["results"]
    after = million["build_seconds"] - million["neighbour_search_seconds"]
    each = 1000 * after * largest["machine"]["threads"] / million["items"]
    assert last[:2] == (f"{after:.0f}", f"{each:.2f}")


def test_vectors_whose_length_matters(client: Any, gallery: Any, queries: Any, tmp_path: Path) -> None:
    """The metric euclidean: lengths differ, one row is zero, and the results are still bit-identical."""
    rows = gallery * np.exp(np.random.default_rng(0).normal(size=(ITEMS, 1))).astype(np.float32)
    rows[5] = 0.0
    made = spread.build(rows, client=client, block=700, folder=tmp_path, metric="euclidean")
    assert_same(made, kinrank.Manifold.build(rows, metric="euclidean"))
    assert made.info()["metric"] == "euclidean"
    mine = spread.rerank(queries, rows, candidates=40, client=client, metric="euclidean")
    same_ranking(mine, kinrank.rerank(queries, rows, candidates=40, metric="euclidean"))
    with pytest.raises(ValueError, match="metric='manhattan' is not allowed"):
        spread.build(rows, client=client, metric="manhattan")
    with pytest.raises(ValueError, match="metric='manhattan' is not allowed"):
        spread.rerank(queries, rows, client=client, metric="manhattan")
