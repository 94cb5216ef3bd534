"""Every page is free of violations that axe finds, in light and in dark, on a wide screen and on a narrow one.

Each day looks at every page in one of the four ways, and at one page in all of them; AXE=all looks at every page in all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import sample_reports
from axe_playwright_python.sync_playwright import Axe
from checkout import ROOT
from playwright.sync_api import Browser, Page
from webtest import REPRO, SCRIPT, Hands, minimized_report
from zips import zipped

from minimizer.options import Options
from minimizer.report.model import Failure, Report
from minimizer.store import Store
from minimizer.vocabulary import Kind, Reason, Role, Scope, Status


class View(NamedTuple):
    scheme: str
    width: int


VIEWS = [View(scheme, width) for scheme in ("light", "dark") for width in (1280, 390)]
WORDS = {
    "disputed": (Status.PARTIAL, Reason.DISPUTED, "Only a wider tolerance is in dispute."),
    "unexplained": (Status.PARTIAL, Reason.UNEXPLAINED, "It fails only when nobody looks."),
    "out-of-time": (Status.PARTIAL, Reason.BUDGET, "The budget of 60 seconds is used up."),
    "fails-in-eager": (Status.FAILED, Reason.FAILS_IN_EAGER, "The script fails without the compiler too."),
    "healthy": (Status.HEALTHY, None, "No difference in the 8 of 8 calls that were compared."),
    "cancelled": (Status.CANCELLED, Reason.INTERRUPTED, "cancelled"),
}
"""Ends of a job without a repro."""


def reports() -> dict[str, Report]:
    found = {name: make() for name, make in sample_reports.ALL.items()}
    found["generated-code"] = minimized_report().model_copy(update={"generated_code": sample_reports.kernel()})
    found["diagnosed"] = Report.model_validate_json(
        (Path(__file__).parent / "data" / "transformer_relu.json").read_text()
    )
    for name, (status, reason, summary) in WORDS.items():
        found[name] = Report(status=status, reason=reason, summary=summary)
    found["disputed"].failure = Failure(kind=Kind.WRONG_OUTPUT, message="0.01 apart")
    return found


REPORTS = reports()
PAGES = {
    "new": "/", "example": "/?example=wrong_activation", "jobs": "/jobs", "queued": "", "running": "", "failures": "/failures",
    "failure": "", "workers": "/workers", "not-found": "/nothing",
    "refused": "", "project": "", "sign-in": "", "tokens": "", **dict.fromkeys(REPORTS, ""),
    **{f"docs-{page.stem}": f"/docs/{page.stem}" for page in sorted((ROOT / "docs").glob("*.md"))},
}  # fmt: skip
"""Every page, with its address where it has a fixed one. The API explorer is Swagger's, and not ours to mend."""


def looks() -> Iterator[tuple[str, View]]:
    for place, name in enumerate(PAGES):
        whole = "AXE" in os.environ or name == "diagnosed"
        yield from ((name, view) for number, view in enumerate(VIEWS) if whole or number == place % len(VIEWS))


@pytest.fixture(scope="module")
def addresses(server: tuple[str, str]) -> dict[str, str]:
    """Where each page is that needs a job, on a server that has one of each sort."""
    store = Store.open(server[1])
    found = {name: path for name, path in PAGES.items() if path}
    for name, report in REPORTS.items():
        hands = Hands(store, store.submissions.submit(SCRIPT, f"{name}.py", Options(args=[name]))[0])
        if report.verification is not None:
            hands.artifact("repro.py", REPRO)
        hands.finish(report)
        found[name] = f"/jobs/{hands.claim.job_id}"
    found["failure"] = f"/failures/{store.groups.newest()[0].signature}"
    hands = Hands(store, store.submissions.submit(SCRIPT, "running.py", Options())[0])
    hands.event("step", step="reduce", state="started")
    hands.event("progress", nodes=7, nodes_before=40, trials=5, elapsed=2.0)
    found["running"] = f"/jobs/{hands.claim.job_id}"
    found["queued"] = f"/jobs/{store.submissions.submit(SCRIPT, 'queued.py', Options(args=['queued']))[0].id}"
    store.workers.register("gpu-1-4711", device="cuda", torch="2.13.0", toolchains=["nightly"])
    store.close()
    return found


def visit(page: Page, name: str, addresses: Mapping[str, str], guarded: tuple[str, str], folder: Path) -> None:
    """Bring one of `PAGES` up, with all that can be unfolded unfolded."""
    if name in ("sign-in", "tokens"):
        page.goto(f"{guarded[0]}/login")
        if name == "tokens":
            page.get_by_label("Password or token").fill(secret_of(guarded[1]))
            page.get_by_role("button", name="Sign in").click()
            page.get_by_role("link", name="Tokens").click()
            page.locator("tbody").wait_for()
    else:
        page.goto(addresses.get(name, "/"))
    if name in ("project", "refused"):
        packed = folder / "project.zip"
        packed.write_bytes(zipped({"main.py": "import torch\n", "net/model.py": ""}))
        page.locator("input[name=script]").set_input_files(packed)
        page.get_by_role("group", name="Which file is the script?").wait_for()
    if name == "refused":
        page.get_by_text("Options").click()
        page.get_by_label("Time budget").fill("soon")
        page.get_by_role("button", name="Minimize it").click()
        page.locator("#refusal").wait_for()
    if show := page.locator("#script summary").all():
        show[0].click()
        page.locator("#script .code").wait_for()
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")


def secret_of(database: str) -> str:
    store = Store.open(database)
    if not any(user.name == "axe" for user in store.users.all()):
        store.users.create("axe", Role.MEMBER)
    _, secret = store.tokens.create("axe", "browser", Scope.WRITE)
    store.close()
    return secret


@pytest.mark.parametrize(
    ("name", "view"), list(looks()), ids=lambda one: one if isinstance(one, str) else "-".join(map(str, one))
)
def test_axe_finds_no_violation(
    browser: Browser,
    address: str,
    addresses: dict[str, str],
    guarded_server: tuple[str, str],
    name: str,
    view: View,
    tmp_path: Path,
) -> None:
    context = browser.new_context(
        base_url=address, viewport={"width": view.width, "height": 900}, color_scheme=view.scheme
    )
    page = context.new_page()
    page.emulate_media(reduced_motion="reduce")  # what is half faded in has no contrast yet
    visit(page, name, addresses, guarded_server, tmp_path)
    results = Axe().run(page)
    context.close()
    found = [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in results.response["violations"]]
    assert found == []
