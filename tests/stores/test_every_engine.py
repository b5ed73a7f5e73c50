"""The contract of EngineStore, tested with every engine against the exact ArrayStore."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

import kinrank as kr
from engines.harness import Harness
from kinrank.memory_limit import format_bytes
from kinrank.reranking.candidates import STORE_CANDIDATES
from kinrank.stores.base import to_id_array
from kinrank.stores.engine import EXTRA_ITEMS
from kinrank.vector_input import to_unit_rows

pytestmark = pytest.mark.slow

ENGINES = {
    "fake_engine": None,
    "pgvector": "psycopg",
    "qdrant": "qdrant_client",
    "lancedb": "lancedb",
    "chroma": "chromadb",
    "duckdb": "duckdb",
    "sqlite_vec": "sqlite_vec",
    "faiss_index": "faiss",
    "usearch": "usearch",
}

RNG = np.random.default_rng(7)
ROWS = (RNG.normal(size=(90, 12)) * RNG.uniform(0.5, 2.0, size=(90, 1))).astype(np.float32)
ROWS[50] = ROWS[20]  # a duplicate: ties go to the lower id
QUERIES = RNG.normal(size=(5, 12)).astype(np.float32)
KINDS = ["cat" if place % 3 else "dog" for place in range(90)]
YEARS = [2000 + place % 7 for place in range(90)]
IDS: dict[str, list[Any]] = {
    "int": [3 * place + 1 for place in range(90)],
    "text": [f'picture {place:03d}\'s "name" é' for place in range(90)],
    "uuid": [str(UUID(int=place + (1 << 100))) for place in range(90)],
}
NEW: dict[str, list[Any]] = {"int": [1000, 1003], "text": ["a", "b"], "uuid": [str(UUID(int=1)), str(UUID(int=2))]}
LARGE_COUNT = 3000
NOBODY: dict[str, Any] = {"int": 999_999, "text": "nobody", "uuid": str(UUID(int=5))}


@pytest.fixture(params=ENGINES, scope="module")
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    package = ENGINES[request.param]
    if package is not None:
        pytest.importorskip(package, reason=f"{package} is not installed: make test-stores installs every engine")
    module = importlib.import_module(f"engines.{request.param}")
    harness: Harness = module.Engine(tmp_path_factory.mktemp(request.param))
    yield harness
    harness.close()


def made(engine: Harness, kind: str | None = None, metric: str = "cosine") -> Any:
    """Return a store over all rows, with ids of this kind, or of the first kind that the engine supports."""
    kind = kind or engine.ids[0]
    if kind not in engine.ids:
        pytest.skip(f"{engine.name} has no {kind} ids")
    if metric not in engine.metrics:
        pytest.skip(f"{engine.name} does not compare by {metric}")
    return engine.make(ROWS, IDS[kind], KINDS, YEARS, metric)


def named(kind: str, places: Any) -> list[list[Any]]:
    return [[IDS[kind][place] for place in row if place >= 0] for row in np.asarray(places).tolist()]


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("kind", ["int", "text", "uuid"])
def test_search_is_that_of_the_array_store(engine: Harness, kind: str, metric: str) -> None:
    with made(engine, kind, metric) as store:
        found, truth = store.search(QUERIES, 20), kr.stores.ArrayStore(ROWS, metric).search(QUERIES, 20)
        assert found.ids.tolist() == named(kind, truth.indices)
        np.testing.assert_allclose(found.distances, truth.distances, rtol=1e-5, atol=1e-6)
        assert len(store) == 90
        assert store.metric == metric


@pytest.mark.parametrize("kind", ["int", "text", "uuid"])
def test_ids_map_both_ways(engine: Harness, kind: str) -> None:
    with made(engine, kind) as store:
        wanted = [IDS[kind][place] for place in (7, 0, 89, 7)]
        np.testing.assert_allclose(to_unit_rows(store.vectors(wanted)), to_unit_rows(ROWS[[7, 0, 89, 7]]), atol=1e-6)
        if kind == "uuid":
            np.testing.assert_allclose(store.vectors([UUID(wanted[0])]), store.vectors(wanted[:1]))
        assert store.vectors([]).shape == (0, 12)
        with pytest.raises(ValueError, match=r"which .* does not hold"):
            store.vectors([NOBODY[kind]])
        ids, rows = store.everything()
        assert ids.tolist() == sorted(IDS[kind])
        np.testing.assert_allclose(to_unit_rows(rows), to_unit_rows(ROWS), atol=1e-6)


def test_ties_go_to_the_lower_id_and_k_may_be_too_large(engine: Harness) -> None:
    with made(engine) as store:
        ids = IDS[engine.ids[0]]
        found = store.search(ROWS[20:21], 500)
        assert found.ids[0, :2].tolist() == [ids[20], ids[50]]
        assert found.distances[0, 0] == found.distances[0, 1]
        np.testing.assert_allclose(found.distances[0, :2], 0.0, atol=1e-6)  # some engines store rounded unit vectors
        assert sorted(found.ids[0].tolist()) == sorted(ids)
        assert store.search(QUERIES[:0], 3).indices.shape[0] == 0


def test_invalid_queries_are_refused(engine: Harness) -> None:
    with made(engine) as store:
        with pytest.raises(ValueError, match=r"queries has shape \(1, 6\) but 12 dimensions are needed"):
            store.search(QUERIES[:1, :6], 3)
        with pytest.raises(ValueError, match="queries row 1 contains NaN"):
            store.search([QUERIES[0], [np.nan] * 12], 3)
        with pytest.raises(ValueError, match="queries row 0 is a zero vector"):
            store.search(np.zeros((1, 12)), 3)
        with pytest.raises(ValueError, match="k=0 is not allowed"):
            store.search(QUERIES, 0)


def test_filters_of_fields(engine: Harness) -> None:
    if not engine.filters:
        pytest.skip(f"{engine.name} keeps no fields to filter by")
    kind = engine.ids[0]
    with made(engine, kind) as store:
        truth = kr.stores.ArrayStore(ROWS).search(QUERIES, 90)
        cats = {IDS[kind][place] for place in range(90) if KINDS[place] == "cat"}
        expected = [[name for name in row if name in cats][:10] for row in named(kind, truth.indices)]
        assert store.search(QUERIES, 10, where={"kind": "cat"}).ids.tolist() == expected
        own = engine.own_filter("cat")
        if own is not None:
            assert store.search(QUERIES, 10, where=own).ids.tolist() == expected
            assert set(store.ids_where(own).tolist()) == cats
        some = {"kind": ["cat", "dog"], "year": [2001, 2004]}
        left = {IDS[kind][place] for place in range(90) if YEARS[place] in (2001, 2004)}
        assert set(store.search(QUERIES[:1], 90, where=some).ids[0].tolist()) == left
        assert set(store.ids_where(some).tolist()) == left
        assert store.search(QUERIES, 5, where={"kind": "bird"}).depth == 0
        for hostile in ("cat' OR '1'='1", 'cat"; DROP TABLE items; --', "%s", "?", "\\"):
            assert store.search(QUERIES, 5, where={"kind": hostile}).depth == 0
        with pytest.raises(ValueError, match=r"where is empty|refused|where"):
            store.search(QUERIES, 5, where={})
        with pytest.raises(ValueError, match="where"):
            store.search(QUERIES, 5, where={"kind": object()})


def test_filters_by_ids(engine: Harness) -> None:
    if not engine.listed:
        pytest.skip(f"{engine.name} filters by fields")
    kind = engine.ids[0]
    with made(engine, kind) as store:
        some = IDS[kind][::3]
        truth = kr.stores.ArrayStore(ROWS).search(QUERIES, 5, where=list(range(0, 90, 3)))
        assert store.search(QUERIES, 5, where=some).ids.tolist() == named(kind, truth.indices)
        assert set(store.ids_where(some).tolist()) == set(some)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_candidates_are_reranked_as_over_an_array(engine: Harness, metric: str) -> None:
    kind = "text" if "text" in engine.ids else engine.ids[0]
    with made(engine, kind, metric) as store:
        found = kr.rerank(QUERIES, store, kr.LPMT(), candidates=30, k=40)
        held = store.vectors(IDS[kind])  # as the engine returns them: some engines store unit vectors
        truth = kr.rerank(QUERIES, held, kr.LPMT(), candidates=30, k=40, metric=metric)
        assert found.ids.tolist() == named(kind, truth.indices)
        np.testing.assert_allclose(found.distances, truth.distances, rtol=1e-4, atol=1e-5)
        assert set(found.meta["seconds_in"]) == {"search", "fetch", "rerank", "rest"}


def test_filtered_candidates_are_those_of_an_array(engine: Harness) -> None:
    kind = engine.ids[0]
    with made(engine, kind) as store:
        some = [place for place in range(90) if KINDS[place] == "cat"]
        where = {"kind": "cat"} if engine.filters else [IDS[kind][place] for place in some]
        found = kr.rerank(QUERIES, store, candidates=25, where=where)
        truth = kr.rerank(QUERIES, store.vectors(IDS[kind]), candidates=25, where=some)
        assert found.ids.tolist() == named(kind, truth.indices)


def test_marks_are_given_by_ids(engine: Harness) -> None:
    kind = engine.ids[0]
    with made(engine, kind) as store:
        found = kr.rerank(QUERIES[:1], store, candidates=25, positives=[IDS[kind][4]], negatives=[IDS[kind][60]])
        truth = kr.rerank(QUERIES[:1], store.vectors(IDS[kind]), candidates=25, positives=[4], negatives=[60])
        assert found.ids.tolist() == named(kind, truth.indices)
        with pytest.raises(ValueError, match=f"`positives` or `negatives` name {NOBODY[kind]!r}"):
            kr.rerank(QUERIES[:1], store, candidates=25, positives=[NOBODY[kind]])


def test_all_items_in_one_graph(engine: Harness) -> None:
    kind = engine.ids[0]
    with made(engine, kind) as store:
        truth = kr.rerank(QUERIES, store.vectors(IDS[kind]))
        assert kr.rerank(QUERIES, store, candidates="all").ids.tolist() == named(kind, truth.indices)
        with pytest.raises(ValueError, match=r"queries are not given, so every item of .* would query the others"):
            kr.rerank(None, store)
        everyone = kr.rerank(None, store, candidates="all")
        assert everyone.ids.tolist() == named(kind, kr.rerank(None, store.vectors(IDS[kind])).indices)
        everyone = kr.rerank(None, store, "none", candidates=10)
        assert everyone.ids.tolist() == named(kind, kr.rerank(None, ROWS, "none", candidates=10).indices)


@pytest.fixture(scope="module")
def large(engine: Harness) -> Iterator[Any]:
    """Yield a store with more items than a default re-ranking may read."""
    rows = RNG.normal(size=(LARGE_COUNT, 12)).astype(np.float32)
    ids = [f"n{place:05d}" for place in range(LARGE_COUNT)] if "int" not in engine.ids else list(range(LARGE_COUNT))
    with engine.make(rows, ids, ["cat"] * LARGE_COUNT, [2000] * LARGE_COUNT) as store:
        yield store


def test_reranking_reads_the_candidates_of_each_query_only(
    engine: Harness, large: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []
    fetched: list[int] = []
    monkeypatch.setattr(large, "_scan", lambda *given: read.append(given))
    search, fetch = large._search, large._fetch

    def count_found(rows: Any, k: int, where: Any, vectors: bool) -> Any:
        found = search(rows, k, where, vectors)
        fetched.extend(len(hits.keys) for hits in found if vectors)
        return found

    def count_fetched(keys: list[Any]) -> Any:
        fetched.append(len(keys))
        return fetch(keys)

    monkeypatch.setattr(large, "_search", count_found)
    monkeypatch.setattr(large, "_fetch", count_fetched)
    ranking = kr.rerank(QUERIES[:2], large)
    assert (ranking.meta["mode"], ranking.meta["candidates"]) == ("candidates", STORE_CANDIDATES)
    assert ranking.depth == STORE_CANDIDATES
    assert ranking.meta["fetched"] <= 2 * STORE_CANDIDATES
    assert sum(fetched) <= 2 * 2 * (STORE_CANDIDATES + EXTRA_ITEMS)  # an engine may search first, and fetch then
    assert STORE_CANDIDATES <= sum(fetched) < len(large)
    truth = kr.Truth.from_qrels({str(row): {str(ranking.ids[row, 0]): 1} for row in range(2)})
    trials = kr.compare(QUERIES[:2], large, truth, methods=["aqe"])
    assert trials.mode == f"candidates {STORE_CANDIDATES}"
    best = ranking.ids[0, 0]
    chain = kr.explain(QUERIES[:2], large, query=0, item=best.item() if hasattr(best, "item") else best)
    assert chain.links[-1].name == best
    assert not read


def test_a_full_read_says_first_how_much_it_reads(
    engine: Harness, large: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    size, labels = f"{LARGE_COUNT:,} x 12 numbers, {format_bytes(48 * LARGE_COUNT)}", []
    with caplog.at_level("INFO", logger="kinrank"):
        kr.rerank(QUERIES[:2], large, "none", candidates="all", progress=lambda label, *_: labels.append(label))
    assert f"reading all {LARGE_COUNT:,} items of {large!r}: {size}" in caplog.text
    assert labels[0] == f"reading {format_bytes(48 * LARGE_COUNT)} from {large!r}"
    monkeypatch.setattr(large, "_scan", lambda *_: pytest.fail("it was read"))
    for read in (
        lambda: kr.rerank(QUERIES[:2], large, candidates="all", max_memory=50_000),
        lambda: kr.rerank(None, large, candidates=5, max_memory=50_000),
        lambda: kr.Manifold.build(large, max_memory=50_000),
    ):
        with pytest.raises(MemoryError, match=re.escape(size) + ".* `max_memory` allows 50 KB; give a larger"):
            read()


def test_a_manifold_is_built_searched_and_brought_up_to_date(engine: Harness) -> None:
    if not engine.changes:
        pytest.skip(f"{engine.name} cannot remove rows")
    ids = IDS[engine.ids[0]]
    with made(engine) as store:
        manifold = kr.Manifold.build(store)
        local = kr.Manifold.build(store.vectors(ids), ids=ids)
        assert manifold.search(QUERIES, 10).ids.tolist() == local.search(QUERIES, 10).ids.tolist()
        places = [place for place in range(90) if KINDS[place] == "cat"]
        cats = [ids[place] for place in places]
        filtered = manifold.search(QUERIES, 10, where={"kind": "cat"} if engine.filters else cats)
        assert filtered.ids.tolist() == local.search(QUERIES, 10, where=cats).ids.tolist()
        assert manifold.sync() == (0, 0, 0)
        new = NEW[engine.ids[0]]
        engine.put(new, QUERIES[:2], ["cat", "dog"])
        engine.delete(ids[:2])
        engine.put(ids[2:3], QUERIES[2:3], ["cat"])
        assert manifold.sync() == (2, 2, 1)
        assert manifold.sync() == (0, 0, 0)
        assert len(manifold) == 90
        assert manifold.search(QUERIES[:3], 1).ids[:, 0].tolist() == [*new, ids[2]]
        assert not set(ids[:2]) & set(manifold.ids.tolist())


def test_an_empty_collection(engine: Harness) -> None:
    with engine.make(ROWS[:0], [], [], []) as store:
        assert len(store) == 0
        assert store.search(QUERIES, 5).indices.shape[1] == 0
        assert kr.rerank(QUERIES, store, candidates=10).depth == 0


def test_an_item_that_is_gone_between_search_and_fetch_is_left_out(engine: Harness) -> None:
    if not engine.changes:
        pytest.skip(f"{engine.name} cannot remove rows")
    ids = IDS[engine.ids[0]]
    with made(engine) as store:
        there, rows = store.find_vectors(to_id_array([ids[0], NOBODY[engine.ids[0]], ids[2]]))
        assert there.tolist() == [True, False, True]
        assert rows.shape == (2, 12)
        engine.delete(ids[:1])
        assert store.find_vectors(to_id_array([ids[0], ids[2]]))[0].tolist() == [False, True]
        assert ids[0] not in store.search(ROWS[:1], 90).ids.tolist()[0]


def test_the_url_opens_the_same_store(engine: Harness) -> None:
    with made(engine) as store:
        url = engine.url()
        if url is None:
            pytest.skip(f"{engine.name} has no URL here")
        expected = store.search(QUERIES, 7).ids.tolist()
        with kr.open_store(url) as opened:  # type: ignore[attr-defined]
            assert opened.search(QUERIES, 7).ids.tolist() == expected
            assert repr(opened) == repr(store)


def test_every_engine_accepts_the_same_names_in_a_url(engine: Harness) -> None:
    with made(engine) as store:
        url = engine.url()
        if url is None or "table=" not in url:
            pytest.skip(f"{engine.name} has no tables")
        place, options = url.split("?")[0], url.split("?")[1].split("&")
        table = next(option for option in options if option.startswith("table=")).removeprefix("table=")
        others = [option for option in options if not option.startswith("table=")]
        aliases = re.sub(r"\bkey=", "id=", "&".join(others)).replace("vector=", "embedding=")
        for other in (
            f"{place}?{aliases}&collection={table}".replace("?&", "?"),
            f"{place}?{'&'.join(others)}#{table}",
        ):
            with kr.open_store(other) as opened:  # type: ignore[attr-defined]
                assert repr(opened) == repr(store)
        with pytest.raises(ValueError, match=f"has `table={table}` and #other; give one; a complete URL: "):
            kr.open_store(f"{url}#other")


def test_every_refusal_shows_a_complete_url(engine: Harness) -> None:
    with made(engine) as store:
        url = engine.url()
        if url is None:
            pytest.skip(f"{engine.name} has no URL here")
        complete = re.escape("; a complete URL: " + " or ".join(type(store).url_examples))
        mark = "&" if "?" in url else "?"
        wrong = [f"{url}{mark}colour=red", url.replace(str(engine.folder), "/no/such/folder").replace("@/", "@/no")]
        if "table=" in url:
            wrong += [re.sub(r"\btable=\w+", "", url), re.sub(r"\btable=\w+", "table=nothing", url)]
            named_key = url if "key=" in url else f"{url}{mark}key=id"
            wrong.append(named_key.replace("key=id", "key=nothing"))
        for given in wrong:
            with pytest.raises((ValueError, OSError), match=complete + "$"):
                kr.open_store(given)


def test_examples_of_urls_are_complete(engine: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with made(engine) as store:
        for example in type(store).url_examples:
            with pytest.raises((ValueError, OSError)) as refused:  # there is no such server, folder or file
                kr.open_store(example)
            assert not re.search("has no option|needs|cannot be parsed", str(refused.value))
            wrong_port = re.sub(r"//(user@host|localhost):\d+", "//127.0.0.1:9", example)
            with pytest.raises((ValueError, OSError), match=re.escape(" or ".join(type(store).url_examples)) + "$"):
                kr.open_store(wrong_port)


def test_closed_store_raises(engine: Harness) -> None:
    store = made(engine)
    store.close()
    store.close()
    with pytest.raises(ValueError, match="is closed; open it again"):
        store.search(QUERIES, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        del store
