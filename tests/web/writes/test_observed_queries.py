"""Observed queries through the writer, its log and its workers: acknowledged ones are kept, bad ones refused."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from engines.fake_engine import MemoryStore
from kinrank.errors import InputError, LogAppliedWarning
from kinrank.manifold.changes import merge_changes
from kinrank.manifold.saved_folder import log_path
from kinrank.manifold.service_log import Change, pack_changes, unpack_changes
from kinrank.manifold.verify import verify
from kinrank.web.writes.checkpointer import Checkpointer
from kinrank.web.writes.gallery_writer import Receipt, Writer
from kinrank.web.writes.replica import Replica
from kinrank.web.writes.writer_socket import WriterSocket
from reference.waiting import PATIENCE

SMALL = kr.LPMT(k1=8, k2=3, k=3, path_k=3, support=8)


def rows_of(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(count, 5)).astype(np.float32)


def remembered(manifold: kr.Manifold) -> Any:
    snapshot = manifold.snapshot
    return snapshot.vectors[snapshot.remembered.queries]


def unit(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    kr.Manifold.build(rows_of(60), SMALL, ids=[f"n{number}" for number in range(60)]).save(tmp_path / "g")
    return tmp_path / "g"


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Changes are logged, but not applied before this event is set."""
    go, apply = threading.Event(), Checkpointer.apply

    def waiting(applied: Checkpointer, changes: list[Change]) -> None:
        if changes:
            go.wait(PATIENCE)
        apply(applied, changes)

    monkeypatch.setattr(Checkpointer, "apply", waiting)
    yield go
    go.set()


def test_observed_queries_are_acknowledged_applied_and_saved(folder: Path) -> None:
    queries = rows_of(4, 1)
    with Writer(folder) as writer:
        assert writer.observe(queries[:3]) == Receipt(1, 0, 0, 0, 60, None, 3)
        assert writer.observe(queries[:0]) == Receipt(1, 0, 0, 0, 60, None, 0)
        assert writer.observe(queries[2:]) == Receipt(2, 0, 0, 0, 60, None, 2)  # one of them is a duplicate
        assert writer.wait(2, PATIENCE)
        assert len(writer.manifold) == 60
        np.testing.assert_allclose(remembered(writer.manifold), unit(queries), atol=1e-6)
    assert not log_path(folder).exists()
    assert verify(folder).whole
    assert kr.Manifold.load(folder).n_observed == 4


def test_acknowledged_queries_survive_a_crash(folder: Path, paused: threading.Event) -> None:
    """The copy is the state after a kill: nothing is applied, everything is in the log."""
    with Writer(folder) as writer:
        writer.put(rows_of(2, 2), ["a", "b"])
        writer.observe(rows_of(3, 1))
        writer.remove(["a", "n0"])
        copies = [folder.with_name(name) for name in ("served", "changed")]
        for left in copies:
            shutil.copytree(folder, left, ignore=shutil.ignore_patterns(".lock"))
            shutil.copy(log_path(folder), log_path(left))
        paused.set()
        assert writer.wait(3, PATIENCE)
        ids, queries = writer.manifold.ids.tolist(), remembered(writer.manifold)
    with Writer(copies[0]) as again:
        assert again.version == 3
        assert again.manifold.ids.tolist() == ids
        np.testing.assert_array_equal(remembered(again.manifold), queries)
    with pytest.warns(LogAppliedWarning, match="3 changes"), kr.Manifold.changing(copies[1]):
        pass
    for left in [folder, *copies]:
        assert verify(left).whole
        loaded = kr.Manifold.load(left)
        assert loaded.ids.tolist() == ids
        np.testing.assert_array_equal(remembered(loaded), queries)


def test_queries_see_the_items_that_came_before_them(tmp_path: Path, paused: threading.Event) -> None:
    """A gallery of three items has room for one query; with thirty more there is room for ten."""
    folder = tmp_path / "g"
    kr.Manifold.build(rows_of(3), SMALL, ids=["x", "y", "z"]).save(folder)
    with Writer(folder) as writer:
        writer.put(rows_of(30, 1), [f"n{number}" for number in range(30)])
        writer.observe(rows_of(8, 2))
        paused.set()
        assert writer.wait(2, PATIENCE)
        assert writer.manifold.n_observed == 8


def test_the_oldest_queries_are_forgotten_first(tmp_path: Path) -> None:
    folder, queries = tmp_path / "g", rows_of(8, 3)
    kr.Manifold.build(rows_of(60), SMALL, observed_limit=5).save(folder)
    with Writer(folder) as writer:
        for start in range(0, 8, 2):
            writer.observe(queries[start : start + 2])
        assert writer.wait(4, PATIENCE)
        np.testing.assert_allclose(remembered(writer.manifold), unit(queries[3:]), atol=1e-6)


def test_queries_in_an_empty_gallery(folder: Path) -> None:
    with Writer(folder) as writer:
        writer.remove([f"n{number}" for number in range(60)])
        assert writer.observe(rows_of(2, 1)).observed == 2
        writer.put(rows_of(9, 2), list("abcdefghi"))
        assert writer.wait(3, PATIENCE)
        assert writer.manifold.ids.tolist() == list("abcdefghi")
        assert writer.trouble == ""


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (rows_of(1)[:, :4], "5 dimensions are needed"),
        (np.full((1, 5), np.nan), "queries"),
        (np.zeros((1, 5)), "queries"),
        ([["a"] * 5], "queries"),
    ],
)
def test_bad_queries_are_refused(folder: Path, queries: Any, message: str) -> None:
    with Writer(folder) as writer:
        with pytest.raises(InputError, match=message):
            writer.observe(queries)
        assert (writer.logged, writer.manifold.n_observed) == (0, 0)


@pytest.mark.parametrize(
    ("method", "changes", "message"),
    [(kr.methods.AQE(k=3), True, "AQE"), (kr.DFS(), True, "DFS"), (SMALL, False, "changes=True")],
)
def test_galleries_that_cannot_observe_say_so(tmp_path: Path, method: kr.Method, changes: bool, message: str) -> None:
    kr.Manifold.build(rows_of(60), method, changes=changes).save(tmp_path / "g")
    with Writer(tmp_path / "g") as writer:
        with pytest.raises(InputError, match=message):
            writer.observe(rows_of(1))
        assert writer.logged == 0


def test_a_vector_database_is_not_observed(tmp_path: Path) -> None:
    store = MemoryStore(rows_of(60), [f"n{number}" for number in range(60)], [{}] * 60, "cosine")
    kr.Manifold.build(store, SMALL).save(tmp_path / "g")
    with Writer(tmp_path / "g", store) as writer, pytest.raises(InputError, match="without --store"):
        writer.observe(rows_of(1))


def test_queries_observed_by_one_worker_reach_all(folder: Path) -> None:
    path = str(folder.with_name("socket"))
    with Writer(folder) as writer:
        listening = WriterSocket(writer, path)
        try:
            with Replica(folder, None, path) as one, Replica(folder, None, path) as other:
                assert one.observe(rows_of(3, 1)) == Receipt(1, 0, 0, 0, 60, None, 3)
                assert other.wait(1, PATIENCE)
                np.testing.assert_array_equal(remembered(other.manifold), remembered(writer.manifold))
                assert other.manifold.n_observed == 3
                found, expected = (who.manifold.search(rows_of(9, 4), k=7) for who in (other, writer))
                np.testing.assert_array_equal(found.distances, expected.distances)
                with pytest.raises(InputError, match="5 dimensions are needed"):
                    other.observe(rows_of(1)[:, :3])
                with pytest.raises(InputError, match="queries"):
                    other.observe([[np.inf] * 5])
        finally:
            listening.close()
    with Replica(folder) as reading, pytest.raises(InputError, match="read-only"):
        reading.observe(rows_of(1))


def test_merged_changes_keep_queries_in_their_order() -> None:
    one, two = rows_of(2, 1), rows_of(1, 2)
    put = Change(vectors=rows_of(1), ids=["a"], version=2)
    changes = [Change(queries=one, version=1), put, Change(queries=two, version=3)]
    together = merge_changes(unpack_changes(pack_changes(changes), 1), 5, None)
    assert together.ids == ["a"]
    np.testing.assert_array_equal(together.queries, np.concatenate([one, two]))
    with pytest.raises(ValueError, match="do not have 4 columns"):
        merge_changes(changes[:1], 4, None)


@pytest.mark.parametrize(
    "line",
    [
        b'{"kind":"observe","version":1,"ids":["a"],"first":null,"shape":[1,1]}\n\0\0\0\0',
        b'{"kind":"observe","version":1,"ids":null,"first":3,"shape":[1,1]}\n\0\0\0\0',
        b'{"kind":"observe","version":1,"ids":null,"first":null,"shape":null}\n',
        b'{"kind":"observe","version":1,"ids":null,"first":null,"shape":[2,1]}\n\0\0\0\0',
        b'{"kind":"remember","version":1,"ids":null,"first":null,"shape":[1,1]}\n\0\0\0\0',
        b'{"kind":["observe"],"version":1,"ids":null,"first":null,"shape":[1,1]}\n\0\0\0\0',
    ],
)
def test_lines_that_describe_no_observation_are_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"change|queries|record"):
        unpack_changes(line, 1)
