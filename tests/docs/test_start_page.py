"""docs/start.md, followed literally by a newcomer: a clean checkout, a new environment, an empty home, a real browser."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from chromium import chromium
from pages import BLOCK, ROOT
from playwright.sync_api import expect
from servers import free_port

SERVE = "minimizer serve\n"
PAGE_SECONDS = 900


class Newcomer:
    """A terminal in a checkout: what is exported and where one has gone holds for what comes later."""

    def __init__(self, checkout: Path, home: Path, port: int) -> None:
        self._checkout, self._screen = checkout, home / "screen"
        self._before: list[str] = []
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "MINIMIZER_PORT": str(port),
            "MINIMIZER_SERVER": f"http://127.0.0.1:{port}",
            **{name: value for name, value in os.environ.items() if name.startswith("PIP_")},
        }

    def start(self, command: str, screen: Path) -> subprocess.Popen[bytes]:
        """Begin a command; what it prints goes into a file, which it never waits for."""
        text = "\n".join([*self._before, command])
        self._before += [line for line in command.splitlines() if line.startswith(("cd ", "export "))]
        with screen.open("wb") as file:
            return subprocess.Popen(
                ["bash", "-euc", text], cwd=self._checkout, env=self._environment, stdout=file, stderr=file
            )

    def run(self, command: str) -> str:
        status = self.start(command, self._screen).wait(PAGE_SECONDS)
        assert status == 0, f"{command}\n{self._screen.read_text()}"
        return self._screen.read_text()


@pytest.mark.quality("docs")
@pytest.mark.timeout(2400)
def test_the_page_leads_a_newcomer_to_four_repros(tmp_path: Path) -> None:
    checkout, home = tmp_path / "checkout", tmp_path / "home"
    subprocess.run(["git", "clone", "--quiet", ROOT, checkout], check=True)
    shutil.copy(ROOT / "docs" / "start.md", checkout / "docs")
    home.mkdir()
    # The newcomer's folders have no settings of pytest above them; ours may, where temporary folders lie below a project.
    (home / "pytest.ini").write_text("[pytest]\n")
    port = free_port()
    newcomer = Newcomer(checkout, home, port)
    printed: list[str] = []
    with_service = None
    try:
        for kind, text in BLOCK.findall((checkout / "docs" / "start.md").read_text()):
            if kind == "python":
                name = re.match(r"# (\w+\.py)\n", text)
                assert name
                (home / "first-steps" / name[1]).write_text(text)
            elif text == SERVE:
                with_service = newcomer.start(f"exec {text}", tmp_path / "service")
                in_the_browser(tmp_path / "service", tmp_path)
            else:
                printed.append(newcomer.run(text))
    finally:
        if with_service is not None:
            with_service.terminate()
            with_service.wait(60)
    everything = "\n".join(printed)
    place = home / "first-steps"
    for repro in (place / "first", place / "from-ci", *(place / "minimizer-out").glob("pytest-*/*")):
        assert "torch.relu(x)" in (repro / "repro.py").read_text()
    assert everything.count("MINIMIZED") == 3
    assert "aten.relu in 1 (ReLU) (model.py:9)" in everything
    assert "aten.relu in 1 (ReLU) (test_model.py:9)" in everything
    assert "AssertionError" in everything  # the repro that was run by hand
    assert [case.find("failure") is not None for case in ElementTree.parse(place / "junit.xml").iter("testcase")] == [
        True
    ]


def in_the_browser(screen: Path, folder: Path) -> None:
    """What the page says to do there: open the address that was printed, try the example, download the repro."""
    tail = subprocess.Popen(["tail", "--follow", screen], stdout=subprocess.PIPE, text=True)
    assert tail.stdout is not None
    address = next(found[0] for line in tail.stdout if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
    tail.kill()
    tail.communicate()
    with chromium() as browser:
        page = browser.new_page()
        page.goto(address)
        page.get_by_role("link", name="Wrong values").click()
        page.get_by_role("button", name="Minimize it").click()
        download = page.locator("#repro").get_by_role("button", name="Download")
        expect(download).to_be_visible(timeout=PAGE_SECONDS * 1000)
        with page.expect_download() as taken:
            download.click()
        taken.value.save_as(folder / "downloaded.py")
    assert "torch.compile(f)" in (folder / "downloaded.py").read_text()
