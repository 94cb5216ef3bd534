"""A real server, a worker without torch, and a real browser."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from checkout import ROOT
from chromium import chromium
from playwright.sync_api import Browser, BrowserContext, Page, expect
from servers import free_port
from sqlalchemy import create_engine, text

from minimizer.store import Store
from minimizer.store.tables.migrate import upgrade

SERVE = """
import signal
from minimizer.settings import Settings
from web.server.serve import serve
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests were started in the background
serve(Settings(), lambda url: print(url, flush=True))
"""
SCREENSHOTS = ROOT / "build" / "screenshots"
"""What the pages looked like, for people, if SCREENSHOTS is set: no test reads it, and drawing whole pages takes long."""
PATIENCE = 30_000
"""Milliseconds for what a page is to show: four test processes may share two cores, and the API explorer alone draws a thousand elements."""
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A web server without access control: its address, and its database."""
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="session")
def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A web server that asks who one is."""
    with serving(tmp_path_factory.mktemp("guarded"), MINIMIZER_ACCESS="on") as server:
        yield server


@contextmanager
def serving(folder: Path, **settings: str) -> Iterator[tuple[str, str]]:
    """The web server as a process of its own on a free port of loopback."""
    url = f"sqlite:///{folder / 'minimizer.db'}"
    upgrade(url)
    port = free_port()
    environment = {
        "PATH": os.environ["PATH"],
        "MINIMIZER_DATA_DIR": str(folder),
        "MINIMIZER_PORT": str(port),
        **settings,
    }
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert address == f"http://127.0.0.1:{port}"
    yield address, url
    process.send_signal(signal.SIGINT)
    # In order, and soon: waiting clients are sent home.
    assert process.wait(timeout=30) == 0


@pytest.fixture
def address(server: tuple[str, str]) -> str:
    return server[0]


@pytest.fixture
def store(server: tuple[str, str]) -> Iterator[Store]:
    """The store of the server, empty."""
    engine = create_engine(server[1])
    with engine.begin() as connection:
        # Foreign keys are not enforced on a connection that is not the store's.
        for table in ("jobs", "workers", "failure_groups", "failure_members", "failure_history"):
            connection.execute(text(f"DELETE FROM {table}"))
    engine.dispose()
    store = Store.open(server[1])
    yield store
    store.close()


@pytest.fixture
def context(browser: Browser, address: str) -> Iterator[BrowserContext]:
    context = browser.new_context(base_url=address, viewport={"width": 1280, "height": 900}, accept_downloads=True)
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address)
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


@pytest.fixture
def complaints() -> list[str]:
    """What the browser had to say: errors of scripts, refused content, failed requests."""
    return []


@pytest.fixture
def page(context: BrowserContext, complaints: list[str]) -> Iterator[Page]:
    page = context.new_page()
    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page


@pytest.fixture
def screenshot(page: Page) -> Callable[[str], None]:
    """Keeps what the page looks like under this name, where somebody wants to see it."""

    def keep(name: str) -> None:
        if "SCREENSHOTS" not in os.environ:
            return
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True, animations="disabled")

    return keep
