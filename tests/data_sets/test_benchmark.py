"""Benchmarks: no re-ranking gives the published baselines, and evaluation is fast."""

from __future__ import annotations

import time

import pytest

import kinrank as kr
from kinrank_bench.datasets.benchmark import BENCHMARKS, load

pytestmark = pytest.mark.slow

BASELINES = [
    ("roxford5k", "easy", "mAP", 52.95),
    ("roxford5k", "medium", "mAP", 35.42),
    ("roxford5k", "hard", "mAP", 11.32),
    ("coil20", "class", "mAP", 61.29),
    ("mpeg7", "class", "mAP", 56.75),
    ("mpeg7", "class", "bullseye@40", 62.45),
    ("orl", "class", "mAP", 68.36),
    ("caltech101", "class", "mAP", 79.33),
    ("caltech101", "class", "R@1", 92.88),
    ("cranfield", "relevant", "mAP", 32.71),
    ("cranfield", "relevant", "nDCG@10", 40.15),
    ("market1501", "person", "mAP", 31.28),
    ("market1501", "person", "CMC@1", 54.11),
    ("banking77", "class", "mAP", 53.78),
    ("mousebladder", "class", "mAP", 71.57),
    ("esc50", "class", "mAP", 16.02),
    ("omniglot", "class", "mAP", 27.58),
    ("lfw", "class", "mAP", 94.56),
    ("scifact", "relevant", "nDCG@10", 64.92),
    ("scifact", "relevant", "R@1", 50.33),
    ("flickr8k", "relevant", "R@1", 20.86),
    ("tatoeba", "relevant", "R@1", 77.13),
    ("caltech101_pyretri", "class", "mAP", 76.65),
    ("caltech101_pyretri", "class", "R@1", 92.30),
    ("cub200_pyretri", "class", "mAP", 28.46),
    ("cub200_pyretri", "class", "R@1", 57.85),
    ("roxford5k_rmac362", "easy", "mAP", 44.94),
    ("roxford5k_rmac362", "medium", "mAP", 30.22),
    ("roxford5k_rmac362", "hard", "mAP", 6.89),
]
# 92.88 is 4003 of 4310 queries, we find 4004. Query 1777 decides: the squared distances of its two nearest
# items differ by 2e-7 on the features as stored, which single precision can reverse, and by 6e-6 on unit
# vectors, in our order. So one query is allowed there, and a hundredth of a percent elsewhere.
ALLOWED = {("caltech101", "R@1"): 100 / 4310 + 0.005}


@pytest.fixture(scope="module")
def ranked(shared_dir):
    done = {}

    def rank(name: str):
        if name not in done:
            benchmark = load(name, shared_dir / "data")
            done[name] = benchmark, kr.rerank(benchmark.queries, benchmark.gallery, "none")
        return done[name]

    return rank


@pytest.mark.parametrize(("name", "label", "measure", "published"), BASELINES)
def test_no_reranking_gives_the_published_baseline(
    ranked, name: str, label: str, measure: str, published: float
) -> None:
    benchmark, ranking = ranked(name)
    found = 100 * kr.evaluate(ranking, benchmark.truths[label], [measure], resamples=0)[measure].mean
    assert found == pytest.approx(published, abs=ALLOWED.get((name, measure), 0.01))
    assert measure in benchmark.measures


def test_four_thousand_full_rows_take_less_than_two_seconds(ranked) -> None:
    """Measure CPU time, because wall time depends on other programs."""
    benchmark, ranking = ranked("caltech101")
    started = time.process_time()
    kr.evaluate(ranking, benchmark.truths["class"], benchmark.measures)
    assert time.process_time() - started < 2


def test_every_baseline_is_declared_and_unknown_ones_are_refused(tmp_path) -> None:
    assert {name for name, *_ in BASELINES} == set(BENCHMARKS)
    with pytest.raises(ValueError, match="give one of: roxford5k"):
        load("imagenet", tmp_path)
    with pytest.raises(FileNotFoundError, match="orl needs"):
        load("orl", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"roxford5k needs .*; gnd_roxford5k.pkl is published by the revisitop"):
        load("roxford5k", tmp_path)
