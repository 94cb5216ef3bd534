"""The pages of docs/ as the service shows them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkout import ROOT
from flask.testing import FlaskClient
from webtest import client_of, refused

from minimizer.settings import Settings
from minimizer.store import Store
from web.pages import manual

NAMES = sorted(page.stem for page in (ROOT / "docs").glob("*.md"))
LINK = re.compile(r'href="(/docs/([\w.-]+)(?:#([\w-]+))?|#([\w-]+))"')


@pytest.fixture
def client(sqlite_url: str, tmp_path: Path) -> Iterator[FlaskClient]:
    store = Store.open(sqlite_url)
    with client_of(Settings(data_dir=tmp_path), store) as client:
        yield client
    store.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_page_and_its_links(client: FlaskClient, name: str) -> None:
    text = client.get(f"/docs/{name}").text
    assert text.count("<h1") == 1 and " style=" not in text and "&lt;!--" not in text
    assert 'class="contents"' in text
    for _, other, anchor, own in LINK.findall(text):
        target = text if own else client.get(f"/docs/{other}").text
        assert "no page of this name" not in target, other
        assert f'id="{anchor or own}"' in target or not (anchor or own), (other, anchor, own)
    assert not re.search(r'href="(?!/|#|https?:)', text), "a link that leads nowhere from here"


def test_examples_have_the_address_that_the_service_is_at(client: FlaskClient) -> None:
    page = client.get("/docs/rest", base_url="http://localhost:8765").text
    assert "http://localhost:8765/api/v1/jobs" in page and "127.0.0.1:8000" not in page


def test_every_example_can_be_copied(client: FlaskClient) -> None:
    page = client.get("/docs/rest").text
    copied = re.findall(r'data-copy="(snippet-\d+)"', page)
    assert copied and copied == re.findall(r'<code id="(snippet-\d+)">', page) == list(dict.fromkeys(copied))


def test_the_menu_has_every_page_once(client: FlaskClient) -> None:
    menu = [name for name, _ in manual._menu()]
    assert sorted([*menu, manual.START]) == NAMES
    assert "/docs/index" in client.get("/").text
    assert 'href="/docs"' in client.get("/docs/index").text


@pytest.mark.parametrize("name", ["nothing", "..", "../README", "%2e%2e%2fREADME", "index.md", "cli%00", "/etc/passwd"])
def test_nothing_else_is_ever_shown(client: FlaskClient, name: str) -> None:
    refused(client.get(f"/docs/{name}"), 404, "")


def test_markdown_becomes_a_page(client: FlaskClient) -> None:
    text = """# A *page* of `code`

<!-- for those who write it -->
<script>alert(1)</script> and <b>bold</b> [bad](javascript:alert(2))

## Same
## Same

| a | b |
|---|--:|
| `x` | 2 |

```python
def f(): ...
```

```nothing
<b>
```

[cli](cli.md#x), [file](../deploy/kubernetes.yaml), [out](https://example.org/), [here](#same-1)
"""
    with client.application.test_request_context():
        page = manual.render(text)
    assert page.title == "A page of code"
    assert [section.anchor for section in page.sections] == ["same", "same-1"]
    for piece in (
        "&lt;script&gt;",
        "&lt;b&gt;bold",
        '<td class="num">2</td>',
        '<span class="k">def</span>',
        'href="/docs/cli#x"',
        ", file, ",
        'href="https://example.org/"',
        'href="#same-1"',
    ):
        assert piece in page.html, piece
    for piece in ("<script>", "<b>", 'href="javascript', "for those who write", "kubernetes", "style="):
        assert piece not in page.html, piece


def test_a_wheel_and_a_container_have_the_pages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"] == {"docs": "web/docs"}
    assert "COPY docs docs" in (ROOT / "Dockerfile").read_text().splitlines()
    assert "!docs" in (ROOT / ".dockerignore").read_text().splitlines()


def test_installed_pages_come_before_those_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "web" / "docs" / "cli.md"
    installed.parent.mkdir(parents=True)
    installed.touch()
    monkeypatch.setattr(manual, "__file__", str(tmp_path / "web" / "pages" / "manual.py"))
    assert manual._files() == {"cli": installed}
