"""A project in a real Chromium: chosen or dropped as a zip archive or a folder, its files listed, its script picked."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from zips import zipped

from minimizer.service import archive
from minimizer.store import Job, Store

PROJECT = {
    "main.py": "import net.model\n",
    "evaluate.py": "import net.model\n",
    "net/__init__.py": "",
    "net/model.py": "from layers.act import act\n",
    "layers/__init__.py": "",
    "layers/act.py": "import torch\n\n\ndef act(x):\n    return torch.relu(x)\n",
    "data/__init__.py": "",
    "data/sizes.json": "[4]\n",
}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def the_zip(page: Page) -> Locator:
    return page.locator("input[name=script]")


def the_job(page: Page, store: Store) -> Job:
    page.get_by_role("button", name="Minimize it").click()
    page.wait_for_url("**/jobs/*")
    return store.jobs.get(page.url.rpartition("/")[2])


def test_a_zip_is_listed_and_its_main_file_is_picked(
    page: Page, store: Store, complaints: list[str], tmp_path: Path, screenshot: Callable[[str], None]
) -> None:
    packed = tmp_path / "project.zip"
    packed.write_bytes(zipped(PROJECT))
    page.goto("/")
    page.get_by_label("Script", exact=True).fill("x = 'a text that the archive takes the place of'")
    the_zip(page).set_input_files(packed)

    shown = page.get_by_role("group", name="Which file is the script?")
    expect(shown.get_by_role("listitem")).to_have_text(sorted(PROJECT))
    expect(shown.get_by_role("radio")).to_have_count(sum(name.endswith(".py") for name in PROJECT))
    expect(shown.get_by_role("radio", name="main.py", exact=True)).to_be_checked()
    expect(page.get_by_text("8 files")).to_be_visible()
    expect(page.get_by_label("Script", exact=True)).to_be_hidden()
    screenshot("project")
    shown.get_by_role("radio", name="evaluate.py").check()

    job = the_job(page, store)
    assert (job.filename, store.jobs.archive(job.id)) == ("evaluate.py", packed.read_bytes())
    assert complaints == []


def test_a_folder_is_packed_without_what_no_run_needs(page: Page, store: Store, tmp_path: Path) -> None:
    unwanted = {
        ".git/config": "secret",
        "net/__pycache__/model.py": "",
        "env/pyvenv.cfg": "",
        "env/lib/site.py": "",
        ".env": "TOKEN=1",
    }
    folder = write(tmp_path / "project", PROJECT | unwanted)
    page.goto("/")
    page.locator("[data-folder] input").set_input_files(folder)
    expect(page.get_by_role("group", name="Which file is the script?").get_by_role("listitem")).to_have_text(
        sorted(PROJECT)
    )
    expect(page.get_by_text("Left out: ")).to_be_visible()
    job = the_job(page, store)
    packed = store.jobs.archive(job.id)
    assert packed is not None
    assert {name: data.decode() for name, data in archive.read(packed).items()} == PROJECT
    assert job.filename == "main.py"


def test_a_folder_with_a_file_that_cannot_be_read_is_refused_at_the_field(page: Page, tmp_path: Path) -> None:
    page.goto("/")
    page.evaluate(
        "() => { Blob.prototype.arrayBuffer = () => Promise.reject(new DOMException('gone', 'NotReadableError')); }"
    )
    page.locator("[data-folder] input").set_input_files(write(tmp_path / "project", PROJECT))
    alert = page.locator("[data-drop]").get_by_role("alert")
    expect(alert).to_contain_text("project has a file that cannot be read")
    expect(page.get_by_label("Script", exact=True)).to_be_visible()


def test_a_dropped_zip_may_have_all_in_one_folder(page: Page, store: Store) -> None:
    """As the archives have that GitHub makes of a repository."""
    content = zipped({f"repo-main/{name}": text for name, text in PROJECT.items()})
    page.goto("/")
    transfer = page.evaluate_handle(
        """text => {
            const t = new DataTransfer();
            t.items.add(new File([Uint8Array.from(atob(text), c => c.charCodeAt(0))], "repo.zip"));
            return t;
        }""",
        base64.b64encode(content).decode(),
    )
    page.dispatch_event("[data-drop]", "drop", {"dataTransfer": transfer})
    expect(page.get_by_role("radio", name="repo-main/main.py")).to_be_checked()
    assert the_job(page, store).filename == "repo-main/main.py"


def test_a_project_can_be_taken_away_again(page: Page, store: Store, tmp_path: Path) -> None:
    packed = tmp_path / "project.zip"
    packed.write_bytes(zipped(PROJECT))
    page.goto("/")
    page.get_by_label("Script", exact=True).fill("x = 'mine'")
    the_zip(page).set_input_files(packed)
    page.get_by_role("button", name="Take it away").click()
    expect(page.get_by_label("Script", exact=True)).to_have_value("x = 'mine'")
    job = the_job(page, store)
    assert store.jobs.archive(job.id) is None and store.jobs.script(job.id) == b"x = 'mine'"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PK\x03\x04 and no more", "a.zip is not a zip file that can be read"),
        (zipped({"notes.txt": "no script"}), "a.zip has no Python file in it"),
        (zipped({f"m{number}.py": "" for number in range(1001)}), "a.zip has 1,001 files; at most 1,000 are accepted"),
        (bytes((16 << 20) + 1), "a.zip has 16,777,217 bytes as a zip file; at most 16,777,216 are accepted"),
    ],
)
def test_what_cannot_be_taken_is_refused_at_the_field(page: Page, tmp_path: Path, content: bytes, words: str) -> None:
    packed = tmp_path / "a.zip"
    packed.write_bytes(content)
    page.goto("/")
    the_zip(page).set_input_files(packed)
    expect(page.locator("[data-drop]").get_by_role("alert")).to_contain_text(words)
    expect(page.get_by_label("Script", exact=True)).to_be_visible()
    assert the_zip(page).evaluate("input => input.files.length") == 0


def test_what_the_server_refuses_is_said_at_the_field_too(page: Page, tmp_path: Path) -> None:
    packed = tmp_path / "a.zip"
    packed.write_bytes(zipped({"main.py": "def broken(:\n"}))
    page.goto("/")
    the_zip(page).set_input_files(packed)
    page.get_by_role("button", name="Minimize it").click()
    alert = page.locator("[data-drop]").get_by_role("alert")
    expect(alert).to_contain_text("main.py is not Python")
    expect(alert).to_be_focused()


def test_a_chosen_zip_stays_where_an_option_is_refused(page: Page, store: Store, tmp_path: Path) -> None:
    packed = tmp_path / "project.zip"
    packed.write_bytes(zipped(PROJECT))
    page.goto("/")
    the_zip(page).set_input_files(packed)
    page.get_by_role("radio", name="evaluate.py", exact=True).check()
    page.get_by_text("Options").click()
    budget = page.get_by_label("Time budget")
    budget.fill("soon")
    page.get_by_role("button", name="Minimize it").click()
    refusal = page.get_by_role("alert").filter(has_text="Not accepted.")
    expect(refusal).to_be_focused()
    expect(budget).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("radio", name="evaluate.py", exact=True)).to_be_checked()

    budget.fill("60")
    job = the_job(page, store)
    assert (job.filename, store.jobs.archive(job.id), job.options.budget) == ("evaluate.py", packed.read_bytes(), 60)
