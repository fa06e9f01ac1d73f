"""The fixtures for a real browser on the page of runs."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from cli_door import Door
from conftest import needs
from page_door import CHROMIUM, Look, Served

expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    program = needs("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture
def look(door: Door, chromium: Browser):
    """Opens the page of the door's runs."""
    opened: list[Look | Served] = []

    def open_page(path: str = "", *, env: dict[str, str] | None = None, **options: Any) -> Page:
        opened.append(served := Served(door, env=env))
        opened.append(window := Look(chromium, f"{served.link}#/{path}", **options))
        return window.page

    yield open_page
    for one in reversed(opened):
        one.close()
