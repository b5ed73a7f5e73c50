"""Browser that all tests of pages share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from web.chromium import Page, browser


@pytest.fixture(scope="session")
def page() -> Iterator[Page]:
    driver = browser()
    driver.set_script_timeout(30)
    yield Page(driver)
    driver.quit()
