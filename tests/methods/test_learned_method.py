"""CSA, SSR and LAttQE from a file of weights: published outputs, slow references, refusals, prepared galleries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank as kr
from kinrank import weight_files
from kinrank.manifold.verify import verify
from kinrank.methods import csa, lattqe, network_layers, ssr
from kinrank.methods.lattqe import LAttQEState
from kinrank.methods.learned_method import LearnedMethod
from kinrank.neighbors import Neighbors, find_nearest
from kinrank.problem import Items
from kinrank.progress import SILENT
from kinrank.testing import toy
from kinrank.vector_input import to_unit_rows
from kinrank_bench.random_weights import add_random_weights
from reference import networks as twin

pytestmark = pytest.mark.slow

Golden = dict[str, NDArray[Any]]
FILES = {"csa": "csa", "ssr": "ssr", "lattqe": "lattqe_own_reading"}
SIZES: dict[str, dict[str, Any]] = {
    "csa": {"anchors": 32, "width": 48, "depth": 2, "heads": 4},
    "ssr": {"top": 20, "hidden": 24, "lr": 0.01, "steps": 1, "variant": "cut"},
    "lattqe": {"dimensions": 64, "k": 12, "layers": 2, "heads": 8, "hidden": 96},
}
TRAINING_ONLY = ("feature_align", "scale_cls", "relevance")  # arrays that ranking does not need


@pytest.fixture(scope="module")
def golden(shared_dir: Path) -> Callable[[str], Golden]:
    def read(name: str) -> Golden:
        path = shared_dir / "golden" / "learned" / f"{FILES[name]}.npz"
        if not path.is_file():
            pytest.skip(f"no golden/learned/{path.name} in the shared folder")
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)

    return read


def state(arrays: Golden) -> Golden:
    found = {name.removeprefix("state/"): array for name, array in arrays.items() if name.startswith("state/")}
    return {name: array for name, array in found.items() if not name.startswith(TRAINING_ONLY)}


def saved(name: str, arrays: Golden, path: Path, **sizes: Any) -> str:
    weight_files.save(path, state(arrays), SIZES[name] | sizes, {"method": name, "labels": "published"})
    return str(path)


def agrees(found: NDArray[Any], expected: NDArray[Any], share: float = 1e-5) -> None:
    """Check agreement to 1e-5 of the range of the array, as the README of the golden files requires."""
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=share * float(np.ptp(expected)))


def same_order(ranking: kr.Ranking, scores: NDArray[Any], share: float = 1e-5) -> None:
    """Check that in our order their scores rise only within rounding."""
    theirs = np.take_along_axis(scores, ranking.indices, axis=1)
    assert np.diff(theirs, axis=1).max() <= 2 * share * np.ptp(scores)


def test_arrays_have_the_published_names_and_shapes(golden: Callable[[str], Golden]) -> None:
    for name in FILES:
        found = state(golden(name))
        assert {key: array.shape for key, array in found.items()} == kr.methods.METHODS[name].layout(SIZES[name])


def test_csa_is_the_published_network(golden: Callable[[str], Golden], tmp_path: Path) -> None:
    arrays = golden("csa")
    queries, gallery, order = arrays["queries"], arrays["gallery"], arrays["order"]
    agrees(csa.anchor_similarities(queries[0], gallery[order[0]], 32), arrays["affinity_first_query"])
    raw = [csa.anchor_similarities(query, gallery[row], 32) for query, row in zip(queries, order, strict=True)]
    agrees(np.array([network_layers.cosines(rows[0], rows[1:]) for rows in raw]), arrays["affinity_score"])
    found = [
        csa.score_items(state(arrays), SIZES["csa"], query, gallery[row])
        for query, row in zip(queries, order, strict=True)
    ]
    agrees(np.array(found), arrays["score"])
    ranking = kr.rerank(queries, gallery, kr.methods.CSA(top=48, weights=saved("csa", arrays, tmp_path / "csa.npz")))
    scores = np.full((30, 600), -2.0)
    np.put_along_axis(scores, order.astype(np.int64), arrays["score"].astype(np.float64), axis=1)
    same_order(ranking.head(48), scores)
    for mine, theirs in zip(ranking.indices[:, :48], arrays["ranking_top"], strict=True):
        assert set(mine.tolist()) == set(theirs.tolist())
    agrees(-ranking.distances[:, :48], -np.sort(-arrays["score"], axis=1))
    behind = kr.rerank(queries, gallery, "none").indices[:, 48:]
    np.testing.assert_array_equal(ranking.indices[:, 48:], behind)


@pytest.mark.parametrize("steps", [1, 2])
def test_ssr_in_closed_form(golden: Callable[[str], Golden], tmp_path: Path, steps: int) -> None:
    arrays = golden("ssr")
    queries, gallery, order = arrays["queries"], arrays["gallery"], arrays["order"]
    output, sizes = state(arrays), SIZES["ssr"] | {"steps": steps}
    seen, _ = ssr.build_inputs(to_unit_rows(np.concatenate([queries[:1], gallery[order[0]]])), 20)
    agrees(seen, arrays["inputs_first_query"])
    agrees(ssr.run_network(output, "dni_query", seen), arrays["dni_query_first_query"])
    both = list(zip(queries, order, strict=True))
    found = [ssr.score_items(output, sizes, query, gallery[row]) for query, row in both]
    expected = arrays[f"score_{steps}_step_cut"]
    agrees(np.array(found), expected)
    if steps == 1:
        moved = [ssr.refine_vectors(output, sizes, query, gallery[row])[0] for query, row in both]
        agrees(np.array(moved), arrays["refined_query"])
    ranking = kr.rerank(
        queries, gallery, kr.methods.SSR(weights=saved("ssr", arrays, tmp_path / "ssr.npz", steps=steps))
    )
    scores = np.full((30, 600), -2.0)
    np.put_along_axis(scores, order.astype(np.int64), expected.astype(np.float64), axis=1)
    same_order(ranking.head(20), scores)
    agrees(-ranking.distances[:, :20], -np.sort(-expected, axis=1))


@pytest.mark.parametrize("steps", [1, 2])
def test_ssr_as_published(golden: Callable[[str], Golden], tmp_path: Path, steps: int) -> None:
    pytest.importorskip("torch", reason="torch is not installed: make test-learned installs it")
    arrays = golden("ssr")
    path = saved("ssr", arrays, tmp_path / "ssr.npz", steps=steps, variant="published")
    ranking = kr.rerank(arrays["queries"], arrays["gallery"], kr.methods.SSR(weights=path))
    agrees(-ranking.distances[:, :20], -np.sort(-arrays[f"score_{steps}_step"], axis=1))


def test_ssr_as_published_says_when_torch_is_missing(
    golden: Callable[[str], Golden], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    arrays = golden("ssr")
    path = saved("ssr", arrays, tmp_path / "ssr.npz", variant="published")
    with pytest.raises(ImportError, match=r"needs torch, which cannot be imported .* '\.\[torch\]'"):
        kr.rerank(arrays["queries"], arrays["gallery"], kr.methods.SSR(weights=path))


def test_lattqe_in_our_reading(golden: Callable[[str], Golden], tmp_path: Path) -> None:
    arrays = golden("lattqe")
    queries, gallery, order = arrays["queries"], arrays["gallery"], arrays["order"]
    path = saved("lattqe", arrays, tmp_path / "lattqe.npz")
    near = Neighbors(order.astype(np.int32), np.zeros(order.shape, np.float32))
    found = lattqe.weigh_neighbors(weight_files.Weights(state(arrays), SIZES["lattqe"]), queries, gallery, near)
    agrees(np.concatenate([np.ones((30, 1), np.float32), found], axis=1), arrays["weights"])
    lists = np.concatenate([queries[:, None], gallery[order]], axis=1)
    states = lattqe.encode_lists(state(arrays), SIZES["lattqe"], lists)[:, 1:]
    logits = states @ arrays["state/relevance.weight"][0] + arrays["state/relevance.bias"]
    agrees(logits, arrays["relevance_logit"])
    items = Items.joint(to_unit_rows(queries), to_unit_rows(gallery))
    plain, augmented = kr.methods.LAttQE(k=12, weights=path), kr.methods.LAttQE(k=12, kdba=13, weights=path)
    agrees(plain.prepare(items, SILENT).queries, arrays["expanded"])
    agrees(augmented.augment(items, SILENT, augmented.network()), arrays["augmented"])
    for method, name in ((plain, "score"), (augmented, "score_dba")):
        ranking = kr.rerank(queries, gallery, method)
        same_order(ranking, arrays[name])
        agrees(-ranking.distances, -np.sort(-arrays[name], axis=1))
    named = kr.methods.AugmentedLAttQE(k=12, kdba=13, weights=path)
    np.testing.assert_array_equal(kr.rerank(queries, gallery, named).indices, ranking.indices)


def double(name: str, path: Path, **more: Any) -> tuple[LearnedMethod, dict[str, NDArray[np.float64]], dict[str, Any]]:
    method = add_random_weights(name, path, **more)
    assert isinstance(method, LearnedMethod)
    network = method.network()
    return method, {key: np.asarray(array, np.float64) for key, array in network.arrays.items()}, network.sizes


@pytest.mark.parametrize("items", [1, 2, 9, 15, 16, 17, 40])
def test_csa_is_its_twin_with_fewer_and_more_items_than_anchors(tmp_path: Path, items: int) -> None:
    method, arrays, sizes = double("csa", tmp_path / "csa.npz")
    rows = to_unit_rows(np.random.default_rng(items).normal(size=(items + 2, 12)).astype(np.float32))
    ranking = kr.rerank(rows[:2], rows[2:], method)
    for row, query in enumerate(rows[:2].astype(np.float64)):
        order = find_nearest(rows[row : row + 1], rows[2:], items).indices[0]
        expected = np.sort(-twin.csa(arrays, sizes, query, rows[2:].astype(np.float64)[order]))
        np.testing.assert_allclose(ranking.distances[row], expected, atol=1e-5)


@pytest.mark.parametrize("items", [1, 2, 7, 12])
@pytest.mark.parametrize("steps", [1, 3])
def test_ssr_is_its_twin_with_as_many_items_as_there_are(tmp_path: Path, items: int, steps: int) -> None:
    method, arrays, sizes = double("ssr", tmp_path / "ssr.npz", top=12, steps=steps)
    rows = to_unit_rows(np.random.default_rng(items).normal(size=(items + 2, 12)).astype(np.float32))
    ranking = kr.rerank(rows[:2], rows[2:], method)
    for row, query in enumerate(rows[:2].astype(np.float64)):
        order = find_nearest(rows[row : row + 1], rows[2:], items).indices[0]
        expected = np.sort(-twin.ssr(arrays, sizes, query, rows[2:].astype(np.float64)[order]))
        np.testing.assert_allclose(ranking.distances[row], expected, atol=1e-5)


@pytest.mark.parametrize("items", [1, 3, 30])
def test_lattqe_is_its_twin(tmp_path: Path, items: int) -> None:
    method, arrays, sizes = double("lattqe", tmp_path / "w.npz", heads=3)
    rows = to_unit_rows(np.random.default_rng(items).normal(size=(items + 2, 12)).astype(np.float32))
    ranking = kr.rerank(rows[:2], rows[2:], replace(method, k=9))
    for row in range(2):
        order = find_nearest(rows[row : row + 1], rows[2:], 9).indices[0]
        gallery = rows[2:].astype(np.float64)
        _, mixed = twin.lattqe(arrays, sizes, rows[row].astype(np.float64), gallery[order])
        np.testing.assert_allclose(ranking.distances[row], np.sort(-gallery @ mixed), atol=1e-5)


def test_csa_and_ssr_do_not_know_the_dimension_and_weights_can_be_carried_over(tmp_path: Path) -> None:
    for name in ("csa", "ssr"):
        method = add_random_weights(name, tmp_path / f"{name}.npz")
        for dimensions in (1, 5, 300):
            rows = np.random.default_rng(0).normal(size=(20, dimensions))
            assert kr.rerank(rows[:3], rows[3:], method).indices.shape == (3, 17)


# refusals


@pytest.mark.parametrize("name", ["csa", "ssr", "lattqe", "lattdba+lattqe"])
def test_without_weights_it_says_how_to_get_them(name: str) -> None:
    rows = np.eye(4)
    fitted = "lattqe" if "latt" in name else name
    message = rf"has no weights to rank by; give `weights`, a file of `kinrank fit {fitted}`"
    for run in (
        lambda: kr.rerank(rows[:1], rows, name),
        lambda: kr.rerank(rows[:0], rows, name),
        lambda: kr.rerank(rows[:1], rows, name, candidates=2),
    ):
        with pytest.raises(ValueError, match=message):
            run()
    if "latt" in name:
        with pytest.raises(ValueError, match=message):
            kr.Manifold.build(rows, name)
    else:
        with pytest.raises(ValueError, match=r"cannot use it; use .*candidates="):
            kr.Manifold.build(rows, name)


def test_weights_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.npz does not exist"):
        kr.rerank(np.eye(3), np.eye(3), kr.methods.CSA(weights=str(tmp_path / "none.npz")))
    with pytest.raises(ValueError, match=r"unknown ending '.pth'; a file of weights is saved as .npz"):
        kr.rerank(np.eye(3), np.eye(3), kr.methods.CSA(weights="csa.pth"))


def test_weights_of_another_method(tmp_path: Path) -> None:
    path = add_random_weights("csa", tmp_path / "csa.npz").weights  # type: ignore[attr-defined]
    for method in (kr.methods.SSR(weights=path), kr.methods.LAttQE(weights=path)):
        with pytest.raises(ValueError, match=rf"csa.npz holds weights of csa, and {method.name} needs its own"):
            kr.rerank(np.eye(3), np.eye(3), method)


def test_weights_of_another_dimension_and_more_neighbours_than_they_know(tmp_path: Path) -> None:
    method = add_random_weights("lattqe", tmp_path / "w.npz", 8, k=5)
    rows = np.random.default_rng(0).normal(size=(30, 9))
    with pytest.raises(
        ValueError, match=r"w.npz was fitted for vectors of 8 dimensions, and these have 9; give `weights`"
    ):
        kr.rerank(rows[:2], rows[2:], method)
    with pytest.raises(ValueError, match=r"k=16 is more than .*w.npz was fitted for; give `k=5` or less, or fit"):
        kr.rerank(rows[:2, :8], rows[2:, :8], method)
    with pytest.raises(ValueError, match=r"kdba=9 is more than .* give `kdba=6` or less"):
        kr.rerank(rows[:2, :8], rows[2:, :8], replace(method, k=5, kdba=9))
    assert kr.rerank(rows[:2, :8], rows[2:6, :8], method).depth == 4  # there are no more than 4


def test_a_path_is_a_path_and_nothing_else() -> None:
    assert kr.methods.CSA(weights=Path("a") / "b.npz").weights == "a/b.npz"  # type: ignore[arg-type]
    assert repr(kr.methods.CSA(weights="b.npz")) == "CSA(weights='b.npz')"
    for value in (3, "", b"b.npz", True):
        with pytest.raises(ValueError, match=r"CSA: weights=.* is not allowed; give the path of a file"):
            kr.methods.CSA(weights=value)  # type: ignore[arg-type]


# prepared


@pytest.mark.parametrize("kdba", [0, 6])
def test_a_saved_manifold_of_lattqe_needs_no_other_file(tmp_path: Path, kdba: int) -> None:
    data = toy("spread")
    method = replace(add_random_weights("lattqe", tmp_path / "w.npz"), k=5, kdba=kdba)  # type: ignore[type-var]
    expected = kr.rerank(data.queries, data.gallery, method)
    manifold = kr.Manifold.build(data.gallery, method)
    manifold.save(tmp_path / "m")
    add_random_weights("lattqe", tmp_path / "w.npz", seed=5)  # replaced by others
    (tmp_path / "w.npz").unlink()
    assert verify(tmp_path / "m").whole
    loaded = kr.Manifold.load(tmp_path / "m")
    for one in (manifold, loaded):
        found = one.search(data.queries, k=len(data.gallery))
        np.testing.assert_allclose(found.distances, expected.distances, atol=1e-5)
    assert loaded.method == method


def test_a_manifold_of_lattqe_whose_weights_were_altered_is_refused(tmp_path: Path) -> None:
    method = add_random_weights("lattqe", tmp_path / "w.npz")
    manifold = kr.Manifold.build(toy("spread").gallery, method)
    kept, known = manifold.snapshot.state.to_arrays(), manifold.snapshot.state.facts
    vectors = manifold.snapshot.vectors
    for arrays, facts in (
        ({"weights": kept["weights"][:-1]}, known),
        ({"weights": np.full_like(kept["weights"], np.nan)}, known),
        (kept, {**known, "weights_heads": 5.0}),
        (kept, {**known, "weights_layers": 1e6}),
        (kept, {}),
        ({}, known),
    ):
        with pytest.raises(ValueError, match="weights "):
            LAttQEState.from_arrays(method, vectors, arrays, facts)


def test_a_lattqe_gallery_can_change(tmp_path: Path) -> None:
    data = toy("spread")
    method = replace(add_random_weights("lattqe", tmp_path / "w.npz"), k=5, kdba=4)  # type: ignore[type-var]
    manifold = kr.Manifold.build(data.gallery[:60], method)
    manifold.add(data.gallery[60:])
    whole = kr.Manifold.build(data.gallery, method).search(data.queries, k=20)
    np.testing.assert_array_equal(manifold.search(data.queries, k=20).indices, whole.indices)


def test_a_gallery_changes_by_the_weights_it_was_prepared_with(tmp_path: Path) -> None:
    data = toy("spread")
    method = replace(add_random_weights("lattqe", tmp_path / "w.npz"), k=5, kdba=4)  # type: ignore[type-var]
    manifold, whole = (kr.Manifold.build(rows, method) for rows in (data.gallery[:60], data.gallery))
    add_random_weights("lattqe", tmp_path / "w.npz", seed=5)  # replaced by others
    manifold.add(data.gallery[60:])
    (tmp_path / "w.npz").unlink()
    manifold.remove([3])
    whole.remove([3])
    expected = whole.search(data.queries, k=20)
    np.testing.assert_allclose(manifold.search(data.queries, k=20).distances, expected.distances, atol=1e-5)


def test_a_gallery_that_the_weights_do_not_fit_is_refused_when_it_is_built(tmp_path: Path) -> None:
    method = add_random_weights("lattqe", tmp_path / "w.npz", 8, k=5)
    rows = np.random.default_rng(0).normal(size=(30, 9))
    with pytest.raises(ValueError, match="was fitted for vectors of 8 dimensions, and these have 9"):
        kr.Manifold.build(rows, method)
    with pytest.raises(ValueError, match=r"k=16 is more than .*w.npz was fitted for; give `k=5` or less"):
        kr.Manifold.build(rows[:, :8], method)


def test_estimates_of_memory_follow_the_network(tmp_path: Path) -> None:
    for name in ("csa", "ssr", "lattqe"):
        small = add_random_weights(name, tmp_path / f"{name}.npz")
        assert 0 < small.memory(1000, 10, 12) < small.memory(1000, 10, 512)
        assert kr.METHODS[name]().memory(1000, 10, 64) > 0


def test_ssr_as_published_where_lengths_matter_and_a_vector_is_zero(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed: make test-learned installs it")
    rows = np.random.default_rng(0).normal(size=(20, 5))
    rows[[2, 9]] = 0
    method = add_random_weights("ssr", tmp_path / "ssr.npz", variant="published")
    assert np.isfinite(kr.rerank(rows[:4], rows[4:], method, metric="euclidean").distances).all()
