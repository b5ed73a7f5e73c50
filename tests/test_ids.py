"""Ids of items: 64-bit numbers and texts of any length, saved and counted; stable item numbers."""

from __future__ import annotations

import tracemalloc
import uuid
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.errors import LogAppliedWarning
from kinrank.ids import Ids, check_ids
from kinrank.manifold.saved_folder import log_path
from kinrank.manifold.service_log import Change, ChangeLog

BIG = 2**63 + 5
METHOD = kr.methods.AQE(k=2)


def rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 6)).astype(np.float32)


@pytest.mark.parametrize(
    "ids",
    [
        [BIG + i for i in range(12)],
        np.arange(12, dtype=np.uint64) + np.uint64(BIG),
        [*range(11), 2**64 - 1],
        np.array(range(12), object),
        [uuid.UUID(int=i + 1) for i in range(12)],
        [f"name {'x' * i} " for i in range(12)],
        [" " * (i + 1) for i in range(12)],
    ],
)
def test_ids_survive_everything(ids: Any, tmp_path: Path) -> None:
    """Build, search, explain, change, save and load keep ids unchanged: numbers never wrap, texts are never cut."""
    plain = [
        str(entry) if isinstance(entry, uuid.UUID) else int(entry) if type(entry) is not str else entry for entry in ids
    ]
    vectors = rows(12)
    manifold = kr.Manifold.build(vectors[:10], METHOD, ids=ids[:10])
    manifold.add(vectors[10:], ids[10:])
    assert manifold.ids.tolist() == plain
    assert manifold.search(vectors[[3, 11]], k=1).ids.tolist() == [[plain[3]], [plain[11]]]
    manifold.remove(ids[0])
    manifold.remove([ids[5]])
    left = [name for place, name in enumerate(plain) if place not in (0, 5)]
    manifold.save(tmp_path / "m")
    loaded = kr.Manifold.load(tmp_path / "m")
    assert loaded.ids.tolist() == left
    assert loaded.ids.dtype == manifold.ids.dtype
    assert loaded.search(vectors[[3]], k=1).ids.tolist() == [[plain[3]]]
    assert loaded.search(vectors[:1], k=1).ids.tolist() != [[plain[0]]]


def test_items_are_explained_by_any_id() -> None:
    vectors = rows(30)
    method = kr.LPMT(k1=8, k2=4)
    for ids in ([BIG + i for i in range(30)], [uuid.UUID(int=i + 1) for i in range(30)]):
        assert kr.Manifold.build(vectors, method, ids=ids).explain(vectors[0], ids[7]).names[-1] in (
            ids[7],
            str(ids[7]),
        )


def test_an_explanation_speaks_of_ids_after_a_removal() -> None:
    vectors = rows(30)
    manifold = kr.Manifold.build(vectors, kr.LPMT(k1=8, k2=4))
    manifold.remove([0, 1])
    why = manifold.explain(vectors[5], 20)
    assert why.items[-1] == why.names[-1] == 20
    for step in why.flows:
        for start, end, *_ in step:
            assert {start, end} <= set(manifold.ids.tolist())


@pytest.mark.parametrize("ids", [[1, "a"], [True, False], [1.0, 2.0], [None, "a"]])
def test_no_id_changes_its_kind_silently(ids: Any) -> None:
    with pytest.raises(ValueError, match="texts"):
        kr.Manifold.build(rows(2), METHOD, ids=ids)


def test_numbers_above_2_to_the_63_join_smaller_ones() -> None:
    names = Ids(2, check_ids([1, 2], 2)).append([BIG], 1)
    assert names.all.tolist() == [1, 2, BIG]
    assert names.append([3], 1).all.tolist() == [1, 2, BIG, 3]
    with pytest.raises(ValueError, match="exists already"):
        names.append([BIG], 1)
    with pytest.raises(ValueError, match="64 bits"):
        names.append([-7], 1)


def test_one_long_id_among_many_takes_megabytes(tmp_path: Path) -> None:
    count = 20_000
    ids = ["x" * 20_000, *(f"item {i}" for i in range(count - 1))]
    vectors = rows(count)
    tracemalloc.start()
    manifold = kr.Manifold.build(vectors, METHOD, ids=ids, max_memory="2GB")
    manifold.search(vectors[:2], k=3)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 500e6  # with a fixed width it would take 1.6 GB
    assert manifold.info()["bytes"] < 20e6
    manifold.save(tmp_path / "m")
    assert sum(file.stat().st_size for file in (tmp_path / "m").rglob("*")) < 20e6
    assert kr.Manifold.load(tmp_path / "m").ids.tolist() == ids


def test_ids_count_against_max_memory() -> None:
    vectors = rows(200)
    kr.Manifold.build(vectors, METHOD, ids=[f"{i}" for i in range(200)], max_memory="2MB")
    with pytest.raises(kr.errors.MemoryLimitError, match="`max_memory` allows"):
        kr.Manifold.build(vectors, METHOD, ids=["x" * 20_000 + f"{i}" for i in range(200)], max_memory="2MB")


def test_numbers_never_shift() -> None:
    """Without ids, indices and ids of a search are the same before and after the removal of another item."""
    vectors = rows(40)
    manifold = kr.Manifold.build(vectors, METHOD)
    before = manifold.search(vectors[10:15], k=1)
    manifold.remove([0, 3])
    after = manifold.search(vectors[10:15], k=1)
    assert before.ids.tolist() == after.ids.tolist() == [[10], [11], [12], [13], [14]]
    assert before.indices.tolist() == after.indices.tolist()


@pytest.mark.parametrize(
    ("arrays", "following"),
    [
        ({"ids": np.arange(3)}, None),
        ({"ids": np.arange(4)}, 3.0),
        ({"ids": np.arange(4)}, float("nan")),
        ({"ids": np.arange(4)}, float("inf")),
        ({"ids": np.arange(4)}, 7.5),
        ({"ids": np.array([-2, 0, 1, 2])}, 4.0),  # item numbers start at 0
        ({}, 4.0),
        ({"ids_text": np.frombuffer(b"abcd", np.uint8), "ids_starts": np.arange(5)}, 4.0),
        ({"ids_text": np.frombuffer(b"abca", np.uint8), "ids_starts": np.arange(5)}, None),
    ],
)
def test_saved_names_that_contradict_themselves_are_refused(arrays: dict[str, Any], following: float | None) -> None:
    with pytest.raises(ValueError, match=r"its |ids|next_number="):
        Ids.restore(4, dict(arrays), following)


def test_galleries_with_names_that_are_refused_today_are_still_read_and_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders and logs of kinrank 0.1.0 may contain ids with control characters."""
    given = rows(6)
    with monkeypatch.context() as before:
        before.setattr("kinrank.ids.refuse_control_characters", lambda *_: None)
        kr.Manifold.build(given[:4], kr.methods.AQE(k=1), ids=["\0", "b\tc", "d\n", "a\0"]).save(tmp_path / "g")
    log = ChangeLog(log_path(tmp_path / "g"), 0)
    log.append([Change(vectors=given[4:5], ids=["e\n"], version=1)])
    log.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LogAppliedWarning)
        with kr.Manifold.changing(tmp_path / "g") as manifold:
            manifold.upsert(given[5:], ["b\tc"])
            manifold.remove(["d\n"])
            manifold.refresh()
    assert sorted(kr.Manifold.load(tmp_path / "g").ids.tolist()) == ["\0", "a\0", "b\tc", "e\n"]
    with pytest.raises(ValueError, match="control character"):
        manifold.upsert(given[:2], ["b\tc", "x\ty"])


def test_ids_from_arrow_arrays() -> None:
    pa = pytest.importorskip("pyarrow")
    manifold = kr.Manifold.build(rows(12), ids=[f"i{number}" for number in range(12)])
    chosen = ["i3", "i5"]
    expected = manifold.search(rows(1), 4, positives=chosen)
    assert manifold.search(rows(1), 4, positives=pa.array(chosen)).ids.tolist() == expected.ids.tolist()
    assert manifold.search(rows(1), 4, positives=[pa.array(chosen)]).ids.tolist() == expected.ids.tolist()
    manifold.remove(pa.array(chosen))
    assert len(manifold) == 10
