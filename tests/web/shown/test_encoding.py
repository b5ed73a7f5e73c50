"""A picture or a text that is sent: encoded as the gallery was, or refused with a sentence."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")

from fastapi.testclient import TestClient
from PIL import Image

from kinrank.encoders.registry import Recipe
from kinrank.web.settings import Settings
from kinrank.web.shown.encoding import LONGEST, UPLOADS, Encoding
from kinrank.web.sources.toys import embedded
from web import tiny
from web.serving import client, settings_in

EIGHT = "web.tiny:eight"
TURNED = 0x0112  # the EXIF tag that says how a picture is to be turned


def drawn(width: int = 24, height: int = 16) -> Any:
    return Image.fromarray(np.random.default_rng(0).integers(0, 255, (height, width, 3), np.uint8))


def written(image: Any, kind: str = "PNG", **options: Any) -> str:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return base64.b64encode(file.getvalue()).decode()


def turned(image: Any) -> str:
    """A JPEG that lies on its side, and says so."""
    exif = Image.Exif()
    exif[TURNED] = 6
    return written(image.rotate(90, expand=True), "JPEG", quality=100, subsampling=0, exif=exif)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A service that encodes pictures and texts."""
    with tiny.known() as recipe, client(settings_in(tmp_path_factory.mktemp("tiny"), encoder=recipe)) as made:
        yield made


def vector(asked: TestClient, **given: str) -> list[float]:
    answer = asked.post("/view/encode", json=given)
    assert answer.status_code == 200, answer.text
    found: list[float] = answer.json()["vector"]
    return found


def test_a_picture_becomes_a_query(asked: TestClient) -> None:
    assert asked.get("/view/start").json()["encoder"] == {"pictures": True, "texts": True}
    found = vector(asked, image=written(drawn()))
    np.testing.assert_array_equal(np.float32(found), tiny.eight(drawn()))
    assert asked.post("/view/rank", json={"query": {"vector": found}, "k": 3}).status_code == 200


def test_a_picture_is_turned_as_it_says(asked: TestClient) -> None:
    upright, lying = vector(asked, image=written(drawn(), "JPEG", quality=100)), vector(asked, image=turned(drawn()))
    np.testing.assert_allclose(lying, upright, atol=4)
    assert np.abs(np.subtract(vector(asked, image=written(drawn().rotate(90, expand=True))), upright)).max() > 8


def test_of_an_animation_the_first_picture_counts(asked: TestClient) -> None:
    first, second = Image.new("RGB", (20, 20), "white"), Image.new("RGB", (20, 20), "black")
    moving = written(first, "GIF", save_all=True, append_images=[second])
    assert vector(asked, image=moving) == vector(asked, image=written(first)) == [128.0] * 8


def test_a_text_becomes_a_query(asked: TestClient) -> None:
    assert vector(asked, text="a dog on a beach") == tiny.Tiny().texts(["a dog on a beach"])[0].tolist()
    assert len(vector(asked, text="ü" * LONGEST)) == 8


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"image": "%%%"}, "no base64"),
        ({"image": "ü"}, "no base64"),
        ({"image": base64.b64encode(b"hello").decode()}, "this picture cannot be used: it is none of JPEG"),
        ({"image": ""}, "it is empty"),
        ({"image": written(drawn(200, 200))[:4000]}, "this picture cannot be used: it is damaged"),
        ({"text": " \n"}, "the text is empty"),
        ({"text": "x" * (LONGEST + 1)}, "10000"),
        (
            {"text": "fail"},
            "one of the texts cannot be encoded: the encoder failed on it (RuntimeError: the network is unwell)",
        ),
        ({"text": "nothing"}, "the encoder made no vector of one of the texts"),
        ({}, "0 of image and text"),
        ({"image": written(drawn()), "text": "both"}, "2 of image and text"),
    ],
)
def test_what_cannot_be_encoded_is_a_sentence(asked: TestClient, given: dict[str, str], words: str) -> None:
    refused = asked.post("/view/encode", json=given)
    assert refused.status_code == 422
    assert words in refused.json()["detail"]


def test_a_search_by_texts_and_by_pictures(asked: TestClient) -> None:
    for given, rows in (
        ({"texts": ["a dog", "a cat"]}, tiny.Tiny().texts(["a dog", "a cat"])),
        ({"images": [written(drawn())]}, tiny.eight(drawn())[None]),
    ):
        answer = asked.post("/v1/search", json={**given, "k": 4})
        assert answer.status_code == 200, answer.text
        same = asked.post("/v1/search", json={"vectors": rows.tolist(), "k": 4}).json()
        assert (answer.json()["ids"], answer.json()["distances"]) == (same["ids"], same["distances"])
    assert asked.post("/v1/search", json={"texts": [], "k": 4}).json()["ids"] == []
    many = asked.post("/v1/search", json={"texts": ["word"] * (UPLOADS + 1)})
    assert many.status_code == 422
    assert f"send at most {UPLOADS}" in many.json()["detail"]
    both = asked.post("/v1/search", json={"texts": ["word"], "vectors": [[1.0] * 8]})
    assert "texts" in both.json()["detail"]
    assert asked.get("/v1/info").json()["encoder"] == {"pictures": True, "texts": True}
    examples = asked.get("/openapi.json").json()["components"]["schemas"]["Search"]["examples"]
    assert any("texts" in one for one in examples)


def test_without_an_encoder_it_says_so(tmp_path: Path) -> None:
    with client(settings_in(tmp_path)) as asked:
        assert asked.get("/view/start").json()["encoder"] is None
        for path, body in (("/view/encode", {"text": "dog"}), ("/v1/search", {"images": [written(drawn())]})):
            refused = asked.post(path, json=body)
            assert refused.status_code == 422
            assert "--encoder" in refused.json()["detail"]


def test_a_function_encodes_pictures_only(tmp_path: Path) -> None:
    with client(settings_in(tmp_path, encoder=Recipe(EIGHT).to_dict())) as asked:
        assert asked.get("/view/start").json()["encoder"] == {"pictures": True, "texts": False}
        assert len(vector(asked, image=written(drawn()))) == 8
        refused = asked.post("/view/encode", json={"text": "dog"})
        assert (
            refused.json()["detail"]
            == "the encoder of this gallery encodes pictures, not texts; send pictures, or vectors"
        )


def test_a_recipe_survives_the_way_to_a_worker() -> None:
    settings = Settings("gallery", encoder={"name": "cvnet", "scales": [0.7, 1.0], "weights": "net.pth"})
    assert Settings.from_json(settings.to_json()) == settings
    assert Recipe.from_dict(dict(settings.encoder or {})).options.scales == (0.7, 1.0)


def test_an_encoder_that_does_not_fit_is_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"web\.tiny:eight makes vectors of 8 numbers and the gallery has vectors of 9"
    ):
        Encoding.open(EIGHT, 9)
    with pytest.raises(ValueError, match="names no function"), client(settings_in(tmp_path, encoder=":x")):
        pass


def test_toys_encode_pictures_of_toys() -> None:
    from kinrank.datasets.turntable import turntable
    from kinrank.report.demo import embed

    images = turntable(1, 1)[0]
    np.testing.assert_array_equal(embedded(Image.fromarray(images[0])), embed(images)[0])
    assert embedded(Image.new("RGB", (300, 100), "red")).shape == embed(images)[0].shape
