"""A picture that is dropped on the page: encoded by the function that was named, or refused with a sentence."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")

from PIL import Image

from kinrank.web.shown.encoding import encoded, encoder_named
from kinrank.web.sources.toys import embedded
from web.serving import client, settings_in


def picture(side: int = 20, kind: str = "PNG") -> str:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (side, side, 3), np.uint8)).save(file, kind)
    return base64.b64encode(file.getvalue()).decode()


def eight(image: Any) -> Any:
    """The mean of eight stripes."""
    return np.asarray(image.resize((8, 8)), np.float32).mean(axis=(0, 2))


def test_a_picture_becomes_a_query(tmp_path: Path) -> None:
    with client(settings_in(tmp_path, encoder="web.shown.test_encoding:eight")) as asked:
        assert asked.get("/view/start").json()["encoder"] is True
        vector = asked.post("/view/encode", json={"image": picture()}).json()["vector"]
        assert len(vector) == 8
        assert asked.post("/view/rank", json={"query": {"vector": vector}, "k": 3}).status_code == 200
        for wrong, words in (("%%%", "no base64"), (base64.b64encode(b"hello").decode(), "none of"), ("", "empty")):
            refused = asked.post("/view/encode", json={"image": wrong})
            assert refused.status_code == 422
            assert words in refused.json()["detail"]


def test_without_an_encoder_it_says_so(tmp_path: Path) -> None:
    with client(settings_in(tmp_path)) as asked:
        assert asked.get("/view/start").json()["encoder"] is False
        assert "--encoder" in asked.post("/view/encode", json={"image": picture()}).json()["detail"]


@pytest.mark.parametrize("words", ["", "eight", "no.module:eight", "web.shown.test_encoding:nobody", "os:name", ":x"])
def test_what_is_no_function(words: str) -> None:
    with pytest.raises(ValueError, match="--encoder"):
        encoder_named(words)


@pytest.mark.parametrize("vector", [[1.0] * 7, [np.nan] * 8, [0.0] * 8])
def test_an_encoder_that_does_not_fit(vector: list[float]) -> None:
    with pytest.raises(ValueError, match="same model"):
        encoded(lambda _: vector, picture(), 8)


def test_toys_encode_pictures_of_toys() -> None:
    from kinrank.datasets.turntable import turntable
    from kinrank.report.demo import embed

    images = turntable(1, 1)[0]
    np.testing.assert_array_equal(embedded(Image.fromarray(images[0])), embed(images)[0])
    assert embedded(Image.new("RGB", (300, 100), "red")).shape == embed(images)[0].shape
