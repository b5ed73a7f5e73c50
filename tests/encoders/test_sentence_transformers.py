"""Models of sentence-transformers in folders or in the hub cache; nothing is downloaded or executed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders.small_models import forbid_network, hostile, in_hub, pictures, promises, tiny_clip
from kinrank.encoders import open_encoder
from kinrank.encoders.base import PICTURES, TEXTS

pytestmark = pytest.mark.slow

library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
NAME = "sentence-transformers"


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_clip(tmp_path_factory.mktemp("clip"))


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Block the network, and give every test its own hub cache."""
    forbid_network(monkeypatch)
    monkeypatch.delenv("SENTENCE_TRANSFORMERS_HOME", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def copied(clip: Path, folder: Path) -> Path:
    return Path(shutil.copytree(clip, folder))


def test_encoder_contract_for_images_and_texts(clip: Path) -> None:
    encoder = open_encoder(NAME, model=str(clip))
    assert (encoder.kinds, encoder.dimensions) == ((PICTURES, TEXTS), 24)
    assert encoder.facts["tokens"] == 16
    promises(encoder)


def test_vectors_equal_those_of_the_library(clip: Path) -> None:
    encoder, model = open_encoder(NAME, model=str(clip)), library.SentenceTransformer(str(clip), device="cpu")
    image = pictures()[0]
    np.testing.assert_allclose(encoder.pictures([image])[0], model.encode(image), atol=1e-6)
    np.testing.assert_allclose(encoder.texts(["a word"])[0], model.encode("a word"), atol=1e-6)


def test_very_long_pictures_need_little_memory(clip: Path) -> None:
    image = pictures()[0]
    made = open_encoder(NAME, model=str(clip)).pictures([image.resize((30_000, 1)), image.resize((1, 30_000))])
    assert np.isfinite(made).all()


def test_a_model_that_was_downloaded(clip: Path, alone: Path) -> None:
    in_hub(alone, "somebody/clip", {path.name: path for path in clip.iterdir()})
    in_hub(alone, "sentence-transformers/short", {path.name: path for path in clip.iterdir()})
    named, short, folder = (open_encoder(NAME, model=model) for model in ("somebody/clip", "short", str(clip)))
    assert named.facts["model"] == "somebody/clip"
    assert short.facts["model"] == "sentence-transformers/short"
    assert named.facts["weights"] == short.facts["weights"] == folder.facts["weights"]
    np.testing.assert_array_equal(named.texts(["a"]), folder.texts(["a"]))


def test_other_weights_are_other_facts(clip: Path, tmp_path: Path) -> None:
    other = copied(clip, tmp_path / "other")
    settings = json.loads((other / "tokenizer_config.json").read_text())
    (other / "tokenizer_config.json").write_text(json.dumps({**settings, "model_max_length": 8}))
    assert open_encoder(NAME, model=str(other)).facts["weights"] != open_encoder(NAME, model=str(clip)).facts["weights"]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("somebody/nothing", "download it with: hf download somebody/nothing, or give the folder of a model"),
        ("nothing", "download it with: hf download sentence-transformers/nothing"),
        ("/no/such/folder", "is not an existing folder"),
        ("../x", "is not an existing folder"),
        ("with spaces in it", "is not an existing folder"),
        ("", "needs `model`"),
        (None, "needs `model`"),
    ],
)
def test_missing_model(model: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        open_encoder(NAME, model=model)
    assert "\n" not in str(caught.value)


def break_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])


def name_code(folder: Path) -> None:
    (folder / "evil.py").write_text("import os; os.mkdir('executed')\nclass Model: pass\n")
    (folder / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": "evil.Model"}]))


def give_pickle(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    hostile(folder, "pytorch_model.bin")


def empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.parametrize("change", [break_weights, name_code, give_pickle, empty])
def test_damaged_or_hostile_folder_raises_one_sentence(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any
) -> None:
    folder = copied(clip, tmp_path / "model")
    change(folder)
    monkeypatch.chdir(folder)
    with pytest.raises(ValueError, match="cannot be opened by sentence-transformers") as caught:
        open_encoder(NAME, model=str(folder))
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.rglob("executed"))


def test_wrong_options_raise_one_sentence(clip: Path) -> None:
    with pytest.raises(ValueError, match=r"^weights has no meaning .* it takes `model` and `device`; leave it out"):
        open_encoder(NAME, model=str(clip), weights="x")
    with pytest.raises(ValueError, match=r"^device='nowhere' is not available"):
        open_encoder(NAME, model=str(clip), device="nowhere")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, clip: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sentence_transformers", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[sentence-transformers\]'"):
        open_encoder(NAME, model=str(clip))
