"""Resizing compared with OpenCV, which the published descriptors used; boxes by both rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kinrank_bench.encoders.opencv_resize import resize_by_factor, resize_to_size, target_size
from kinrank_bench.encoders.retrieval_encoders import crop_box

pytestmark = pytest.mark.slow

SIZES = [(96, 64), (80, 112), (87, 56), (5, 131), (131, 5), (4, 4), (33, 34), (200, 77)]


def noise(height: int, width: int) -> NDArray[np.uint8]:
    return np.random.default_rng(height * 1000 + width).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def cv2() -> Any:
    return pytest.importorskip("cv2", reason="opencv is not installed")


@pytest.mark.parametrize("factor", [0.7071, 0.3535, 0.9, 0.8, 0.25, 1.4142, 2.0, 1.2, 3.7])
@pytest.mark.parametrize("size", SIZES)
def test_by_factor_is_what_opencv_makes(cv2: Any, size: tuple[int, int], factor: float) -> None:
    """Equal to the last bit, except that areas of 16 whole pixels may differ by one grey level at the border."""
    pixels = noise(*size)
    kind = cv2.INTER_AREA if factor < 1 else cv2.INTER_LINEAR
    expected = cv2.resize(pixels, None, fx=factor, fy=factor, interpolation=kind)
    difference = np.abs(resize_by_factor(pixels, factor).astype(int) - expected)
    assert difference.max() <= (1 if factor == 0.25 else 0)
    assert (difference > 0).mean() <= 0.01


@pytest.mark.parametrize("size", SIZES)
def test_half_of_an_even_size_is_what_opencv_makes(cv2: Any, size: tuple[int, int]) -> None:
    pixels = noise(size[0] // 2 * 2, size[1] // 2 * 2)
    expected = cv2.resize(pixels, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    assert np.array_equal(resize_by_factor(pixels, 0.5), expected)


@pytest.mark.parametrize("factor", [0.3535, 0.5, 0.7071, 1.4142, 2.0])
@pytest.mark.parametrize("size", SIZES)
def test_to_size_is_near_what_opencv_makes(cv2: Any, size: tuple[int, int], factor: float) -> None:
    pixels = noise(*size)
    height, width = target_size(pixels, factor)
    expected = cv2.resize(pixels.astype(np.float32), (width, height), interpolation=cv2.INTER_LINEAR)
    assert np.abs(resize_to_size(pixels, factor) - expected).max() <= 5e-3  # of 255 greys


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (9, 1), (2, 2)])
@pytest.mark.parametrize("factor", [0.1, 0.3535, 0.7071, 1.0, 1.4142, 8.0])
def test_tiny_pictures_keep_a_pixel(size: tuple[int, int], factor: float) -> None:
    pixels = np.full((*size, 3), 77, np.uint8)
    for resize in (resize_by_factor, resize_to_size):
        found = resize(pixels, factor)
        assert found.shape == (*target_size(pixels, factor), 3)
        assert np.allclose(found, 77)


def test_sizes_are_rounded_halves_to_even() -> None:
    assert target_size(noise(96, 64), 1.4142) == (136, 91)
    assert target_size(noise(5, 7), 0.5) == (2, 4)


def test_pictures_read_only_and_turned_are_taken() -> None:
    pixels = noise(9, 8)[..., ::-1]
    pixels.flags.writeable = False
    assert np.array_equal(resize_by_factor(pixels, 0.7071), resize_by_factor(pixels.copy(), 0.7071))


@pytest.fixture
def image() -> Any:
    return pytest.importorskip("PIL.Image").fromarray(noise(96, 64))


def test_boxes(image: Any) -> None:
    box = (4.6, 3.5, 60.2, 90.5)
    assert crop_box(image, box).size == (55, 86)
    assert np.array_equal(crop_box(image, box), image.crop(box))
    assert np.array_equal(crop_box(image, box, "truncate"), np.asarray(image)[3:90, 4:60])


def test_boxes_that_reach_beyond_the_picture(image: Any) -> None:
    assert crop_box(image, (-3, -3, 70, 100)).size == (64, 96)
    assert crop_box(image, (60.2, 90, 64.4, 96.4), "truncate").size == (4, 6)


@pytest.mark.parametrize("box", [(5, 5, 5, 9), (9, 5, 5, 9), (70, 0, 80, 9), (5.1, 5, 5.4, 9)])
@pytest.mark.parametrize("rule", ["round", "truncate"])
def test_boxes_without_a_pixel(image: Any, box: tuple[float, ...], rule: str) -> None:
    with pytest.raises(ValueError, match="contains no pixel of an image of 64 x 96"):
        crop_box(image, box, rule)


@pytest.mark.parametrize("box", [(1, 2, 3), (1, 2, 3, float("nan")), (1, 2, 3, float("inf"))])
def test_invalid_box(image: Any, box: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="is not a box; give left, top, right and bottom"):
        crop_box(image, box)


def test_an_unknown_rule(image: Any) -> None:
    with pytest.raises(ValueError, match="rule='up' is not allowed; give round or truncate"):
        crop_box(image, (1, 2, 3, 4), "up")
