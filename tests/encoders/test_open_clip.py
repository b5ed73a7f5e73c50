"""OpenCLIP models with random weights; skipped without open_clip and torchvision (`make test-encoders`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("encoders.torchvision_stub")
WHY = "open_clip is not installed: pip install '.[open-clip]'"
open_clip = pytest.importorskip("open_clip", reason=WHY, exc_type=ImportError)

from encoders.small_models import forbid_network, hostile, in_hub, pictures, promises, without  # noqa: E402
from kinrank.encoders import open_encoder  # noqa: E402
from kinrank.encoders.base import PICTURES, TEXTS  # noqa: E402

MODEL, LARGER = "kinrank-tiny", "kinrank-tiny-larger"
MEAN = (0.4, 0.3, 0.2)


def described(layers: int) -> dict[str, Any]:
    return {
        "embed_dim": 24,
        "vision_cfg": {"image_size": 32, "layers": layers, "width": 64, "head_width": 32, "patch_size": 8},
        "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 32, "heads": 2, "layers": layers},
    }


@pytest.fixture(scope="module", autouse=True)
def models(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Register small models in the library."""
    folder = tmp_path_factory.mktemp("models")
    for name, layers in ((MODEL, 1), (LARGER, 2)):
        (folder / f"{name}.json").write_text(json.dumps(described(layers)))
        open_clip.add_model_config(folder / f"{name}.json")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Block the network, and give every test its own hub cache."""
    forbid_network(monkeypatch)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory, models: None) -> Path:
    torch.manual_seed(5)
    path = tmp_path_factory.mktemp("open_clip") / "weights.pt"
    torch.save(open_clip.create_model(MODEL).state_dict(), path)
    return path


def opened(weights: Path | str, model: str = MODEL, **options: Any) -> Any:
    return open_encoder("open-clip", model=model, weights=str(weights), **options)


def test_encoder_contract(weights: Path) -> None:
    encoder = opened(weights)
    assert (encoder.kinds, encoder.dimensions, encoder.reads) == ((PICTURES, TEXTS), 24, 32)
    promises(encoder)


def test_vectors_equal_those_of_the_library(weights: Path) -> None:
    model, _, transform = open_clip.create_model_and_transforms(MODEL, str(weights))
    image, text = pictures()[0], "a photo of a church"
    with torch.inference_mode():
        seen = model.eval().encode_image(transform(image)[None]).numpy()
        read = model.encode_text(open_clip.get_tokenizer(MODEL)([text])).numpy()
    np.testing.assert_allclose(opened(weights).pictures([image]), seen, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(opened(weights).texts([text]), read, rtol=1e-5, atol=1e-6)


def test_safetensors_are_the_same_weights(weights: Path, tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    pytest.importorskip("safetensors.torch").save_file(torch.load(weights, weights_only=True), path)
    np.testing.assert_array_equal(opened(path).texts(["a"]), opened(weights).texts(["a"]))


def test_published_weights_that_were_downloaded(weights: Path, alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration of published weights is used: preprocessing and activation."""
    published = {"hf_hub": "somebody/tiny/", "mean": MEAN, "std": (1.0, 1.0, 1.0), "quick_gelu": True}
    known = pytest.importorskip("open_clip.pretrained")._PRETRAINED
    monkeypatch.setitem(known, MODEL, {"ours": published, "elsewhere": {"url": "https://example.org/x.pt"}})
    with pytest.raises(ValueError, match="download it with: hf download somebody/tiny, or give a file"):
        opened("ours")
    with pytest.raises(ValueError, match="is not on the hub"):
        opened("elsewhere")
    with pytest.raises(ValueError, match=r"needs `weights`, a file or the name of published weights .*ours, elsewhere"):
        open_encoder("open-clip", model=MODEL)
    in_hub(alone, "somebody/tiny", {"open_clip_pytorch_model.bin": weights})
    found = opened("ours")
    assert found.facts["image_mean"] == list(MEAN)
    assert found.facts["quick_gelu"] is True
    options = {"image_mean": MEAN, "image_std": (1.0, 1.0, 1.0), "force_quick_gelu": True}
    model, _, transform = open_clip.create_model_and_transforms(MODEL, str(weights), **options)
    with torch.inference_mode():
        expected = model.eval().encode_image(transform(pictures()[0])[None]).numpy()
    np.testing.assert_allclose(found.pictures(pictures(1)), expected, rtol=1e-5, atol=1e-6)
    assert (found.pictures(pictures(1)) != opened(weights).pictures(pictures(1))).any()


def test_very_long_pictures_need_little_memory(weights: Path) -> None:
    image = pictures()[0]
    assert np.isfinite(opened(weights).pictures([image.resize((30_000, 1)), image.resize((1, 30_000))])).all()


def test_weights_of_another_model(weights: Path) -> None:
    with pytest.raises(
        ValueError, match=f"cannot be opened as `model='{LARGER}'` .*; give the weights of this"
    ) as caught:
        opened(weights, LARGER)
    assert "\n" not in str(caught.value)


def test_damaged_and_hostile_files(weights: Path, tmp_path: Path) -> None:
    path, marker = hostile(tmp_path)
    (tmp_path / "half.pt").write_bytes(weights.read_bytes()[:5000])
    (tmp_path / "half.safetensors").write_bytes(weights.read_bytes()[:5000])
    for name in (path.name, "half.pt", "half.safetensors"):
        with pytest.raises(ValueError, match=name):
            opened(tmp_path / name)
    assert not marker.exists()


def test_a_text_model_that_is_not_on_this_machine(weights: Path) -> None:
    """Some models need a tokenizer from the hub, which is not downloaded."""
    with pytest.raises(ValueError, match="cannot be opened as `model='roberta-ViT-B-32'"):
        opened(weights, "roberta-ViT-B-32")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "needs `model`"),
        ({"model": "ViT-B-3", "weights": "x"}, "model='ViT-B-3' is not known to open_clip; did you mean ViT-B-32"),
        ({"model": "local-dir:/tmp", "weights": "x"}, "is not known to open_clip"),
        ({"model": MODEL}, "needs `weights`, a file or the name of published weights"),
        (
            {"model": "ViT-B-32", "weights": "laion"},
            "neither a file nor the name of .*laion400m_e31",
        ),
        (
            {"model": "ViT-B-32", "weights": "openai"},
            "hf download timm/vit_base_patch32_clip_224.openai",
        ),
        ({"model": MODEL, "weights": "x", "size": 32}, "size has no meaning for the encoder open-clip"),
    ],
)
def test_wrong_options_raise_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        open_encoder("open-clip", **options)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "open_clip")
    with pytest.raises(ImportError, match=r"the encoder open-clip needs open_clip.*pip install '\.\[open-clip\]'"):
        open_encoder("open-clip", model=MODEL)
