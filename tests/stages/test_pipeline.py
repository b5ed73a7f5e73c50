"""The pipeline run four ways (joint, prepared, on a cluster, updated) gives the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank
from kinrank.manifold.changes import apply_change
from kinrank.manifold.service_log import Change, Rule
from kinrank.manifold.snapshot import Snapshot, make_gallery
from kinrank.methods.lpmt import JointState
from kinrank.problem import Items
from kinrank.progress import SILENT
from kinrank.stages import array_storage, diffusion, pipeline, step_costs
from kinrank.stages.graph_update import ChangedGallery, update_graph
from kinrank.stages.item_change import ItemChange
from kinrank.stages.states import PackedRows
from kinrank.vector_input import to_unit_rows

pytest.importorskip("distributed", reason="needs Dask: pip install '.[dask]'")

import distributed

import kinrank.distributed as spread

pytestmark = pytest.mark.slow

Floats = NDArray[np.float32]
FEW = 5  # items added one by one


def clusters(items: int, dimensions: int, groups: int, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(groups, dimensions))
    return (centres[rng.integers(0, groups, items)] + 0.4 * rng.normal(size=(items, dimensions))).astype(np.float32)


def doubled(rows: Floats, times: int) -> Floats:
    """Return many equal rows: more than fit a list, some of them among the last."""
    rows = rows.copy()
    rows[20 : 20 + times] = rows[7]
    rows[60:90] = rows[30:60]
    rows[-2:] = rows[7]
    return rows


def coarse(rows: Floats) -> Floats:
    """Return many equal rows and equal distances."""
    return np.round(rows * 1.5) + np.float32(0.25)


GALLERIES = {
    "few": clusters(300, 16, 12),  # rows of F are computed together
    "few, doubled": doubled(clusters(300, 16, 12), 80),
    "few, coarse": coarse(clusters(300, 5, 6)),
    "many": clusters(diffusion.MAX_BLOCK_ITEMS + 100, 3, 10),  # rows of F are spread one by one
    "many, doubled": doubled(clusters(diffusion.MAX_BLOCK_ITEMS + 100, 3, 10), 80),
    "at the border": clusters(diffusion.MAX_BLOCK_ITEMS, 4, 8),
}


@pytest.fixture(params=[*GALLERIES, "many, no table"])
def rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Floats:
    if request.param == "many, no table":  # ground costs from the vectors, as above MAX_TABLE_ITEMS
        monkeypatch.setattr(step_costs, "MAX_TABLE_ITEMS", 0)
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


def chains_of(prepared: JointState | pipeline.LpmtGraph) -> Bits:
    """Return states, steps and prices, and wide states if they have a share, as a prepared gallery keeps them."""
    assert prepared.steps is not None
    embedded, wide = (PackedRows.pack(rows).unpack() for rows in (prepared.states, prepared.wide))
    chains = array_storage.rows_to_arrays("state", embedded) | array_storage.rows_to_arrays("step", prepared.steps)
    return bits(chains | (array_storage.rows_to_arrays("wide", wide) if prepared.powers.direct else {}))


def kept_by(snapshot: Snapshot) -> Bits:
    return bits(snapshot.state.to_arrays())


def assert_among(part: Bits, whole: Bits) -> None:
    for name, content in part.items():
        assert content == whole[name], f"{name} differs"


def joint(rows: Floats, method: kinrank.LPMT) -> JointState:
    return method.prepare(Items.from_gallery(to_unit_rows(rows)), SILENT)


PREPARED: dict[tuple[str, int, int], Any] = {}  # what several tests need of a gallery, with and without a table


def once(what: str, rows: Floats, prepare: Callable[[], Any]) -> Any:
    """Prepare this for a gallery when it is first asked for."""
    key = what, id(rows), step_costs.MAX_TABLE_ITEMS
    if key not in PREPARED:
        PREPARED[key] = prepare()
    return PREPARED[key]


def usual(rows: Floats) -> JointState:
    """Return the joint state with default parameters."""
    assert any(rows is gallery for gallery in GALLERIES.values())
    return once("joint", rows, lambda: joint(rows, kinrank.LPMT()))  # type: ignore[no-any-return]


def built_without(rows: Floats, last: int) -> Snapshot:
    """Return a gallery of all but the last rows, which tests do not change: a change is a new snapshot."""
    return once(f"without {last}", rows, lambda: kinrank.Manifold.build(rows[:-last]).snapshot)  # type: ignore[no-any-return]


METHODS = [
    kinrank.LPMT(),
    kinrank.LPMT(k1=15, k2=3, k=4, path_k=4, support=0, share=0.5, cycles=2, direct=1, direct_k=9, direct_support=5),
    kinrank.LPMT(transport="exact", support=8, share=0.0, lam=0.0, direct=0),
]


@pytest.mark.parametrize("method", METHODS, ids=range(3))
def test_four_ways(rows: Floats, method: kinrank.LPMT, client: Any) -> None:
    if method.transport == "exact" and len(rows) > 500:
        rows = rows[-400:]
    wanted = usual(rows) if method == kinrank.LPMT() else joint(rows, method)
    chains = chains_of(wanted)

    built = kinrank.Manifold.build(rows, method)
    assert_among(chains, kept_by(built.snapshot))
    powers = wanted.powers
    facts = built.snapshot.facts
    assert {name: getattr(powers, name) for name in array_storage.POWER_NAMES} == {
        name: facts[name] for name in array_storage.POWER_NAMES
    }
    assert ("wide_data" in chains) == (powers.direct > 0) == (method.direct != 0)

    block = len(rows) // 7
    on_workers = spread.build(rows, method, client=client, block=block)
    assert_among(chains, kept_by(on_workers.snapshot))
    assert_among(kept_by(on_workers.snapshot), kept_by(built.snapshot))
    assert on_workers.snapshot.facts.items() <= facts.items()

    # an item is removed and added again: powers and graph weights are those of all items
    last = len(rows) - 1
    gone = apply_change(built.snapshot, Change([last], rule=Rule.REMOVE), tolerance=0.0)
    back = apply_change(gone, Change(vectors=rows[last:], rule=Rule.ADD), tolerance=0.0)
    assert_among(chains, kept_by(back))
    assert_among(without_facts_of_changes(kept_by(built.snapshot)), kept_by(back))
    assert kept_by(gone)["step_data"] != chains["step_data"]

    queries = clusters(6, rows.shape[1], 6, seed=9)
    answers = [kinrank.Manifold(one.snapshot).search(queries, k=20) for one in (built, on_workers)]
    answers.append(kinrank.Manifold(back).search(queries, k=20))
    places = [np.where(answer.indices > last, last, answer.indices) for answer in answers]  # it is now the last item
    assert (
        len({(found.tobytes(), answer.distances.tobytes()) for found, answer in zip(places, answers, strict=True)}) == 1
    )


def without_facts_of_changes(kept: Bits) -> Bits:
    return {name: content for name, content in kept.items() if name != "drift"}


def given(snapshot: Snapshot, rows: Floats) -> pipeline.LpmtGraph:
    """Run the pipeline for these rows with the powers and graph weights of the snapshot."""
    facts, method = snapshot.state.facts, snapshot.method
    assert isinstance(method, kinrank.LPMT)
    method = replace(method, **{name: facts[name] for name in array_storage.POWER_NAMES})  # type: ignore[arg-type]
    vectors = to_unit_rows(rows)
    with mock.patch.object(diffusion, "fit_graph_weights", return_value=snapshot.state.to_arrays()["beta"]):
        return pipeline.prepare_graph(make_gallery(vectors).lists, vectors, method, keep=True, pack=True)


def test_items_added_one_by_one(rows: Floats) -> None:
    snapshot = built_without(rows, FEW)
    for number in range(len(rows) - FEW, len(rows)):
        snapshot = apply_change(snapshot, Change(vectors=rows[number : number + 1], rule=Rule.ADD), tolerance=0.0)
    wanted = given(snapshot, rows)
    # the record as well; there is no drift
    assert_among(bits(array_storage.graph_to_arrays(wanted)), kept_by(snapshot))
    assert chains_of(wanted) == {name: kept_by(snapshot)[name] for name in chains_of(wanted)}


def test_items_added_and_removed(rows: Floats) -> None:
    """Several at once, from the middle, in a gallery that crosses the size up to which rows are computed in blocks."""
    snapshot = built_without(rows, FEW)
    gone = [0, 7, 25, len(rows) // 2, len(rows) - FEW - 1]
    snapshot = apply_change(snapshot, Change(vectors=rows[-FEW:], rule=Rule.ADD), tolerance=0.0)
    snapshot = apply_change(snapshot, Change(gone, rule=Rule.REMOVE), tolerance=0.0)
    wanted = given(snapshot, np.delete(rows, gone, axis=0))
    assert_among(bits(array_storage.graph_to_arrays(wanted)), kept_by(snapshot))


def test_over_the_border_and_back() -> None:
    rows = clusters(diffusion.MAX_BLOCK_ITEMS + 3, 4, 8)
    manifold = kinrank.Manifold.build(rows)
    last = range(diffusion.MAX_BLOCK_ITEMS - 2, diffusion.MAX_BLOCK_ITEMS + 3)
    snapshot = apply_change(manifold.snapshot, Change(last, rule=Rule.REMOVE), tolerance=0.0)
    assert_among(
        bits(array_storage.graph_to_arrays(given(snapshot, rows[: diffusion.MAX_BLOCK_ITEMS - 2]))), kept_by(snapshot)
    )
    back = Change(vectors=rows[diffusion.MAX_BLOCK_ITEMS - 2 :], rule=Rule.ADD)
    snapshot = apply_change(snapshot, back, tolerance=0.0)
    assert_among(without_facts_of_changes(kept_by(manifold.snapshot)), kept_by(snapshot))


def test_the_change_of_a_prepared_pipeline_is_that_of_a_manifold(rows: Floats) -> None:
    """graph_update.py called directly: the same numbers without names, files and stores."""
    method, vectors = kinrank.LPMT(), to_unit_rows(rows)
    before = pipeline.prepare_graph(make_gallery(vectors[:-1]).lists, vectors[:-1], method, keep=True, pack=True)
    turnover = ItemChange(len(rows) - 1, np.arange(len(rows) - 1), 1)
    gallery = ChangedGallery(turnover, vectors, make_gallery(vectors).lists_of, exact=True)
    for tolerance in (0.0, None):
        after = update_graph(before, gallery, method, tolerance)
        snapshot = apply_change(built_without(rows, 1), Change(vectors=rows[-1:], rule=Rule.ADD), tolerance)
        assert_among(chains_of(after), kept_by(snapshot))


@pytest.mark.parametrize("threads", ["1", "3"])
def test_any_number_of_threads(rows: Floats, threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = chains_of(usual(rows))
    monkeypatch.setenv("KINRANK_THREADS", threads)
    assert chains_of(joint(rows, kinrank.LPMT())) == wanted


def test_rerank_is_the_joint_way(rows: Floats) -> None:
    method = kinrank.LPMT()
    with mock.patch.object(kinrank.LPMT, "prepare", autospec=True, side_effect=kinrank.LPMT.prepare) as prepared:
        ranking = kinrank.rerank(None, rows, method, k=15)
    (call,) = prepared.call_args_list
    assert call.args[1].vectors.tobytes() == to_unit_rows(rows).tobytes()
    distances = method.distances(usual(rows), np.arange(len(rows)))
    np.fill_diagonal(distances, np.inf)
    found = np.take_along_axis(distances, ranking.indices, axis=1)
    np.testing.assert_allclose(ranking.distances, found, rtol=1e-5)  # products of other blocks round differently
    np.testing.assert_allclose(np.sort(distances, axis=1)[:, :15], found, rtol=1e-5)


@pytest.mark.parametrize("count", [2, 3, 5, 12])
@pytest.mark.parametrize("make", [lambda rows: rows, lambda rows: np.tile(rows[:1], (len(rows), 1))])
def test_tiny_galleries(count: int, make: Callable[[Floats], Floats], client: Any) -> None:
    rows = make(clusters(count, 4, 2))
    chains = chains_of(joint(rows, kinrank.LPMT()))
    built = kinrank.Manifold.build(rows)
    assert_among(chains, kept_by(built.snapshot))
    assert_among(chains, kept_by(spread.build(rows, client=client, block=2).snapshot))
    if count > 2:
        gone = apply_change(built.snapshot, Change([count - 1], rule=Rule.REMOVE), tolerance=0.0)
        assert_among(chains, kept_by(apply_change(gone, Change(vectors=rows[-1:], rule=Rule.ADD), tolerance=0.0)))
