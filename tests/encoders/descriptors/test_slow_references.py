"""Descriptors compared with slow reference implementations, for numpy and torch and unusual maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kinrank.encoders import descriptors
from reference import descriptors as slow

pytestmark = pytest.mark.slow

SHAPES = [(1, 1, 1), (3, 1, 7), (4, 6, 1), (2, 2, 2), (5, 4, 9), (6, 9, 5), (16, 7, 7)]
TWINS = {
    "mac": (descriptors.mac, slow.mac),
    "spoc": (descriptors.spoc, slow.spoc),
    "spoc with its prior": (lambda maps: descriptors.spoc(maps, centre_prior=True), slow.spoc_with_centre_prior),
    "gem": (descriptors.gem, slow.gem),
    "gem 4.5": (lambda maps: descriptors.gem(maps, p=4.5), lambda maps: slow.gem(maps, 4.5)),
    "rmac": (descriptors.rmac, slow.rmac),
    "rmac of 5 levels": (lambda maps: descriptors.rmac(maps, levels=5), lambda maps: slow.rmac(maps, 5)),
    "crow": (descriptors.crow, slow.crow),
    "scda": (descriptors.scda, slow.scda),
}


def made(shape: tuple[int, ...], seed: int = 0) -> NDArray[np.float32]:
    """Return a random map like the output of a ReLU, half of it zero."""
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return np.maximum(values, 0)


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("shape", SHAPES)
def test_numpy(name: str, shape: tuple[int, int, int]) -> None:
    fast, twin = TWINS[name]
    maps = made(shape)
    found = fast(maps)
    assert found.dtype == np.float32
    assert np.allclose(found, twin(maps), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", TWINS)
def test_several_maps_at_once_are_those_maps(name: str) -> None:
    fast, _ = TWINS[name]
    maps = made((3, 4, 5, 6))
    assert np.array_equal(fast(maps), np.stack([fast(one) for one in maps]))
    assert fast(maps[:0]).shape == (0, fast(maps).shape[1])


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("shape", [(4, 5, 9), (2, 4, 5, 9)])
def test_torch(name: str, shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    fast, _ = TWINS[name]
    maps = made(shape)
    found = fast(torch.from_numpy(maps))
    assert isinstance(found, torch.Tensor)
    assert np.allclose(found.numpy(), fast(maps), rtol=1e-5, atol=1e-6)


def test_registry_lists_all_descriptors() -> None:
    assert list(descriptors.DESCRIPTORS) == ["mac", "spoc", "gem", "rmac", "crow", "scda"]
    for name, function in descriptors.DESCRIPTORS.items():
        assert np.array_equal(function(made((4, 5, 6))), getattr(descriptors, name)(made((4, 5, 6))))


def test_an_exponent_per_channel() -> None:
    powers = [1.0, 2.0, 3.0, 4.5]
    found = descriptors.gem(made((4, 3, 5)), p=np.array(powers))
    assert np.allclose(found, slow.gem(made((4, 3, 5)), powers), rtol=1e-5)


def test_large_exponents_and_large_values_do_not_overflow() -> None:
    maps = made((4, 6, 6)) * np.float32(1e12)
    assert np.allclose(descriptors.gem(maps, p=200.0), descriptors.mac(maps), rtol=0.05)
    assert np.isfinite(descriptors.gem(np.zeros((2, 3, 3)), p=300.0)).all()


def test_the_mask_is_the_largest_group_and_the_first_of_equals() -> None:
    for seed in range(40):
        maps = made((3, 6, 7), seed)
        assert np.array_equal(descriptors.scda_mask(maps), slow.scda_mask(maps))
    two = np.zeros((1, 3, 5))
    two[0, 0, 3:] = two[0, 2, :2] = 1.0
    assert descriptors.scda_mask(two).nonzero()[0].tolist() == [0, 0]


def test_maps_that_are_alike_everywhere() -> None:
    assert descriptors.scda(np.full((2, 3, 3), 0.1)).tolist() == pytest.approx([0.1, 0.1, 0.1, 0.1])
    assert descriptors.crow(np.zeros((2, 3, 3))).tolist() == [0.0, 0.0]
    assert descriptors.rmac(np.zeros((2, 3, 3))).tolist() == [0.0, 0.0]


def test_inputs_are_not_changed() -> None:
    maps = made((4, 5, 6)) - np.float32(0.1)
    before = maps.copy()
    for function in (descriptors.mac, descriptors.gem, descriptors.rmac, descriptors.scda):
        function(maps)
    assert np.array_equal(maps, before)


BAD: dict[str, tuple[Any, str]] = {
    "a row": (np.ones(4), r"\(channels, height, width\) or .* got \(4,\)"),
    "five axes": (np.ones((1, 1, 1, 1, 1)), r"got \(1, 1, 1, 1, 1\)"),
    "no positions": (np.ones((3, 0, 4)), r"one position; got shape \(3, 0, 4\)"),
    "no channels": (np.ones((2, 0, 4, 4)), "at least one channel"),
    "NaN": (np.full((1, 2, 2), np.nan), "finite; got NaN or Inf"),
    "words": ([[["a"]]], "real numbers; got dtype <U1"),
    "complex": (np.ones((1, 2, 2), complex), "real numbers; got dtype complex128"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("name", descriptors.DESCRIPTORS)
def test_bad_maps_raise_one_sentence(case: str, name: str) -> None:
    maps, message = BAD[case]
    with pytest.raises(ValueError, match=message) as error:
        descriptors.DESCRIPTORS[name](maps)
    assert "\n" not in str(error.value)


def test_bad_tensors_raise_the_same_errors() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="real numbers"):
        descriptors.mac(torch.ones((1, 2, 2), dtype=torch.int64))
    with pytest.raises(ValueError, match=r"got \(4,\)"):
        descriptors.gem(torch.ones(4))
    with pytest.raises(ValueError, match="finite"):
        descriptors.rmac(torch.full((1, 2, 2), float("inf")))


@pytest.mark.parametrize(
    ("p", "message"),
    [(0, "> 0 and finite; got 0"), (-1.5, "got -1.5"), (np.nan, "got nan"), ([1.0, np.inf], "got inf")],
)
def test_bad_exponents(p: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        descriptors.gem(np.ones((2, 3, 3)), p=p)


def test_an_exponent_for_another_number_of_channels() -> None:
    with pytest.raises(ValueError, match=r"one per channel \(2\); got shape \(3,\)"):
        descriptors.gem(np.ones((2, 3, 3)), p=[1.0, 2.0, 3.0])


def test_crow_refuses_negative_values() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        descriptors.crow(-np.ones((2, 3, 3)))


@pytest.mark.parametrize(("height", "width", "levels"), [(0, 3, 3), (3, -1, 3), (3, 3, 0), (3.0, 3, 3), ("3", 3, 3)])
def test_bad_sizes_of_regions(height: Any, width: Any, levels: Any) -> None:
    with pytest.raises(ValueError, match="must be integers > 0"):
        descriptors.rmac_regions(height, width, levels)


def test_endless_levels_end() -> None:
    assert len(descriptors.rmac_regions(2, 3, levels=10**12)) == len(descriptors.rmac_regions(2, 3, levels=3))
