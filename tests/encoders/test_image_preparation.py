"""Image preprocessing: resizing, cropping, scaling and layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from encoders.small_models import pictures
from kinrank.encoders.base import Encoder
from kinrank.encoders.image_preparation import MAX_ASPECT_RATIO, Preprocessing

pytestmark = pytest.mark.slow

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed: pip install '.[images]'")
PLAIN: dict[str, Any] = {"scale": 1, "mean": 0, "std": 1}


def test_exact_is_what_pillow_resizes() -> None:
    image = pictures()[0]
    made = Preprocessing((20, 30), "exact", interpolation="bicubic", **PLAIN).array(image)
    expected = np.asarray(image.resize((30, 20), Image.Resampling.BICUBIC), np.float32)
    np.testing.assert_array_equal(made[0].transpose(1, 2, 0), expected)
    assert made.dtype == np.float32


def test_numbers_are_scaled_and_ordered() -> None:
    image = Image.new("RGB", (8, 8), (51, 102, 153))
    made = Preprocessing(4, mean=(0.1, 0.2, 0.3), std=(1.0, 2.0, 4.0)).array(image)
    np.testing.assert_allclose(made[0, :, 0, 0], [(0.2 - 0.1), (0.4 - 0.2) / 2, (0.6 - 0.3) / 4], rtol=1e-5)
    turned = Preprocessing(4, channels="BGR", scale=1, mean=(1, 2, 3), std=1, layout="NHWC").array(image)
    assert turned.shape == (1, 4, 4, 3)
    np.testing.assert_array_equal(turned[0, 0, 0], [152, 100, 48])


@pytest.mark.parametrize("size", [(120, 80), (80, 120), (64, 64), (300, 40)])
def test_shorter_crops_the_middle(size: tuple[int, int]) -> None:
    """Resizing only the middle gives the same pixels as resizing the whole image first."""
    image = pictures(6)[5].resize(size, Image.Resampling.BICUBIC)
    made = Preprocessing(20, **PLAIN).array(image)[0].transpose(1, 2, 0)
    factor = 20 / min(size)
    whole = image.resize((round(size[0] * factor), round(size[1] * factor)), Image.Resampling.BILINEAR)
    left, top = (whole.width - 20) // 2, (whole.height - 20) // 2
    expected = np.asarray(whole.crop((left, top, left + 20, top + 20)), np.float32)
    np.testing.assert_allclose(made, expected, atol=1)


def test_crop_by_share_of_the_shorter_side() -> None:
    image = Image.new("RGB", (40, 40), (255, 255, 255))
    image.paste((0, 0, 0), (10, 10, 30, 30))
    made = Preprocessing(20, crop=0.5, interpolation="nearest", **PLAIN).array(image)
    assert not made.any(), "the frame is cut off"
    assert Preprocessing(20, crop=0.5).reads == 40


def test_longest_pad_keeps_everything_on_the_mean() -> None:
    made = Preprocessing(20, "longest-pad").array(Image.new("RGB", (40, 20), (255, 255, 255)))[0]
    assert (made[:, 5:15] > 2).all()
    assert not made[:, :5].any()
    assert not made[:, 15:].any()


@pytest.mark.parametrize(("size", "expected"), [((80, 40), (20, 10)), ((30, 90), (7, 20)), ((5, 4), (20, 16))])
def test_longest_keeps_the_shape(size: tuple[int, int], expected: tuple[int, int]) -> None:
    image = pictures(1)[0].resize(size)
    made = Preprocessing(20, "longest", **PLAIN).array(image)[0].transpose(1, 2, 0)
    np.testing.assert_array_equal(made, np.asarray(image.resize(expected, Image.Resampling.BILINEAR), np.float32))
    with pytest.raises(ValueError, match=r"size=\(20, 30\) is not allowed; give one number, the pixels on the longest"):
        Preprocessing((20, 30), "longest")


@pytest.mark.parametrize(
    ("settings", "whole", "part"),
    [
        ({"resize": "longest"}, (24, 32), (6, 12)),
        ({"resize": "shorter", "crop": False}, (32, 43), (8, 16)),
        ({"resize": "longest-pad"}, (32, 32), (32, 32)),
        ({"resize": "exact"}, (32, 32), (32, 32)),
        ({"resize": "shorter"}, (32, 32), (32, 32)),
    ],
    ids=str,
)
def test_a_part_gets_the_scale_of_its_image(
    settings: dict[str, Any], whole: tuple[int, int], part: tuple[int, int]
) -> None:
    """Unless the network reads one size only."""
    image = pictures(1)[0].resize((400, 300))
    cropped = Encoder().crop(image, (100.2, 80, 250, 155))
    preparation = Preprocessing(32, **settings, **PLAIN)
    assert preparation.array(image).shape[2:] == whole
    made = preparation.array(cropped)
    assert made.shape[2:] == part
    alone = image.crop((100, 80, 250, 155))
    if settings["resize"] == "longest":
        expected = np.asarray(alone.resize((12, 6), Image.Resampling.BILINEAR), np.float32)
        np.testing.assert_array_equal(made[0].transpose(1, 2, 0), expected)
    if part == (32, 32):
        np.testing.assert_array_equal(made, preparation.array(alone))


def test_whole_pictures_without_crop() -> None:
    assert Preprocessing(20, crop=False).array(Image.new("RGB", (80, 40))).shape == (1, 3, 20, 40)
    assert Preprocessing(20, crop=False).array(Image.new("RGB", (40, 90))).shape == (1, 3, 45, 20)


@pytest.mark.parametrize("size", [(1, 1), (1, 20_000), (20_000, 1), (3, 2)])
@pytest.mark.parametrize("resize", ["shorter", "exact", "longest", "longest-pad"])
@pytest.mark.parametrize("crop", [True, False, 0.875])
def test_odd_pictures_need_little_memory(size: tuple[int, int], resize: str, crop: bool | float) -> None:
    made = Preprocessing(16, resize, crop).array(Image.new("RGB", size, (9, 9, 9)))
    assert made.ndim == 4
    assert max(made.shape) <= 16 * MAX_ASPECT_RATIO
    assert np.isfinite(made).all()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[("size", wrong) for wrong in (0, -1, 10_000, 2.5, True, "224", None, [1], (1, 2, 3), (0, 4))],
        *[("crop", wrong) for wrong in (0, 1.5, -0.5, "yes", None, float("nan"))],
        *[("scale", wrong) for wrong in (0, "255", None, (1, 2, 3), float("inf"))],
        *[("mean", wrong) for wrong in ("0", (1, 2), (1, 2, None), float("nan"))],
        *[("std", wrong) for wrong in (0, (1, 0, 1), ())],
        *[(key, "other") for key in ("resize", "interpolation", "channels", "layout")],
        ("resize", ["shorter"]),
        ("layout", None),
    ],
)
def test_wrong_values_raise_one_sentence(key: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{key}=.* is not allowed; ") as caught:
        Preprocessing(**{key: value})
    assert "\n" not in str(caught.value)
