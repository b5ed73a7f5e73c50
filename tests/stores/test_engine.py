"""EngineStore: behaviour shared by all engines, tested with a fake engine that can fail."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

import kinrank as kr
from engines.fake_engine import Engine, MemoryStore
from kinrank.errors import MissingExtraError
from kinrank.reranking.candidates import STORE_CANDIDATES
from kinrank.stores.base import QueryHits, ranking_from_lists, to_id_array
from kinrank.stores.client_utils import Condition, build_where_sql, parse_conditions
from kinrank.stores.url import ENGINES, StoreUrl

RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(40, 6)).astype(np.float32)
QUERIES = RNG.normal(size=(3, 6)).astype(np.float32)


def store(ids: list[Any] | None = None, metric: str = "cosine", rows: Any = ROWS) -> MemoryStore:
    names = list(range(len(rows))) if ids is None else ids
    made = Engine(Path()).make(rows, names, ["cat", "dog"] * (len(rows) // 2), metric=metric)
    assert isinstance(made, MemoryStore)
    return made


def test_lost_connection_is_retried_once() -> None:
    engine = store()
    expected = engine.search(QUERIES, 3).ids
    engine.errors = [BrokenPipeError("gone")]
    np.testing.assert_array_equal(engine.search(QUERIES, 3).ids, expected)
    assert engine.reopened == 1
    engine.errors = [BrokenPipeError("gone"), BrokenPipeError("gone for good")]
    with pytest.raises(ConnectionError, match=r"MemoryStore\(\) cannot be reached, tried twice: gone for good"):
        engine.search(QUERIES, 3)
    engine.errors = [BrokenPipeError("gone")]
    assert len(engine) == 40


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (InterruptedError("too slow"), TimeoutError, "did not answer in time; give a larger timeout="),
        (LookupError("no column x"), ValueError, r"MemoryStore\(\) refused: no column x"),
        (ZeroDivisionError("a bug"), ZeroDivisionError, "a bug"),
    ],
)
def test_engine_errors_become_kinrank_errors(error: Exception, kind: type[Exception], message: str) -> None:
    engine = store()
    for ask in (lambda: engine.search(QUERIES, 3), lambda: engine.vectors([1]), engine.everything, engine.ids_where):
        engine.errors = [error]
        with pytest.raises(kind, match=message):
            ask()
    assert engine.reopened == 0
    engine.timeout, engine.errors = 1.5, [InterruptedError("x")]
    with pytest.raises(TimeoutError, match=r"within 1\.5 s"):
        engine.search(QUERIES, 3)


def test_a_connection_lost_while_reading_everything_is_an_error() -> None:
    engine = store()
    engine.errors = [BrokenPipeError("gone")]
    assert len(engine.everything()[0]) == 40  # nothing was read yet, so the request is repeated
    parts = engine.blocks()
    next(parts)
    engine.errors = [BrokenPipeError("gone")]
    with pytest.raises(ConnectionError, match="cannot be reached, while reading its answer: gone"):
        next(parts)


def test_many_queries_are_sent_in_blocks() -> None:
    engine = store()
    assert engine.search(np.tile(QUERIES, (50, 1)), 2).ids.shape == (150, 2)
    assert engine.asked == ["search"] * 3


def test_vectors_that_come_with_the_search_are_not_fetched_again() -> None:
    engine = store()
    ranking = kr.rerank(QUERIES, engine, candidates=20)
    assert engine.asked == ["search"]
    assert ranking.meta["fetched"] <= 40
    engine.asked.clear()
    kr.rerank(QUERIES[:1], engine, candidates=5, positives=[39])
    assert engine.asked in (["search"], ["search", "fetch"])


def test_rows_that_cannot_be_compared_are_left_out_and_counted() -> None:
    rows = ROWS.copy()
    rows[3], rows[4], rows[5, 2] = 0, np.nan, np.inf
    engine = store(rows=rows)
    assert not {3, 4, 5} & set(engine.search(QUERIES, 40).ids.ravel().tolist())
    with pytest.warns(UserWarning, match="3 items are left out because"):
        ids, found = engine.everything()
    assert len(ids) == len(found) == 37
    with pytest.warns(UserWarning, match="left out"):
        assert len(kr.Manifold.build(engine)) == 37
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert engine.vectors([6]).shape == (1, 6)
    with pytest.raises(ValueError, match="does not hold"):
        engine.vectors([3])
    lengths = store(rows=rows, metric="euclidean")
    assert 3 in lengths.search(np.zeros((1, 6)), 1).ids  # under the Euclidean metric a zero vector is valid


def test_deleted_candidate_is_left_out() -> None:
    engine = store()
    kr.rerank(QUERIES[:1], engine, candidates=30)
    near = engine.nearest_lists

    def then_gone(*args: Any) -> Any:
        found = near(*args)
        engine.held.pop(int(found[0].ids[-1]), None)
        return found

    engine.nearest_lists = then_gone  # type: ignore[method-assign]
    ranking = kr.rerank(QUERIES[:1], engine, candidates=30, expand=1)
    assert set(ranking.ids[0].tolist()) <= set(engine.held)


@pytest.mark.parametrize(
    ("keys", "expected", "kind"),
    [
        ([3, 1], [3, 1], "i"),
        ([2**64 - 1, 0], [2**64 - 1, 0], "u"),
        (["a", "b"], ["a", "b"], "O"),
        ([UUID(int=1)], ["00000000-0000-0000-0000-000000000001"], "O"),
        ([1, "a"], ["1", "a"], "O"),
        ([], [], "i"),
        (np.array([4, 5], np.uint64), [4, 5], "i"),
    ],
)
def test_ids_of_every_kind(keys: Any, expected: list[Any], kind: str) -> None:
    found = to_id_array(keys)
    assert found.tolist() == expected
    assert found.dtype.kind == kind


@pytest.mark.parametrize("keys", [[-1], [""], [1.5], [None], [True], [b"x"]])
def test_invalid_ids(keys: list[Any]) -> None:
    with pytest.raises(ValueError, match="id"):
        to_id_array(keys)


def test_indices_of_a_ranking_identify_its_items() -> None:
    def listed(ids: list[Any]) -> QueryHits:
        return QueryHits(to_id_array(ids), np.arange(len(ids), dtype=np.float32), np.empty((len(ids), 0), np.float32))

    plain = ranking_from_lists([listed([5, 2]), listed([7])], {})
    assert plain.indices.tolist() == plain.ids.tolist() == [[5, 2], [7, -1]]
    texts = ranking_from_lists([listed(["b", "a"]), listed(["c"])], {})
    assert texts.indices.tolist() == [[1, 0], [2, -1]]
    assert texts.ids.tolist() == [["b", "a"], ["c", ""]]
    negative = ranking_from_lists([listed([-5, 2])], {})
    assert negative.indices.tolist() == [[0, 1]]
    assert negative.ids.tolist() == [[-5, 2]]
    mixed = ranking_from_lists([listed([1]), listed(["x"])], {})
    assert mixed.ids.tolist() == [["1"], ["x"]]
    large = ranking_from_lists([listed([2**64 - 1, 3])], {})
    assert large.ids.tolist() == [[2**64 - 1, 3]]
    assert ranking_from_lists([], {}).indices.shape == (0, 0)


@pytest.mark.parametrize(
    "ids", [list(range(40)), [f"n{place}" for place in range(40)], [2**63 + place for place in range(40)]]
)
def test_a_manifold_over_ids_of_every_kind(ids: list[Any], tmp_path: Path) -> None:
    engine = store(ids)
    manifold = kr.Manifold.build(engine)
    local = kr.Manifold.build(ROWS, ids=ids)
    assert manifold.search(QUERIES, 5).ids.tolist() == local.search(QUERIES, 5).ids.tolist()
    assert manifold.info()["store"] == "MemoryStore"
    manifold.observe(QUERIES)
    local.observe(QUERIES)
    assert manifold.search(ROWS[:4] + 0.1, 5).ids.tolist() == local.search(ROWS[:4] + 0.1, 5).ids.tolist()
    engine.held.pop(ids[0])
    assert manifold.sync() == (0, 1, 0)
    assert manifold.n_observed
    manifold.save(tmp_path / "m")
    loaded = kr.Manifold.load(tmp_path / "m", store=engine)
    assert loaded.search(QUERIES, 5).ids.tolist() == manifold.search(QUERIES, 5).ids.tolist()
    engine.held[ids[0]] = ROWS[0]
    engine.fields[ids[0]] = {}
    assert loaded.sync() == (1, 0, 0)
    loaded.refresh()
    assert loaded.search(QUERIES, 40).ids.shape == (3, 40)


def test_a_manifold_where_lengths_matter_follows_its_database() -> None:
    engine = store(metric="euclidean", rows=ROWS * 7)
    manifold = kr.Manifold.build(engine)
    local = kr.Manifold.build(ROWS * 7, metric="euclidean")
    assert manifold.search(QUERIES * 7, 5).ids.tolist() == local.search(QUERIES * 7, 5).ids.tolist()
    engine.held[3] = engine.held[3] * 2
    assert manifold.sync() == (0, 0, 1)
    manifold.refresh()
    assert manifold.search(engine.held[3][None, :], 1).ids.tolist() == [[3]]


def test_items_newer_than_the_manifold_are_ignored() -> None:
    engine = store()
    manifold = kr.Manifold.build(engine)
    before = manifold.search(QUERIES, 5).ids.tolist()
    for place in range(12):  # twelve items that are nearer than all others
        engine.held[100 + place], engine.fields[100 + place] = QUERIES[0], {}
    assert manifold.search(QUERIES, 5).ids.tolist() == before
    assert manifold.sync() == (12, 0, 0)
    assert set(manifold.search(QUERIES[:1], 5).ids[0].tolist()) <= set(range(100, 112))


def test_sync_needs_a_vector_database() -> None:
    with pytest.raises(ValueError, match="does not search a vector database"):
        kr.Manifold.build(ROWS).sync()
    with pytest.raises(ValueError, match="ids cannot be given for"):
        kr.Manifold.build(store(), ids=list(range(40)))
    with pytest.raises(ValueError, match="the store searches by euclidean"):
        kr.Manifold.build(store()).snapshot.over(store(metric="euclidean"))


def test_filters_of_a_manifold_are_masks_ids_or_the_database_s_own() -> None:
    engine = store()
    manifold = kr.Manifold.build(engine)
    dogs = list(range(1, 40, 2))
    mask = np.isin(np.arange(40), dogs)
    expected = manifold.search(QUERIES, 6, where=dogs).ids.tolist()
    assert manifold.search(QUERIES, 6, where=mask).ids.tolist() == expected
    assert manifold.search(QUERIES, 6, where={"kind": "dog"}).ids.tolist() == expected
    assert manifold.search(QUERIES, 6, where={"kind": "bird"}).depth == 6
    assert (manifold.search(QUERIES, 6, where={"kind": "bird"}).indices < 0).all()


def test_repeated_id_is_refused() -> None:
    engine = store()
    scan = engine._scan
    engine._scan = lambda where, vectors: iter([*scan(where, vectors), *scan(where, vectors)])  # type: ignore[method-assign]
    with pytest.raises(ValueError, match=r"MemoryStore\(\) contains the id 0 twice; use a key that is unique"):
        kr.Manifold.build(engine)


def test_groups_go_by_the_ids_of_the_database() -> None:
    rows = np.concatenate([ROWS, ROWS[:2]])
    engine = store([f"n{place:02d}" for place in range(42)], rows=rows)
    found = [group.ids.tolist() for group in kr.near_duplicates(engine, max_distance=1e-6)]
    assert found == [["n00", "n40"], ["n01", "n41"]]


def test_neighbours_of_a_database_cannot_be_spread_over_workers() -> None:
    from kinrank.stores.view import adapt_to_space
    from kinrank.vector_space import Space

    with pytest.raises(ValueError, match=r"identifies items by its own ids, .* Manifold.build\(store\)"):
        adapt_to_space(store(), Space())


def test_joint_over_a_database_takes_its_filters_and_ids() -> None:
    engine = store([f"n{place:02d}" for place in range(40)])
    some = kr.rerank(QUERIES, engine, candidates="all", where={"kind": "dog"})
    truth = kr.rerank(QUERIES, ROWS, where=list(range(1, 40, 2)))
    assert some.ids.tolist() == [[f"n{place:02d}" for place in row] for row in truth.indices.tolist()]
    marked = kr.rerank(QUERIES[:1], engine, candidates="all", positives=["n03"])
    assert marked.indices.tolist() == kr.rerank(QUERIES[:1], ROWS, positives=[3]).indices.tolist()
    with pytest.raises(ValueError, match="positives names 'x', which MemoryStore"):
        kr.rerank(QUERIES[:1], engine, candidates="all", positives=["x"])


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"kind": "cat"}, [Condition("kind", ["cat"])]),
        ({"kind": ["a", "b"], "n": np.int64(3)}, [Condition("kind", ["a", "b"]), Condition("n", [3])]),
        ({"kind": None}, [Condition("kind", [None])]),
    ],
)
def test_conditions_of_a_mapping(where: dict[str, Any], expected: list[Condition]) -> None:
    assert parse_conditions(where) == expected


def test_values_are_bound_and_never_text() -> None:
    text, values = build_where_sql({"a": "x' OR 1=1", "b": [1, None]}, "?", lambda name: f"<{name}>")
    assert text == "(<a> IN (?)) AND (<b> IN (?) OR <b> IS NULL)"
    assert values == ["x' OR 1=1", 1]
    assert build_where_sql(("a < ?", [3]), "?", str) == ("(a < ?\n)", [3])
    assert build_where_sql(None, "?", str) == ("", [])
    for wrong in ("a < 3", 5, ("a", "b"), ("", []), ["a"]):
        with pytest.raises(ValueError, match="so that values are bound and never interpreted as SQL"):
            build_where_sql(wrong, "?", str)
    for wrong in ({}, {3: 4}, {"a": []}, {"a": object()}):
        with pytest.raises(ValueError, match="where"):
            build_where_sql(wrong, "?", str)


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("qdrant://localhost:6333/pictures", ("localhost", 6333, "pictures", {})),
        ("lancedb:///data/db?key=id#table", (None, None, "/data/db", {"key": "id", "table": "table"})),
        ("faiss:index.faiss", (None, None, "index.faiss", {})),
        ("postgresql://me:p%40ss@h/db?table=a.b", ("h", None, "db", {"table": "a.b"})),
        ("duckdb:x.db?collection=a&id=b&embedding=c", (None, None, "x.db", {"table": "a", "key": "b", "vector": "c"})),
    ],
)
def test_parts_of_a_url(url: str, parts: tuple[Any, ...]) -> None:
    found = StoreUrl.parse(url)
    assert (found.host, found.port, found.path, dict(found.options)) == parts


def test_the_path_of_a_server_is_a_table() -> None:
    taken = StoreUrl.parse("qdrant://h:1/pictures?timeout=3").take_table_from_path()
    assert (taken.path, dict(taken.options)) == ("", {"timeout": "3", "table": "pictures"})
    assert StoreUrl.parse(str(taken)) == taken
    local = StoreUrl.parse("qdrant:///folder#pictures")
    assert local.take_table_from_path() == local


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("duckdb:x.db?table=a#b", "has `table=a` and #b; give one"),
        ("duckdb:x.db?table=a&collection=b", "has `table=a` and collection=b; give one"),
        ("duckdb:x.db?id=a&key=b", "has `key=a` and key=b; give one"),
        ("chroma://localhost:9/a?table=b", "has `table=b` and /a; give one"),
    ],
)
def test_a_url_does_not_contradict_itself(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kr.open_store(url)
    assert StoreUrl.parse("duckdb:x.db?table=a&collection=a#a").options == {"table": "a"}


def test_a_password_is_never_printed() -> None:
    address = StoreUrl.parse("postgresql://me:p%40ss@h:5/db?table=a&password=p%40ss&api_key=p%40ss")
    assert address.password == "p@ss"
    for message in (str(address), repr(address)):
        assert "p@ss" not in message
        assert "p%40ss" not in message
    for url in ("postgresql://me:secret@host:99999999/db", "nosuch://me:secret@h/x", "postgresql://me:secret@h/db?a"):
        with pytest.raises(ValueError) as caught:
            kr.open_store(url)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("gallery.npy", "'gallery.npy' is not a store URL; give one such as postgresql://.*, usearch:index.usearch"),
        (3, "3 is not a store URL"),
        ("redis://localhost/x", "'redis' is not a supported engine; give a URL such as postgresql://.*, qdrant://"),
        ("faiss:x?a=1&a=2", "contains an option twice; give each option once; a complete URL: faiss:index.faiss"),
        ("qdrant://localhost:port/x", "the port as a number.* a complete URL: qdrant://localhost:6333"),
    ],
)
def test_invalid_urls(url: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kr.open_store(url)


@pytest.mark.parametrize("scheme", ENGINES)
def test_a_missing_package_and_a_complete_url(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, *_: Any) -> Any:
        raise MissingExtraError(f"{name} is not installed; pip install '.[{scheme}]'")

    entry = ENGINES[scheme]
    monkeypatch.setattr(f"kinrank.stores.{entry.module}.import_extra", refuse)
    (tmp_path / "index").write_bytes(b"")
    (tmp_path / "chroma.sqlite3").write_bytes(b"")
    place = {"faiss": "/index", "usearch": "/index"}.get(scheme, "?table=items")
    with pytest.raises(MissingExtraError) as refused:
        kr.open_store(f"{scheme}:{tmp_path}{place}")
    assert str(refused.value).endswith(f"pip install '.[{scheme}]'; a complete URL: {entry.examples()}")


def test_a_store_of_your_own_is_read_for_the_candidates_only() -> None:
    rows = np.random.default_rng(5).normal(size=(900, 6)).astype(np.float32)

    class Elsewhere(kr.Store):
        """Vectors that are somewhere else."""

        def __init__(self) -> None:
            self.read: list[int] = []

        def search(self, queries: Any, k: int) -> kr.Ranking:
            return kr.stores.ArrayStore(rows).search(queries, k)

        def vectors(self, ids: Any) -> Any:
            self.read.append(len(ids))
            return rows[ids]

        def __len__(self) -> int:
            return len(rows)

    here = Elsewhere()
    ranking = kr.rerank(QUERIES, here)
    assert (ranking.meta["mode"], here.read) == ("candidates", [STORE_CANDIDATES] * 3)
    np.testing.assert_array_equal(
        ranking.indices, kr.rerank(QUERIES, rows, candidates=STORE_CANDIDATES).indices[:, :500]
    )
    with pytest.raises(ValueError, match=r"give queries; or `candidates=500`, or `candidates='all'` for one graph"):
        kr.rerank(None, here)
    assert kr.rerank(QUERIES, here, candidates="all").meta["mode"] == "joint"
    for known in (rows, kr.stores.ArrayStore(rows)):
        assert kr.rerank(QUERIES, known, "none").meta["mode"] == "joint"
    with pytest.raises(ValueError, match="candidates='many' is not allowed; give a whole number >= 1, or 'all'"):
        kr.rerank(QUERIES, rows, candidates="many")  # type: ignore[arg-type]
