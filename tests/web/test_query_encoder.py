"""Uploaded pictures and texts: encoded like the gallery, or refused with a message."""

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

from kinrank.encoders.encoder_registry import Recipe
from kinrank.web.query_encoder import MAX_TEXT_CHARACTERS, MAX_UPLOADS, QueryEncoder
from kinrank.web.settings import Settings
from kinrank.web.startup.service_setup import embed_picture
from web import tiny
from web.small_service import client, settings_in

EIGHT = "web.tiny:eight"
TURNED = 0x0112  # EXIF tag of the orientation


def drawn(width: int = 24, height: int = 16) -> Any:
    return Image.fromarray(np.random.default_rng(0).integers(0, 255, (height, width, 3), np.uint8))


def written(image: Any, kind: str = "PNG", **options: Any) -> str:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return base64.b64encode(file.getvalue()).decode()


def turned(image: Any) -> str:
    """Return a rotated JPEG with its EXIF orientation."""
    exif = Image.Exif()
    exif[TURNED] = 6
    return written(image.rotate(90, expand=True), "JPEG", quality=100, subsampling=0, exif=exif)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Service that encodes pictures and texts."""
    with tiny.known() as recipe, client(settings_in(tmp_path_factory.mktemp("tiny"), encoder=recipe)) as made:
        yield made


def vector(api: TestClient, **given: str) -> list[float]:
    answer = api.post("/view/encode", json=given)
    assert answer.status_code == 200, answer.text
    found: list[float] = answer.json()["vector"]
    return found


def test_a_picture_becomes_a_query(api: TestClient) -> None:
    assert api.get("/view/start").json()["encoder"] == {"pictures": True, "texts": True}
    found = vector(api, image=written(drawn()))
    np.testing.assert_array_equal(np.float32(found), tiny.eight(drawn()))
    assert api.post("/view/rank", json={"query": {"vector": found}, "k": 3}).status_code == 200


def test_exif_orientation_of_an_upload(api: TestClient) -> None:
    upright, lying = vector(api, image=written(drawn(), "JPEG", quality=100)), vector(api, image=turned(drawn()))
    np.testing.assert_allclose(lying, upright, atol=4)
    assert np.abs(np.subtract(vector(api, image=written(drawn().rotate(90, expand=True))), upright)).max() > 8


def test_of_an_animation_the_first_picture_counts(api: TestClient) -> None:
    first, second = Image.new("RGB", (20, 20), "white"), Image.new("RGB", (20, 20), "black")
    moving = written(first, "GIF", save_all=True, append_images=[second])
    assert vector(api, image=moving) == vector(api, image=written(first)) == [128.0] * 8


def test_a_text_becomes_a_query(api: TestClient) -> None:
    assert vector(api, text="a dog on a beach") == tiny.Tiny().texts(["a dog on a beach"])[0].tolist()
    assert len(vector(api, text="ü" * MAX_TEXT_CHARACTERS)) == 8


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"image": "%%%"}, "not base64"),
        ({"image": "ü"}, "not base64"),
        ({"image": base64.b64encode(b"hello").decode()}, "this picture cannot be used: it is not one of JPEG"),
        ({"image": ""}, "it is empty"),
        ({"image": written(drawn(200, 200))[:4000]}, "this picture cannot be used: it is damaged"),
        ({"text": " \n"}, "the text is empty"),
        ({"text": "x" * (MAX_TEXT_CHARACTERS + 1)}, "10000"),
        (
            {"text": "fail"},
            "one of the texts cannot be encoded: the encoder failed on it (RuntimeError: the network is unwell)",
        ),
        ({"text": "nothing"}, "the encoder made no valid vector of one of the texts"),
        ({}, "nothing was given"),
        ({"image": written(drawn()), "text": "both"}, "image and text were given"),
    ],
)
def test_invalid_uploads_have_an_error_message(api: TestClient, given: dict[str, str], words: str) -> None:
    refused = api.post("/view/encode", json=given)
    assert refused.status_code == 422
    assert words in refused.json()["detail"]


def test_a_search_by_texts_and_by_pictures(api: TestClient) -> None:
    for given, rows in (
        ({"texts": ["a dog", "a cat"]}, tiny.Tiny().texts(["a dog", "a cat"])),
        ({"images": [written(drawn())]}, tiny.eight(drawn())[None]),
    ):
        answer = api.post("/v1/search", json={**given, "k": 4})
        assert answer.status_code == 200, answer.text
        same = api.post("/v1/search", json={"vectors": rows.tolist(), "k": 4}).json()
        assert (answer.json()["ids"], answer.json()["distances"]) == (same["ids"], same["distances"])
    assert api.post("/v1/search", json={"texts": [], "k": 4}).json()["ids"] == []
    many = api.post("/v1/search", json={"texts": ["word"] * (MAX_UPLOADS + 1)})
    assert many.status_code == 422
    assert f"send at most {MAX_UPLOADS}" in many.json()["detail"]
    both = api.post("/v1/search", json={"texts": ["word"], "vectors": [[1.0] * 8]})
    assert "texts" in both.json()["detail"]
    assert api.get("/v1/info").json()["encoder"] == {"pictures": True, "texts": True}
    examples = api.get("/openapi.json").json()["components"]["schemas"]["Search"]["examples"]
    assert any("texts" in one for one in examples)


def test_without_an_encoder_it_says_so(tmp_path: Path) -> None:
    with client(settings_in(tmp_path)) as api:
        assert api.get("/view/start").json()["encoder"] is None
        for path, body in (("/view/encode", {"text": "dog"}), ("/v1/search", {"images": [written(drawn())]})):
            refused = api.post(path, json=body)
            assert refused.status_code == 422
            assert "--encoder" in refused.json()["detail"]


def test_a_function_encodes_pictures_only(tmp_path: Path) -> None:
    with client(settings_in(tmp_path, encoder=Recipe(EIGHT).to_dict())) as api:
        assert api.get("/view/start").json()["encoder"] == {"pictures": True, "texts": False}
        assert len(vector(api, image=written(drawn()))) == 8
        refused = api.post("/view/encode", json={"text": "dog"})
        assert (
            refused.json()["detail"]
            == "the encoder of this gallery encodes pictures, not texts; send pictures, or vectors"
        )


def test_a_recipe_survives_the_way_to_a_worker() -> None:
    settings = Settings("gallery", encoder={"name": "cvnet", "scales": [0.7, 1.0], "weights": "net.pth"})
    assert Settings.from_json(settings.to_json()) == settings
    assert Recipe.from_dict(dict(settings.encoder or {})).options.scales == (0.7, 1.0)


def test_an_unsuitable_encoder_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"web\.tiny:eight makes vectors of 8 numbers, but the gallery has vectors of 9"
    ):
        QueryEncoder.open(EIGHT, 9)
    with pytest.raises(ValueError, match="is not a function"), client(settings_in(tmp_path, encoder=":x")):
        pass


def test_toys_encode_pictures_of_toys() -> None:
    from kinrank.datasets.turntable import turntable
    from kinrank.report.demo import embed_pixels

    images = turntable(1, 1)[0]
    np.testing.assert_array_equal(embed_picture(Image.fromarray(images[0])), embed_pixels(images)[0])
    assert embed_picture(Image.new("RGB", (300, 100), "red")).shape == embed_pixels(images)[0].shape
