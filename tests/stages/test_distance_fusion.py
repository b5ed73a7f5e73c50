"""Fusion: Eq. 21, its two limits, and items that no chain reaches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kinrank.stages import distance_fusion
from kinrank.stages.distance_fusion import kth_smallest, make_mixture
from reference import lpmt as twin

KINDS = ["plain", "local"]
Floats = NDArray[np.float32]


def fused(
    d: Floats, chained: Floats, theta: float, gamma: float, kind: str, k: int = 10, own: bool = False
) -> NDArray[Any]:
    return distance_fusion.fuse_distances(d, chained, make_mixture(theta, gamma, k, kind), own)


@pytest.fixture
def pair(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return d and d' of 7 queries and 30 items, all reached."""
    d = rng.uniform(0.3, 1.4, (7, 30)).astype(np.float32)
    return d, rng.uniform(0.01, 5.0, (7, 30)).astype(np.float32)


@pytest.mark.parametrize("theta", [0.0, 0.3, 0.5, 1.0])
def test_plain_is_theta_d_plus_the_rest_d_prime(pair: tuple[Floats, Floats], theta: float) -> None:
    d, chained = pair
    np.testing.assert_allclose(fused(d, chained, theta, 3.0, "plain"), theta * d + (1 - theta) * chained, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("theta", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("own", [False, True])
def test_fusion_is_its_literal_transcription(pair: tuple[Floats, Floats], kind: str, theta: float, own: bool) -> None:
    d, chained = pair
    want = twin.fused(d.astype(float), chained.astype(float), theta, 2.5, kind, 10, own)
    np.testing.assert_allclose(fused(d, chained, theta, 2.5, kind, 10, own), want, rtol=1e-5)


@pytest.mark.parametrize("theta", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("direct", [0.0, 0.3, 1.0])
def test_wide_states_take_their_share(
    pair: tuple[Floats, Floats], theta: float, own: bool, direct: float, rng: np.random.Generator
) -> None:
    d, chained = pair
    apart = rng.uniform(0.2, 1.0, d.shape).astype(np.float32) * np.linspace(0.4, 1.0, len(d), dtype=np.float32)[:, None]
    apart[rng.random(d.shape) < 0.3] = 1.0
    apart[-1] = np.maximum(apart[-1], 0.8)  # hardly any overlap
    chained[rng.random(d.shape) < 0.2] = np.inf
    got = distance_fusion.fuse_distances(d, chained, make_mixture(theta, 2.5, 10, direct=direct), own, apart)
    exact = (values.astype(float) for values in (d, chained))
    want = twin.fused(*exact, theta, 2.5, "local", 10, own, apart.astype(float), direct)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    if not direct:
        np.testing.assert_array_equal(got, fused(d, chained, theta, 2.5, "local", 10, own))


def test_all_shares_to_wide_states_gives_their_order(pair: tuple[Floats, Floats], rng: np.random.Generator) -> None:
    apart = rng.random(pair[0].shape).astype(np.float32)
    apart[:, :10] *= 0.4  # full overlap with the ten nearest
    mixed = distance_fusion.fuse_distances(*pair, make_mixture(0.0, 3.0, 10, direct=1.0), False, apart)
    np.testing.assert_array_equal(np.argsort(mixed, axis=1), np.argsort(apart, axis=1))


@pytest.mark.parametrize(
    ("unit", "share"), [(0.0, 0.8), (0.4, 0.8), (0.5, 0.4), (0.6, 0.1), (0.59, 0.1), (0.55, 0.2), (1.0, 0.1)]
)
def test_the_share_of_wide_states_grows_with_their_overlap(unit: float, share: float) -> None:
    apart = np.full((1, 12), 1.0, np.float32)
    apart[0, :4] = unit
    assert distance_fusion.measure_direct_share(0.8, apart, 4, False) == pytest.approx(share, abs=1e-6)
    assert distance_fusion.measure_direct_share(0.8, apart, 4, False) == pytest.approx(
        twin.share_of_wide_states(0.8, unit), abs=1e-6
    )
    assert distance_fusion.measure_direct_share(0.05, apart, 4, False) == pytest.approx(0.05)
    assert distance_fusion.measure_direct_share(0.0, apart, 4, False) == 0.0


@pytest.mark.parametrize(("theta", "kind"), [(1.0, "local"), (0.4, "plain"), (1.0, "plain")])
def test_without_scales_wide_states_have_no_share(pair: tuple[Floats, Floats], theta: float, kind: str) -> None:
    mixture = make_mixture(theta, 3.0, 10, kind, direct=0.7)
    assert mixture.direct == 0.0
    assert np.array_equal(distance_fusion.fuse_distances(*pair, mixture), fused(*pair, theta, 3.0, kind))


def test_up_to_a_share_of_the_nearest_distance_all_are_equally_near() -> None:
    """Only chains separate such items; d counts from 0.6 of the nearest distance on."""
    d = np.array([[0.5, 0.2, 0.25, 0.9]], np.float32)
    chained = np.ones_like(d)
    units = distance_fusion.measure_units(d, chained, make_mixture(1.0 - 1e-6, 3.0, 2), False)
    np.testing.assert_allclose(units.start, 0.12, rtol=1e-6)
    np.testing.assert_allclose(units.near, 0.13, rtol=1e-6)
    np.testing.assert_allclose(
        distance_fusion.measure_units(d, chained, make_mixture(0.4, 3.0, 2), True).start, 0.15, rtol=1e-6
    )
    rows = np.array([[0.0, 0.05, 0.12, 0.121]], np.float32)
    result = np.empty_like(rows)
    parts = distance_fusion.DistanceParts(rows, 0 * rows, distance_fusion.NO_VALUES)
    distance_fusion.mix_rows(0, 1, parts, make_mixture(0.4, 3.0, 2), units, result)
    assert not result[0, :3].any()
    assert 0 < result[0, 3] < 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_theta_one_gives_the_order_of_d_and_theta_zero_the_order_of_d_prime(
    pair: tuple[Floats, Floats], kind: str
) -> None:
    d, chained = pair
    assert np.array_equal(np.argsort(fused(d, chained, 1.0, 3.0, kind), axis=1), np.argsort(d, axis=1))
    assert np.array_equal(np.argsort(fused(d, chained, 0.0, 3.0, kind), axis=1), np.argsort(chained, axis=1))


@pytest.mark.parametrize("kind", KINDS)
def test_theta_one_gives_the_order_of_d_however_far_the_items_are(kind: str) -> None:
    """A query with a dense neighbourhood: far items are many times farther than its tenth neighbour."""
    d = np.concatenate([np.linspace(0.01, 0.1, 10), np.linspace(0.5, 1.9, 40)])[None, ::-1].astype(np.float32)
    mixed = fused(d, np.ones_like(d), 1.0, 3.0, kind)
    assert np.array_equal(np.argsort(mixed, axis=1, kind="stable"), np.argsort(d, axis=1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("theta", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e5])
def test_unreachable_items_follow_the_reachable_ones_in_the_order_of_d(
    pair: tuple[Floats, Floats], kind: str, theta: float, scale: float
) -> None:
    d, chained = pair
    chained = np.float32(scale) * chained
    lost = np.random.default_rng(1).random(d.shape) < 0.4
    lost[0] = True  # a query without chains
    chained[lost] = np.inf
    mixed = fused(d, chained, theta, 3.0, kind)
    assert np.isfinite(mixed).all()
    want = twin.fused(d[1:].astype(float), chained[1:].astype(float), theta, 3.0, kind, 10, False)
    np.testing.assert_allclose(np.where(lost, 0, mixed)[1:], np.where(lost[1:], 0, want), rtol=1e-5)
    for row in range(7):
        order = np.argsort(mixed[row], kind="stable")
        found = int((~lost[row]).sum())
        assert not lost[row][order[:found]].any()
        behind = order[found:]
        assert np.array_equal(behind, np.flatnonzero(lost[row])[np.argsort(d[row][lost[row]])])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_zeros_stay_finite(kind: str) -> None:
    """All items are duplicates of the query: there is nothing to divide by."""
    zero = np.zeros((2, 5), np.float32)
    assert np.array_equal(fused(zero, zero, 0.4, 3.0, kind), np.zeros((2, 5)))


def test_local_scales_are_the_k_th_smallest_values_of_the_row() -> None:
    values = np.array([[0.0, 4, 1, 3, np.inf], [np.inf] * 5, [0, 0, 0, 0, 7], [0, 0, 0, 0, 0]])
    values = values.astype(np.float32)
    np.testing.assert_allclose(kth_smallest(values, 2, False), [1, 1, 0.007, 1])
    np.testing.assert_allclose(kth_smallest(values, 2, True), [3, 1, 0.007, 1])
    np.testing.assert_allclose(kth_smallest(values, 50, False), [4, 1, 7, 1])


def test_local_fusion_does_not_depend_on_the_units() -> None:
    rng = np.random.default_rng(2)
    d, chained = rng.random((3, 20)).astype(np.float32), rng.random((3, 20)).astype(np.float32)
    other = fused(5 * d, 40 * chained, 0.4, 3.0, "local")
    np.testing.assert_allclose(other, fused(d, chained, 0.4, 3.0, "local"), rtol=1e-4)


def test_inputs_are_not_changed(pair: tuple[Floats, Floats]) -> None:
    d, chained = pair
    chained[0, 3] = np.inf
    before = d.copy(), chained.copy()
    for kind in KINDS:
        fused(d, chained, 0.4, 3.0, kind)
    assert np.array_equal(d, before[0])
    assert np.array_equal(chained, before[1])
