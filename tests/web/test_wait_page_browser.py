"""The wait page in a real browser: it shows the progress, and then opens the service."""

from __future__ import annotations

import contextlib
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the page is served by fastapi; install it with: pip install '.[web]'")

from kinrank.web.server import wait_page as module
from kinrank.web.server.wait_page import StartupProgress, WaitServer
from kinrank.web.settings import Settings
from web.chromium import Page, serious
from web.slow_startup import slowly
from web.small_service import settings_in

ENTER = "\ue007"
EMBEDDING = "embedding pictures"
THERE = "document.querySelector('#count').textContent"


class Clock:
    """Clock that tests advance."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "monotonic", made)
    return made


@contextlib.contextmanager
def prepared(title: str = "holiday photos", **given: tuple[str, ...]) -> Iterator[tuple[str, StartupProgress]]:
    """Serve only the wait page; yield its URL and its progress callback."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        page = WaitServer(Settings("nowhere", title=title, **given), [door])  # type: ignore[arg-type]
        try:
            yield f"http://127.0.0.1:{door.getsockname()[1]}", page.progress
        finally:
            page.stop()


def half_way(stages: StartupProgress, passes: Clock) -> None:
    """Report that listing is finished and embedding has started."""
    stages("listing files", 0, 1)
    passes.ahead += 2.0
    stages("listing files", 1, 1)
    for done in range(0, 1300, 42):
        stages(EMBEDDING, done, 5063)
        passes.ahead += 1.0
    stages(EMBEDDING, 1300, 5063)


def test_it_says_how_far_it_is(page: Page, clock: Clock) -> None:
    with prepared() as (address, stages):
        page.looks().open(address, "document.querySelector('#label').textContent === 'Starting'")
        half_way(stages, clock)
        page.until("document.querySelector('#count').textContent.startsWith('1,300 of 5,063')")
        assert page.text("#left").endswith(("about 2 minutes left", "about a minute left", "seconds left"))  # by load
        share = int(page.text("#share").removesuffix(" %"))
        assert 20 <= share <= 30, "a quarter of the pictures, among other work"
        assert page.text("#label") == "Looking at the pictures"
        bar = page.find("#bar")
        assert (bar.get_attribute("role"), bar.get_attribute("aria-valuenow")) == ("progressbar", str(share))
        assert page.text("#stages li").startswith("listing files")
        assert page.text("#title") == "holiday photos"
        assert page.driver.title == f"{share} % · holiday photos · kinrank"
        assert page.text("#heading") == "Getting holiday photos ready"
        assert page.text("#stage").startswith(f"{EMBEDDING}: 1,300 · ")
        assert page.text("#stage").endswith(" a second")
        assert page.js("return document.querySelector('.steps').open") is False
        assert page.complaints() == []
        assert [one for one in page.requested_urls() if not one.startswith((f"{address}/", "data:"))] == []


def test_it_does_not_talk_all_the_time(page: Page) -> None:
    with prepared() as (address, stages):
        page.looks().open(address, "document.querySelector('#label')")
        page.js("""
            window.heard = [];
            new MutationObserver(() => heard.push(live.textContent)).observe(live, {childList: true});
        """)
        for done in (1, 5, 9, 30, 35, 40):
            stages(EMBEDDING, done, 100)
            page.until(
                "document.querySelector('#count').textContent.startsWith(arguments[0])",
                f"{done} of" if done > 1 else "",
            )
        shares = []
        for step, label in enumerate(("neighbours", "diffusion", "states", "steps")):
            stages(label, step, 4)
            page.until("document.querySelector('#stage').textContent.startsWith(arguments[0])", f"{label}:")
            shares.append(int(page.find("#bar").get_attribute("aria-valuenow")))
        assert shares == sorted(set(shares)), "one bar that never goes back"
        assert page.text("#label") == "Connecting similar pictures"
        stages("something else", 0, 4)
        page.until("document.querySelector('#label').textContent === 'something else'")
        assert page.all("#bar.unknown")
        assert page.js("return document.querySelector('#bar').hasAttribute('aria-valuenow')") is False
        looking, connecting = "Looking at the pictures", "Connecting similar pictures"
        assert page.js("return heard") == [
            f"{looking}.",
            f"{looking}: 25 percent.",
            f"{connecting}: 75 percent.",
            "something else.",
        ]


def test_a_missing_token_is_requested(page: Page) -> None:
    with prepared(read_tokens=("secret-of-many-letters",)) as (address, stages):
        stages(EMBEDDING, 1, 100)
        page.looks().open(address, "document.querySelector('#token[open]')")
        assert EMBEDDING not in page.text("body")
        page.find("#token-field").send_keys("secret-of-many-letters", ENTER)
        page.until("document.querySelector('#label').textContent === 'Looking at the pictures'")
    page.driver.delete_all_cookies()


def test_hostile_labels_do_nothing(page: Page) -> None:
    hostile = '<img src=x onerror="window.owned=1">'
    with prepared(hostile) as (address, stages):
        for number in range(3):
            stages(f"{hostile}{number}", 1, 2)
        page.looks().open(address, "document.querySelectorAll('#stages li').length === 2")
        assert page.text("#label") == f"{hostile}2"
        assert page.js("return window.owned ?? document.querySelector('img')") is None


def test_failures_are_shown(page: Page) -> None:
    with prepared() as (address, stages):
        stages(EMBEDDING, 1, 100)
        page.looks().open(address, "document.querySelector('#label').textContent === 'Looking at the pictures'")
        stages.fail("the folder holds no picture that can be read; give another")
        page.until("document.querySelector('#problem').textContent.startsWith('The folder holds no picture')")
        assert page.text("#heading") == "The gallery could not be prepared"
        assert serious(page) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_it_becomes_the_service(page: Page, tmp_path: Path, workers: int) -> None:
    settings = Settings("not there yet", title="photos", port=0, workers=workers)
    with slowly(settings, settings_in(tmp_path), tmp_path / "kept") as service:
        page.looks().open(f"{service.address}/?item=item_007&k=7", "document.querySelector('#label')")
        for done in range(4):
            service.tell([EMBEDDING, done, 4])
        page.until("Number.parseInt(document.querySelector('#share').textContent) >= 60")
        service.tell("done")
        page.until("document.querySelectorAll('.shot').length === 7", seconds=180)
        assert "item_007" in page.text(".about h1")
        assert page.complaints() == []
        service.ready()
        service.process.send_signal(signal.SIGTERM)
        assert service.ended() == (0, "")


def test_a_service_that_is_stopped_is_noticed(page: Page) -> None:
    with prepared() as (address, stages):
        stages(EMBEDDING, 1, 100)
        page.looks().open(address, "document.querySelector('#label').textContent === 'Looking at the pictures'")
        with page.offline():
            page.until("document.querySelector('#problem').textContent.includes('tries again automatically')")
        page.until("document.querySelector('#problem').textContent === ''")


@pytest.mark.parametrize(
    ("name", "width", "height", "dark"),
    [
        ("wide", 1440, 900, False),
        ("dark", 1440, 900, True),
        ("narrow", 360, 740, False),
        ("narrow-dark", 360, 740, True),
    ],
)
def test_it_looks_right(page: Page, clock: Clock, name: str, width: int, height: int, dark: bool) -> None:
    with prepared() as (address, stages):
        half_way(stages, clock)
        page.looks(width, height, dark=dark).open(address, f"{THERE}.startsWith('1,300')")
        assert page.js("return document.scrollingElement.scrollWidth") <= width
        assert serious(page) == []
        page.shot(f"preparing-{name}.png")
