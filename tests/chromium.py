"""A real browser, without a window."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Error, sync_playwright

# What a browser does besides, it must not do here: the machine may have no network, and a test needs none.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    # The shell is the same browser without all that draws windows: its pages take two thirds of the processor time.
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    executable = next(filter(None, map(shutil.which, names)), None)
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        except Error as error:
            pytest.fail(
                "these tests need Chromium, and none could be started. Install one with `apt-get install chromium` or "
                f"`python -m playwright install chromium`.\n{error}"
            )
        yield browser
        browser.close()
