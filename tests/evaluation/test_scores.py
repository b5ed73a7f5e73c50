"""Evaluation against other people's programs, against the slow transcription, and on small lists."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinrank as kr
from kinrank.evaluation import Measure
from reference import measures as reference

pytestmark = pytest.mark.filterwarnings("ignore::kinrank.errors.TruncatedRankingWarning")


def random_case(seed: int, queries: int = 12, gallery: int = 40, depth: int | None = None):
    rng = np.random.default_rng(seed)
    order = np.array([rng.permutation(gallery) for _ in range(queries)]).reshape(queries, gallery)
    shuffled = [rng.permutation(gallery) for _ in range(queries)]
    sizes = rng.integers(0, 8, queries)
    positives = [row[:size] for row, size in zip(shuffled, sizes, strict=True)]
    junk = [row[10 : 10 + size] for row, size in zip(shuffled, rng.integers(0, 8, queries), strict=True)]
    return order[:, :depth], positives, junk


def values(ranking, truth, measure):
    return kr.evaluate(ranking, truth, [measure], resamples=0)[measure].per_query


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), depth=st.sampled_from([None, 1, 7, 25]), k=st.sampled_from([1, 3, 10, 50]))
def test_revisited_protocol_equals_its_transcription(seed: int, depth: int | None, k: int) -> None:
    order, positives, junk = random_case(seed, depth=depth)
    truth = kr.Truth.from_lists(positives, junk, gallery_size=40, average_precision="trapezoidal")
    ap, cut, mp = (values(order, truth, measure) for measure in ("mAP", f"mAP@{k}", f"mP@{k}"))
    for query, (row, right, ignored) in enumerate(zip(order, positives, junk, strict=True)):
        ranks = reference.ranks_without_junk(row.tolist(), right.tolist(), ignored.tolist())
        if not len(right):
            assert math.isnan(ap[query])
            assert math.isnan(cut[query])
            assert math.isnan(mp[query])
            continue
        assert ap[query] == pytest.approx(reference.trapezoidal_ap(ranks, len(right)))
        first = [rank for rank in ranks if rank < k]  # ranks are counted without junk
        assert cut[query] == pytest.approx(reference.trapezoidal_ap(first, len(right)))
        assert mp[query] == pytest.approx(reference.revisited_precision(ranks, len(right), k))


@pytest.mark.parametrize("block", [None, 1, 100])
def test_blocks_of_queries_do_not_matter(block: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    order, positives, junk = random_case(3)
    truth = kr.Truth.from_lists(positives, junk)
    expected = [
        reference.rectangle_ap(reference.ranks_without_junk(row, right, ignored), len(right)) if len(right) else np.nan
        for row, right, ignored in zip(order.tolist(), map(list, positives), map(list, junk), strict=True)
    ]
    if block is not None:
        monkeypatch.setattr("kinrank.evaluation.hits.MAX_TABLE_ENTRIES", block)
    np.testing.assert_allclose(values(order, truth, "mAP"), expected)


def test_map_at_k_divides_by_all_positives_as_map_cut_does() -> None:
    truth = kr.Truth.from_lists([[0, 1, 2, 3]], [[8, 9]])
    row = [[8, 0, 9, 7, 1, 2, 3]]  # without junk: right, wrong, right, right, right
    assert values(row, truth, "mAP@1")[0] == pytest.approx(1 / 4)
    assert values(row, truth, "mAP@3")[0] == pytest.approx((1 + 2 / 3) / 4)
    np.testing.assert_array_equal(values(row, truth, "mAP@5"), values(row, truth, "mAP"))


@pytest.mark.parametrize("depth", [5, 40])
def test_measures_agree_with_trec_eval(depth: int) -> None:
    ir = pytest.importorskip("ir_measures")
    rng = np.random.default_rng(11)
    order = np.array([rng.permutation(40) for _ in range(15)])[:, :depth]
    qrels = {str(q): {str(d): int(rng.integers(0, 4)) for d in rng.choice(40, 9, replace=False)} for q in range(15)}
    for judged in qrels.values():
        judged[next(iter(judged))] = 2  # at least one right document each
    run = {str(q): {str(d): float(depth - rank) for rank, d in enumerate(row)} for q, row in enumerate(order)}
    names = {
        "mAP": "AP",
        "mAP@3": "AP@3",
        "mAP@20": "AP@20",
        "nDCG@10": "nDCG@10",
        "nDCG": "nDCG",
        "P@5": "P@5",
        "recall@5": "R@5",
        "MRR": "RR",
        "R@3": "Success@3",
    }
    theirs: dict[str, dict[int, float]] = {}
    for metric in ir.iter_calc([ir.parse_measure(name) for name in names.values()], qrels, run):
        theirs.setdefault(str(metric.measure), {})[int(metric.query_id)] = metric.value
    truth = kr.Truth.from_qrels(qrels)
    for ours, name in names.items():
        expected = [theirs[name][query] for query in range(15)]
        np.testing.assert_allclose(values(order, truth, ours), expected, atol=1e-6, err_msg=ours)


def test_average_precision_and_ndcg_agree_with_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(5)
    labels, gallery = rng.integers(0, 4, 20), rng.integers(0, 4, 60)
    scores = rng.random((20, 60))
    order = np.argsort(-scores, axis=1)
    truth = kr.Truth.from_labels(labels, gallery)
    relevant = labels[:, None] == gallery
    expected = [metrics.average_precision_score(y, s) for y, s in zip(relevant, scores, strict=True)]
    np.testing.assert_allclose(values(order, truth, "mAP"), expected)
    expected = [metrics.ndcg_score([y], [s], k=10) for y, s in zip(relevant, scores, strict=True)]
    np.testing.assert_allclose(values(order, truth, "nDCG@10"), expected)


def test_grades_decide_ndcg() -> None:
    grades = {1: 3.0, 4: 1.0, 7: 2.0}
    truth = kr.Truth.from_qrels({"0": {str(item): grade for item, grade in grades.items()}})
    row = [4, 0, 7, 2, 1]
    for k in (1, 3, 5):
        assert values([row], truth, f"nDCG@{k}")[0] == pytest.approx(reference.ndcg(row, grades, k))
    plain = kr.Truth.from_qrels({"0": {str(item): grade for item, grade in grades.items()}}, graded=False)
    assert values([row], plain, "nDCG@1")[0] == 1.0


def test_labels_of_everyone_leave_the_query_itself_out() -> None:
    truth = kr.Truth.from_labels(["a", "b", "a", "a"])
    assert truth.positives[0].tolist() == [2, 3]
    assert truth.positives[1].tolist() == []
    with_self = [[0, 1, 2, 3], [1, 0, 2, 3], [2, 0, 3, 1], [3, 0, 1, 2]]
    without = [row[1:] for row in with_self]
    np.testing.assert_array_equal(values(with_self, truth, "mAP"), values(without, truth, "mAP"))
    assert kr.evaluate(without, truth).left_out == 1


def test_items_not_listed_are_not_found_and_padding_takes_no_rank() -> None:
    truth = kr.Truth.from_lists([[0, 9]], gallery_size=10)
    assert values([[3, 0]], truth, "mAP")[0] == pytest.approx(0.25)
    assert values([[-1, 3, -1, 0]], truth, "mAP")[0] == pytest.approx(0.25)
    assert values([[3, 0]], truth, "recall@5")[0] == 0.5
    assert values(np.empty((1, 0), np.int64), truth, "mAP")[0] == 0.0


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_mp_at_k_sees_nothing_beyond_k(seed: int) -> None:
    order, positives, _ = random_case(seed)
    truth = kr.Truth.from_lists(positives)
    np.testing.assert_array_equal(values(order, truth, "mP@10"), values(order[:, :10], truth, "mP@10"))


def test_bullseye_counts_the_query_itself() -> None:
    labels = np.repeat(np.arange(5), 4)
    order = np.array([np.random.default_rng(i).permutation(np.delete(np.arange(20), i)) for i in range(20)])
    with_self = np.column_stack([np.arange(20), order])
    ours = values(order, kr.Truth.from_labels(labels), "bullseye@8")
    np.testing.assert_allclose(ours, values(with_self, kr.Truth.from_labels(labels, labels), "recall@8"))


def test_interval_holds_the_mean_and_repeats_with_its_seed() -> None:
    order, positives, junk = random_case(1, queries=200)
    truth = kr.Truth.from_lists(positives, junk)
    first, again = (kr.evaluate(order, truth, ["mAP", "R@5"], seed=4) for _ in range(2))
    other = kr.evaluate(order, truth, ["mAP"], seed=5)["mAP"]
    score = first["mAP"]
    assert (score.low, score.high) == (again["mAP"].low, again["mAP"].high)
    assert (score.low, score.high) != (other.low, other.high)
    assert score.low < score.mean < score.high
    assert score.mean == pytest.approx(np.nanmean(score.per_query))
    counted = score.per_query[~np.isnan(score.per_query)]
    half = 1.96 * counted.std() / np.sqrt(len(counted))  # the normal approximation, good at 200 queries
    assert score.high - score.low == pytest.approx(2 * half, rel=0.1)
    narrow = kr.evaluate(order, truth, confidence=0.5)["mAP"]
    assert narrow.high - narrow.low < score.high - score.low


def test_scores_print_and_go_to_json() -> None:
    truth = kr.Truth.from_lists([[0], []])
    scores = kr.evaluate([[1, 0], [0, 1]], truth, ["map", "ndcg@10"])
    assert list(scores) == ["mAP", "nDCG@10"]
    assert "50.00" in str(scores)
    assert "1 without positives" in str(scores)
    content = json.loads(json.dumps(scores.to_dict(per_query=True), allow_nan=False))
    assert content["measures"]["mAP"]["per_query"] == [0.5, None]
    assert content["left_out"] == 1
    with pytest.raises(KeyError, match="available are: mAP, nDCG@10"):
        scores["R@1"]


def test_nothing_to_evaluate_is_no_error() -> None:
    for truth in (kr.Truth.from_lists([]), kr.Truth.from_lists([[], []])):
        scores = kr.evaluate(np.arange(len(truth) * 3).reshape(-1, 3), truth, ["mAP", "nDCG@5", "mP@5"])
        assert math.isnan(scores["mAP"].mean)
        assert scores.left_out == len(truth)
        json.dumps(scores.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    "text", ["mAP", "mAP@10", "R@1", "recall@40", "mP@10", "nDCG", "nDCG@10", "P@5", "MRR", "MRR@10"]
)
def test_measures_print_as_they_parse(text: str) -> None:
    assert str(Measure.parse(text)) == text
    assert Measure.parse(text.lower()) == Measure.parse(text)


@pytest.mark.parametrize("text", ["mAP@0", "R", "R@0", "R@-1", "F1", "", "nDCG@", "P@1.5", 3])
def test_unknown_measures_are_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(ValueError, match=r"mAP, mAP@k, R@k, recall@k, mP@k, P@k, nDCG, nDCG@k"):
        kr.evaluate([[0]], kr.Truth.from_lists([[0]]), [text])


def test_a_ranking_that_does_not_fit_is_refused() -> None:
    truth = kr.Truth.from_lists([[0], [1]], gallery_size=3)
    with pytest.raises(ValueError, match="3 queries but the truth has 2"):
        kr.evaluate([[0], [0], [0]], truth)
    with pytest.raises(ValueError, match=r"query 1 lists item 3 at rank 2.*to 2"):
        kr.evaluate([[0, 1], [0, 3]], truth)
    with pytest.raises(ValueError, match="item -2"):
        kr.evaluate([[0, 1], [0, -2]], truth)
    with pytest.raises(ValueError, match="lists item 1 twice"):
        kr.evaluate([[0, 1], [1, 1]], truth)
    with pytest.raises(ValueError, match="2-d array of item numbers"):
        kr.evaluate([[0.5], [1.0]], truth)
    with pytest.raises(ValueError, match="confidence=95"):
        kr.evaluate([[0], [0]], truth, confidence=95)


def test_a_truth_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="query 1: item 4 is both"):
        kr.Truth.from_lists([[0], [4]], [[], [4]])
    with pytest.raises(ValueError, match="positives has item 7, but items count from 0 and `gallery_size=5`"):
        kr.Truth.from_lists([[7]], gallery_size=5)
    with pytest.raises(ValueError, match="positives of query 0"):
        kr.Truth.from_lists([[-1]])
    with pytest.raises(ValueError, match="both as text or both as numbers"):
        kr.Truth.from_labels(["1"], [1])
    with pytest.raises(ValueError, match="NaN at position 1"):
        kr.Truth.from_labels([0.0, np.nan])


def test_difficulties_share_out_easy_hard_and_junk(tmp_path) -> None:
    content = {
        "imlist": list("abcdefg"),
        "qimlist": ["q"],
        "gnd": [{"bbx": [0.0, 0.0, 1.0, 1.0], "easy": [0, 1], "hard": [2], "junk": [3, 4]}],
    }
    path = tmp_path / "gnd.pkl"
    path.write_bytes(pickle.dumps(content))
    for source in (content, path):
        parts = {name: kr.Truth.revisited(source, name) for name in ("easy", "medium", "hard")}
        found = {name: (t.positives[0].tolist(), t.junk[0].tolist()) for name, t in parts.items()}
        assert found == {
            "easy": ([0, 1], [2, 3, 4]),
            "medium": ([0, 1, 2], [3, 4]),
            "hard": ([2], [0, 1, 3, 4]),
        }
        assert parts["hard"].average_precision == "trapezoidal"
        assert parts["hard"].gallery_size == 7
    with pytest.raises(ValueError, match=r"give easy \| medium \| hard"):
        kr.Truth.revisited(content, "harder")
    with pytest.raises(ValueError, match="not a revisited ground truth"):
        kr.Truth.revisited({"gnd": [{"ok": [1]}], "imlist": []})


def test_qrels_are_numbered_by_position_or_by_name(tmp_path) -> None:
    path = tmp_path / "qrels.txt"
    path.write_text("2 0 3 1\n1 0 1 2\n1 0 2 0\n\n4 0 1 -1\n")
    truth = kr.Truth.from_qrels(path)
    assert truth.query_ids.tolist() == ["1", "2", "4"]
    assert [truth.item_ids[truth.positives[row]].tolist() for row in range(3)] == [["1"], ["3"], []]
    named = kr.Truth.from_qrels(path, query_ids=["2", "1"], item_ids=["3", "9", "1"])
    assert (named.positives[0].tolist(), named.positives[1].tolist()) == ([0], [2])
    assert named.grades is not None
    assert named.grades.tolist() == [1.0, 2.0]
    lacking = kr.Truth.from_qrels({"0": ["1", "gone"]}, item_ids=["1"])
    assert values([[0]], lacking, "mAP")[0] == 0.5  # as in trec_eval: an item outside the gallery counts as not found
    for content, complaint in (
        ("1 0 2", "line 1"),
        ("", "no judgements"),
    ):
        path.write_text(content)
        with pytest.raises(ValueError, match=complaint):
            kr.Truth.from_qrels(path)
    with pytest.raises(ValueError, match="none of the relevant documents"):
        kr.Truth.from_qrels({"1": ["D1"]}, item_ids=["1"])
    with pytest.raises(FileNotFoundError):
        kr.Truth.from_qrels(tmp_path / "absent.txt")


def test_subset_keeps_grades_and_junk_together() -> None:
    truth = kr.Truth.from_qrels({"1": {"1": 1}, "2": {"2": 3, "4": 1}, "3": {"1": 2}})
    part = truth.subset([2, 1])
    assert part.item_ids[part.positives[1]].tolist() == ["2", "4"]
    assert part.grades is not None
    assert part.grades.tolist() == [2.0, 3.0, 1.0]
    order, positives, junk = random_case(8)
    everything = kr.Truth.from_lists(positives, junk)
    chosen = np.array([7, 2, 2, 5])
    np.testing.assert_array_equal(
        values(order[chosen], everything.subset(chosen), "mAP"), values(order, everything, "mAP")[chosen]
    )
