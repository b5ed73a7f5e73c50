"""Whole protocols against slow transcriptions and other people's programs: revisited, persons, TREC."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinrank as kr
from kinrank.evaluation import Measure
from reference import protocols


def values(ranking, truth, measure):
    return kr.evaluate(ranking, truth, [measure], resamples=0)[measure].per_query


def made_up_ground_truth(rng: np.random.Generator, queries: int, images: int) -> dict:
    entries = []
    for _ in range(queries):
        shuffled = rng.permutation(images).tolist()
        ends = np.sort(rng.integers(0, images, 3))
        entries.append(
            {"easy": shuffled[: ends[0]], "hard": shuffled[ends[0] : ends[1]], "junk": shuffled[ends[1] : ends[2]]}
        )
    return {"imlist": [f"i{n}" for n in range(images)], "qimlist": [f"q{n}" for n in range(queries)], "gnd": entries}


def check_revisited(order: np.ndarray, content: dict, truths: dict[str, kr.Truth]) -> None:
    for level, truth in truths.items():
        scores = kr.evaluate(order, truth, ["mAP", "mP@1", "mP@5", "mP@10"], resamples=0)
        for query, entry in enumerate(content["gnd"]):
            area, precisions = protocols.revisited(order[query].tolist(), entry, level)
            ours = [scores[name].per_query[query] for name in scores]
            expected = [np.nan] * 4 if area is None else [area, *precisions]
            np.testing.assert_allclose(ours, expected, rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_revisited_protocol_of_a_whole_ground_truth(seed: int) -> None:
    rng = np.random.default_rng(seed)
    content = made_up_ground_truth(rng, 6, 25)
    order = np.array([rng.permutation(25) for _ in range(6)])
    check_revisited(order, content, {level: kr.Truth.revisited(content, level) for level in ("easy", "medium", "hard")})


@pytest.mark.parametrize("name", ["roxford5k", "rparis6k"])
def test_revisited_protocol_of_the_published_ground_truth(name: str, shared_dir: Path) -> None:
    from kinrank.files import safe_pickle

    path = shared_dir / "data" / "revisited" / f"gnd_{name}.pkl"
    content = safe_pickle.load(path)
    rng = np.random.default_rng(2)
    order = np.array([rng.permutation(len(content["imlist"])) for _ in content["gnd"]])
    check_revisited(order, content, {level: kr.Truth.revisited(path, level) for level in ("easy", "medium", "hard")})


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_persons_across_cameras_equal_the_transcription(seed: int) -> None:
    rng = np.random.default_rng(seed)
    asked = np.column_stack([rng.integers(1, 6, 8), rng.integers(1, 4, 8)])
    offered = np.column_stack([rng.integers(-1, 6, 40), rng.integers(1, 4, 40)])
    order = np.array([rng.permutation(40) for _ in range(8)])
    kind = str if seed % 2 else int  # labels may be text
    truth = kr.Truth.across_cameras(
        asked[:, 0].astype(kind), offered[:, 0].astype(kind), query_cameras=asked[:, 1], gallery_cameras=offered[:, 1]
    )
    names = ["CMC@1", "CMC@5", "CMC@10", "mAP", "mINP"]
    scores = kr.evaluate(order, truth, names, resamples=0)
    pairs = [tuple(pair) for pair in offered.tolist()]
    for query, row in enumerate(order.tolist()):
        expected = protocols.person(row, tuple(asked[query].tolist()), pairs, (1, 5, 10))
        for name in names:
            wanted = np.nan if expected is None else expected[name]
            np.testing.assert_allclose(scores[name].per_query[query], wanted, rtol=1e-12, err_msg=name)


def test_pictures_of_nobody_take_no_rank_and_are_right_for_nobody() -> None:
    for kind in (int, float, str, bytes):
        people = np.array([-1, 2, -1, 2, 0]).astype(str if kind is bytes else kind)
        asked = np.array([2, -1]).astype(str if kind is bytes else kind)
        people, asked = (one.astype(bytes) if kind is bytes else one for one in (people, asked))
        truth = kr.Truth.across_cameras(asked, people, query_cameras=[1, 1], gallery_cameras=[1, 1, 2, 2, 1])
        assert [truth.positives[query].tolist() for query in range(2)] == [[3], []]
        assert [truth.junk[query].tolist() for query in range(2)] == [[0, 1, 2], [0, 2]]
        assert values([[0, 2, 1, 3, 4], [0, 1, 2, 3, 4]], truth, "CMC@1")[0] == 1.0


def test_cmc_is_r_under_another_name() -> None:
    rng = np.random.default_rng(4)
    truth = kr.Truth.from_labels(rng.integers(0, 5, 20), rng.integers(0, 5, 50))
    order = np.array([rng.permutation(50) for _ in range(20)])
    for k in (1, 3, 10):
        np.testing.assert_array_equal(values(order, truth, f"CMC@{k}"), values(order, truth, f"R@{k}"))


def test_minp_looks_for_the_last_positive_and_gives_nothing_for_one_that_is_not_listed() -> None:
    truth = kr.Truth.from_lists([[0, 1]], [[8]], gallery_size=10)
    assert values([[0, 1, 2]], truth, "mINP")[0] == 1.0
    assert values([[0, 2, 8, 3, 1]], truth, "mINP")[0] == 2 / 4  # junk takes no rank
    assert values([[0, 2, 3]], truth, "mINP")[0] == 0.0
    assert values([[5, 2, 3]], truth, "mINP")[0] == 0.0
    assert str(Measure.parse("minp")) == "mINP"
    for wrong in ("mINP@5", "CMC"):
        with pytest.raises(ValueError, match=r"CMC@k, mINP with k a number"):
            Measure.parse(wrong)


def test_a_run_and_its_judgements_score_as_pytrec_eval_scores_the_same_files(tmp_path: Path) -> None:
    pytrec = pytest.importorskip("pytrec_eval")
    rng = np.random.default_rng(9)
    run, qrels = tmp_path / "run.trec", tmp_path / "qrels.txt"
    lines, judged = [], []
    for query in range(12):
        for rank, document in enumerate(rng.permutation(30)[:20]):
            lines.append(f"q{query} Q0 d{document} {rank + 1} {(20 - rank) // 2} other\n")  # two at every score
        for document in rng.choice(30, 8, replace=False):
            judged.append(f"q{query} 0 d{document} {rng.integers(-1, 4)}\n")
        judged.append(f"q{query} 0 d{99} 1\n")  # a relevant item that no ranking can contain
    run.write_text("".join(lines))
    qrels.write_text("".join(judged))
    names = {
        "mAP": "map", "mAP@5": "map_cut_5", "nDCG": "ndcg", "nDCG@5": "ndcg_cut_5", "P@5": "P_5",
        "recall@10": "recall_10", "MRR": "recip_rank", "R@1": "success_1", "CMC@5": "success_5", "CMC@10": "success_10",
    }  # fmt: skip
    with qrels.open() as file:
        truth_of_theirs = pytrec.parse_qrel(file)
    with run.open() as file:
        theirs = pytrec.RelevanceEvaluator(truth_of_theirs, pytrec.supported_measures).evaluate(pytrec.parse_run(file))
    truth = kr.Truth.from_qrels(qrels)
    scores = kr.evaluate(kr.Ranking.load(run, ties="trec_eval"), truth, list(names), resamples=0)
    assert truth.query_ids is not None
    for ours, name in names.items():
        expected = [theirs[query][name] for query in truth.query_ids.tolist()]
        np.testing.assert_allclose(scores[ours].per_query, expected, atol=1e-6, err_msg=ours)
