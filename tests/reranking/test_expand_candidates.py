"""`rerank(..., expand=ROUNDS)`: candidates that are expanded by the neighbours of the best of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from engines.fake_engine import Engine, MemoryStore
from kinrank.vector_input import to_unit_rows
from kinrank_bench.datasets.benchmark import load
from reference.candidate_expansion import grown

RNG = np.random.default_rng(11)
GALLERY = to_unit_rows(RNG.normal(size=(400, 5)).astype(np.float32))
QUERIES = to_unit_rows(RNG.normal(size=(3, 5)).astype(np.float32))


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 7, 40, 150])
def test_growing_follows_its_slow_twin(count: int, rounds: int) -> None:
    ranking = kr.rerank(QUERIES, GALLERY, "none", candidates=count, expand=rounds)
    for row, query in enumerate(QUERIES):
        expected = grown(query.astype(np.float64), GALLERY.astype(np.float64), count, rounds)
        assert set(ranking.indices[row].tolist()) == expected
    assert ranking.meta["expand"] == rounds


def test_no_rounds_are_the_nearest_items() -> None:
    plain = kr.rerank(QUERIES, GALLERY, candidates=40)
    same = kr.rerank(QUERIES, GALLERY, candidates=40, expand=0)
    np.testing.assert_array_equal(plain.indices, same.indices)
    assert "expand" not in same.meta


def test_behind_grown_candidates_stands_the_rest_of_the_search() -> None:
    ranking = kr.rerank(QUERIES, GALLERY, candidates=40, k=400, expand=1)
    assert sorted(ranking.indices[0].tolist()) == list(range(400))
    assert (np.diff(ranking.distances, axis=1) >= 0).all()


def test_more_right_images_of_oxford_for_the_same_number_of_vectors(shared_dir: Path) -> None:
    published = load("roxford5k", shared_dir / "data")
    truth, gallery = published.truths["medium"], kr.stores.ArrayStore(published.gallery)

    def held(rounds: int) -> float:
        found = kr.rerank(published.queries, gallery, "none", candidates=1000, expand=rounds).indices
        return float(np.mean([np.isin(truth.positives[row], found[row]).mean() for row in range(len(found))]))

    assert held(1) > held(0) + 0.05


def test_as_many_vectors_are_fetched_as_without() -> None:
    engine = Engine(Path()).make(GALLERY, list(range(400)))
    assert isinstance(engine, MemoryStore)
    plain = kr.rerank(QUERIES[:1], engine, candidates=60)
    assert plain.meta["fetched"] == 60
    more = kr.rerank(QUERIES[:1], engine, candidates=60, expand=2)
    assert more.meta["fetched"] == 60
    local = kr.rerank(QUERIES[:1], GALLERY, candidates=60, expand=2)
    np.testing.assert_array_equal(more.ids, local.indices)


def test_filters_hold_for_what_joins() -> None:
    allowed = np.arange(400) % 3 == 0
    ranking = kr.rerank(QUERIES, GALLERY, candidates=40, where=allowed, expand=2)
    assert allowed[ranking.indices].all()
    assert ranking.depth == 40


def test_an_item_that_asks_or_is_marked_does_not_join() -> None:
    everyone = kr.rerank(None, GALLERY[:60], candidates=20, expand=1)
    assert not (everyone.indices == np.arange(60)[:, None]).any()
    marked = kr.rerank(QUERIES[:1], GALLERY, candidates=40, expand=1, positives=[3], negatives=[5])
    assert not {3, 5} & set(marked.indices[0].tolist())


def test_lengths_may_matter() -> None:
    ranking = kr.rerank(QUERIES * 3, GALLERY * 5, candidates=40, expand=1, metric="euclidean")
    assert ranking.indices.shape == (3, 40)


@pytest.mark.parametrize("rounds", [-1, 1.5, True, "2"])
def test_rounds_that_are_none(rounds: Any) -> None:
    with pytest.raises(ValueError, match="expand="):
        kr.rerank(QUERIES, GALLERY, candidates=5, expand=rounds)


def test_growing_needs_candidates() -> None:
    with pytest.raises(
        ValueError, match="expand=1 expands candidates, and there are none; give `candidates`, a number"
    ):
        kr.rerank(QUERIES, GALLERY, expand=1)
