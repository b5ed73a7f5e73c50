"""Verdicts on orders, decided by the paired interval."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kinrank_bench.paper import order_checks
from kinrank_bench.paper.order_checks import (
    FAILS,
    HOLDS,
    MEASURED_COLUMNS,
    OPEN,
    UNDECIDED,
    check_order,
    compare_settings,
    count_verdicts,
)

PAIR = {"table": "tmt", "settings": "paper", "truth": "medium", "weaker": "Cosine", "stronger": "TMT"}


def made_up(values: np.ndarray) -> dict[str, Any]:
    score = {"mean": float(values.mean()), "low": 0.0, "high": 1.0, "per_query": values.tolist()}
    return {"set": "toy", "mode": "joint", "method": "lpmt-ablation", "truths": {"medium": {"mAP": score}}}


@pytest.mark.parametrize(("gap", "verdict"), [(0.1, HOLDS), (-0.1, FAILS), (0.0, OPEN)])
def test_the_verdict_follows_the_paired_interval(gap: float, verdict: str, rng: np.random.Generator) -> None:
    weaker = rng.uniform(0.3, 0.6, 70)
    stronger = weaker + gap + rng.normal(0, 0.05, 70)
    found = check_order(made_up(weaker), made_up(stronger), "medium")
    assert found["verdict"] == verdict
    assert found["low"] <= found["difference"] <= found["high"]
    difference, low, high, shown = (column.text({**PAIR, **found}) for column in MEASURED_COLUMNS)
    assert shown == (UNDECIDED if verdict == OPEN else verdict)
    assert float(low) <= float(difference) <= float(high)


def test_a_pair_with_a_refusal_is_undecided() -> None:
    refused = {"set": "toy", "mode": "joint", "method": "cas", "error": "it needs 9 GB"}
    found = check_order(refused, made_up(np.ones(3)), "medium")
    assert found == {"verdict": OPEN, "error": "it needs 9 GB"}
    assert [column.text({**PAIR, **found}) for column in MEASURED_COLUMNS] == ["", "", "", UNDECIDED]


def test_verdicts_are_counted_and_compared_between_settings() -> None:
    about = {"set": "toy", "features": "sscd", "truth": "hard", "weaker": "BSD", "stronger": "BCD"}
    rows = [
        {**about, "settings": "defaults", "verdict": HOLDS},
        {**about, "settings": "paper", "verdict": OPEN},
        {**about, "settings": "defaults", "stronger": "TMT", "verdict": FAILS},
        {**about, "settings": "paper", "stronger": "TMT", "verdict": FAILS},
    ]
    assert count_verdicts(rows) == "holds for 1 of 4 pairs, does not for 2, undecided for 1"
    assert compare_settings(rows) == "the verdict depends on the settings for 1 of 2 pairs: BCD over BSD."
    assert compare_settings(rows[2:]) == "both settings lead to the same verdicts."


def test_pairs_are_counted_per_truth() -> None:
    about = {"set": "roxford5k", "features": "toy", "table": "tmt", "weaker": "Euclidean", "stronger": "Jaccard"}
    rows = [
        {**about, "settings": "defaults", "truth": "medium", "verdict": HOLDS, "difference": 0.02, "low": 0.01,
         "high": 0.03},
        {**about, "settings": "defaults", "truth": "hard", "verdict": FAILS, "difference": -0.02, "low": -0.03,
         "high": -0.01},
    ]  # fmt: skip
    (one,) = order_checks.build_orders({"orders": rows})
    assert one.table.head == [
        "the paper says: better", "than", "truth", "settings", "printed: R-GeM, DOLG, CVNet", "difference", "low",
        "high", "verdict",
    ]  # fmt: skip
    assert one.table.rows[0] == [
        "Jaccard", "Euclidean", "medium", "kinrank's defaults", "+0.3, +0.1, +0.3", "+2.00", "+1.00", "+3.00", HOLDS,
    ]  # fmt: skip
    assert [heading for heading, _ in one.groups] == [
        "medium, at kinrank's defaults", "hard, at kinrank's defaults",
    ]  # fmt: skip
    assert one.notes[0] == (
        "At kinrank's defaults the paper's order: medium, holds for 1 of 1 pairs, does not for 0, undecided for "
        "0; hard, holds for 0 of 1 pairs, does not for 1, undecided for 0."
    )
    assert "of twenty pairs that are in fact equal, one is expected to look different" in one.notes[-1]


def test_printed_differences_are_shown() -> None:
    assert (
        order_checks.list_printed_differences(
            {"table": "lse", "weaker": "BSD + reciprocal", "stronger": "BCD + reciprocal", "truth": "medium"}
        )
        == "+1.1, +1.1, +0.7"
    )
    assert (
        order_checks.list_printed_differences(
            {"table": "tmt", "weaker": "Euclidean", "stronger": "Jaccard", "truth": "hard"}
        )
        == "-0.2, +0.9, +1.1"
    )
    assert (
        order_checks.list_printed_differences(
            {"table": "tmt", "weaker": "Baseline", "stronger": "Cosine", "truth": "medium"}
        )
        == "+10.7, +5.7, +4.3"
    )
