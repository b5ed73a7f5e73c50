"""ONNX models: files created by the tests and run by onnxruntime."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install '.[onnx]'")
from encoders.onnx_models import CHANNELS, WEIGHTS, feature_map, onnx, saved
from encoders.small_models import pictures, promises, without
from kinrank.encoders import open_encoder
from kinrank.encoders.descriptors import DESCRIPTORS
from kinrank.encoders.image_preparation import Preprocessing

pytestmark = pytest.mark.slow

FLOAT16 = onnx.TensorProto.FLOAT16


def opened(weights: Path, message: Any = None, **options: Any) -> Any:
    if message is not None:
        path = weights.with_suffix(".json")
        path.write_text(message if isinstance(message, str) else json.dumps(message))
        options["preprocessing"] = str(path)
    return open_encoder("onnx", weights=str(weights), **options)


def test_encoder_contract(tmp_path: Path) -> None:
    encoder = opened(saved(tmp_path / "small.onnx"))
    promises(encoder)
    assert (encoder.dimensions, encoder.reads) == (CHANNELS, 8)


def test_vectors_are_what_numpy_computes(tmp_path: Path) -> None:
    encoder = opened(saved(tmp_path / "small.onnx"), {"mean": [0.5, 0.4, 0.3], "std": 0.25, "channels": "BGR"})
    prepared = Preprocessing((8, 8), mean=(0.5, 0.4, 0.3), std=0.25, channels="BGR")
    for image in pictures():
        expected = feature_map(prepared.array(image)).mean((1, 2))
        np.testing.assert_allclose(encoder.pictures([image])[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pool", ["mean", *DESCRIPTORS])
def test_feature_maps_are_pooled(tmp_path: Path, pool: str) -> None:
    encoder = opened(saved(tmp_path / "map.onnx", end="map"), {"pool": pool})
    maps = feature_map(Preprocessing((8, 8)).array(pictures()[0]))
    expected = maps.mean((1, 2)) if pool == "mean" else DESCRIPTORS[pool](maps)
    np.testing.assert_allclose(encoder.pictures(pictures(1))[0], expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("normalize", [True, False])
def test_several_poolings_are_those_of_one_each(tmp_path: Path, normalize: bool) -> None:
    path, settings = saved(tmp_path / "map.onnx", end="map"), {"normalize": normalize, "pool": "mean"}
    both = opened(path, settings, pooling=("scda", "gem"))
    promises(both)
    assert dict(both.columns) == {"scda": 2 * CHANNELS, "gem": CHANNELS}
    singles = [opened(path, settings, pooling=name) for name in ("scda", "gem")]
    expected = np.concatenate([single.pictures(pictures()) for single in singles], axis=1)
    np.testing.assert_array_equal(both.pictures(pictures()), expected)
    assert [single.facts["pool"] for single in (both, *singles)] == ["scda+gem", "scda", "gem"]
    assert singles[1].facts == opened(path, {**settings, "pool": "gem"}).facts
    assert not opened(path, settings).columns


def test_shape_of_the_input_is_used(tmp_path: Path) -> None:
    plain = opened(saved(tmp_path / "plain.onnx", (1, 3, 6, 10)))
    assert plain.facts["size"] == [6, 10]
    last = opened(saved(tmp_path / "last.onnx", (1, 6, 10, 3), layout="NHWC"))
    assert (last.facts["size"], last.facts["layout"]) == ([6, 10], "NHWC")
    np.testing.assert_allclose(last.pictures(pictures()), plain.pictures(pictures()), rtol=1e-5, atol=1e-6)


def test_axes_of_any_length(tmp_path: Path) -> None:
    path = saved(tmp_path / "any.onnx", ("batch", 3, "height", "width"))
    assert opened(path).facts["size"] == [224, 224]
    assert opened(path, size=32).facts["size"] == [32, 32]
    assert opened(path, {"size": [24, 32]}).facts["size"] == [24, 32]
    promises(opened(path, {"size": 16, "crop": False}))
    encoder = opened(path, {"size": 24, "resize": "longest"})
    promises(encoder)
    image = pictures(1)[0]
    part = encoder.crop(image, (0, 0, image.width / 2, image.height / 2))
    pixels = Preprocessing((24, 24), "longest").array(image)
    np.testing.assert_allclose(encoder.pictures([image, part])[0], feature_map(pixels).mean((1, 2)), rtol=1e-4)
    assert max(Preprocessing((24, 24), "longest").array(part).shape[2:]) == 12


def test_half_precision(tmp_path: Path) -> None:
    half, full = opened(saved(tmp_path / "half.onnx", kind=FLOAT16)), opened(saved(tmp_path / "full.onnx"))
    np.testing.assert_allclose(half.pictures(pictures()), full.pictures(pictures()), atol=0.02)


def test_unit_length_and_named_ends(tmp_path: Path) -> None:
    path = saved(tmp_path / "several.onnx", outputs=3)
    unit = opened(path, {"input": "in0", "output": "vector", "normalize": True}).pictures(pictures())
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-5)
    pooled = opened(path, {"output": "1x1"}).pictures(pictures())  # a map of one position needs no pooling
    np.testing.assert_allclose(unit, pooled / np.linalg.norm(pooled, axis=1, keepdims=True), rtol=1e-4, atol=1e-6)


def test_facts_contain_everything_that_determines_vectors(tmp_path: Path) -> None:
    path = saved(tmp_path / "any.onnx", (1, 3, "height", "width"))
    first = opened(path, size=32).facts
    assert first == opened(path, {"size": 32}).facts
    assert first != opened(path, {"size": 32, "mean": 0}).facts
    assert first != opened(path, {"size": 32, "normalize": True}).facts
    assert first["weights"] != opened(saved(tmp_path / "other.onnx", (1, 3, 32, "w")), size=32).facts["weights"]
    assert str(tmp_path) not in str(first)


@pytest.mark.parametrize(
    ("model", "message", "options", "sentence"),
    [
        ({"inputs": 2}, None, {}, "has 2 inputs"),
        ({"outputs": 2}, None, {}, "has the outputs vector, map; select one"),
        ({}, {"output": "nothing"}, {}, "has no output 'nothing'; give one of vector"),
        ({}, {"input": "nothing"}, {}, "has no input 'nothing'; give one of in0"),
        (
            {"end": "map"},
            None,
            {},
            "is a feature map of shape .* pool is 'none'; set pool in `preprocessing` to one of mean",
        ),
        ({}, {"pool": "gem"}, {}, "is a vector of shape .* pool is 'gem'"),
        ({"end": "tokens"}, None, {}, "has the shape .*a vector .* is needed"),
        ({"end": "line"}, None, {}, "has the shape .*a vector .* is needed"),
        ({"shape": (4, 3, 8, 8)}, None, {}, r"reads the shape \[4, 3, 8, 8\]"),
        ({"shape": (1, 3, 8, 8)}, {"layout": "NHWC"}, {}, "does not fit the layout NHWC"),
        ({}, None, {"size": 16}, r"size=16 differs from the size that .* reads, \(8, 8\)"),
        ({}, {"crop": False}, {}, "crop=false is for models that read any size"),
        ({}, {"resize": "longest"}, {}, "resize='longest' is for models that read any size, but .* use longest-pad"),
        ({"shape": (1, 3, 8, "w")}, {"resize": "longest"}, {}, "resize='longest' is for models that read any size"),
        ({}, {"sise": 8}, {}, "has the unknown key 'sise'; give one of size, resize"),
        ({}, {"pool": "max"}, {}, "pool='max' is not allowed; give none or mean"),
        ({}, {"normalize": 1}, {}, "normalize=1 is not allowed"),
        ({}, {"output": 1}, {}, "output=1 is not allowed"),
        ({}, {"std": 0}, {}, "std=0 is not allowed"),
        ({}, [1], {}, "is not a JSON object"),
        ({}, "{size: 8}", {}, "is not JSON"),
        ({}, "[" * 100_000, {}, "is not JSON"),
        ({}, None, {"device": "tpu"}, "device='tpu' is not supported .*; give one of cpu"),
        ({}, None, {"device": "cuda"}, "device='cuda' is not supported .*; give one of cpu"),
        ({}, None, {"pooling": "gem"}, "is a vector of shape .* pool is 'gem'"),
        ({"end": "map"}, None, {"pooling": ("gem", "zebra")}, "is not allowed; give different names of mac, spoc"),
        ({"end": "map"}, None, {"pooling": ("gem", "gem")}, "is not allowed; give different names of mac, spoc"),
        ({"end": "map"}, None, {"pooling": ()}, r"pooling=\(\) is not allowed"),
        ({}, None, {"model": "x"}, "model has no meaning for the encoder onnx"),
    ],
)
def test_wrong_models_and_settings_raise_one_sentence(
    tmp_path: Path, model: dict[str, Any], message: Any, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        opened(saved(tmp_path / "small.onnx", **model), message, **options)
    assert "\n" not in str(caught.value)


def test_a_network_that_cannot_read_the_size_is_one_sentence(tmp_path: Path) -> None:
    """A convolution of 3 x 3 cannot be applied to smaller images."""
    path = saved(tmp_path / "any.onnx", (1, 3, "height", "width"))
    with pytest.raises(ValueError, match=r"cannot read an input of shape \(1, 3, 2, 2\)"):
        opened(path, {"size": 2})


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs `weights`"):
        open_encoder("onnx")
    for path in (tmp_path / "none.onnx", tmp_path):
        with pytest.raises((FileNotFoundError, ValueError), match=r"does not exist|a folder"):
            open_encoder("onnx", weights=str(path))
    with pytest.raises(FileNotFoundError, match="does not exist"):
        open_encoder("onnx", weights=str(saved(tmp_path / "a.onnx")), preprocessing=str(tmp_path / "none.json"))


def test_damaged_files_raise_one_sentence(tmp_path: Path) -> None:
    """Truncated files and changed bytes raise one sentence or leave a working model, but never crash."""
    path = saved(tmp_path / "small.onnx")
    whole, dice = path.read_bytes(), random.Random(5)
    broken = [whole[:size] for size in range(0, len(whole), 9)] + [b"", b"PK\3\4", b"\xff" * 100, dice.randbytes(300)]
    for _ in range(60):
        turned = bytearray(whole)
        turned[dice.randrange(len(turned))] ^= 1 << dice.randrange(8)
        broken.append(bytes(turned))
    for content in broken:
        path.write_bytes(content)
        message = "a model that still runs"
        try:
            opened(path)
        except (ValueError, FileNotFoundError) as error:
            message = str(error)
        assert "\n" not in message


def test_weights_in_another_file_of_the_folder(tmp_path: Path) -> None:
    inside, apart = opened(saved(tmp_path / "inside.onnx")), saved(tmp_path / "apart.onnx", location="weights.bin")
    with pytest.raises(FileNotFoundError, match=r"refers to weights in 'weights\.bin', which does not exist"):
        opened(apart)
    (tmp_path / "weights.bin").write_bytes(WEIGHTS.tobytes())
    first = opened(apart)
    np.testing.assert_array_equal(first.pictures(pictures()), inside.pictures(pictures()))
    (tmp_path / "weights.bin").write_bytes((2 * WEIGHTS).tobytes())
    assert opened(apart).facts["weights"] != first.facts["weights"]


@pytest.mark.parametrize("location", ["../secret.bin", "{folder}/secret.bin", "link.bin", "folder/../../secret.bin"])
def test_weights_outside_of_the_folder_are_not_read(tmp_path: Path, location: str) -> None:
    (tmp_path / "secret.bin").write_bytes(WEIGHTS.tobytes())
    home = tmp_path / "home"
    (home / "folder").mkdir(parents=True)
    (home / "link.bin").symlink_to(tmp_path / "secret.bin")
    path = saved(home / "small.onnx", location=location.format(folder=tmp_path))
    with pytest.raises(ValueError, match="which is outside its folder and is not read"):
        opened(path)


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "small.onnx")
    without(monkeypatch, "onnxruntime")
    with pytest.raises(ImportError, match=r"the encoder onnx needs onnxruntime.*pip install '\.\[onnx\]'"):
        opened(path)
