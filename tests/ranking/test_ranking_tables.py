"""Rankings by query, and as runs, tables, data frames, text and HTML."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.errors import InputError, MissingExtraError
from kinrank.ranking import Ranking

PLAIN = Ranking([[2, 0, 1], [1, -1, -1]], [[0.25, 0.5, 0.5], [0.125, np.inf, np.inf]], {"mode": "joint"})
NAMED = PLAIN.with_ids(["a", "b", "<i>c & d</i>"], ["x", "y"])


def test_a_ranking_is_a_sequence_of_queries() -> None:
    assert [len(result) for result in NAMED] == [3, 1]
    assert list(NAMED[0]) == [("<i>c & d</i>", 0.25), ("a", 0.5), ("b", 0.5)]
    assert list(NAMED["y"]) == list(NAMED[-1]) == [("b", 0.125)]
    assert (NAMED["y"].query_id, PLAIN[1].query_id) == ("y", 1)
    assert PLAIN[np.int64(1)].ids.tolist() == PLAIN[1].indices.tolist() == [1]
    assert NAMED[1:].query_ids.tolist() == ["y"]  # type: ignore[union-attr]
    assert not PLAIN[:1].has_ids
    assert NAMED[[1, 0]].query_ids.tolist() == ["y", "x"]  # type: ignore[union-attr]
    assert len(PLAIN[np.zeros(len(PLAIN), bool)]) == 0
    assert NAMED.head(1).ids.tolist() == [["<i>c & d</i>"], ["b"]]
    assert list(NAMED[0].head(1)) == [("<i>c & d</i>", 0.25)]
    with pytest.raises(KeyError, match="no query has the id 'z'"):
        _ = NAMED["z"]
    with pytest.raises(IndexError):
        _ = NAMED[2]


def test_a_run_is_what_other_libraries_score() -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    ir_measures = pytest.importorskip("ir_measures")
    run = NAMED.to_run()
    assert list(run) == ["x", "y"]
    assert list(run["x"]) == ["<i>c & d</i>", "a", "b"]
    scores = list(run["x"].values())
    assert scores == sorted(set(scores), reverse=True)  # ties are broken
    assert all(type(score) is float for score in scores)
    qrels = {"x": {"b": 1}, "y": {"b": 1}}
    expected = float(kr.evaluate(NAMED, kr.Truth.from_qrels(qrels))["mAP"])
    found = pytrec_eval.RelevanceEvaluator(qrels, {"map"}).evaluate(run)
    assert np.mean([found[query]["map"] for query in run]) == pytest.approx(expected)
    assert ir_measures.calc_aggregate([ir_measures.AP], qrels, run)[ir_measures.AP] == pytest.approx(expected)


def test_arrow() -> None:
    pytest.importorskip("pyarrow")
    assert NAMED.to_arrow().to_pydict() == {
        "query_id": ["x", "x", "x", "y"],
        "rank": [1, 2, 3, 1],
        "item_id": ["<i>c & d</i>", "a", "b", "b"],
        "distance": [0.25, 0.5, 0.5, 0.125],
    }
    assert PLAIN.to_arrow()["item"].to_pylist() == [2, 0, 1, 1]
    large = Ranking([[0, -1]], [[0.0, np.inf]]).with_ids([2**64 - 1])
    assert large.to_arrow()["item_id"].to_pylist() == [2**64 - 1]


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("ranking", [PLAIN, NAMED], ids=["numbers", "ids"])
def test_data_frames(library: str, ranking: Ranking) -> None:
    pytest.importorskip(library)
    frame = ranking.to_dataframe(library)
    assert type(frame).__module__.split(".")[0] == library
    pytest.importorskip("pyarrow")
    expected = ranking.to_arrow().to_pydict()
    assert list(frame.columns) == list(expected)
    assert {name: list(frame[name]) for name in expected} == expected


def test_data_frame_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"library='excel' is not allowed.*pandas, polars"):
        PLAIN.to_dataframe("excel")
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"\.\[pandas\]"):
        PLAIN.to_dataframe("pandas")


@pytest.mark.parametrize("item_ids", [None, ["7", "8", "9"], [7, 8, 9], [2**64 - 1, 0, 5]])
def test_parquet_keeps_the_types_of_ids(tmp_path: Path, item_ids: Any) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    ranking = PLAIN.with_ids(item_ids, None if item_ids is None else ["1", "2"])
    ranking.save(tmp_path / "r.parquet")
    found = Ranking.load(tmp_path / "r.parquet")
    assert found.ids.tolist() == ranking.ids.tolist()
    assert np.array_equal(found.distances, ranking.distances)
    assert (None if found.query_ids is None else found.query_ids.tolist()) == (None if item_ids is None else ["1", "2"])
    table = parquet.read_table(tmp_path / "r.parquet")
    for damage, message in (
        (table.select(table.column_names[1:]), "its columns must be query, rank, item, distance"),
        (table.set_column(1, "rank", table["rank"].cast("string")), "row 0 is"),
        (table.take([0, 0, 1, 2]), "lists item .* twice"),
    ):
        parquet.write_table(damage, tmp_path / "bad.parquet")
        with pytest.raises(InputError, match=rf"bad.parquet is damaged or not a .parquet ranking: .*{message}"):
            Ranking.load(tmp_path / "bad.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1" + bytes(50))
    with pytest.raises(InputError, match=r"bad\.parquet is damaged"):
        Ranking.load(tmp_path / "bad.parquet")


def test_text_and_html_show_the_first_rows() -> None:
    many = Ranking(np.tile(np.arange(12), (9, 1)), np.tile(np.arange(12.0), (9, 1)), {"mode": "joint"})
    assert repr(NAMED).splitlines()[1:] == ["  x: <i>c & d</i> (0.25), a (0.5), b (0.5)", "  y: b (0.125)"]
    assert repr(NAMED["y"]) == "QueryResult(y: b (0.125))"
    assert repr(many).splitlines()[-1] == "  ... 4 more queries"
    assert repr(many).splitlines()[1].endswith("7 (7), ...")
    assert repr(Ranking(np.empty((1, 0)), np.empty((1, 0)))).endswith("0: nothing found")
    page = NAMED._repr_html_()
    assert "<i>" not in page
    assert "&lt;i&gt;c &amp; d&lt;/i&gt;" in page
    assert "4 more queries, 4 more items per query" in many._repr_html_()
    assert "nothing found" in Ranking([[-1]], [[np.inf]])._repr_html_()
    long = Ranking([[0]], [[0.5]]).with_ids(["photos/2024/a folder with a long name/IMG_00017.jpeg"])
    assert repr(long).endswith("photos/2024/a...e/IMG_00017.jpeg (0.5)")

    class Balance(HTMLParser):
        stack: list[str]

        def handle_starttag(self, tag: str, attrs: Any) -> None:
            if tag != "br":
                self.stack.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.stack.pop() == tag

    parser = Balance()
    parser.stack = []
    parser.feed(page)
    assert parser.stack == []
