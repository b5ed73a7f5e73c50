"""Expected gain of LPMT: depends on the number of right answers and the drop of distances; none in noise."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from kinrank.diagnosis import gain_model as rule
from kinrank.diagnosis.gain_model import (
    BASE_GAIN,
    FALL_WIDTH,
    GAIN_AT_ONE,
    GAIN_AT_TWO,
    GAIN_PER_THIN,
    NO_KIN_DROP,
    Gain,
    format_whole,
    measure_relatedness,
    predict_gain,
)
from kinrank.diagnosis.neighborhood_facts import Facts


def facts(mutual: float = 0.7, common: float = 0.4, drop: float = 1.0, stability: float = 0.8) -> Facts:
    return Facts(500, 64, 500, 0.5, 10.0, 1.0, mutual, common, stability, drop, 8)


def test_all_of_it_where_kin_are_many() -> None:
    assert predict_gain(facts()).points == pytest.approx(BASE_GAIN + GAIN_PER_THIN * 0.3)
    assert predict_gain(facts(), 16).points == predict_gain(facts(), 1000).points == predict_gain(facts()).points


def test_by_right_answers() -> None:
    most = BASE_GAIN + GAIN_PER_THIN * 0.3
    for right, points in (
        (1, GAIN_AT_ONE),
        (2, GAIN_AT_TWO),
        (4, GAIN_AT_TWO + (most - GAIN_AT_TWO) / 3),
        (8, GAIN_AT_TWO + (most - GAIN_AT_TWO) * 2 / 3),
        (16, most),
    ):
        assert predict_gain(facts(), right).points == pytest.approx(points)
    assert predict_gain(facts(), math.sqrt(2)).points == pytest.approx((GAIN_AT_ONE + GAIN_AT_TWO) / 2)
    assert predict_gain(facts(drop=9.0), 16).points == predict_gain(facts(), 16).points  # a given number is used


@pytest.mark.parametrize("mutual", [0.1, 0.4, 0.9])
@pytest.mark.parametrize("common", [0.0, 0.02, 0.4])
@pytest.mark.parametrize("stability", [0.0, 0.03, 0.9])
def test_never_less_with_more_right_answers(mutual: float, common: float, stability: float) -> None:
    points = [predict_gain(facts(mutual, common, 1.0, stability), right).points for right in np.linspace(1, 40, 200)]
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(points))
    assert points[0] < 0


def test_less_the_more_distances_drop_off() -> None:
    points = [predict_gain(facts(drop=drop)).points for drop in np.linspace(0.5, 6, 100)]
    assert all(a >= b - 1e-12 for a, b in itertools.pairwise(points))
    assert predict_gain(facts(drop=NO_KIN_DROP - FALL_WIDTH)).points == predict_gain(facts()).points
    assert predict_gain(facts(drop=NO_KIN_DROP)).points == pytest.approx(0.0)
    assert predict_gain(facts(drop=4.0)).points < 0


def test_nothing_is_expected_of_noise() -> None:
    assert predict_gain(facts(0.77, 0.2, stability=0.02)).points == 0.0  # the 10 nearest of 500 agree by chance on 0.02
    assert predict_gain(facts(0.77, 0.0)).points == 0.0
    assert measure_relatedness(facts(0.77, 0.0)) == 0.0
    assert measure_relatedness(facts()) == 1.0
    assert 0 < measure_relatedness(facts(0.5, 0.01)) < 1


def test_an_interval_is_narrower_where_right_answers_are_known() -> None:
    open_gain, known = predict_gain(facts()), predict_gain(facts(), 16)
    assert open_gain.high - open_gain.points == pytest.approx(open_gain.points - open_gain.low)
    assert known.high - known.low < open_gain.high - open_gain.low


def test_a_gain_is_linear_in_its_constants() -> None:
    parts = [predict_gain(facts(drop=2.5), None, *one).points for one in ((1, 0), (0, 1), (3, 5))]
    assert parts[2] == pytest.approx(3 * parts[0] + 5 * parts[1])


def test_in_words_and_as_json() -> None:
    gain = Gain(-0.4, -11.6, 10.7)
    assert str(gain) == "+0 points of mAP (between -12 and +11 for 8 sets in 10)"
    assert json.loads(json.dumps(gain.to_dict())) == {"points": -0.4, "low": -11.6, "high": 10.7}
    assert [format_whole(number) for number in (0.0, -0.0, 1.2, -3.7)] == ["+0", "+0", "+1", "-4"]


def test_the_constants_are_those_that_were_measured() -> None:
    """The newest record of `kinrank bench diagnosis`, from which the docs are built, says the same."""
    lines = (Path(__file__).parents[2] / "benchmarks" / "results.jsonl").read_text("utf-8").splitlines()
    record = [one for one in map(json.loads, lines) if one["bench"] == "diagnosis"][-1]
    fit, seen = record["fit"], [row["facts"] for row in record["results"]]
    measured = [fit[name] for name in ("base", "per_thin", "no_kin", "few", "error", "error_right")]
    output = [BASE_GAIN, GAIN_PER_THIN, NO_KIN_DROP, rule.FEW_KIN_DROP, rule.RMS_ERROR, rule.RMS_ERROR_WITH_RIGHT]
    assert output == pytest.approx(measured, abs=0.051)
    for name, ends in (("mutual", rule.PUBLISHED_MUTUAL), ("stability", rule.PUBLISHED_STABILITY)):
        values = [facts[name] for facts in seen]
        assert ends == pytest.approx((min(values), max(values)), abs=0.0051)
    losses = [row["gain"] for row in record["thinned"] if row["right"] == 1]
    assert pytest.approx(np.mean(losses), abs=0.5) == GAIN_AT_ONE
