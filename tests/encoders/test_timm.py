"""timm models with random weights; skipped without timm and torchvision (`make test-encoders`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("encoders.torchvision_stub")
timm = pytest.importorskip("timm", reason="timm is not installed: pip install '.[timm]'", exc_type=ImportError)

from encoders.small_models import forbid_network, hostile, in_hub, pictures, promises, without  # noqa: E402
from kinrank.encoders import open_encoder  # noqa: E402
from kinrank.encoders.base import PICTURES, encode_items  # noqa: E402

MODEL = "resnet10t"  # the smallest residual network of timm
TAGGED = "resnet10t.c3_in1k"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Block the network, and give every test its own hub cache."""
    forbid_network(monkeypatch)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def network(model: str = MODEL, **more: Any) -> Any:
    """Write random weights with batch norm statistics as after training."""
    torch.manual_seed(5)
    made = timm.create_model(model, pretrained=False, **more).eval()
    for name, values in made.state_dict().items():
        if name.endswith("running_mean"):
            values.normal_(0, 0.1)
    return made


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("timm") / "weights.pth"
    torch.save(network().state_dict(), path)
    return path


def opened(weights: Path, model: str = MODEL, **options: Any) -> Any:
    return open_encoder("timm", model=model, weights=str(weights), **options)


def test_encoder_contract(weights: Path) -> None:
    encoder = opened(weights)
    promises(encoder)
    assert (encoder.dimensions, encoder.reads) == (512, round(176 / 0.875))


def test_vectors_equal_those_of_the_library(weights: Path) -> None:
    direct, image = network(num_classes=0), pictures()[0]
    direct.load_state_dict(torch.load(weights, weights_only=True), strict=False)
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(direct), is_training=False)
    with torch.inference_mode():
        expected = direct(transform(image)[None]).numpy()
    found = opened(weights).pictures([image])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert np.ptp(found) > 0.01


def test_every_way_to_save_the_same_weights(weights: Path, tmp_path: Path) -> None:
    state = torch.load(weights, weights_only=True)
    safetensors = pytest.importorskip("safetensors.torch")
    safetensors.save_file(state, tmp_path / "a.safetensors")
    torch.save(
        {"state_dict": {f"module.{name}": value for name, value in state.items()}, "epoch": 3}, tmp_path / "b.pth"
    )
    torch.save({name: value for name, value in state.items() if not name.startswith("fc.")}, tmp_path / "c.pt")
    expected = encode_items(opened(weights), PICTURES, pictures(2))
    for name in ("a.safetensors", "b.pth", "c.pt"):
        np.testing.assert_array_equal(encode_items(opened(tmp_path / name), PICTURES, pictures(2)), expected)


def test_a_transformer(tmp_path: Path) -> None:
    model = "test_vit"
    torch.save(network(model).state_dict(), tmp_path / "vit.pth")
    promises(opened(tmp_path / "vit.pth", model))


def test_very_long_pictures_need_little_memory(weights: Path) -> None:
    image = pictures()[0]
    assert np.isfinite(opened(weights).pictures([image.resize((30_000, 1)), image.resize((1, 30_000))])).all()


def test_weights_that_were_downloaded(weights: Path, alone: Path) -> None:
    with pytest.raises(ValueError, match=f"download them with: hf download timm/{TAGGED}, or give `weights`"):
        open_encoder("timm", model=MODEL)
    in_hub(alone, f"timm/{TAGGED}", {"pytorch_model.bin": weights})
    given = opened(weights)
    for model in (MODEL, TAGGED):
        found = open_encoder("timm", model=model)
        np.testing.assert_array_equal(*(encode_items(one, PICTURES, pictures(2)) for one in (found, given)))
        assert found.facts["weights"] == given.facts["weights"]


def test_weights_of_another_model(weights: Path, tmp_path: Path) -> None:
    torch.save(network("resnet34").state_dict(), tmp_path / "larger.pth")
    with pytest.raises(ValueError, match=r"does not fit the encoder timm with this model: it has the unknown layer"):
        opened(tmp_path / "larger.pth", "resnet18")
    with pytest.raises(ValueError, match=r"it lacks "):
        opened(weights, "resnet18")
    state = torch.load(weights, weights_only=True)
    torch.save({**state, "layer1.0.bn1.weight": torch.ones(3)}, tmp_path / "shape.pth")
    with pytest.raises(ValueError, match=r"has another shape of layer1\.0\.bn1\.weight"):
        opened(tmp_path / "shape.pth")


def test_damaged_and_hostile_files(weights: Path, tmp_path: Path) -> None:
    path, marker = hostile(tmp_path)
    whole = weights.read_bytes()
    (tmp_path / "half.pth").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "half.safetensors").write_bytes(whole[:500])
    (tmp_path / "empty.pth").write_bytes(b"")
    for name in (path.name, "half.pth", "half.safetensors", "empty.pth"):
        with pytest.raises(ValueError, match=name) as caught:
            opened(tmp_path / name)
        assert "\n" not in str(caught.value)
    assert not marker.exists()
    with pytest.raises(FileNotFoundError, match="does not exist"):
        opened(tmp_path / "nothing.pth")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "needs `model`"),
        ({"model": "resnet18x"}, "model='resnet18x' is not known to timm; did you mean resnet18"),
        ({"model": "?"}, "model='[?]' is not known to timm; it has "),
        ({"model": "hf-hub:timm/resnet18"}, "is not known to timm"),
        ({"model": "resnet10t.nothing"}, "is not known to timm with weights; did you mean resnet10t.c3_in1k"),
        ({"model": "test_vit", "size": 32}, "size has no meaning for the encoder timm"),
        ({"model": "vit_base_patch16_18x2_224"}, "has no weights on the hub; give `weights`"),
    ],
)
def test_wrong_options_raise_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        open_encoder("timm", **options)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "timm")
    with pytest.raises(ImportError, match=r"the encoder timm needs timm.*pip install '\.\[timm\]'"):
        open_encoder("timm", model=MODEL)
