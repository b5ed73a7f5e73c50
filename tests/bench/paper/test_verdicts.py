"""Whether an order holds is told from the paired interval."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kinrank.bench.paper import orders
from kinrank.bench.paper.verdicts import FAILS, HOLDS, OPEN, changed, counted, order


def made_up(values: np.ndarray) -> dict[str, Any]:
    score = {"mean": float(values.mean()), "low": 0.0, "high": 1.0, "per_query": values.tolist()}
    return {"set": "toy", "mode": "joint", "method": "lpmt-ablation", "truths": {"medium": {"mAP": score}}}


@pytest.mark.parametrize(("gap", "verdict"), [(0.1, HOLDS), (-0.1, FAILS), (0.0, OPEN)])
def test_the_verdict_follows_the_paired_interval(gap: float, verdict: str, rng: np.random.Generator) -> None:
    weaker = rng.uniform(0.3, 0.6, 70)
    stronger = weaker + gap + rng.normal(0, 0.05, 70)
    found = order(made_up(weaker), made_up(stronger), "medium")
    assert found["verdict"] == verdict
    assert found["low"] <= found["difference"] <= found["high"]
    assert str(orders.shown(found)).endswith(f"): {verdict}")


def test_a_pair_with_a_refusal_cannot_be_told() -> None:
    refused = {"set": "toy", "mode": "joint", "method": "cas", "error": "it needs 9 GB"}
    found = order(refused, made_up(np.ones(3)), "medium")
    assert found == {"verdict": OPEN, "error": "it needs 9 GB"}
    assert str(orders.shown(found)) == OPEN


def test_verdicts_are_counted_and_compared_between_settings() -> None:
    about = {"set": "toy", "features": "sscd", "truth": "hard", "weaker": "BSD", "stronger": "BCD"}
    rows = [
        {**about, "settings": "defaults", "verdict": HOLDS},
        {**about, "settings": "paper", "verdict": OPEN},
        {**about, "settings": "defaults", "stronger": "TMT", "verdict": FAILS},
        {**about, "settings": "paper", "stronger": "TMT", "verdict": FAILS},
    ]
    assert counted(rows) == (
        "the paper's order holds for 1 of 4 pairs, does not hold for 2, and cannot be told for 1, where the interval "
        "covers 0"
    )
    assert changed(rows) == "The verdict depends on the settings for 1 of 2 pairs: BCD over BSD (hard)."
    assert changed(rows[2:]) == "Both settings lead to the same verdicts."


def test_printed_differences_stand_beside() -> None:
    assert orders.printed("lse", "BSD + reciprocal", "BCD + reciprocal", "medium") == "+1.1, +1.1, +0.7"
    assert orders.printed("tmt", "Euclidean", "Jaccard", "hard") == "-0.2, +0.9, +1.1"
    assert orders.printed("tmt", "Baseline", "Cosine", "medium") == "+10.7, +5.7, +4.3"
