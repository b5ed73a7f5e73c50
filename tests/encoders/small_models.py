"""Small models and images for tests of encoders, and checks that nothing is downloaded or executed."""

from __future__ import annotations

import importlib
import json
import os
import socket
import string
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinrank.encoders.base import PICTURES, TEXTS, Encoder, encode_items


def pictures(count: int = 6, seed: int = 7) -> list[Any]:
    """Return RGB images of smooth coloured noise in several sizes."""
    images = importlib.import_module("PIL.Image")
    random = np.random.default_rng(seed)
    small = random.integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)
    sizes = [(90, 60), (60, 90), (33, 33), (200, 40), (17, 64), (128, 96)]
    return [images.fromarray(one).resize(sizes[number % 6]) for number, one in enumerate(small)]


def same_bits(encoder: Encoder, kind: str, items: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Return the vectors of items after checking that batch, order and threads do not change their bits."""
    together = encode_items(encoder, kind, items)
    alone = np.concatenate([encode_items(encoder, kind, [one]) for one in items])
    backwards = encode_items(encoder, kind, list(reversed(items)))[::-1]
    with ThreadPoolExecutor(3) as pool:
        at_once = np.concatenate(list(pool.map(lambda one: encode_items(encoder, kind, [one]), items)))
    for other in (alone, backwards, at_once):
        np.testing.assert_array_equal(together, other)
    assert together.shape == (len(items), encoder.dimensions)
    assert together.dtype == np.float32
    assert np.isfinite(together).all()
    assert encode_items(encoder, kind, []).shape == (0, encoder.dimensions)
    assert json.loads(json.dumps(encoder.facts)) == encoder.facts
    return together


def promises(encoder: Encoder) -> None:
    """Check the contract of every encoder, for all content that it encodes."""
    for kind in encoder.kinds:
        items = {PICTURES: pictures(), TEXTS: ["a sentence", "two words", "", "an odd one: \ud800", "long " * 600]}[
            kind
        ]
        same_bits(encoder, kind, items)


def forbid_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every network connection fail."""

    def refused(*given: Any, **more: Any) -> Any:
        raise RuntimeError("somebody wants to use the network")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Make a package look as if it were not installed."""
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)


class Marker:
    """Object whose pickle creates a folder when it is executed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def hostile(folder: Path, name: str = "weights.pth") -> tuple[Path, Path]:
    """Return a file that would create a folder when it is executed, and this folder, which must not appear."""
    path, marker = folder / name, folder / "executed"
    importlib.import_module("torch").save({"weight": Marker(marker)}, path)
    return path, marker


def in_hub(cache: Path, repository: str, files: dict[str, bytes | Path]) -> None:
    """Write files as if they had been downloaded from the hub."""
    home = cache / f"models--{repository.replace('/', '--')}"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text("0" * 40)
    for name, content in files.items():
        path = home / "snapshots" / ("0" * 40) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.read_bytes() if isinstance(content, Path) else content)


def tiny_clip(folder: Path) -> Path:
    """Write a small model of images and texts as transformers saves it: two layers, random weights."""
    torch, hf = importlib.import_module("torch"), importlib.import_module("transformers")
    torch.manual_seed(3)
    layers = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    ends = {"bos_token_id": 0, "eos_token_id": 1}
    config = hf.CLIPConfig(
        text_config={**layers, **ends, "vocab_size": 80, "max_position_embeddings": 16},
        vision_config={**layers, "image_size": 32, "patch_size": 8},
        projection_dim=24,
    )
    hf.CLIPModel(config).save_pretrained(folder)
    words = ["<|startoftext|>", "<|endoftext|>"]
    words += [letter + end for letter in string.ascii_lowercase + string.digits for end in ("", "</w>")]
    words += [".", ".</w>"]
    (folder / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    tokens = hf.CLIPTokenizerFast(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=16)
    shape = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
    reader = importlib.import_module("transformers.models.clip.image_processing_pil_clip").CLIPImageProcessorPil
    hf.CLIPProcessor(reader(**shape), tokens).save_pretrained(folder)
    module = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.CLIPModel"}
    (folder / "modules.json").write_text(json.dumps([module]))
    return folder
