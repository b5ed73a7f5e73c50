"""GSS: agreement with the published program and a slow transcription, its gradient, determinism and guarantees."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import kinrank as kr
from kinrank.methods.base import for_candidates
from kinrank.methods.gss import network as gss_network
from kinrank.methods.gss.network import ROWS_PER_BLOCK, LayerPass, Network
from kinrank.problem import Items
from kinrank.progress import SILENT, Progress
from kinrank.stages.affinity import build_item_graph
from kinrank.vector_input import to_unit_rows
from reference import gss as slow

pytestmark = pytest.mark.slow

Arrays = dict[str, np.ndarray]
CLOSE, TRAINED = 1e-5, 1e-3  # of the range of an array; after 50 epochs


@pytest.fixture(scope="module")
def golden(shared_dir: Path) -> Arrays:
    path = shared_dir / "golden" / "learned" / "gss.npz"
    if not path.is_file():
        pytest.skip("no golden/learned/gss.npz in the shared folder")
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def items_of(golden: Arrays) -> Items:
    return Items.joint(to_unit_rows(golden["queries"]), to_unit_rows(golden["gallery"]))


def network_of(golden: Arrays, state: str) -> Network:
    parts = [[golden[f"{state}/GCN_{level}/{part}"] for level in (1, 2)] for part in "wb"]
    return Network(*(np.stack(part) for part in parts))


def way_over(items: Items, k: int = 5, layers: int = 2, decay: float = 0.3) -> LayerPass:
    graph = build_item_graph(items.gallery_neighbors(k))
    return LayerPass.over(graph.adjacency, items.gallery_vectors, layers, decay)


def embeddings_of(items: Items, network: Network) -> np.ndarray:
    """Return the embeddings, queries first."""
    way, graph = way_over(items), build_item_graph(items.gallery_neighbors(5))
    way.forward(network)
    gallery = way.embeddings.copy()
    before = [items.gallery_vectors, *way.hidden()]
    return np.concatenate(
        [
            gss_network.embed_queries(
                items.query_vectors, items.query_neighbors(5), before, graph.degrees, network, 0.3
            ),
            gallery,
        ]
    )


def close(found: np.ndarray, expected: np.ndarray, tolerance: float = CLOSE) -> None:
    allowed = tolerance * float(np.ptp(expected))
    np.testing.assert_allclose(found, expected, rtol=0, atol=allowed)
    if expected.ndim == 2:  # in our order their values may fall only within rounding
        theirs = np.take_along_axis(expected, np.argsort(found, axis=1, kind="stable"), axis=1)
        assert np.diff(theirs, axis=1).min() >= -2 * allowed


def rows(rng: np.random.Generator, count: int, dimensions: int) -> np.ndarray:
    return to_unit_rows((rng.normal(size=(count, dimensions)) + 0.5).astype(np.float32))


def distances(method: kr.Method, items: Items) -> np.ndarray:
    return method.distances(method.prepare(items, SILENT), np.arange(len(items.queries)))


def test_the_graph_is_the_published_one(golden: Arrays) -> None:
    items, count = items_of(golden), 600
    expected = np.zeros((count, count))
    expected[golden["graph_gallery_row"], golden["graph_gallery_col"]] = golden["graph_gallery_value"]
    graph = build_item_graph(items.gallery_neighbors(5))
    np.testing.assert_allclose(graph.adjacency.toarray(), expected, rtol=0, atol=CLOSE)
    everything = np.zeros((630, 630))
    everything[golden["graph_all_row"], golden["graph_all_col"]] = golden["graph_all_value"]
    for query, (numbers, gaps) in enumerate(
        zip(items.query_neighbors(5).indices, items.query_neighbors(5).distances, strict=True)
    ):
        similar = 1 - gaps.astype(float) ** 2 / 2
        own, row = 1 + similar.sum(), np.zeros(630)
        row[query], row[30 + numbers] = 1 / own, similar / np.sqrt(own * graph.degrees[numbers])
        np.testing.assert_allclose(row, everything[query], rtol=0, atol=CLOSE)


@pytest.mark.parametrize("state", ["random", "start"])
def test_embeddings_beta_and_loss_are_the_published_ones(golden: Arrays, state: str) -> None:
    items, network = items_of(golden), network_of(golden, state)
    found = embeddings_of(items, network)
    close(found, golden[f"{state}/embedding_all"])
    beta = gss_network.similarity_percentile(found[30:], 98)
    assert beta == pytest.approx(float(golden[f"{state}/beta"]), abs=CLOSE)
    if state == "random":
        close(found[30:], golden["random/embedding_gallery"])
        close(found[:30] @ found[30:].T, golden["random/scores"])
        assert gss_network.separation_loss(found[30:], 1.0, beta, np.empty((600, 64), np.float32)) == pytest.approx(
            float(golden["random/loss"]), abs=CLOSE
        )


def test_the_gradient_is_the_published_one(golden: Arrays) -> None:
    network = network_of(golden, "random")
    way = way_over(items_of(golden))
    way.forward(network)
    derivative = np.empty_like(way.rows)
    gss_network.separation_loss(way.embeddings, 1.0, float(golden["random/beta"]), derivative)
    for found, expected in zip(way.backward(network, derivative), network_of(golden, "random_gradient"), strict=True):
        close(found.reshape(2, -1), expected.reshape(2, -1))


@pytest.mark.parametrize(("epochs", "tolerance"), [(1, 1e-5), (10, 1e-4), (50, 1e-3)])
def test_training_goes_where_the_published_one_goes(golden: Arrays, epochs: int, tolerance: float) -> None:
    """Adam takes full steps for tiny entries of a gradient, so rounding errors grow from epoch to epoch."""
    items, network = items_of(golden), network_of(golden, "start")
    losses = gss_network.train_network(way_over(items), network, epochs, 1e-4, 1.0, 98.0, SILENT)
    np.testing.assert_allclose(losses, golden["losses"][:epochs], rtol=1e-5)
    for found, expected in zip(network, network_of(golden, f"after_{epochs}"), strict=True):
        assert np.abs(found - expected).max() <= tolerance * np.ptp(expected)
    if epochs == 50:
        found = embeddings_of(items, network)
        close(found, golden["after_50/embedding_all"], TRAINED)
        close(found[:30] @ found[30:].T, golden["after_50/scores"], TRAINED)


@pytest.mark.parametrize(("epochs", "largest"), [(1, CLOSE), (10, 10 * CLOSE), (50, 10 * CLOSE)])
def test_on_the_very_same_rows_training_agrees_to_rounding(golden: Arrays, epochs: int, largest: float) -> None:
    """The test above normalises rows again, as `rerank` does: 1.5e-8 in a row becomes 3e-5 in a bias.

    Processors round differently, and Adam lets that grow in a few entries: to 3e-5 on an AMD EPYC. Most stay close.
    """
    items, network = Items.joint(golden["queries"], golden["gallery"]), network_of(golden, "start")
    losses = np.array(gss_network.train_network(way_over(items), network, epochs, 1e-4, 1.0, 98.0, SILENT))
    assert np.abs(losses - golden["losses"][:epochs]).max() <= largest * np.ptp(golden["losses"])
    for level in (1, 2):
        for part, found in (("w", network.weights), ("b", network.biases)):
            expected = golden[f"after_{epochs}/GCN_{level}/{part}"]
            errors = np.abs(found[level - 1] - expected) / np.ptp(expected)
            assert errors.max() <= largest
            assert np.median(errors) <= CLOSE


def test_it_starts_without_noise_and_ends_where_the_published_start_leads(golden: Arrays) -> None:
    close(-distances(kr.methods.GSS(epochs=50), items_of(golden)), golden["after_50/scores"], TRAINED)


def test_what_it_gains_is_what_the_published_program_gained(golden: Arrays, shared_dir: Path) -> None:
    with np.load(shared_dir / "golden" / "reference.npz", allow_pickle=False) as known:
        truth = kr.Truth.from_labels(known["query_labels"], known["gallery_labels"])
    for method, expected in (
        (kr.methods.NoReranking(), 53.98),
        (kr.methods.GSS(epochs=0), 77.63),
        (kr.methods.GSS(epochs=50), 77.90),
    ):
        ranking = kr.rerank(golden["queries"], golden["gallery"], method)
        assert 100 * kr.evaluate(ranking, truth, "mAP")["mAP"].mean == pytest.approx(expected, abs=0.02)


def test_it_gains_on_real_photos_before_training(shared_dir: Path) -> None:
    paths = shared_dir / "data" / "roxford5k_sscd.npz", shared_dir / "data" / "revisited" / "gnd_roxford5k.pkl"
    if not all(path.is_file() for path in paths):
        pytest.skip("no roxford5k in the shared folder")
    with np.load(paths[0], allow_pickle=False) as file:
        ranking = kr.rerank(file["q"], file["d"], kr.methods.GSS(epochs=0))
    found = [
        100 * kr.evaluate(ranking, kr.Truth.revisited(paths[1], one), "mAP")["mAP"].mean for one in ("medium", "hard")
    ]
    assert found == pytest.approx([44.3, 19.8], abs=0.1)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("everyone", [False, True])
def test_it_follows_its_equations(layers: int, everyone: bool, rng: np.random.Generator) -> None:
    gallery, queries = rows(rng, 40, 6), None if everyone else rows(rng, 7, 6)
    items = Items.from_gallery(gallery) if queries is None else Items.joint(queries, gallery)
    settings = {"k": 4, "kq": 3, "epochs": 8, "lr": 0.01, "decay": 0.5, "percentile": 80, "alpha": 2, "layers": layers}
    found = distances(kr.methods.GSS(**settings), items)  # type: ignore[arg-type]
    np.testing.assert_allclose(found, slow.gss_distances(queries, gallery, **settings), atol=1e-4)  # type: ignore[arg-type]


@pytest.mark.parametrize("settings", [{"k": 1}, {"k": 100, "kq": 100}, {"decay": 0}, {"epochs": 0}])
def test_it_follows_its_equations_at_the_ends_of_ranges(settings: dict, rng: np.random.Generator) -> None:
    gallery, queries = rows(rng, 15, 5), rows(rng, 4, 5)
    settings = {"epochs": 5, **settings}
    found = distances(kr.methods.GSS(**settings), Items.joint(queries, gallery))
    np.testing.assert_allclose(found, slow.gss_distances(queries, gallery, **settings), atol=2e-5)


def test_negative_similarities_are_no_edges(rng: np.random.Generator) -> None:
    gallery = to_unit_rows(rng.normal(size=(12, 2)).astype(np.float32))
    graph = build_item_graph(Items.from_gallery(gallery).gallery_neighbors(12))
    expected = slow.edges(gallery.astype(float), 12)
    assert (expected == 0).sum() > 12
    np.testing.assert_allclose(graph.adjacency.toarray(), slow.normalised(expected), atol=1e-6)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_gradient_is_what_differences_say(layers: int, rng: np.random.Generator) -> None:
    """In float64, over several blocks of rows; a low percentile makes both signs occur."""
    gallery = rng.normal(size=(ROWS_PER_BLOCK + 20, 5)) + 0.3
    gallery /= np.linalg.norm(gallery, axis=1, keepdims=True)
    adjacency = build_item_graph(Items.from_gallery(gallery.astype(np.float32)).gallery_neighbors(4)).adjacency
    network = Network(0.5 * rng.normal(size=(layers, 5, 5)), 0.1 * rng.normal(size=(layers, 5)))
    way = LayerPass.over(adjacency, gallery, layers, 0.4)
    spare = np.empty_like(gallery)

    def loss() -> float:
        way.forward(network)
        return gss_network.separation_loss(way.embeddings, 1.5, 0.1, spare)

    assert loss() == pytest.approx(slow.loss(way.embeddings, 1.5, 0.1), abs=1e-12)
    found = way.backward(network, spare)
    flat = list(zip(network.weights.copy(), network.biases.copy(), strict=True))
    dense = adjacency.toarray()
    expected = slow.gradient(dense, slow.run(dense, gallery, flat, 0.4), flat, 0.4, 1.5, 0.1)
    np.testing.assert_allclose(found.weights, [weights for weights, _ in expected], atol=1e-12)
    np.testing.assert_allclose(found.biases, [bias for _, bias in expected], atol=1e-12)
    for array, slopes in zip(network, found, strict=True):
        for place in list(np.ndindex(array.shape))[::7]:
            before, sides = array[place], []
            for step in (1e-6, -1e-6):
                array[place] = before + step
                sides.append(loss())
            array[place] = before
            assert (sides[0] - sides[1]) / 2e-6 == pytest.approx(slopes[place], abs=1e-7)


def test_blocks_of_pairs_meet_once_and_none_twice_in_a_round() -> None:
    for blocks in range(12):
        made = gss_network.schedule_block_pairs(blocks)
        met = sorted(tuple(sorted(pair)) for pairs in made for pair in pairs)
        assert met == [(a, b) for a in range(blocks) for b in range(a, blocks)]
        for pairs in made[1:]:
            busy = [block for pair in pairs for block in pair]
            assert len(set(busy)) == len(busy)


@pytest.mark.parametrize("percent", [0, 50, 98, 100])
def test_counted_percentiles_are_those_of_all_pairs(
    percent: float, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = rows(rng, 700, 8)
    expected = gss_network.similarity_percentile(found, percent)
    assert expected == pytest.approx(np.percentile(found @ found.T, percent), abs=1e-6)
    monkeypatch.setattr(gss_network, "MAX_SORTED_ITEMS", 100)
    assert gss_network.similarity_percentile(found, percent) == pytest.approx(expected, abs=3.1e-5)


def test_the_bits_do_not_depend_on_threads(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    items = Items.joint(rows(rng, 9, 24), rows(rng, 3 * ROWS_PER_BLOCK + 50, 24))
    method = kr.methods.GSS(epochs=15, lr=1e-3)
    monkeypatch.setattr(gss_network, "MAX_SORTED_ITEMS", 100)
    found = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("KINRANK_THREADS", threads)
        found.append(distances(method, items))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_the_order_of_the_gallery_hardly_matters(rng: np.random.Generator) -> None:
    gallery, queries = rows(rng, 2 * ROWS_PER_BLOCK, 16), rows(rng, 5, 16)
    order = rng.permutation(len(gallery))
    found = distances(kr.methods.GSS(), Items.joint(queries, gallery))
    again = distances(kr.methods.GSS(), Items.joint(queries, gallery[order]))
    np.testing.assert_allclose(again, found[:, order], rtol=0, atol=1e-3)


def test_queries_do_not_see_each_other(rng: np.random.Generator) -> None:
    gallery, queries = rows(rng, 120, 16), rows(rng, 30, 16)
    method = kr.methods.GSS(epochs=10)
    together = distances(method, Items.joint(queries, gallery))
    for row in (0, 17, 29):
        alone = distances(method, Items.joint(queries[row : row + 1], gallery))
        np.testing.assert_allclose(alone[0], together[row], rtol=0, atol=1e-6)


def test_equal_items_tie_and_go_by_number(rng: np.random.Generator) -> None:
    gallery = rows(rng, 61, 12)
    copies = [7, 22, 23, 58, 60]
    gallery[copies] = gallery[7]
    for queries in (rows(rng, 4, 12), None):
        values = distances(
            kr.methods.GSS(epochs=20), Items.from_gallery(gallery) if queries is None else Items.joint(queries, gallery)
        )
        np.testing.assert_array_equal(values[:, copies], np.repeat(values[:, [7]], 5, axis=1))


def test_rows_without_a_direction_stay_numbers() -> None:
    """If the length of vectors matters, a row may be zero, and so may the output of the layers."""
    gallery = np.array([[0, 0], [0, 0], [9, 0], [0, -9], [8, 1]], np.float32)
    for epochs in (0, 20):
        for queries in (gallery[:3], None):
            ranking = kr.rerank(queries, gallery, kr.methods.GSS(k=2, kq=1, epochs=epochs), metric="euclidean")
            assert np.isfinite(ranking.distances).all()
    vanished = np.array([[0, 0], [0, 0], [3, 4]], np.float32)
    lengths = gss_network.scale_to_unit_length(vanished, np.array([[0, -2], [0, 0], [1, 0]], np.float32))
    np.testing.assert_allclose(vanished, [[0, -1], [0.5**0.5, 0.5**0.5], [0.6, 0.8]], atol=1e-6)
    assert lengths.tolist() == [0, 0, 5]


def test_candidates_are_re_ranked_without_training(rng: np.random.Generator) -> None:
    gallery, queries = rows(rng, 60, 8), rows(rng, 3, 8)
    ranking = kr.rerank(queries, gallery, kr.methods.GSS(k=4), candidates=20)
    assert ranking.meta["method"] == "GSS(k=4, epochs=0)"
    untrained = kr.rerank(queries, gallery, kr.methods.GSS(k=4, epochs=0), candidates=20)
    np.testing.assert_array_equal(ranking.distances, untrained.distances)
    assert kr.rerank(queries, gallery, kr.methods.GSS(k=4, epochs=3)).meta["method"] == "GSS(k=4, epochs=3)"
    assert for_candidates(kr.LPMT()) == kr.LPMT()


def test_steps_that_lead_beyond_all_numbers_are_refused(rng: np.random.Generator) -> None:
    with pytest.raises(ValueError, match=r"GSS\(epochs=300, lr=1.0, decay=10.0, layers=10\).*lower `lr"):
        kr.rerank(None, rows(rng, 30, 64), kr.methods.GSS(lr=1, epochs=300, decay=10, layers=10))


@pytest.mark.parametrize(
    "method", [kr.methods.GSS(epochs=1), kr.methods.GSS(epochs=0), kr.methods.GSS(epochs=1, layers=4)], ids=repr
)
def test_no_more_memory_is_taken_than_was_said(method: kr.methods.GSS, rng: np.random.Generator) -> None:
    items = Items.joint(rows(rng, 50, 64), rows(rng, 3000, 64))
    distances(method, Items.joint(items.query_vectors, items.gallery_vectors[:90]))  # loops are compiled
    tracemalloc.start()
    try:
        method.prepare(items, SILENT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < method.memory(3050, 50, 64) < 2 * peak + 4_000_000


def test_training_reports_every_epoch(rng: np.random.Generator) -> None:
    reports: list[tuple[str, int, int]] = []
    items = Items.from_gallery(rows(rng, 20, 4))
    kr.methods.GSS(epochs=3).prepare(items, Progress(lambda *report: reports.append(report)))
    assert reports == [("training", 1, 3), ("training", 2, 3), ("training", 3, 3)]
