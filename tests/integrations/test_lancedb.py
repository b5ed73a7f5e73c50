"""KinrankReranker in searches of a LanceDB table: by vector, by full text, by both."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("lancedb", reason="install kinrank[lancedb]")

import lancedb
import pyarrow as pa
from lancedb.index import FTS

from kinrank.integrations.lancedb import KinrankReranker

pytestmark = pytest.mark.slow


def rows_of(views: Any) -> pa.Table:
    """Create a table in which every document contains `word` and every fourth also `rare`."""
    count = len(views.vectors)
    return pa.table(
        {
            "name": views.names,
            "text": ["word rare" if place % 4 == 0 else "word" for place in range(count)],
            "right": views.right,
            "vector": pa.array(list(views.vectors), pa.list_(pa.float32(), len(views.query))),
        }
    )


@pytest.fixture
def table(views: Any, tmp_path: Path) -> Any:
    made = lancedb.connect(tmp_path).create_table("documents", rows_of(views))
    made.create_index("text", config=FTS())
    return made


def falls(rows: pa.Table) -> bool:
    return bool((np.diff(rows["_relevance_score"].to_numpy()) < 0).all())


def test_vector_search(table: Any, views: Any) -> None:
    search = table.search(views.query).distance_type("cosine").limit(60)
    plain = search.to_arrow()
    assert not all(plain["right"].to_pylist()[: views.count])
    ranked = search.rerank(KinrankReranker(views.query, top_n=views.count), query_string="word").to_arrow()
    assert ranked["right"].to_pylist() == [True] * views.count
    assert falls(ranked)
    assert ranked.column_names == ["name", "text", "right", "vector", "_relevance_score"]
    assert ranked.schema.field("vector").type == plain.schema.field("vector").type
    assert ranked.schema.field("_relevance_score").type == pa.float32()
    listed = search.rerank(KinrankReranker(views.query, top_n=3), query_string="word").to_list()
    assert [row["right"] for row in listed] == [True] * 3


def test_full_text_search(table: Any, views: Any) -> None:
    """All rows have the same full-text score, so the re-ranked order depends on the vectors only."""
    search = table.search("word", query_type="fts").limit(100)
    assert not all(search.to_arrow()["right"].to_pylist()[: views.count])
    ranked = search.rerank(KinrankReranker(views.query)).to_arrow()
    assert all(ranked["right"].to_pylist()[: views.count])
    assert len(ranked) == len(views.vectors)
    assert falls(ranked)


@pytest.mark.parametrize("normalize", ["score", "rank"])
def test_hybrid_search(table: Any, views: Any, normalize: str) -> None:
    def search(reranker: KinrankReranker) -> pa.Table:
        hybrid = table.search(query_type="hybrid").vector(views.query).text("rare").distance_type("cosine")
        return hybrid.limit(40).rerank(reranker, normalize=normalize).to_arrow()

    ranked = search(KinrankReranker(views.query))
    assert all(ranked["right"].to_pylist()[: views.count])
    assert falls(ranked)
    assert not {"_distance", "_score"} & set(ranked.column_names)
    full = search(KinrankReranker(views.query, return_score="all"))
    assert full["name"].to_pylist() == ranked["name"].to_pylist()
    for row in full.to_pylist():
        rare = "rare" in row["text"]
        assert rare == (row["_score"] is not None)
        assert rare or row["_distance"] is not None


def test_hybrid_rows_keep_what_each_search_says(views: Any) -> None:
    rows = rows_of(views).append_column("_rowid", pa.array(range(len(views.vectors)), pa.uint64()))
    near, texts = rows.slice(0, 6), rows.slice(3, 6)
    near = near.append_column("_distance", pa.array(np.arange(6) / 10, pa.float32()))
    texts = texts.append_column("_score", pa.array(np.arange(6) + 1.0, pa.float32()))
    ranked = KinrankReranker(views.query, return_score="all").rerank_hybrid("word", near, texts)
    assert sorted(ranked["_rowid"].to_pylist()) == list(range(9))
    for row in ranked.to_pylist():
        place = row["_rowid"]
        assert row["_distance"] == (pytest.approx(place / 10) if place < 6 else None)
        assert row["_score"] == (place - 2.0 if place >= 3 else None)
    nothing = texts.slice(0, 0).drop_columns(["_rowid"])
    for one, other in ((near, nothing), (nothing, texts), (near, texts.slice(0, 0)), (near.slice(0, 0), texts)):
        ranked = KinrankReranker(views.query).rerank_hybrid("word", one, other)
        assert sorted(ranked["name"].to_pylist()) == sorted((one if len(one) else other)["name"].to_pylist())
    assert len(KinrankReranker(views.query).rerank_hybrid("word", near.slice(0, 0), nothing)) == 0
    with pytest.raises(ValueError, match=r"^the results have no column _rowid to join them by; add .with_row_id"):
        KinrankReranker(views.query).rerank_hybrid("word", near.drop_columns(["_rowid"]), texts)


def test_scores_of_the_search_can_be_kept(table: Any, views: Any) -> None:
    search = table.search(views.query).distance_type("cosine").limit(30)
    distances = dict(
        zip(search.to_arrow()["name"].to_pylist(), search.to_arrow()["_distance"].to_pylist(), strict=True)
    )
    ranked = search.rerank(KinrankReranker(views.query, return_score="all"), query_string="word").to_arrow()
    assert dict(zip(ranked["name"].to_pylist(), ranked["_distance"].to_pylist(), strict=True)) == distances
    by_text = table.search("rare", query_type="fts").rerank(KinrankReranker(views.query, return_score="all"))
    assert None not in by_text.to_arrow()["_score"].to_pylist()
    with pytest.raises(ValueError, match="relevance"):
        KinrankReranker(views.query, return_score="some")


def test_a_function_finds_the_vector_of_every_query(table: Any, views: Any) -> None:
    asked: list[str] = []

    def vector(text: str) -> Any:
        asked.append(text)
        return views.query

    ranked = table.search("word", query_type="fts").limit(100).rerank(KinrankReranker(vector, top_n=5)).to_arrow()
    assert asked == ["word"]
    assert ranked["right"].to_pylist() == [True] * 5
    with pytest.raises(
        ValueError, match=r"^the query has no vector; give `query_vector`, a list of numbers or a function"
    ):
        table.search("word", query_type="fts").rerank(KinrankReranker(lambda text: None)).to_arrow()


def test_rows_of_several_searches(table: Any, views: Any) -> None:
    """Each row occurs once in the graph and in the result."""
    some = [table.search(row).limit(40).with_row_id(True).to_arrow() for row in views.vectors[:2]]
    ranked = KinrankReranker(views.query).rerank_multivector(some, "word")
    names = ranked["name"].to_pylist()
    assert len(set(names)) == len(names)
    assert set(names) == {name for rows in some for name in rows["name"].to_pylist()}
    cut = KinrankReranker(views.query, top_n=30).rerank_multivector(some, "word", deduplicate=True)
    assert cut["name"].to_pylist() == names[:30]


def test_async_tables(views: Any, tmp_path: Path) -> None:
    async def ranked() -> tuple[pa.Table, pa.Table]:
        made = await (await lancedb.connect_async(tmp_path)).create_table("documents", rows_of(views))
        await made.create_index("text", config=FTS())
        reranker = KinrankReranker(views.query, top_n=views.count)
        near = made.query().nearest_to(views.query).distance_type("cosine").limit(60)
        both = made.query().nearest_to(views.query).distance_type("cosine").nearest_to_text("rare").limit(40)
        return await near.rerank(reranker, "word").to_arrow(), await both.rerank(reranker).to_arrow()

    for rows in asyncio.run(ranked()):
        assert rows["right"].to_pylist() == [True] * views.count
        assert falls(rows)


def test_no_results(table: Any, views: Any) -> None:
    reranker = KinrankReranker(views.query)
    by_text = table.search("absent", query_type="fts").rerank(reranker).to_arrow()
    by_vector = table.search(views.query).where("name = 'nobody'").rerank(reranker, query_string="word").to_arrow()
    for rows in (by_text, by_vector):
        assert len(rows) == 0
        assert "_relevance_score" in rows.column_names


def test_missing_vectors_are_reported(table: Any, views: Any) -> None:
    search = table.search(views.query).select(["name"]).rerank(KinrankReranker(views.query), query_string="word")
    with pytest.raises(
        ValueError, match=r"^column='vector' is not among the columns of the result \(name, .*include it in select"
    ):
        search.to_arrow()
    rows = rows_of(views)
    some = pa.array([None if place == 4 else row for place, row in enumerate(rows["vector"].to_pylist())])
    with pytest.raises(
        ValueError, match=r"^document 4 has no vector; filter out rows without a value in the column 'other'"
    ):
        KinrankReranker(views.query, "other").rerank_vector("word", rows.append_column("other", some))
