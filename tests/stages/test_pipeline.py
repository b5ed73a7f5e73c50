"""The one pipeline run four ways (joint, prepared, on a cluster, changed) gives the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank
from kinrank.features import unit
from kinrank.items import Items
from kinrank.manifold import changes
from kinrank.manifold.gallery import gallery_over
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods.lpmt import Joint
from kinrank.progress import SILENT
from kinrank.stages import costs, diffusion, pipeline, saved
from kinrank.stages.changes import changed
from kinrank.stages.turnover import Turnover

pytest.importorskip("distributed", reason="needs Dask: pip install 'kinrank[dask]'")

import distributed

import kinrank.distributed as spread

Floats = NDArray[np.float32]
FEW = 5  # items that come one by one


def clusters(items: int, dimensions: int, groups: int, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(groups, dimensions))
    return (centres[rng.integers(0, groups, items)] + 0.4 * rng.normal(size=(items, dimensions))).astype(np.float32)


def doubled(rows: Floats, times: int) -> Floats:
    """Many equal rows: more than a list is long, some of them among the last."""
    rows = rows.copy()
    rows[20 : 20 + times] = rows[7]
    rows[60:90] = rows[30:60]
    rows[-2:] = rows[7]
    return rows


def coarse(rows: Floats) -> Floats:
    """Many equal rows and equal distances."""
    return np.round(rows * 1.5) + np.float32(0.25)


GALLERIES = {
    "few": clusters(300, 16, 12),  # rows of F are computed together
    "few, doubled": doubled(clusters(300, 16, 12), 80),
    "few, coarse": coarse(clusters(300, 5, 6)),
    "many": clusters(1500, 3, 10),  # rows of F are spread one by one
    "many, doubled": doubled(clusters(1500, 3, 10), 80),
    "at the border": clusters(diffusion.SMALL, 4, 8),
}


@pytest.fixture(params=[*GALLERIES, "many, no table"])
def rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Floats:
    if request.param == "many, no table":  # ground costs from the vectors, as beyond costs.TABLE items
        monkeypatch.setattr(costs, "TABLE", 0)
    return GALLERIES[request.param.removesuffix(", no table")]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            host="127.0.0.1",
            env={"KINRANK_THREADS": "1"},
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


Bits = dict[str, tuple[str, tuple[int, ...], bytes]]


def bits(arrays: dict[str, NDArray[Any]]) -> Bits:
    return {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}


def chains_of(prepared: Joint | pipeline.Prepared) -> Bits:
    """States, steps and prices, and wide states where they have a share."""
    assert prepared.steps is not None
    chains = saved.arrays_of("state", prepared.states) | saved.arrays_of("step", prepared.steps)
    return bits(chains | (saved.arrays_of("wide", prepared.wide) if prepared.powers.direct else {}))


def kept_by(snapshot: Snapshot) -> Bits:
    return bits(snapshot.kept.arrays)


def assert_among(part: Bits, whole: Bits) -> None:
    for name, content in part.items():
        assert content == whole[name], f"{name} differs"


def joint(rows: Floats, method: kinrank.LPMT) -> Joint:
    return method.prepare(Items.everyone(unit(rows)), SILENT)


METHODS = [
    kinrank.LPMT(),
    kinrank.LPMT(k1=15, k2=3, k=4, path_k=4, support=0, share=0.5, cycles=2, direct=1, direct_k=9, direct_support=5),
    kinrank.LPMT(transport="exact", support=8, share=0.0, lam=0.0, direct=0),
]


@pytest.mark.parametrize("method", METHODS, ids=range(3))
def test_four_ways(rows: Floats, method: kinrank.LPMT, client: Any) -> None:
    if method.transport == "exact" and len(rows) > 500:
        rows = rows[-400:]
    wanted = joint(rows, method)
    chains = chains_of(wanted)

    built = kinrank.Manifold.build(rows, method)
    assert_among(chains, kept_by(built._snapshot))
    powers = wanted.powers
    facts = built._snapshot.facts
    assert {name: getattr(powers, name) for name in saved.FACTS} == {name: facts[name] for name in saved.FACTS}
    assert ("wide_data" in chains) == (powers.direct > 0) == (method.direct != 0)

    block = len(rows) // 7
    on_workers = spread.build(rows, method, client, block=block)
    assert_among(chains, kept_by(on_workers._snapshot))
    assert_among(kept_by(on_workers._snapshot), kept_by(built._snapshot))
    assert on_workers._snapshot.facts.items() <= facts.items()

    # an item that leaves and comes back: powers and weights of the graphs are those of all items
    last = len(rows) - 1
    gone = changes.removed(built._snapshot, [last], tolerance=0.0)
    back = changes.added(gone, rows[last:], None, tolerance=0.0)
    assert_among(chains, kept_by(back))
    assert_among(without_facts_of_changes(kept_by(built._snapshot)), kept_by(back))
    assert kept_by(gone)["step_data"] != chains["step_data"]

    queries = clusters(6, rows.shape[1], 6, seed=9)
    answers = [kinrank.Manifold(one._snapshot).search(queries, k=20) for one in (built, on_workers)]
    answers.append(kinrank.Manifold(back).search(queries, k=20))
    places = [np.where(answer.indices > last, last, answer.indices) for answer in answers]  # it came back as a new item
    assert (
        len({(found.tobytes(), answer.distances.tobytes()) for found, answer in zip(places, answers, strict=True)}) == 1
    )


def without_facts_of_changes(kept: Bits) -> Bits:
    return {name: content for name, content in kept.items() if name != "drift"}


def given(snapshot: Snapshot, rows: Floats) -> pipeline.Prepared:
    """The pipeline for these rows, with the powers and the weights of the graphs that the snapshot has."""
    facts, method = snapshot.kept.facts, snapshot.method
    assert isinstance(method, kinrank.LPMT)
    method = replace(method, **{name: facts[name] for name in saved.FACTS})  # type: ignore[arg-type]
    vectors = unit(rows)
    with mock.patch.object(diffusion, "graph_weights", return_value=snapshot.kept.arrays["beta"]):
        return pipeline.prepare(gallery_over(vectors).lists, vectors, method, keep=True)


def test_items_that_come_one_by_one(rows: Floats) -> None:
    snapshot = kinrank.Manifold.build(rows[:-FEW])._snapshot
    for number in range(len(rows) - FEW, len(rows)):
        snapshot = changes.added(snapshot, rows[number : number + 1], None, tolerance=0.0)
    wanted = given(snapshot, rows)
    assert_among(bits(saved.saved(wanted)[0]), kept_by(snapshot))  # the record, too; nothing drifted
    assert chains_of(wanted) == {name: kept_by(snapshot)[name] for name in chains_of(wanted)}


def test_items_that_come_and_go(rows: Floats) -> None:
    """Several at once, from the middle, and a gallery that crosses the size up to which rows are computed together."""
    snapshot = kinrank.Manifold.build(rows[:-FEW])._snapshot
    gone = [0, 7, 25, len(rows) // 2, len(rows) - FEW - 1]
    snapshot = changes.added(snapshot, rows[-FEW:], None, tolerance=0.0)
    snapshot = changes.removed(snapshot, gone, tolerance=0.0)
    wanted = given(snapshot, np.delete(rows, gone, axis=0))
    assert_among(bits(saved.saved(wanted)[0]), kept_by(snapshot))


def test_over_the_border_and_back() -> None:
    rows = clusters(diffusion.SMALL + 3, 4, 8)
    manifold = kinrank.Manifold.build(rows)
    snapshot = changes.removed(manifold._snapshot, range(diffusion.SMALL - 2, diffusion.SMALL + 3), tolerance=0.0)
    assert_among(bits(saved.saved(given(snapshot, rows[: diffusion.SMALL - 2]))[0]), kept_by(snapshot))
    snapshot = changes.added(snapshot, rows[diffusion.SMALL - 2 :], None, tolerance=0.0)
    assert_among(without_facts_of_changes(kept_by(manifold._snapshot)), kept_by(snapshot))


def test_the_change_of_a_prepared_pipeline_is_that_of_a_manifold(rows: Floats) -> None:
    """stages/changes.py by hand: the same numbers without names, files and stores."""
    method, vectors = kinrank.LPMT(), unit(rows)
    before = pipeline.prepare(gallery_over(vectors[:-1]).lists, vectors[:-1], method, keep=True)
    turnover = Turnover(len(rows) - 1, np.arange(len(rows) - 1), 1)
    for tolerance in (0.0, None):
        after = changed(before, turnover, vectors, gallery_over(vectors).lists_of, True, method, tolerance)
        manifold = kinrank.Manifold.build(rows[:-1])
        snapshot = changes.added(manifold._snapshot, rows[-1:], None, tolerance)
        assert_among(chains_of(after), kept_by(snapshot))


@pytest.mark.parametrize("threads", ["1", "3"])
def test_any_number_of_threads(rows: Floats, threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = chains_of(joint(rows, kinrank.LPMT()))
    monkeypatch.setenv("KINRANK_THREADS", threads)
    assert chains_of(joint(rows, kinrank.LPMT())) == wanted


def test_rerank_is_the_joint_way(rows: Floats) -> None:
    method = kinrank.LPMT()
    with mock.patch.object(kinrank.LPMT, "prepare", autospec=True, side_effect=kinrank.LPMT.prepare) as prepared:
        ranking = kinrank.rerank(None, rows, method, depth=15)
    (call,) = prepared.call_args_list
    assert call.args[1].vectors.tobytes() == unit(rows).tobytes()
    distances = method.distances(joint(rows, method), np.arange(len(rows)))
    np.fill_diagonal(distances, np.inf)
    found = np.take_along_axis(distances, ranking.indices, axis=1)
    np.testing.assert_allclose(ranking.distances, found, rtol=1e-5)  # products of other blocks round otherwise
    np.testing.assert_allclose(np.sort(distances, axis=1)[:, :15], found, rtol=1e-5)


@pytest.mark.parametrize("count", [2, 3, 5, 12])
@pytest.mark.parametrize("make", [lambda rows: rows, lambda rows: np.tile(rows[:1], (len(rows), 1))])
def test_hardly_anything(count: int, make: Callable[[Floats], Floats], client: Any) -> None:
    rows = make(clusters(count, 4, 2))
    chains = chains_of(joint(rows, kinrank.LPMT()))
    built = kinrank.Manifold.build(rows)
    assert_among(chains, kept_by(built._snapshot))
    assert_among(chains, kept_by(spread.build(rows, client=client, block=2)._snapshot))
    if count > 2:
        gone = changes.removed(built._snapshot, [count - 1], tolerance=0.0)
        assert_among(chains, kept_by(changes.added(gone, rows[-1:], None, tolerance=0.0)))
