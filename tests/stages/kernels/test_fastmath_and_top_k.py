"""Inner functions that many kernels use: exp and powers of float32, and the largest of some numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kinrank.stages.kernels import data_structures as kernels
from kinrank.stages.kernels.compiler import compile_kernel
from kinrank.stages.kernels.fastmath import exp32, power32
from reference.inner_kernels import make_callable

counting, largest = make_callable(kernels.new_top_k_scratch), make_callable(kernels.select_largest)


@compile_kernel
def all_exp(x: Any, out: Any) -> None:
    for place in range(len(x)):
        out[place] = exp32(x[place])


@compile_kernel
def all_powers(x: Any, power: Any, out: Any) -> None:
    for place in range(len(x)):
        out[place] = power32(x[place], power)


def test_exp_has_the_stated_error_over_its_range() -> None:
    x = np.linspace(-85, 85, 1_000_001).astype(np.float32)
    got = np.empty_like(x)
    all_exp(x, got)
    error = np.abs(got / np.exp(x.astype(np.float64)) - 1)
    assert (error < 4e-7 + 6e-8 * np.abs(x / np.log(2))).all()  # 4e-6 measured at the ends
    assert error[np.abs(x) < 20].max() < 2e-6
    assert got[np.flatnonzero(x == 0)[0]] == 1.0


@pytest.mark.parametrize("power", [0.1, 0.25, 1 / 3, 0.5, 0.675, 1.0, 2.0, 4.0, 8.0])
def test_powers_have_the_stated_error_over_their_range(power: float) -> None:
    x = np.concatenate([np.logspace(-36.9, 30, 500_001), np.linspace(0, 4, 100_001)[1:]]).astype(np.float32)
    got = np.empty_like(x)
    all_powers(x, np.float32(power), got)
    exponent = float(np.float32(power)) * np.log2(x.astype(np.float64))
    inside = (exponent > -119.9) & (exponent < 125)
    error = np.abs(got[inside] / 2 ** exponent[inside] - 1)
    assert (error < 4e-7 + 1e-7 * power + 8e-8 * np.abs(exponent[inside])).all()  # 6e-6 measured at the ends
    assert error[np.abs(exponent[inside]) < 20].max() < 2e-6
    assert not got[exponent < -120.1].any()


def test_powers_of_nothing_are_exactly_nothing() -> None:
    x = np.array([0.0, -0.0, 1e-38, 1e-45], np.float32)
    for power in (0.1, 0.5, 1.0, 8.0):
        got = np.full(4, 7.0, np.float32)
        all_powers(x, np.float32(power), got)
        assert got.tolist() == [0, 0, 0, 0]


NUMBERS = {
    "any": lambda rng, n: rng.random(n),
    "many equal": lambda rng, n: rng.integers(0, 4, n),
    "all equal": lambda rng, n: np.full(n, 0.3),
    "zeros": lambda rng, n: np.where(rng.random(n) < 0.7, 0, rng.random(n)),
    "nearly equal": lambda rng, n: 1 + 1e-6 * rng.random(n),
    "of all sizes": lambda rng, n: 10 ** rng.uniform(-44, 38, n),
}


@pytest.mark.parametrize("kind", list(NUMBERS))
@pytest.mark.parametrize("k", [0, 1, 7, 99, 100, 101, 500])
def test_largest_are_those_of_a_sort_equal_ones_by_number(rng: np.random.Generator, kind: str, k: int) -> None:
    scratch = counting(120)
    for count in (0, 1, 100):
        beyond = np.full(5, 9e37)  # entries beyond the count
        values = np.concatenate([NUMBERS[kind](rng, count), beyond]).astype(np.float32)
        numbers, chosen = rng.permutation(count + 5).astype(np.int32), np.full(121, -1, np.int32)
        size = largest(values, numbers, count, k, scratch, chosen)
        assert size == min(k, count)
        want = np.lexsort((numbers[:count], -values[:count]))[:size]
        assert sorted(chosen[:size].tolist()) == sorted(want.tolist())
        assert not scratch.counts.any()  # clean for the next call
