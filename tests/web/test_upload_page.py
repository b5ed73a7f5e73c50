"""Search by a text and by an uploaded picture, on the page in a real browser."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the page is served by fastapi; install it with: pip install '.[web]'")

from PIL import Image

from kinrank.web.settings import Files, Limits, Settings
from kinrank.web.startup.service_setup import prepare_toys
from web import tiny
from web.chromium import Page, serious, waiting_for
from web.small_service import listening, settings_in

ENTER = "\ue007"
FIELD, FILE = "#describe", "#vector-file"
NAMED = "document.querySelector('.about h1')?.textContent.includes(arguments[0])"
TOLD = "document.querySelector('#drop-problem:not([hidden])')?.textContent.includes(arguments[0])"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Service with sixty texts and an encoder of pictures and texts."""
    folder = tmp_path_factory.mktemp("both")
    words = itertools.cycle(["a dog on a beach", "two boats at night", "snow on a mountain", "a market in the rain"])
    (folder / "texts.txt").write_text("".join(f"{next(words)}, {number}\n" for number in range(60)))
    settings = settings_in(folder, title="captions", files=Files(texts=str(folder / "texts.txt")))
    limits = Limits(body=200_000)
    with tiny.known() as recipe, listening(replace(settings, encoder=recipe, limits=limits)) as address:
        yield address


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Service with some toys of `kinrank serve`, and a folder with one of their pictures."""
    folder = tmp_path_factory.mktemp("toys")
    served = prepare_toys(folder, None, None, objects=4, views=24)
    settings = Settings(str(served.manifold), title=served.title, files=served.files, encoder=served.encoder)
    with listening(replace(settings, scratch=str(folder))) as address:
        yield address, folder


def written(path: Path, image: Any, **options: Any) -> str:
    image.save(path, **options)
    return str(path)


def noise(side: int = 40, seed: int = 0) -> Any:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (side, side, 3), np.uint8))


def test_words_are_a_query(page: Page, both: str) -> None:
    page.looks().open(f"{both}/?item=item_003")
    page.find(FIELD).send_keys("a dog on a beach", ENTER)
    page.until(NAMED, "a dog on a beach")
    found = page.ranked()
    assert len(found) == 20
    assert "text=a+dog+on+a+beach" in page.driver.current_url
    page.open(page.driver.current_url)
    assert page.ranked() == found, "a link opens the same view"
    assert page.js("return document.querySelector('#describe').value") == "a dog on a beach"
    page.click(".shot:nth-child(4) .result")
    page.explained()
    assert page.text(".routes .at-query") == "a dog on a beachquery"
    page.driver.back()
    page.find(FIELD).clear()
    page.find(FIELD).send_keys("ü <b>snow</b> & more", ENTER)
    page.until(NAMED, "ü <b>snow</b> & more")
    page.driver.back()
    page.until(NAMED, "a dog on a beach")
    assert page.js("return document.querySelector('#describe').value") == "a dog on a beach"
    assert page.complaints() == []


def test_python_lines_hold_the_words(page: Page, both: str) -> None:
    page.looks().open(f"{both}/?text=say+%22dog%22")
    page.click("#tab-settings")
    page.click("#copy-python")
    page.until("document.querySelector('#box[open]')")
    lines = page.text("#box pre")
    assert 'texts=["say \\"dog\\""], k=20' in lines
    assert "vector" not in lines
    compile(lines, "lines", "exec")


def test_text_errors_appear_in_place_of_the_results(page: Page, both: str) -> None:
    page.looks().open(f"{both}/?item=item_003")
    page.find(FIELD).send_keys("fail", ENTER)
    page.until("document.querySelector('#lists .problem')?.textContent.includes('the network is unwell')")
    page.find(FIELD).send_keys(" not", ENTER)
    page.until(NAMED, "fail not")
    page.find(FIELD).clear()
    page.find(FIELD).send_keys("  ", ENTER)
    assert page.focused(FIELD)
    assert page.text(".about h1").endswith("fail not")


def test_a_long_text_stays_with_the_browser(page: Page, both: str) -> None:
    page.looks().open(f"{both}/?item=item_003")
    page.js("document.querySelector('#describe').value = 'é'.repeat(9000)")
    page.find(FIELD).send_keys(ENTER)
    page.until(NAMED, "ééé")
    found = page.ranked()
    assert page.driver.current_url.endswith("?text=")
    page.driver.refresh()
    page.until(NAMED, "ééé")
    assert page.ranked() == found
    page.click("#copy-link")
    page.until("document.querySelector('#toast').textContent.includes('too long for a link')")
    page.open(f"{both}/?text=", "document.querySelector('.problem')")
    assert "too long for a link" in page.text(".problem")


def test_a_picture_is_a_query_and_is_shown(page: Page, both: str, tmp_path: Path) -> None:
    page.looks().open(f"{both}/?item=item_003")
    for seed in (1, 2):
        page.find(FILE).send_keys(written(tmp_path / f"photo {seed}.png", noise(seed=seed)))
        page.until(NAMED, f"photo {seed}.png")
    seen = "document.querySelector('.query-picture img[src^=\"data:image/jpeg\"]')"
    assert page.until(f"{seen}?.naturalWidth") == 40
    assert page.js(f"return {seen}.alt") == "The query: photo 2.png"
    second = page.js(f"return {seen}.src")
    page.click(".shot:nth-child(4) .result")
    page.explained()
    page.until("document.querySelector('.routes .at-query img[src^=\"data:\"]').naturalWidth")
    page.until("document.querySelector('.map .point.query image[href^=\"data:\"]')")
    page.driver.back()
    page.driver.back()
    page.until(NAMED, "photo 1.png")
    assert page.until(f"{seen}?.src") != second
    page.driver.refresh()
    page.until(NAMED, "photo 1.png")
    assert page.until(f"{seen}?.naturalWidth") == 40, "it survives a reload"
    assert len(page.driver.current_url) < len(both) + 30, "links are short"
    found = page.ranked()
    page.open(page.driver.current_url)  # as another browser would
    assert page.ranked() == found
    assert page.until(f"{seen}?.naturalWidth") == 40
    assert page.complaints() == []


def test_a_toy_finds_its_like(page: Page, drawn: tuple[str, Path], tmp_path: Path) -> None:
    import zipfile

    address, folder = drawn
    with zipfile.ZipFile(folder / "pictures.zip") as archive:
        name = archive.namelist()[30]
        (tmp_path / "mine.jpg").write_bytes(archive.read(name))
    page.looks().open(f"{address}/?view=compare")
    assert page.all(FIELD) == [], "toys are found by pictures only"
    assert "Drop a picture" in page.text(".drop")
    assert "image/*" in str(page.find(FILE).get_attribute("accept"))
    page.find(FILE).send_keys(str(tmp_path / "mine.jpg"))
    page.until(NAMED, "mine.jpg")
    assert page.ranked("before")[0] == name.removesuffix(".jpg")


def test_exif_orientation_and_animations(page: Page, both: str, tmp_path: Path) -> None:
    page.looks().open(f"{both}/?item=item_003")
    exif = Image.Exif()
    exif[0x0112] = 6
    wide = noise().resize((60, 20))
    page.find(FILE).send_keys(written(tmp_path / "turned.jpg", wide.rotate(90, expand=True), exif=exif))
    page.until(NAMED, "turned.jpg")
    assert page.until("document.querySelector('.query-picture img')?.naturalWidth") == 60, "the page turns it as well"
    moving = {"save_all": True, "append_images": [noise(seed=1), noise(seed=2)]}
    page.find(FILE).send_keys(written(tmp_path / "moving.gif", noise(), **moving))
    page.until(NAMED, "moving.gif")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("broken.jpg", b"\xff\xd8\xff\xe0 this is no picture", "cannot be used"),
        ("empty.png", b"", "it is empty"),
        ("other.heic", b"something else", "it is not one of JPEG"),
        ("large.jpg", bytes(160_000), "takes pictures of up to 0.1 MB"),
        ("text.pdf", b"%PDF", "not a file of vectors"),
    ],
)
def test_files_that_are_not_pictures_have_an_error_message(
    page: Page, both: str, tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    page.looks().open(f"{both}/?item=item_003")
    (tmp_path / name).write_bytes(content)
    page.find(FILE).send_keys(str(tmp_path / name))
    page.until(TOLD, words)
    assert words in page.text("#toast")
    assert page.all(".drop.busy") == []
    assert len(page.ranked()) == 20, "what was there is still there"
    page.find(FILE).send_keys(written(tmp_path / "good.png", noise()))
    page.until(NAMED, "good.png")
    assert page.all("#drop-problem:not([hidden])") == []


def test_a_picture_is_dropped_on_a_phone_size_page(page: Page, both: str) -> None:
    page.looks(360, 740).open(f"{both}/?item=item_003")
    page.driver.execute_async_script("""
        const done = arguments[0], canvas = new OffscreenCanvas(20, 20);
        canvas.getContext("2d").fillRect(0, 0, 20, 10);
        canvas.convertToBlob().then((blob) => {
          const files = new DataTransfer();
          files.items.add(new File([blob], "dropped.png", {type: "image/png"}));
          dispatchEvent(new DragEvent("drop", {dataTransfer: files, cancelable: true}));
          done();
        });
    """)
    page.until(NAMED, "dropped.png")
    page.click("#change")
    page.until("document.querySelector('#rail').getBoundingClientRect().left === 0")
    page.find(FIELD).send_keys("boats", ENTER)
    page.until("!document.querySelector('#rail.open')")
    page.until(NAMED, "boats")


def test_without_an_encoder_there_is_no_field(page: Page, tmp_path: Path) -> None:
    with listening(settings_in(tmp_path)) as address:
        page.looks().open(f"{address}/?item=item_003")
        assert page.all(FIELD) == []
        assert "Drop a vector" in page.text(".drop")
        page.open(f"{address}/?text=dog", "document.querySelector('.problem')")
        assert "--encoder" in page.text(".problem")


@pytest.mark.parametrize("phone", [False, True])
def test_it_looks_right(page: Page, both: str, tmp_path: Path, phone: bool) -> None:
    page.looks(*((360, 740) if phone else (1440, 900))).open(f"{both}/?text=two+boats+at+night")
    if phone:
        page.click("#change")
        page.until("document.querySelector('#rail').getBoundingClientRect().left === 0")
    assert serious(page) == []
    assert waiting_for(lambda: page.all(".cell[data-ready]"))
    page.shot(f"page-words{'-phone' if phone else ''}.png")
    if not phone:
        page.find(FILE).send_keys(written(tmp_path / "photo of mine.png", noise()))
        page.until(NAMED, "photo of mine.png")
        (tmp_path / "broken.jpg").write_bytes(b"no")
        page.find(FILE).send_keys(str(tmp_path / "broken.jpg"))
        page.until(TOLD, "cannot be used")
        assert serious(page) == []
        page.shot("page-picture.png")
