"""Files of rankings are restored, keep their order for every reader, and are written atomically."""

from __future__ import annotations

import io
import os
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import kinrank as kr
from kinrank.errors import MemoryLimitError
from kinrank.files import path_checks
from kinrank.files.atomic import atomic_write
from kinrank.ranking import Ranking
from kinrank.ranking.ranking_tables import make_strictly_decreasing


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
    ranking.with_ids(**ids).save(path)
    found = Ranking.load(path, **(ids if ending != "npz" else {}))
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
    strict = make_strictly_decreasing(values)
    assert (np.diff(strict.astype(np.float64)) < 0).all()
    np.testing.assert_allclose(strict, values, rtol=1e-5, atol=1e-40)


def test_run_lines_keep_the_order_in_trec_eval(tmp_path) -> None:
    """All distances are equal: a program that breaks ties by name would reverse the order."""
    ir = pytest.importorskip("ir_measures")
    order = np.array([np.random.default_rng(q).permutation(30) for q in range(6)])
    ranking = kr.Ranking(order, np.zeros(order.shape, np.float32))
    ranking.save(tmp_path / "x.trec")
    qrels = {str(q): {str(d): 1 for d in (3, 8, 21)} for q in range(6)}
    theirs = ir.calc_aggregate([ir.AP], qrels, list(ir.read_trec_run(str(tmp_path / "x.trec"))))[ir.AP]
    assert kr.evaluate(ranking, kr.Truth.from_qrels(qrels))["mAP"].mean == pytest.approx(theirs)


def test_runs_of_other_programs_are_ordered_by_score(tmp_path) -> None:
    (tmp_path / "x.trec").write_text("1 Q0 7 1 0.5 t\n1 Q0 2 2 0.9 t\n3 Q0 1 2 1 t\n3 Q0 9 1 1 t\n")
    found = Ranking.load(tmp_path / "x.trec")
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
def test_other_files_are_not_rankings(ending: str, content: str, tmp_path) -> None:
    (tmp_path / f"x.{ending}").write_text(content)
    with pytest.raises(ValueError, match=rf"x\.{ending}"):
        Ranking.load(tmp_path / f"x.{ending}")


def test_damaged_archives_are_refused(tmp_path) -> None:
    path = tmp_path / "x.npz"
    example().save(path)
    whole = path.read_bytes()
    for size in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="truncated, damaged"):
            Ranking.load(path)
    spot = whole.index(b"NUMPY") + 150
    path.write_bytes(whole[:spot] + bytes([whole[spot] ^ 255]) + whole[spot + 1 :])
    with pytest.raises(ValueError, match="damaged"):  # the archive's checksum
        Ranking.load(path)
    good = {"indices": np.array([[0, 1]]), "distances": np.zeros((1, 2)), "meta": "{}", "version": 1}
    bad = {"indices": np.full((1, 2), -3), "distances": np.array([[1.0, 0.5]]), "meta": "[", "version": 99}
    for name, value in bad.items():
        np.savez(path, **{**good, name: value})
        with pytest.raises(ValueError, match="damaged"):
            Ranking.load(path)
    np.savez(path, **good)
    assert Ranking.load(path).indices.shape == (1, 2)
    with pytest.raises(FileNotFoundError):
        Ranking.load(tmp_path / "absent.npz")


def test_an_archive_that_unpacks_to_too_much_is_refused_unread(tmp_path, monkeypatch) -> None:
    """Each array alone would fit; all arrays of the ranking do not."""
    path, rows = tmp_path / "x.npz", np.zeros((10**5, 1))
    parts = {"indices": rows.astype(np.int64), "distances": rows, "meta": "{}", "version": 1}
    np.savez_compressed(path, **parts)
    assert path.stat().st_size < 10**4
    assert len(Ranking.load(path)) == 10**5
    monkeypatch.setattr(path_checks, "default_limit_bytes", lambda: 10**6)
    monkeypatch.setattr(np.lib.format, "read_array", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(MemoryLimitError, match=r"unpacks to 1\.6 MB, but only 1 MB are free; save fewer queries"):
        Ranking.load(path)


@pytest.mark.parametrize("name", ["indices", "distances", "version", "meta"])
def test_a_header_that_claims_too_much_is_refused_before_anything_is_allocated(name: str, tmp_path) -> None:
    path, claimed = tmp_path / "x.npz", io.BytesIO()
    header = {"descr": "<i8", "fortran_order": False, "shape": (10**12, 2)}
    np.lib.format.write_array_header_1_0(claimed, header)
    example().save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {part: archive.read(part) for part in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for part, content in parts.items():
            archive.writestr(part, claimed.getvalue() + bytes(64) if part == f"{name}.npy" else content)
    with pytest.raises(ValueError, match=f"{name} is shorter than its header claims"):
        Ranking.load(path)


@pytest.mark.parametrize("ending", ["npz", "trec", "csv"])
def test_an_error_leaves_the_old_file_and_nothing_else(ending: str, tmp_path, monkeypatch) -> None:
    path = tmp_path / f"x.{ending}"
    example(1).save(path)
    before = path.read_bytes()

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        example(2).save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_replacing_cleans_up_and_respects_permissions(tmp_path) -> None:
    def interrupted() -> None:
        with atomic_write(tmp_path / "x") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not list(tmp_path.iterdir())
    with atomic_write(tmp_path / "x") as file:
        file.write(b"whole")
    (tmp_path / "y").write_bytes(b"whole")
    assert (tmp_path / "x").stat().st_mode == (tmp_path / "y").stat().st_mode
    with pytest.raises(FileNotFoundError, match="folder"), atomic_write(tmp_path / "absent" / "x"):
        pass


def test_ids_that_do_not_fit_are_refused(tmp_path) -> None:
    ranking = example(pad=False)
    with pytest.raises(ValueError, match="query_ids has 2 ids but the ranking needs 5"):
        ranking.with_ids(query_ids=["a", "b"]).save(tmp_path / "x.csv")
    with pytest.raises(ValueError, match="item_ids must be unique"):
        ranking.with_ids(item_ids=["a"] * 9).save(tmp_path / "x.csv")
    with pytest.raises(ValueError, match="contains a space"):
        ranking.with_ids(item_ids=[f"item {i}" for i in range(9)]).save(tmp_path / "x.trec")
    with pytest.raises(ValueError, match=r"give \.npz \| \.trec \| \.csv"):
        ranking.save(tmp_path / "x.doc")
    ranking.with_ids(item_ids=list("abcdefghi")).save(tmp_path / "x.csv")
    with pytest.raises(ValueError, match="is not among `item_ids`"):
        Ranking.load(tmp_path / "x.csv", item_ids=list("abc"))
    with pytest.raises(ValueError, match="this ranking already has ids; leave `item_ids` out"):
        ranking.with_ids(list("abcdefghi")).with_ids(item_ids=list("abcdefghi")).save(tmp_path / "x.npz")


def named(ids: list, query_ids: list | None = None) -> kr.Ranking:
    """Return three queries; the second has one item less and the third has none."""
    indices = np.array([[2, 0, 1], [1, 2, -1], [-1, -1, -1]])
    distances = np.where(indices < 0, np.inf, np.arange(3) / 4)
    return kr.Ranking(indices, distances).with_ids(ids, query_ids)


@pytest.mark.parametrize("ids", [["a", "b", "ab" * 9000], [7, 0, -5], [2**64 - 1, 2**63, 1]])
@pytest.mark.parametrize("query_ids", [None, ["x", "y", "z"]])
@pytest.mark.parametrize("ending", ["npz", "trec", "csv"])
def test_ids_leave_and_come_back(ids: list, query_ids: list | None, ending: str, tmp_path) -> None:
    """Ids are written without being given; numbers are not."""
    path, ranking = tmp_path / f"x.{ending}", named(ids, query_ids)
    ranking.save(path)
    found = Ranking.load(path)
    rows = 3 if ending == "npz" else 2  # text has no line for a query without results
    assert found.ids.tolist() == ranking.ids.tolist()[:rows]
    assert (found.query_ids is None) == (query_ids is None)
    if query_ids is not None:
        assert found.query_ids.tolist() == query_ids[:rows]
    assert found.has_ids
    assert not found.has_numbers_only


@pytest.mark.parametrize("ending", ["npz", "trec", "csv"])
def test_numbers_count_from_0_and_stay_numbers(ending: str, tmp_path) -> None:
    ranking = kr.Ranking([[5, 0], [3, 5]], [[0.0, 1.0], [0.0, 1.0]])
    ranking.save(tmp_path / f"x.{ending}")
    found = Ranking.load(tmp_path / f"x.{ending}")
    assert found.has_numbers_only
    assert found.indices.tolist() == found.ids.tolist() == ranking.indices.tolist()
    if ending == "trec":
        words = [line.split() for line in (tmp_path / "x.trec").read_text().splitlines()]
        assert [(query, item) for query, _, item, *_ in words] == [("0", "5"), ("0", "0"), ("1", "3"), ("1", "5")]


def test_ids_that_look_like_numbers_are_not_item_numbers(tmp_path) -> None:
    """With ids 1, 2, 3 of three items, labels in gallery order must not be read at these positions."""
    truth = kr.Truth.from_labels([0, 0, 0], [0, 1, 0])
    for ending in ("npz", "trec", "csv"):
        named(["1", "2", "3"]).head(2).save(tmp_path / f"x.{ending}")
        with pytest.raises(ValueError, match=r"the items of the ranking have ids, .* give `item_ids`"):
            kr.evaluate(Ranking.load(tmp_path / f"x.{ending}"), truth.subset(range(3 if ending == "npz" else 2)))


@pytest.mark.parametrize("ending", ["npz", "trec", "csv"])
def test_an_item_listed_twice_is_refused_everywhere(ending: str, tmp_path) -> None:
    path = tmp_path / f"x.{ending}"
    with pytest.raises(ValueError, match="query 0 lists item 4 twice"):
        kr.Ranking([[4, 4]], [[0.0, 1.0]]).save(path)
    assert not path.exists()
    if ending == "npz":
        np.savez(path, indices=np.array([[4, 4]]), distances=np.array([[0.0, 1.0]]), meta="{}", version=1)
    elif ending == "trec":
        path.write_text("0 Q0 4 1 0.5 kinrank\n0 Q0 4 2 0.4 kinrank\n")
    else:
        path.write_text("query,rank,item,distance\n0,1,4,0.5\n0,2,4,0.7\n")
    with pytest.raises(ValueError, match="lists item 4 twice"):
        Ranking.load(path)


def test_damaged_ids_in_an_archive_are_refused(tmp_path) -> None:
    path = tmp_path / "x.npz"
    named(["a", "b", "c"]).save(path)
    with np.load(path) as content:
        good = dict(content)
    bad = {
        "places": [np.full((3, 3), 1), np.full((3, 3), 9), np.full((2, 3), -1), np.zeros((3, 3))],
        "item_ids_starts": [np.array([0, 9, 2, 3]), np.array([0, 3])],
        "item_ids_text": [np.frombuffer(b"aab", np.uint8), np.frombuffer(b"\xff\xffb", np.uint8)],
    }
    for name, values in bad.items():
        for value in values:
            np.savez(path, **{**good, name: value})
            with pytest.raises(ValueError, match="damaged"):
                Ranking.load(path)


TIED = "q Q0 doc1 1 0.5 t\nq Q0 doc2 2 0.5 t\nq Q0 doc3 3 0.5 t\nq Q0 doc4 4 0.5 t\nq Q0 doc5 5 0.5 t\n"


def test_ties_keep_their_rank_or_are_ordered_as_trec_eval_does(tmp_path) -> None:
    """One run has a reciprocal rank of 1 by its ranks and of 0.2 in trec_eval."""
    pytrec_eval = pytest.importorskip("pytrec_eval")
    (tmp_path / "x.trec").write_text(TIED)
    truth = kr.Truth.from_qrels({"q": {"doc1": 1}})
    run = {"q": {f"doc{i}": 0.5 for i in range(1, 6)}}
    theirs = pytrec_eval.RelevanceEvaluator({"q": {"doc1": 1}}, {"recip_rank"}).evaluate(run)["q"]["recip_rank"]
    ours = [
        kr.evaluate(Ranking.load(tmp_path / "x.trec", ties=ties), truth, "MRR")["MRR"].mean
        for ties in ("rank", "trec_eval")
    ]
    assert ours == [1.0, theirs]
    assert theirs == pytest.approx(0.2)


def test_tied_runs_score_as_in_trec_eval(tmp_path) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    rng = np.random.default_rng(3)
    run = {
        f"q{q}": {f"d{d}": float(rng.integers(0, 4)) + rng.integers(0, 2) * 1e-9 for d in range(40)} for q in range(20)
    }
    qrels = {query: {f"d{d}": int(rng.integers(0, 3)) for d in range(0, 40, 3)} for query in run}
    lines = [f"{q} Q0 {d} 1 {score} t" for q, row in run.items() for d, score in row.items()]
    (tmp_path / "x.trec").write_text("\n".join(lines))
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"map", "ndcg"}).evaluate(run)
    scores = kr.evaluate(
        Ranking.load(tmp_path / "x.trec", ties="trec_eval"), kr.Truth.from_qrels(qrels), ["mAP", "nDCG"]
    )
    for ours, name in (("mAP", "map"), ("nDCG", "ndcg")):
        expected = [theirs[query][name] for query in scores.query_ids]
        np.testing.assert_allclose(scores[ours].per_query, expected, atol=1e-6)


def test_ties_are_a_matter_of_runs(tmp_path) -> None:
    example().save(tmp_path / "x.csv")
    with pytest.raises(ValueError, match=r"the second for \.trec only"):
        Ranking.load(tmp_path / "x.csv", ties="trec_eval")
    with pytest.raises(ValueError, match=r"give rank \| trec_eval"):
        Ranking.load(tmp_path / "x.csv", ties="random")
