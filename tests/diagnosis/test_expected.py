"""What LPMT is expected to gain: by right answers, by the drop of distances, and nothing in noise."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from kinrank.diagnosis import expected as rule
from kinrank.diagnosis.expected import BASE, FALL, NO_KIN, ONE, PER_THIN, TWO, Gain, expected, related, whole
from kinrank.diagnosis.facts import Facts


def facts(mutual: float = 0.7, common: float = 0.4, drop: float = 1.0, stability: float = 0.8) -> Facts:
    return Facts(500, 64, 500, 0.5, 10.0, 1.0, mutual, common, stability, drop, 8)


def test_all_of_it_where_kin_are_many() -> None:
    assert expected(facts()).points == pytest.approx(BASE + PER_THIN * 0.3)
    assert expected(facts(), 16).points == expected(facts(), 1000).points == expected(facts()).points


def test_by_right_answers() -> None:
    most = BASE + PER_THIN * 0.3
    for right, points in ((1, ONE), (2, TWO), (4, TWO + (most - TWO) / 3), (8, TWO + (most - TWO) * 2 / 3), (16, most)):
        assert expected(facts(), right).points == pytest.approx(points)
    assert expected(facts(), math.sqrt(2)).points == pytest.approx((ONE + TWO) / 2)
    assert expected(facts(drop=9.0), 16).points == expected(facts(), 16).points  # what is known is not guessed


@pytest.mark.parametrize("mutual", [0.1, 0.4, 0.9])
@pytest.mark.parametrize("common", [0.0, 0.02, 0.4])
@pytest.mark.parametrize("stability", [0.0, 0.03, 0.9])
def test_never_less_with_more_right_answers(mutual: float, common: float, stability: float) -> None:
    points = [expected(facts(mutual, common, 1.0, stability), right).points for right in np.linspace(1, 40, 200)]
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(points))
    assert points[0] < 0


def test_less_the_more_distances_drop_off() -> None:
    points = [expected(facts(drop=drop)).points for drop in np.linspace(0.5, 6, 100)]
    assert all(a >= b - 1e-12 for a, b in itertools.pairwise(points))
    assert expected(facts(drop=NO_KIN - FALL)).points == expected(facts()).points
    assert expected(facts(drop=NO_KIN)).points == pytest.approx(0.0)
    assert expected(facts(drop=4.0)).points < 0


def test_nothing_is_expected_of_noise() -> None:
    assert expected(facts(0.77, 0.2, stability=0.02)).points == 0.0  # the 10 nearest of 500 agree by chance on 0.02
    assert expected(facts(0.77, 0.0)).points == 0.0
    assert related(facts(0.77, 0.0)) == 0.0
    assert related(facts()) == 1.0
    assert 0 < related(facts(0.5, 0.01)) < 1


def test_an_interval_is_narrower_where_right_answers_are_known() -> None:
    open_gain, known = expected(facts()), expected(facts(), 16)
    assert open_gain.high - open_gain.points == pytest.approx(open_gain.points - open_gain.low)
    assert known.high - known.low < open_gain.high - open_gain.low


def test_a_gain_is_linear_in_its_constants() -> None:
    parts = [expected(facts(drop=2.5), None, *one).points for one in ((1, 0), (0, 1), (3, 5))]
    assert parts[2] == pytest.approx(3 * parts[0] + 5 * parts[1])


def test_in_words_and_as_json() -> None:
    gain = Gain(-0.4, -11.6, 10.7)
    assert str(gain) == "+0 points of mAP (between -12 and +11 for 8 sets in 10)"
    assert json.loads(json.dumps(gain.to_dict())) == {"points": -0.4, "low": -11.6, "high": 10.7}
    assert [whole(number) for number in (0.0, -0.0, 1.2, -3.7)] == ["+0", "+0", "+1", "-4"]


def test_the_constants_are_those_that_were_measured() -> None:
    """The newest record of `kinrank bench diagnosis`, from which the docs are built, says the same."""
    lines = (Path(__file__).parents[2] / "benchmarks" / "results.jsonl").read_text("utf-8").splitlines()
    record = [one for one in map(json.loads, lines) if one["bench"] == "diagnosis"][-1]
    fit, seen = record["fit"], [row["facts"] for row in record["results"]]
    measured = [fit[name] for name in ("base", "per_thin", "no_kin", "few", "error", "error_right")]
    told = [BASE, PER_THIN, NO_KIN, rule.FEW, rule.ERROR, rule.ERROR_RIGHT]
    assert told == pytest.approx(measured, abs=0.051)
    for name, ends in (("mutual", rule.MUTUAL), ("stability", rule.STABILITY)):
        values = [facts[name] for facts in seen]
        assert ends == pytest.approx((min(values), max(values)), abs=0.0051)
    losses = [row["gain"] for row in record["thinned"] if row["right"] == 1]
    assert pytest.approx(np.mean(losses), abs=0.5) == ONE
