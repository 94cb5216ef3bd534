"""What a person does, in a real Chromium: submit a script, watch it, take the repro home."""

from __future__ import annotations

import io
import re
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sample_reports
from playwright.sync_api import BrowserContext, Page, expect
from webtest import REPRO, SCRIPT, Hands, minimized_report
from zips import zipped

from minimizer.options import Options
from minimizer.report.culprit import Culprit, GraphNode, Layer
from minimizer.report.examined import Checked, Health
from minimizer.report.model import Failure, Flag, Report, Witness, Workaround
from minimizer.store import Claim, NewJob, Store
from minimizer.vocabulary import Kind, Reason, Role, Scope, Status

Screenshot = Callable[[str], None]


class Worker:
    """Claims jobs like a real worker, and then goes on exactly as far as the test has seen it go."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stop = threading.Event()
        self.may_shrink = threading.Event()
        self.may_finish = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        for event in (self._stop, self.may_shrink, self.may_finish):
            event.set()
        self._thread.join()

    def _run(self) -> None:
        self._store.workers.register("worker", device="cpu", torch="none")
        while not self._stop.is_set():
            claim = self._store.leases.claim("worker", lease_seconds=60)
            if claim is None:
                self._stop.wait(0.05)
            else:
                self._work(claim)

    def _work(self, claim: Claim) -> None:
        record = self._store.results.record_event
        for step in ("prepare", "survey", "localize"):
            record(claim, "step", {"step": step, "state": "started"})
            record(claim, "step", {"step": step, "state": "finished", "seconds": 0.5})
        record(claim, "step", {"step": "reduce", "state": "started"})
        record(claim, "progress", {"nodes": 40, "nodes_before": 40, "trials": 0, "elapsed": 1.0})
        self.may_shrink.wait()
        record(claim, "culprit", {"culprit": minimized_report().culprits[0].model_dump(mode="json")})
        record(claim, "progress", {"nodes": 7, "nodes_before": 40, "trials": 5, "elapsed": 2.0})
        self.may_finish.wait()
        self._store.results.put_artifact(claim, "repro.py", REPRO)
        self._store.results.finish(claim, minimized_report())


@pytest.fixture
def worker(store: Store, address: str) -> Iterator[Worker]:
    worker = Worker(store)
    yield worker
    worker.stop()


def test_from_script_to_repro(page: Page, worker: Worker, complaints: list[str], tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_bytes(SCRIPT)

    page.goto("/")
    page.locator("input[name=script]").set_input_files(script)
    expect(page.get_by_label("Script", exact=True)).to_have_value(SCRIPT.decode())
    expect(page.get_by_label("File name")).to_have_value("model.py")
    page.get_by_role("button", name="Minimize it").click()

    expect(page.get_by_role("heading", name="model.py")).to_be_visible()
    expect(page.get_by_role("heading", name="Taking away everything that the failure does not need")).to_be_visible()
    expect(page.locator("[aria-current=step]")).to_contain_text("Reduce")
    expect(page.get_by_role("img", name="Nodes fell from 40 to 40")).to_be_visible()

    # Live: none of this reloads the page.
    page.evaluate("window.notReloaded = true")
    worker.may_shrink.set()
    expect(page.get_by_role("img", name="Nodes fell from 40 to 7")).to_be_visible()
    expect(page.locator("#culprit")).to_contain_text("aten.relu in blocks.7")
    worker.may_finish.set()
    expect(page.get_by_role("heading", name="The compiled code returns wrong values")).to_be_visible()
    expect(page.get_by_text("torch.relu returns wrong values.")).to_be_visible()
    expect(page).to_have_title("Minimized · model.py · minimizer")
    assert page.evaluate("window.notReloaded")

    expect(page.locator("#repro-code")).to_have_text(REPRO.decode().strip(), use_inner_text=False)
    page.locator("#repro").get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").strip() == REPRO.decode().strip()

    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "repro.py"
    assert Path(download.value.path()).read_bytes() == REPRO

    page.get_by_text("Show model.py").click()
    expect(page.locator("#script .marked")).to_contain_text("torch.compile")
    assert complaints == []


def test_what_cannot_be_copied_is_selected_also_where_it_is_folded(page: Page, store: Store) -> None:
    """As where the page does not come over TLS; and a button that is clicked on twice says again what it does."""
    hands = Hands(store, store.submissions.submit(SCRIPT, "model.py", Options())[0])
    hands.artifact("repro.py", REPRO)
    hands.finish(sample_reports.value())
    page.goto(f"/jobs/{hands.claim.job_id}")
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no permission')); }")
    button = page.get_by_role("button", name="Copy as GitHub issue")
    button.dblclick()
    assert "Describe the bug" in page.evaluate("getSelection().toString()")
    expect(button).to_have_text("Copy as GitHub issue")


def test_page_stays_where_it_is_while_live(page: Page, worker: Worker) -> None:
    """Nothing that a reader looks at jumps when progress comes in."""
    page.goto("/?example=wrong_activation")
    page.get_by_role("button", name="Minimize it").click()
    expect(page.get_by_role("img", name="Nodes fell from 40 to 40")).to_be_visible()
    places = "[...document.querySelectorAll('.banner, .figures, .steps, .curve, .feed')].map(e => e.getBoundingClientRect().top)"
    before = page.evaluate(places)
    worker.may_shrink.set()
    expect(page.get_by_role("img", name="Nodes fell from 40 to 7")).to_be_visible()
    assert page.evaluate(places) == before


def test_without_a_free_stream_the_page_still_follows(
    page: Page, context: BrowserContext, worker: Worker, store: Store
) -> None:
    context.route("**/events", lambda route: route.fulfill(status=503))
    job, _ = store.submissions.submit(SCRIPT, "model.py", Options())
    page.goto(f"/jobs/{job.id}")
    worker.may_shrink.set()
    worker.may_finish.set()
    expect(page.get_by_role("heading", name="The compiled code returns wrong values")).to_be_visible()


def test_dropped_file_lands_in_the_form(page: Page) -> None:
    page.goto("/")
    transfer = page.evaluate_handle(
        "() => { const t = new DataTransfer(); t.items.add(new File(['x = 1'], 'dropped.py')); return t; }"
    )
    page.dispatch_event("[data-drop]", "drop", {"dataTransfer": transfer})
    expect(page.get_by_label("Script", exact=True)).to_have_value("x = 1")
    expect(page.get_by_label("File name")).to_have_value("dropped.py")


def test_script_is_coloured_as_it_is_pasted(
    page: Page, complaints: list[str], screenshot: Screenshot, tmp_path: Path
) -> None:
    """What is seen lies exactly where what is typed lies, also when it scrolls, and is never taken for markup."""
    text = "import torch\n\n# <b>none</b>\n" + "".join(f"x{i} = torch.ones({i})  # {'wide ' * 60}\n" for i in range(60))
    page.goto("/")
    area, shown = page.get_by_label("Script", exact=True), page.locator(".editor .shown code")
    expect(shown).to_have_text("")
    area.focus()
    page.keyboard.insert_text(text)

    expect(shown).to_have_text(text, use_inner_text=False)
    expect(shown.locator(".token.keyword").first).to_have_text("import")
    expect(shown.locator("b")).to_have_count(0)
    screenshot("editor")
    chosen = area.evaluate("area => getComputedStyle(area, '::selection').backgroundColor")
    assert "0.3" in chosen, "the text is seen through what is selected"
    page.keyboard.type("assert True")
    expect(shown.locator(".token.keyword").last).to_have_text("assert")
    area.evaluate("area => { area.scrollTop = 300; area.scrollLeft = 120; }")
    expect(shown).to_have_css("transform", "matrix(1, 0, 0, 1, -120, -300)")
    look = "at => ['font', 'lineHeight', 'letterSpacing', 'tabSize', 'whiteSpace', 'padding'].map(p => getComputedStyle(at)[p])"
    assert area.evaluate(look) == page.locator(".editor .shown").evaluate(look)
    assert area.evaluate("area => area.clientLeft + area.clientTop") == 0
    corner = "at => [at.getBoundingClientRect().x, at.getBoundingClientRect().y]"
    assert area.evaluate(corner) == page.locator(".editor .shown").evaluate(corner)

    script = tmp_path / "model.py"
    script.write_bytes(SCRIPT)
    page.locator("input[name=script]").set_input_files(script)
    expect(shown).to_have_text(SCRIPT.decode(), use_inner_text=False)
    assert complaints == []


def test_refusal_is_shown_at_the_form_with_the_text_kept(page: Page) -> None:
    page.goto("/")
    page.get_by_label("Script", exact=True).fill("def broken(:\n")
    page.get_by_label("Script", exact=True).press("Control+Enter")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("is not Python")
    expect(alert).to_be_focused()
    expect(page.get_by_label("Script", exact=True)).to_have_value("def broken(:\n")


def test_cancel_by_keyboard(page: Page, store: Store) -> None:
    job, _ = store.submissions.submit(SCRIPT, "model.py", Options())
    page.goto(f"/jobs/{job.id}")
    page.get_by_role("button", name="Cancel").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Cancelled")).to_be_visible()
    assert store.jobs.get(job.id).status is Status.CANCELLED


def test_list_searches_and_filters_as_one_types(page: Page, store: Store, complaints: list[str]) -> None:
    Hands(store, store.submissions.submit(SCRIPT, "wanted.py", Options())[0]).minimize()
    store.submissions.submit(SCRIPT, "other.py", Options())
    page.goto("/jobs")
    expect(page.locator(".jobs li")).to_have_count(2)
    page.get_by_role("searchbox").press_sequentially("wanted")
    expect(page.locator(".jobs li")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"q=wanted&status=&kind=$"))
    page.get_by_role("searchbox").fill("")
    page.get_by_label("Status").select_option("queued")
    expect(page.locator(".jobs li")).to_contain_text("other.py")
    assert complaints == []


def test_hostile_script_and_name_stay_text(page: Page, worker: Worker, store: Store, complaints: list[str]) -> None:
    attack = '<img src=x onerror="window.pwned = true"><script>window.pwned = true</script>'
    job, _ = store.submissions.submit(f"# </code>{attack}\n".encode() + SCRIPT, f"{attack}.py", Options())
    worker.may_shrink.set()
    worker.may_finish.set()
    page.goto(f"/jobs/{job.id}")
    expect(page.get_by_role("heading", name="The compiled code returns wrong values")).to_be_visible()
    page.get_by_text("Show <img").click()
    expect(page.locator("#script .code")).to_contain_text("onerror")
    page.goto("/jobs")
    expect(page.locator(".jobs li")).to_contain_text("<img src=x")
    for name in ("script.py", "repro.py"):
        page.goto(f"/api/v1/jobs/{job.id}/{name}")
        assert page.evaluate("document.contentType") == "text/plain"
    assert page.evaluate("window.pwned") is None
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_every_page_fits_and_is_clean(
    page: Page, store: Store, complaints: list[str], screenshot: Screenshot, width: int, scheme: str
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    done = Hands(
        store,
        store.submissions.submit(SCRIPT, "a_file_with_a_name_that_is_longer_than_any_phone_is_wide.py", Options())[0],
    ).minimize()
    waiting, _ = store.submissions.submit(SCRIPT, "model.py", Options())
    (group,) = store.groups.newest()
    issue = "https://github.com/pytorch/pytorch/issues/1"
    store.groups.describe(group.signature, "ada", note="Only with autotuning.", issue_url=issue, fixed_in="2.14.0")
    pages = {
        "workers-none": "/workers",
        "workers": "/workers",
        "new": "/",
        "new-example": "/?example=healthy",
        "jobs": "/jobs",
        "job-done": f"/jobs/{done.id}",
        "job-waiting": f"/jobs/{waiting.id}",
        "failures": "/failures",
        "failure": f"/failures/{group.signature}",
        "docs": "/docs/index",
        "docs-page": "/docs/backend",
    }
    for name, path in pages.items():
        if name == "workers":
            store.workers.register("gpu-1-4711", device="cuda", torch="2.13.0", toolchains=["torch-2.12", "nightly"])
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.evaluate(OUT_OF_REACH) == [], path
        assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") == (scheme == "dark")
        screenshot(f"{name}-{width}-{scheme}")
    assert complaints == []
    page.goto("/nothing")  # which a browser complains of
    screenshot(f"not-found-{width}-{scheme}")


def test_a_job_whose_time_was_up_goes_on(page: Page, store: Store, complaints: list[str]) -> None:
    hands = Hands(store, store.submissions.submit(SCRIPT, "model.py", Options(budget=60))[0])
    hands.finish(Report(status=Status.PARTIAL, reason=Reason.BUDGET))
    page.goto(f"/jobs/{hands.claim.job_id}")
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_role("heading", name="Waiting for a worker")).to_be_visible()
    expect(page.get_by_role("button", name="Go on")).to_have_count(0)
    assert store.jobs.get(hands.claim.job_id).options.budget == 120
    assert complaints == []


@pytest.mark.parametrize("width", [400, 1280])
def test_a_row_with_one_line_is_level(page: Page, store: Store, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    Hands(store, store.submissions.submit(SCRIPT, "done.py", Options())[0]).minimize()
    store.submissions.submit(SCRIPT, "waiting.py", Options())
    page.goto("/jobs")
    one, two = page.locator(".jobs li").all()
    if width == 1280:
        name, badge = one.locator(".name").bounding_box(), one.locator(".pill").bounding_box()
        assert name is not None and badge is not None
        assert abs(name["y"] + name["height"] / 2 - badge["y"] - badge["height"] / 2) <= 1
        assert one.evaluate("e => e.clientHeight") == two.evaluate("e => e.clientHeight"), "so that no row jumps"
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_failures_are_found_and_described(page: Page, store: Store, complaints: list[str]) -> None:
    Hands(store, store.submissions.submit(SCRIPT, "model.py", Options())[0]).minimize()
    page.goto("/failures")
    page.get_by_role("searchbox").press_sequentially("gelu")
    expect(page.get_by_text("No failure fits.")).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "hx-request" in request.headers else None)
    page.get_by_role("searchbox").fill("RELU")
    row = page.locator(".groups li")
    expect(row).to_contain_text("wrong output")
    row.click()

    expect(page.get_by_role("heading", name="The compiled code returns wrong values")).to_be_visible()
    assert len(asked) == 1, "leaving the search box asks again, and the answer takes the row from under the pointer"
    page.locator("#repro").get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").strip() == REPRO.decode().strip()

    page.get_by_text("Change", exact=True).click()
    page.get_by_label("Note").fill("Only with autotuning.")
    page.get_by_label("Issue upstream").fill("https://github.com/pytorch/pytorch/issues/1")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#known")).to_contain_text("Only with autotuning.")
    expect(page.get_by_role("link", name="pytorch/pytorch#1")).to_be_visible()
    expect(page.locator("#history li")).to_have_count(2)
    page.get_by_role("button", name="Retest").click()
    expect(page.get_by_role("heading", name="Waiting for a worker")).to_be_visible()
    assert complaints == []


def test_workers_come_and_work_before_ones_eyes(page: Page, store: Store, complaints: list[str]) -> None:
    job, _ = store.submissions.submit(SCRIPT, "model.py", Options())
    page.goto("/workers")
    expect(page.get_by_role("heading", name="No worker is there, so jobs wait")).to_be_visible()
    page.evaluate("window.notReloaded = true")
    store.workers.register("worker", device="cpu", torch="2.13.0")
    expect(page.locator(".workers")).to_contain_text("idle")
    places = "[...document.querySelectorAll('.figures, .workers li, .workers dl, #queues')].map(e => e.getBoundingClientRect().top)"
    before = page.evaluate(places)
    hands = Hands(store, job, worker="worker")
    expect(page.locator(".workers")).to_contain_text("at work")
    assert page.evaluate(places) == before, "nothing jumps"
    assert page.evaluate("window.notReloaded")
    page.get_by_role("link", name="model.py").click()
    expect(page.get_by_role("heading", name="model.py")).to_be_visible()
    hands.finish(minimized_report())
    assert complaints == []


def test_what_a_reader_has_opened_or_selected_stays_so(page: Page, store: Store, complaints: list[str]) -> None:
    page.goto("/workers")
    page.evaluate(
        """new Promise(done => {
            document.addEventListener('htmx:afterRequest', () => setTimeout(done), { once: true });
            getSelection().selectAllChildren(document.getElementById('start-here'));
        })"""
    )
    assert page.evaluate("getSelection().toString()").strip() == "python -m worker"

    hands = Hands(store, store.submissions.submit(SCRIPT, "model.py", Options())[0])
    report = minimized_report()
    report.health = Health(frames=["forward, model.py line 3: 1.00 s"], compile_seconds=1.0)
    store.results.put_report(hands.claim, report)
    page.goto(f"/jobs/{hands.claim.job_id}")
    page.get_by_text("Compile time by frame").click()
    expect(page.get_by_text("forward, model.py line 3")).to_be_visible()
    report.notes = ["This is new."]
    store.results.put_report(hands.claim, report)
    hands.event("step", step="verify", state="started")
    expect(page.get_by_text("This is new.")).to_be_visible()
    expect(page.get_by_text("forward, model.py line 3")).to_be_visible()
    expect(page.get_by_text("Compile time by frame")).to_be_focused()
    page.get_by_text("Show model.py").click()
    expect(page.locator("#script")).to_contain_text("torch.compile")
    hands.finish(report)
    expect(page.get_by_role("heading", name="The compiled code returns wrong values")).to_be_visible()
    expect(page.locator("#script")).to_contain_text("torch.compile")
    assert complaints == []


def test_a_filter_that_finds_the_same_jobs_is_a_filter_all_the_same(page: Page, store: Store) -> None:
    Hands(store, store.submissions.submit(SCRIPT, "model.py", Options())[0])
    page.goto("/jobs")
    page.get_by_label("Status").select_option("running")
    expect(page).to_have_url(re.compile("status=running"))


def test_documentation_is_read_in_the_app(page: Page, address: str, complaints: list[str]) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto("/")
    page.get_by_role("link", name="Docs").click()
    page.get_by_label("Documentation").get_by_role("link", name="The command line").click()
    expect(page.get_by_role("heading", name="The command line", level=1)).to_be_visible()
    page.get_by_role("link", name="minimizer doctor", exact=True).click()
    expect(page.get_by_role("heading", name="minimizer doctor")).to_be_in_viewport()
    page.get_by_role("link", name="The REST interface").click()
    expect(page.get_by_role("heading", name="Submit", exact=True)).to_be_visible()
    page.get_by_role("link", name="API explorer").click()
    expect(page.get_by_text("Submit a script")).to_be_visible()
    assert all(url.startswith((address, "data:")) for url in asked)
    assert complaints == []


OUT_OF_REACH = """
() => [...document.querySelectorAll("main *")]
  .filter(one => ["auto", "scroll"].includes(getComputedStyle(one).overflowX) && one.tabIndex < 0 && !one.querySelector("a, button"))
  .map(one => one.outerHTML.slice(0, 80))
"""


EDGES = """
table => {
  const box = table.closest(".scroll");
  box.style.height = `${box.offsetHeight}px`;
  table.style.visibility = "hidden";
  const { left, right, top } = box.getBoundingClientRect();
  return { left, right, top: top + 10 };
}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_wide_table_shows_at_which_end_it_goes_on(page: Page, store: Store, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": 390, "height": 900})
    store.submissions.submit(SCRIPT, "model.py", Options(device="cuda"))
    page.goto("/workers")
    table = page.locator(".scroll table").first
    edges = table.evaluate(EDGES)

    def at(edge: str) -> bytes:
        x = edges["left"] + 1 if edge == "left" else edges["right"] - 7
        return page.screenshot(clip={"x": x, "y": edges["top"], "width": 6, "height": 20}, animations="disabled")

    plain, shaded = at("left"), at("right")
    assert plain != shaded
    table.evaluate("table => { const box = table.closest('.scroll'); box.scrollLeft = box.scrollWidth; }")
    assert at("right") == plain and at("left") not in (plain, shaded), "the shadow is on the other side, and mirrored"
    page.set_viewport_size({"width": 1280, "height": 900})
    edges = table.evaluate(EDGES)
    assert at("left") == at("right"), "where all of it is seen there is none"


def test_keyboard_focus_is_seen(page: Page, store: Store) -> None:
    Hands(store, store.submissions.submit(SCRIPT, "model.py", Options())[0]).minimize()
    for path in ("/", "/jobs", "/failures", "/docs/index"):
        page.goto(path)
        for _ in range(10):
            page.keyboard.press("Tab")
            assert page.evaluate(FOCUS_IS_SEEN), (path, page.evaluate("document.activeElement.outerHTML"))


FOCUS_IS_SEEN = """
() => [null, "::after"].some(part => {
  const style = getComputedStyle(document.activeElement, part);
  return style.outlineStyle === "solid" && parseFloat(style.outlineWidth) >= 2;
})
"""


def let_in(page: Page, address: str, store: Store, role: Role = Role.MEMBER) -> str:
    """Sign in with a new token; returns its id."""
    name = f"somebody-{len(store.users.all())}"
    store.users.create(name, role, ["default"])
    token, secret = store.tokens.create(name, "browser", Scope.WRITE)
    page.goto(f"{address}/login")
    page.get_by_label("Password or token").fill(secret)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    return token.id


def test_on_a_phone_every_place_can_be_gone_to(page: Page, guarded_server: tuple[str, str]) -> None:
    address, url = guarded_server
    store = Store.open(url)
    page.set_viewport_size({"width": 360, "height": 800})
    let_in(page, address, store)
    done = Hands(store, store.submissions.submit(SCRIPT, "model.py", Options())[0]).minimize()
    for path in ("/", "/jobs", f"/jobs/{done.id}", "/failures", "/workers", "/tokens", "/docs/index"):
        page.goto(f"{address}{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
        places = page.locator("header nav a, header nav button")
        assert places.count() == 8
        header, logo = page.locator(".top").bounding_box(), page.locator(".brand svg").bounding_box()
        assert header is not None and logo is not None and logo["y"] - header["y"] >= 6, "not flush with the edge"
        for place in places.all():
            box = place.bounding_box()
            assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 360, place.text_content()
        boxes = "[document.querySelector('.top nav'), ...document.querySelectorAll('.top nav *')].filter(e => e.scrollWidth > e.clientWidth && getComputedStyle(e).overflowX !== 'visible').length"
        assert page.evaluate(boxes) == 0, "nothing hides what is in it"
    store.close()


@pytest.mark.parametrize("gone", ["signed out", "deleted"])
def test_a_page_that_is_left_behind_says_so(page: Page, guarded_server: tuple[str, str], gone: str) -> None:
    address, url = guarded_server
    store = Store.open(url)
    token = let_in(page, address, store)
    job, _ = store.submissions.submit(SCRIPT, "model.py", Options())
    page.goto(f"{address}/jobs/{job.id}")
    expect(page.get_by_role("heading", name="Waiting for a worker")).to_be_visible()
    if gone == "deleted":
        store.jobs.delete(job.id)
        expect(page.get_by_role("alert")).to_contain_text("This job was deleted")
    else:
        store.tokens.revoke(token)
        expect(page.get_by_role("alert")).to_contain_text("You are signed out")
        page.get_by_role("link", name="Sign in again").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        store.jobs.delete(job.id)
    store.close()


def test_a_list_that_is_left_behind_leads_to_the_sign_in(page: Page, guarded_server: tuple[str, str]) -> None:
    address, url = guarded_server
    store = Store.open(url)
    token = let_in(page, address, store)
    page.goto(f"{address}/workers")
    expect(page.get_by_role("heading", name="Workers", exact=True)).to_be_visible()
    store.tokens.revoke(token)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    store.close()


def test_focus_stays_while_a_page_follows(page: Page, store: Store) -> None:
    job, _ = store.submissions.submit(SCRIPT, "model.py", Options())
    page.goto("/jobs")
    page.get_by_role("link", name="model.py").focus()
    hands = Hands(store, job)
    expect(page.locator(".jobs li")).to_contain_text("Running")
    assert page.evaluate("document.activeElement.id") == f"job-{job.id}"

    page.goto(f"/jobs/{job.id}")
    page.get_by_role("region", name="Activity").focus()
    hands.event("note", message="Something was seen.")
    expect(page.get_by_role("region", name="Activity")).to_contain_text("Something was seen.")
    assert page.evaluate("document.activeElement.id") == "feed"


def test_signing_in_and_being_refused(
    page: Page, guarded_server: tuple[str, str], complaints: list[str], screenshot: Screenshot
) -> None:
    address, url = guarded_server
    store = Store.open(url)
    store.users.create("ada", Role.MEMBER)
    _, secret = store.tokens.create("ada", "browser", Scope.WRITE)
    foreign = store.submissions.submit(SCRIPT, "theirs.py", Options())[0]
    page.goto(f"{address}/jobs")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    screenshot("sign-in")
    page.get_by_label("Password or token").fill("mnz_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("Not signed in")
    assert all("401" in one for one in complaints)
    complaints.clear()

    page.get_by_label("Password or token").fill(secret)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    expect(page.get_by_text("No job yet.")).to_be_visible()
    for path in ("/failures", "/workers", "/docs/index"):
        page.goto(f"{address}{path}")
    page.get_by_role("link", name="Tokens").click()
    expect(page.locator("tbody")).to_contain_text("browser")
    screenshot("tokens")
    assert complaints == []

    page.goto(f"{address}/jobs/{foreign.id}")
    expect(page.get_by_role("heading", name="Not Found")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    page.goto(f"{address}/jobs")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    store.close()


DIAGNOSED = Path(__file__).parent / "data" / "transformer_relu.json"
"""The report of a real run of examples/transformer_relu.py."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_pictures_of_a_real_diagnosis(page: Page, store: Store, complaints: list[str], width: int, scheme: str) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    hands = Hands(store, store.submissions.submit(SCRIPT, "transformer_relu.py", Options())[0])
    hands.artifact("repro.py", REPRO)
    hands.finish(Report.model_validate_json(DIAGNOSED.read_text()))
    page.goto(f"/jobs/{hands.claim.job_id}")

    expect(page.locator(".banner")).to_contain_text("Confidence: high")
    layers = page.get_by_role("img", name="Error of every layer")
    expect(layers).to_be_visible()
    expect(layers.locator("text.offender")).to_have_text("first wrong: blocks.2.activation")
    assert layers.locator(".column").count() == 42
    page.get_by_text("42 layers in numbers").click()
    expect(page.locator("#layers tbody tr")).to_have_count(42)
    graph = page.get_by_role("img", name="The graph around the culprit")
    expect(graph.locator(".node")).to_have_count(5)
    expect(graph.locator(".culprit .op")).to_have_text("relu")
    expect(page.locator(".ladder li")).to_have_count(4)
    expect(page.locator(".ladder .first")).to_contain_text("first to fail")
    expect(page.get_by_role("img", name="Nodes fell from 58 to 1 in")).to_be_visible()

    # Nothing sticks out of the page, what scrolls can be scrolled by keyboard, and what is written in a picture can be read.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_text("Show transformer_relu.py").click()
    expect(page.locator("#script .code")).to_be_visible()
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert page.evaluate(OUT_OF_REACH) == []
    for part in (".layer-chart .tick", "text.offender", ".node-graph .shape", ".node-graph .op"):
        assert page.evaluate(CONTRAST, part) >= 4.5, part
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_generated_code_is_shown_with_the_culprits_line(
    page: Page, store: Store, complaints: list[str], screenshot: Screenshot, width: int, scheme: str
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    hands = Hands(store, store.submissions.submit(SCRIPT, "model.py", Options())[0])
    hands.artifact("repro.py", REPRO)
    hands.artifact("tlparse.zip", b"PK")
    hands.finish(minimized_report().model_copy(update={"generated_code": sample_reports.kernel()}))
    page.goto(f"/jobs/{hands.claim.job_id}")

    card = page.locator("#generated-code")
    expect(card).to_contain_text("cpp_fused_relu_0")
    expect(card).to_contain_text("C++ kernel. 1 line marked: the kernel computes nothing but the culprit.")
    kernel, graph = card.get_by_role("region", name="Generated code"), card.get_by_role("region", name="ATen graph")
    expect(kernel.locator(".marked")).to_have_text("    auto tmp1 = at::vec::clamp_min(tmp0, decltype(tmp0)(0));")
    expect(graph.locator(".marked")).to_contain_text("torch.ops.aten.relu.default(arg0_1)")
    for one in (kernel, graph):
        plain = one.locator(".ln:not(.marked)").first.evaluate("e => getComputedStyle(e).backgroundColor")
        assert one.locator(".marked").evaluate("e => getComputedStyle(e).backgroundColor") != plain
    link = card.get_by_role("button", name="tlparse's pages")
    assert page.request.get(str(link.get_attribute("href"))).body() == b"PK"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OUT_OF_REACH) == []
    card.scroll_into_view_if_needed()
    screenshot(f"generated-code-{width}-{scheme}")
    assert complaints == []


@pytest.mark.parametrize("width", [360, 400, 1280])
def test_who_is_to_blame_is_told_in_whole_words(page: Page, store: Store, screenshot: Screenshot, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    flags = [
        Flag(name="torch._inductor.config.emulate_precision_casts", value="True", outcome="passes"),
        Flag(name="torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY", value="None", outcome="cannot_run"),
    ]
    witnesses = [
        Witness(after="dynamo", level=2, outcome="no repro", agrees=None),
        Witness(after="aot", level=4, outcome="a repro of its own", agrees=True),
    ]
    hands = Hands(store, store.submissions.submit(SCRIPT, "model.py", Options())[0])
    hands.finish(minimized_report().model_copy(update={"flags": flags, "witnesses": witnesses}))
    page.goto(f"/jobs/{hands.claim.job_id}")
    assert page.locator("#blame th").count() == 5
    assert page.evaluate(BROKEN_WORDS) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    tables = "[...document.querySelectorAll('#blame table')].filter(e => e.offsetWidth > e.closest('.tables').clientWidth).length"
    assert page.evaluate(tables) == 0
    screenshot(f"blame-{width}")


BROKEN_WORDS = """
() => [...document.querySelectorAll("#blame th, #blame td")].flatMap(cell => {
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), broken = [];
  while (texts.nextNode()) {
    if (texts.currentNode.parentElement.closest("code")) continue;
    for (const word of texts.currentNode.data.matchAll(/[^\\s-]+/g)) {
      const range = document.createRange();
      range.setStart(texts.currentNode, word.index);
      range.setEnd(texts.currentNode, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(box => box.top)).size > 1) broken.push(word[0]);
    }
  }
  return broken;
})
"""
"""Words in the tables that begin on one line and end on another; code may."""

CONTRAST = """
selector => {
  const rgb = color => {  // of any notation, as the screen has it
    const canvas = document.createElement("canvas").getContext("2d");
    canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = color => rgb(color).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const words = document.querySelector(selector);
  const box = words.parentElement.querySelector("rect[rx]");
  const behind = box ? getComputedStyle(box).fill : getComputedStyle(words.closest(".card")).backgroundColor;
  const [low, high] = [light(getComputedStyle(words).fill), light(behind)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}
"""
"""The contrast of text in a picture to what is behind it, after WCAG 2."""


def test_the_repro_is_on_the_first_screen(
    page: Page, store: Store, complaints: list[str], screenshot: Screenshot
) -> None:
    """With culprit and workaround beside it; on a narrow screen they follow it."""
    hands = Hands(store, store.submissions.submit(SCRIPT, "transformer_relu.py", Options())[0])
    hands.artifact("repro.py", REPRO)
    report = Report.model_validate_json(DIAGNOSED.read_text())
    assert report.failure is not None
    report.failure = report.failure.model_copy(update={"message": "one of many lines\n" * 60})
    report.workaround = Workaround(code="model.act = torch.compiler.disable(model.act)", verified=True)
    hands.finish(report)
    page.goto(f"/jobs/{hands.claim.job_id}")
    repro, culprit, workaround = (page.locator(at).bounding_box() for at in ("#repro-code", "#culprit", "#workaround"))
    assert repro is not None and culprit is not None and workaround is not None
    assert repro["y"] + repro["height"] <= 900
    assert culprit["y"] < 900 and culprit["x"] > repro["x"] + repro["width"]
    assert workaround["y"] < 850
    card = page.locator("#layers").bounding_box()
    assert card is not None and culprit["x"] + culprit["width"] == pytest.approx(card["x"] + card["width"], abs=1)
    blame, graph = page.locator("#blame").bounding_box(), page.locator("#graph").bounding_box()
    assert blame is not None and graph is not None and blame["y"] == graph["y"], "a narrow picture stands beside"
    cut_off = "[...document.querySelectorAll('.wide')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
    assert page.evaluate(cut_off) == 0
    screenshot("first-screen")
    page.set_viewport_size({"width": 360, "height": 800})
    repro, culprit = page.locator("#repro").bounding_box(), page.locator("#culprit").bounding_box()
    assert repro is not None and culprit is not None and culprit["y"] >= repro["y"] + repro["height"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert complaints == []


def test_an_error_of_the_compiler_is_told_without_riddles(page: Page, store: Store, screenshot: Screenshot) -> None:
    """No empty card of health, no module that is none, no picture in which all is well."""
    ops = ["aten.full", "aten.arange", "aten.index_put_", "aten._softmax"]
    nodes = [GraphNode(name=op, op=op, inputs=ops[i - 1 : i], verdict="good", culprit=True) for i, op in enumerate(ops)]
    report = minimized_report()
    report.failure = Failure(kind=Kind.COMPILE_ERROR, exception_type="KeyError", message="KeyError: 'buf1'")
    report.culprits = [Culprit(ops=ops)]
    report.layers, report.graph = [Layer(path="", order=0, verdict="bad")], nodes
    report.checked, report.health = Checked(frames=1), Health(compile_seconds=0.0)
    hands = Hands(store, store.submissions.submit(SCRIPT, "model.py", Options())[0])
    hands.artifact("repro.py", REPRO)
    hands.finish(report)
    page.goto(f"/jobs/{hands.claim.job_id}")
    expect(page.locator("#culprit")).to_contain_text("These operations fail only together:")
    for riddle in ("#health", "#layers", "#graph"):
        expect(page.locator(riddle)).to_have_count(0)
    screenshot("compile-error")


def test_what_was_typed_is_there_when_one_comes_back(page: Page, worker: Worker, complaints: list[str]) -> None:
    page.goto("/")
    page.get_by_label("Script", exact=True).fill(SCRIPT.decode())
    page.get_by_text("all have good defaults").click()
    page.get_by_label("Time budget").fill("77")
    page.get_by_label("PyTorch's minifier").uncheck()
    page.get_by_role("button", name="Minimize it").click()
    expect(page.get_by_role("heading", name="script.py")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Script", exact=True)).to_have_value(SCRIPT.decode())
    expect(page.locator(".editor .shown code")).to_have_text(SCRIPT.decode(), use_inner_text=False)
    expect(page.locator("#o-budget")).to_have_value("77")
    expect(page.locator("#o-witness")).not_to_be_checked()
    expect(page.get_by_role("button", name="Minimize it")).to_be_enabled()
    page.get_by_role("link", name="Jobs").click()
    page.goto("/")
    expect(page.get_by_label("Script", exact=True)).to_have_value("")
    assert complaints == []


def test_edit_and_run_again(page: Page, store: Store, complaints: list[str]) -> None:
    options = Options(budget=77, args=["--name", "two words"], env=["HF_HOME"], witness=False, steps=3)
    done = Hands(store, store.submissions.submit(SCRIPT, "model.py", options)[0]).minimize()
    page.goto(f"/jobs/{done.id}")
    page.get_by_role("button", name="Edit and run again").click()
    expect(page.get_by_label("Script", exact=True)).to_have_value(SCRIPT.decode())
    expect(page.get_by_label("Time budget")).to_have_value("77")
    page.get_by_label("Compiled calls").fill("4")
    page.get_by_role("button", name="Minimize it").click()
    expect(page.get_by_role("heading", name="Waiting for a worker")).to_be_visible()
    (again,) = (job for job in store.jobs.page()[0] if job.id != done.id)
    assert (again.filename, again.options) == ("model.py", options.model_copy(update={"steps": 4}))
    assert complaints == []


def test_a_project_is_edited_and_run_again(page: Page, store: Store, complaints: list[str]) -> None:
    project = zipped({"main.py": SCRIPT, "net/model.py": "x = 1\n"})
    ((job, _),) = store.submissions.submit_many([NewJob(SCRIPT, "main.py", Options(), archive=project)])
    done = Hands(store, job).minimize()
    page.goto(f"/jobs/{done.id}")
    page.get_by_role("button", name="Edit and run again").click()
    with_it = page.get_by_label("Send the 1 other file of its project with it")
    expect(with_it).to_be_checked()
    expect(page.get_by_text("net/model.py").first).to_be_visible()
    page.get_by_label("Script", exact=True).fill("import net.model\n")
    with_it.uncheck()
    page.reload()
    expect(page.get_by_label("Script", exact=True)).to_have_value("import net.model\n")
    expect(with_it).not_to_be_checked()
    with_it.check()
    page.get_by_role("button", name="Minimize it").click()
    expect(page.get_by_role("heading", name="Waiting for a worker")).to_be_visible()
    (again,) = (one for one in store.jobs.page()[0] if one.id != done.id)
    assert store.jobs.script(again.id) == b"import net.model\n"
    packed = store.jobs.archive(again.id)
    assert packed is not None
    assert zipfile.ZipFile(io.BytesIO(packed)).namelist() == ["main.py", "net/model.py"]
    assert complaints == []


def test_one_stops_behind_the_verdict_and_the_page_follows(page: Page, store: Store, complaints: list[str]) -> None:
    hands = Hands(store, store.submissions.submit(SCRIPT, "model.py", Options())[0])
    page.goto(f"/jobs/{hands.claim.job_id}")
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    store.results.put_report(hands.claim, minimized_report())
    hands.event("step", step="diagnose", state="started")
    hands.event("progress", nodes=1, elapsed=9.0, decided=True)
    page.get_by_role("button", name="Stop here, keep the repro").click()
    expect(page.get_by_role("button", name="Stopping…")).to_be_disabled()
    assert store.jobs.get(hands.claim.job_id).cancel_requested
    hands.finish(minimized_report())
    expect(page.get_by_role("heading", name="The compiled code returns wrong values")).to_be_visible()
    assert complaints == []


def test_one_skips_the_step_at_work(page: Page, store: Store, complaints: list[str]) -> None:
    hands = Hands(store, store.submissions.submit(SCRIPT, "model.py", Options())[0])
    store.results.put_report(hands.claim, minimized_report())
    hands.event("step", step="diagnose", state="started")
    hands.event("progress", nodes=1, elapsed=9.0, decided=True, skippable="diagnose")
    page.goto(f"/jobs/{hands.claim.job_id}")
    page.get_by_role("button", name="Skip this step").click()
    expect(page.get_by_role("button", name="Skipping…")).to_be_disabled()
    assert store.leases.heartbeat(hands.claim, 60).skip == "diagnose"
    hands.event("progress", nodes=1, elapsed=10.0, decided=True, skippable="layers")
    expect(page.get_by_role("button", name="Skip this step")).to_be_enabled()
    assert complaints == []


EXPLORER_CONTRAST = """
() => {
  const parts = color => (color.match(/[\\d.]+/g) ?? []).map(Number);
  const light = rgb => rgb.slice(0, 3).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = one => {
    for (; one; one = one.parentElement) {
      const color = parts(getComputedStyle(one).backgroundColor);
      if (color.length === 3 || color[3] > 0.5) return color;
    }
  };
  const faint = [];
  for (const one of document.querySelectorAll("#swagger *")) {
    const says = [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!says || !one.getClientRects().length) continue;
    const [low, high] = [light(parts(getComputedStyle(one).color)), light(behind(one))].sort((a, b) => a - b);
    if ((high + 0.05) / (low + 0.05) < 3) faint.push(one.outerHTML.slice(0, 120));
  }
  return faint;
}
"""
"""What is hard to read of the explorer, its own buttons and labels aside."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_api_explorer_is_readable(page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto("/docs")
    page.get_by_text("Submit a script").click()
    page.get_by_role("button", name="Try it out").click()
    expect(page.get_by_role("button", name="Execute")).to_be_visible()
    own = re.compile(r'class="[^"]*(btn|opblock-summary-method|version|authorize)|<span>Authorize|Execute')
    assert [one for one in page.evaluate(EXPLORER_CONTRAST) if not own.search(one)] == []
    turned = page.locator("#swagger").evaluate("one => getComputedStyle(one).filter")
    assert (turned != "none") == (scheme == "dark")


def test_api_documentation_works_without_a_network(
    page: Page, address: str, complaints: list[str], screenshot: Screenshot
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto("/docs")
    page.get_by_text("Submit a script").click()
    expect(page.get_by_text("Honours")).to_be_visible()
    screenshot("api")
    assert all(url.startswith((address, "data:")) for url in asked)
    assert complaints == []
