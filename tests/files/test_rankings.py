"""Files of rankings: they come back, keep their order for every reader, and are never half written."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import kinrank as kr
from kinrank.files.atomic import replacing
from kinrank.files.rankings import load_ranking, save_ranking, strictly_decreasing


def example(seed: int = 0, queries: int = 5, gallery: int = 9, pad: bool = True) -> kr.Ranking:
    rng = np.random.default_rng(seed)
    indices = np.array([rng.permutation(gallery) for _ in range(queries)])
    distances = np.sort(rng.integers(0, 6, (queries, gallery)) / 4, axis=1).astype(np.float32)  # full of ties
    if pad:
        indices[1, 6:], distances[1, 6:] = -1, np.inf
        indices[2], distances[2] = -1, np.inf
    return kr.Ranking(indices, distances, {"mode": "joint", "seconds": np.float32(0.5), "method": "X(k=1)"})


@pytest.mark.parametrize("ending", ["npz", "trec", "csv"])
@pytest.mark.parametrize("named", [False, True])
def test_rankings_come_back(ending: str, named: bool, tmp_path) -> None:
    ranking, path = example(), tmp_path / f"x.{ending}"
    ids = {"query_ids": list("vwxyz"), "item_ids": [f'it,em"{i}' for i in range(9)]} if named else {}
    save_ranking(ranking, path, **ids)
    found = load_ranking(path, **(ids if ending != "npz" else {}))
    np.testing.assert_array_equal(found.indices, ranking.indices)
    np.testing.assert_allclose(found.distances, ranking.distances, atol=0 if ending != "trec" else 1e-6)
    if ending == "npz":
        assert found.meta["method"] == "X(k=1)"
        assert found.meta["seconds"] == 0.5
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@settings(max_examples=200, deadline=None)
@given(
    arrays.arrays(
        np.float32,
        st.integers(0, 30),
        elements=st.floats(-(2.0**126), 2.0**126, width=32) | st.sampled_from([0, 1]),
    )
)
def test_scores_strictly_decrease_and_hardly_change(values: np.ndarray) -> None:
    values = -np.sort(-values)
    strict = strictly_decreasing(values)
    assert (np.diff(strict.astype(np.float64)) < 0).all()
    np.testing.assert_allclose(strict, values, rtol=1e-5, atol=1e-40)


def test_run_lines_keep_the_order_in_trec_eval(tmp_path) -> None:
    """All distances equal: a program that breaks ties by name would turn the order round."""
    ir = pytest.importorskip("ir_measures")
    order = np.array([np.random.default_rng(q).permutation(30) for q in range(6)])
    ranking = kr.Ranking(order, np.zeros(order.shape, np.float32))
    save_ranking(ranking, tmp_path / "x.trec")
    qrels = {str(q): {str(d): 1 for d in (3, 8, 21)} for q in range(6)}
    theirs = ir.calc_aggregate([ir.AP], qrels, list(ir.read_trec_run(str(tmp_path / "x.trec"))))[ir.AP]
    assert kr.evaluate(ranking, kr.Truth.from_qrels(qrels))["mAP"].mean == pytest.approx(theirs)


def test_runs_of_other_programs_are_ordered_by_score(tmp_path) -> None:
    (tmp_path / "x.trec").write_text("1 Q0 7 1 0.5 t\n1 Q0 2 2 0.9 t\n3 Q0 1 2 1 t\n3 Q0 9 1 1 t\n")
    found = load_ranking(tmp_path / "x.trec")
    assert found.ids.tolist() == [[2, 7], [9, 1]]
    assert found.query_ids.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("ending", "content"),
    [
        ("trec", "1 Q0 2 1 0.5"),
        ("trec", "1 Q0 2 1 high t"),
        ("trec", "1 Q0 2 1 nan t"),
        ("trec", "1 Q0 2 1 0.5 t\n1 Q0 2 2 0.4 t"),
        ("csv", "0,1,2,0.5"),
        ("csv", "query,rank,item,distance\n0,1,2"),
        ("csv", "query,rank,item,distance\n0,1,-2,0.5"),
        ("csv", "query,rank,item,distance\n0,1,2,nan"),
        ("csv", "query,rank,item,distance\n0,1,2,0.5\n0,2,2,0.7"),
        ("csv", "query,rank,item,distance\n0,1,2,0.5\n0,2,3,0.4"),
        ("csv", "query,rank,item,distance\n0,1,2,0.5\n0,1,3,0.5"),
        ("csv", "query,rank,item,distance\n99999999999,1,2,0.5"),
        ("npz", "no archive"),
        ("doc", "x"),
    ],
)
def test_files_that_are_no_ranking_are_refused(ending: str, content: str, tmp_path) -> None:
    (tmp_path / f"x.{ending}").write_text(content)
    with pytest.raises(ValueError, match=rf"x\.{ending}"):
        load_ranking(tmp_path / f"x.{ending}")


def test_damaged_archives_are_refused(tmp_path) -> None:
    path = tmp_path / "x.npz"
    save_ranking(example(), path)
    whole = path.read_bytes()
    for size in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="truncated, damaged"):
            load_ranking(path)
    spot = whole.index(b"NUMPY") + 150
    path.write_bytes(whole[:spot] + bytes([whole[spot] ^ 255]) + whole[spot + 1 :])
    with pytest.raises(ValueError, match="damaged"):  # the archive's checksum
        load_ranking(path)
    good = {"indices": np.array([[0, 1]]), "distances": np.zeros((1, 2)), "meta": "{}", "version": 1}
    bad = {"indices": np.full((1, 2), -3), "distances": np.array([[1.0, 0.5]]), "meta": "[", "version": 99}
    for name, value in bad.items():
        np.savez(path, **{**good, name: value})
        with pytest.raises(ValueError, match="damaged"):
            load_ranking(path)
    np.savez(path, **good)
    assert load_ranking(path).indices.shape == (1, 2)
    with pytest.raises(FileNotFoundError):
        load_ranking(tmp_path / "absent.npz")


@pytest.mark.parametrize("ending", ["npz", "trec", "csv"])
def test_an_error_leaves_the_old_file_and_nothing_else(ending: str, tmp_path, monkeypatch) -> None:
    path = tmp_path / f"x.{ending}"
    save_ranking(example(1), path)
    before = path.read_bytes()

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        save_ranking(example(2), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_replacing_cleans_up_and_respects_permissions(tmp_path) -> None:
    def interrupted() -> None:
        with replacing(tmp_path / "x") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not list(tmp_path.iterdir())
    with replacing(tmp_path / "x") as file:
        file.write(b"whole")
    (tmp_path / "y").write_bytes(b"whole")
    assert (tmp_path / "x").stat().st_mode == (tmp_path / "y").stat().st_mode
    with pytest.raises(FileNotFoundError, match="folder"), replacing(tmp_path / "absent" / "x"):
        pass


def test_ids_that_do_not_fit_are_refused(tmp_path) -> None:
    ranking = example(pad=False)
    with pytest.raises(ValueError, match="query_ids has 2 names but the ranking needs 5"):
        save_ranking(ranking, tmp_path / "x.csv", query_ids=["a", "b"])
    with pytest.raises(ValueError, match="item_ids must differ"):
        save_ranking(ranking, tmp_path / "x.csv", item_ids=["a"] * 9)
    with pytest.raises(ValueError, match="holds a space"):
        save_ranking(ranking, tmp_path / "x.trec", item_ids=[f"item {i}" for i in range(9)])
    with pytest.raises(ValueError, match=r"give \.npz \| \.trec \| \.csv"):
        save_ranking(ranking, tmp_path / "x.doc")
    save_ranking(ranking, tmp_path / "x.csv", item_ids=list("abcdefghi"))
    with pytest.raises(ValueError, match="is not among item_ids"):
        load_ranking(tmp_path / "x.csv", item_ids=list("abc"))
    with pytest.raises(ValueError, match="this ranking has ids already; leave item_ids out"):
        save_ranking(ranking.with_ids(list("abcdefghi")), tmp_path / "x.npz", item_ids=list("abcdefghi"))
