"""Helpers for tests of the page in a real Chromium."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--disable-default-apps",
)
ROOT = Path(__file__).resolve().parents[2]
SECONDS = 90.0  # for something to appear


def missing(what: str) -> None:
    """Skip the test; fail if a browser is required."""
    words = f"{what}; on Debian: apt-get install chromium chromium-driver, and pip install '.[browser]'"
    if os.environ.get("KINRANK_NEED_BROWSER"):
        pytest.fail(words)
    pytest.skip(words)


def browser() -> Any:
    """Start a headless Chromium with Debian's chromedriver and a temporary profile."""
    try:
        from selenium import webdriver
    except ImportError:
        missing("the tests of the page need selenium")
    program, helper = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or helper is None:
        missing("the tests of the page need Chromium and its driver")
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={tempfile.mkdtemp(prefix='kinrank-browser-')}"):
        options.add_argument(flag)
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(helper))


class Page:
    """Page in the browser, with helpers to open, inspect and check it."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def looks(self, width: int = 1440, height: int = 900, *, dark: bool = False, moving: bool = False) -> Page:
        """Set the screen size and the theme; animations are off unless requested."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": width < 700})
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "no-preference" if moving else "reduce"},
        ]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        return self

    def open(self, address: str, ready: str = "document.querySelector('.column.after .row, .shelf .shot')") -> Page:
        self.driver.get("about:blank")
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)
        self.driver.get(address)
        if ready:
            self.until(ready)
        return self

    def js(self, words: str, *given: Any) -> Any:
        return self.driver.execute_script(words, *given)

    def until(self, words: str, *given: Any, seconds: float = SECONDS) -> Any:
        """Wait for an expression to have a value, and return it."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.js(f"return {words}", *given)
            if found:
                return found
            if time.monotonic() > deadline:
                shown = self.js("return document.body.innerText.slice(0, 600)")
                raise AssertionError(f"{words} did not happen within {seconds} seconds; the page says: {shown}")
            time.sleep(0.03)

    def find(self, selector: str) -> Any:
        self.until("document.querySelector(arguments[0])", selector)
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        found: list[Any] = self.driver.find_elements("css selector", selector)
        return found

    def click(self, selector: str) -> None:
        self.find(selector).click()

    def text(self, selector: str) -> str:
        return str(self.js("return document.querySelector(arguments[0])?.textContent ?? ''", selector))

    def keys(self, *keys: str) -> None:
        """Press keys one after the other, at the current focus."""
        from selenium.webdriver.common.action_chains import ActionChains

        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def focused(self, selector: str) -> bool:
        return bool(self.js("return document.activeElement.matches(arguments[0])", selector))

    def ranked(self, side: str = "after") -> list[str]:
        """Return the ids of the results in a column or in the grid, in their order."""
        words = (
            "const both = `.column.${arguments[0]} .row, .shelf.${arguments[0]} .shot:not(.pinned)`;"
            "return [...document.querySelectorAll(both)].map((one) => one.dataset.id)"
        )
        return list(self.js(words, side))

    def explained(self) -> None:
        """Wait for an explanation and its map."""
        self.until("document.querySelector('#why:not([hidden]):not(.stale) .words')")

    @contextlib.contextmanager
    def offline(self) -> Iterator[None]:
        """Block all requests to the service in this block."""
        wire = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self.driver.execute_cdp_cmd("Network.enable", {})
        self.driver.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": True, **wire})
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": False, **wire})

    def complaints(self) -> list[str]:
        """Return the warnings and errors of the console since the page was opened."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def requested_urls(self) -> list[str]:
        """Return the URLs of all requests since the page was opened."""
        sent = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        return [one["params"]["request"]["url"] for one in sent if one["method"] == "Network.requestWillBeSent"]

    def shot(self, name: str) -> None:
        folder = ROOT / "out"
        folder.mkdir(exist_ok=True)
        self.driver.save_screenshot(str(folder / name))


def figure(page: Page, name: str) -> None:
    """Save a screenshot of the page, and check that it is not empty; KINRANK_FIGURES=docs/figures writes it there."""
    from PIL import Image

    page.shot(name)
    with Image.open(ROOT / "out" / name) as image:
        assert len(image.convert("RGB").getcolors(2**24) or []) > 100
        if os.environ.get("KINRANK_FIGURES"):
            small = image.convert("RGB").quantize(256)
            small.save(Path(os.environ["KINRANK_FIGURES"]) / name, optimize=True)


def axe_script() -> str:
    """Return the source of axe-core, which `make test-web` downloads."""
    path = Path(os.environ.get("KINRANK_AXE", ROOT / "out" / "web" / "node_modules" / "axe-core" / "axe.min.js"))
    if not path.is_file():
        missing(f"axe-core is not at {path}: npm install --prefix out/web --no-save axe-core")
    return path.read_text(encoding="utf-8")


AXE = """
const done = arguments[arguments.length - 1];
const told = (one) => [one.impact, one.id, one.help, one.nodes.slice(0, 3).map((node) => node.html)];
axe.run(document, {resultTypes: ["violations"]}).then(
  (found) => done(found.violations.map(told)),
  (error) => done([["critical", "axe", String(error), []]]));
"""


def serious(page: Page) -> list[Any]:
    """Return the serious and critical findings of axe-core on the current page."""
    page.js(axe_script())
    found = page.driver.execute_async_script(AXE)
    return [one for one in found if one[0] in ("serious", "critical")]


def waiting_for(check: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """Wait until a check returns a true value, and return it."""
    deadline = time.monotonic() + seconds
    while True:
        found = check()
        if found or time.monotonic() > deadline:
            return found
        time.sleep(0.03)
