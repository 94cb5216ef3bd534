"""The pages, without a browser: the form, the list, a job."""

from __future__ import annotations

import dataclasses
import html
import io
import re
import zipfile
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
import sample_reports
from flask.testing import FlaskClient
from webtest import SCRIPT, Hands, minimized_report
from werkzeug.test import TestResponse
from zips import zipped

from minimizer.options import Options
from minimizer.report.culprit import Culprit, Error, Layer, Source
from minimizer.report.drift import Drift, Parting
from minimizer.report.examined import Checked, Health, Largest
from minimizer.report.finding import Cost, Finding, Remedy
from minimizer.report.instances import Instances
from minimizer.report.model import Ablated, Failure, Reduction, Report, ScriptError, Workaround
from minimizer.script_text import check_script
from minimizer.store import Job, Store
from minimizer.vocabulary import Kind, Reason, Stage, Status, Step
from web.examples import EXAMPLES
from web.job_page import verdict
from web.job_page.charts import Point, reduction_curve
from web.job_page.story import Stories
from web.pages.job_view import view
from web.pages.presentation import ago, clock, issue_name, number, size


def test_pasted_script_becomes_a_job(client: FlaskClient, store: Store, rung: list[str]) -> None:
    fields = {"source": "x = 1\r\nprint(x)\r\n", "filename": "", "budget": "60", "args": "--name 'a b'", "env": "A, B"}
    response = client.post("/jobs", data=fields)
    assert response.status_code == 303
    job_id = response.headers["Location"].rpartition("/")[2]
    job = store.jobs.get(job_id)
    assert store.jobs.script(job_id) == b"x = 1\nprint(x)\n"
    assert (job.filename, job.options.budget, job.options.args, job.options.env) == (
        "script.py",
        60,
        ["--name", "a b"],
        ["A", "B"],
    )
    assert job.options.witness is False  # a switch that is off sends nothing
    assert rung == [job_id]


def test_untouched_form_means_the_defaults(client: FlaskClient, store: Store) -> None:
    page = client.get("/?example=healthy").text
    typed = dict(re.findall(r'<input id="o-[a-z_]+" name="([a-z_]+)" value="([^"]*)"', page))
    chosen = dict(
        re.findall(r'<select id="o-[a-z]+" name="([a-z]+)".*?<option value="([^"]*)" selected>', page, re.DOTALL)
    )
    assert set(typed) | set(chosen) | {"diagnosis", "witness", "toolchain"} == set(Options.model_fields)
    response = client.post("/jobs", data={"source": "x = 1", "diagnosis": "on", "witness": "on", **typed, **chosen})
    assert store.jobs.get(response.headers["Location"].rpartition("/")[2]).options == Options()


def test_uploaded_file_becomes_a_job(client: FlaskClient, store: Store) -> None:
    fields = {"script": (io.BytesIO(SCRIPT), "model.py"), "source": "", "diagnosis": "on", "witness": "on"}
    job = store.jobs.get(client.post("/jobs", data=fields).headers["Location"].rpartition("/")[2])
    assert (job.filename, job.options) == ("model.py", Options())


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"source": " "}, 422, "There is no script yet"),
        ({"source": "def f(:"}, 422, "is not Python"),
        ({"source": '{"cells": [], "nbformat": 4}'}, 422, "notebook without code"),
        ({"source": "x = 1", "budget": "soon"}, 422, "Time budget: &#39;soon&#39; is no whole number"),
        ({"source": "x = 1", "args": "'"}, 422, "Arguments: No closing quotation"),
        ({"source": "x = 1\n" * 1000}, 413, "at most 4,096"),
    ],
)
def test_refused_form_keeps_what_was_typed(
    client: FlaskClient, fields: dict[str, str], status: int, words: str
) -> None:
    response = client.post("/jobs", data={**fields, "filename": "mine.py", "target": "blocks.7"})
    assert response.status_code == status
    assert words in response.text and 'role="alert"' in response.text
    assert fields["source"].strip() in html.unescape(response.text)
    assert 'value="mine.py"' in response.text and 'value="blocks.7"' in response.text
    for name in ("budget", "args"):
        if name in fields:
            assert f'value="{fields[name]}"'.replace("'", "&#39;") in response.text


def test_the_field_of_an_option_that_is_refused_is_marked(client: FlaskClient) -> None:
    fields = {"source": "x = 1", "budget": "90000", "env": "NO-NAME", "witness": "on", "diagnosis": "on"}
    page = client.post("/jobs", data=fields).text
    assert "Time budget: &#39;90000&#39; is too large: at most 86,400; Environment: " in page
    assert re.search(r'<details class="options"\s+open', page), "a field that is to be mended is seen"
    invalid = re.findall(r'<(?:input|textarea|select)[^>]*aria-invalid="true"[^>]*>', page)
    assert [re.findall(r'name="(\w+)"', field)[0] for field in invalid] == ["budget", "env"]
    assert all('aria-describedby="refusal h-' in field for field in invalid)


def test_refused_file_is_not_lost(client: FlaskClient) -> None:
    response = client.post("/jobs", data={"script": (io.BytesIO(b"def broken(:\n"), "mine.py")})
    assert response.status_code == 422
    assert "def broken(:" in response.text and 'value="mine.py"' in response.text


def test_a_file_and_a_text_are_not_one_script(client: FlaskClient, store: Store) -> None:
    def send(typed: str, content: bytes = SCRIPT, name: str = "mine.py") -> TestResponse:
        return client.post(
            "/jobs", data={"script": (io.BytesIO(content), name), "source": typed, "filename": "typed.py"}
        )

    refused = send("x = 'typed'\r\n")
    assert refused.status_code == 422 and "There are two scripts: the file mine.py and the text below" in refused.text
    assert "x = &#39;typed&#39;" in refused.text and 'value="typed.py"' in refused.text, "what was typed is not lost"
    assert store.jobs.page()[0] == []
    for typed in (EXAMPLES[0].source.replace("\n", "\r\n"), SCRIPT.decode(), " \r\n"):
        job = store.jobs.get(send(typed).headers["Location"].rpartition("/")[2])
        assert (store.jobs.script(job.id), job.filename) == (SCRIPT, "mine.py")


def send_zip(client: FlaskClient, files: dict[str, str], **fields: str) -> TestResponse:
    return client.post("/jobs", data={"script": (io.BytesIO(zipped(files)), "a.zip"), **fields})


def test_the_form_takes_a_project_as_a_zip_file(client: FlaskClient, store: Store) -> None:
    response = send_zip(client, {"train/run.py": "import ops\n", "train/ops.py": "x = 1\n"}, main="train/run.py")
    job = store.jobs.get(response.headers["Location"].rpartition("/")[2])
    assert (job.filename, job.has_archive, store.jobs.script(job.id)) == ("train/run.py", True, b"import ops\n")


PROJECT = {"train/run.py": "import ops\n", "train/ops.py": "x = 1\n", "train/sizes.json": "[]"}


@pytest.fixture
def project(client: FlaskClient, store: Store) -> Job:
    """A job that came as a zip file."""
    response = send_zip(client, PROJECT, main="train/run.py", budget="77", witness="on", diagnosis="on")
    return store.jobs.get(response.headers["Location"].rpartition("/")[2])


def again(client: FlaskClient, store: Store, source: str, **fields: str) -> Job:
    response = client.post("/jobs", data={"source": source, "witness": "on", "diagnosis": "on", **fields})
    assert response.status_code == 303, response.text
    return store.jobs.get(urlsplit(response.headers["Location"]).path.rpartition("/")[2])


def files_of(store: Store, job: Job) -> dict[str, str]:
    packed = store.jobs.archive(job.id)
    assert packed is not None
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_a_job_that_came_as_an_archive_is_edited_with_its_files_beside(
    client: FlaskClient, store: Store, project: Job
) -> None:
    Hands(store, project).minimize()
    assert f'href="/jobs/{project.id}/edit"' in client.get(f"/jobs/{project.id}").text
    page = client.get(f"/jobs/{project.id}/edit").text
    assert "import ops" in page and 'value="train/run.py" readonly' in page and 'value="77"' in page
    assert "Send the 2 other files of its project with it" in page and "<code>train/ops.py</code>" in page
    edited = again(client, store, "import ops\r\nops.x\r\n", filename="train/run.py", base=project.id, budget="60")
    assert (edited.filename, edited.options.budget) == ("train/run.py", 60)
    assert store.jobs.script(edited.id) == b"import ops\nops.x\n"
    assert files_of(store, edited) == {**PROJECT, "train/run.py": "import ops\nops.x\n"}
    same = again(client, store, PROJECT["train/run.py"], base=project.id, budget="77")
    assert same.id == project.id, "nothing was changed, so it is the same question"


def test_a_script_is_sent_without_the_files_that_were_beside_it(
    client: FlaskClient, store: Store, project: Job
) -> None:
    alone = again(client, store, "x = 1\n", filename="train/run.py")
    assert (alone.filename, alone.has_archive) == ("run.py", False)


def test_another_project_takes_the_place_of_the_files_beside(client: FlaskClient, store: Store, project: Job) -> None:
    response = send_zip(client, {"main.py": "y = 2\n"}, base=project.id)
    job = store.jobs.get(response.headers["Location"].rpartition("/")[2])
    assert files_of(store, job) == {"main.py": "y = 2\n"}


def test_what_is_refused_of_an_edited_project_is_not_lost(client: FlaskClient, store: Store, project: Job) -> None:
    refused = client.post("/jobs", data={"source": "def f(:", "base": project.id})
    assert refused.status_code == 422 and "train/run.py is not Python" in refused.text
    assert "def f(:" in refused.text and f'name="base" value="{project.id}"' in refused.text
    empty = client.post("/jobs", data={"source": " ", "base": project.id})
    assert empty.status_code == 422 and "There is no script yet" in empty.text
    store.jobs.request_cancel(project.id)
    store.jobs.delete(project.id)
    gone = client.post("/jobs", data={"source": "x = 1", "base": project.id})
    assert gone.status_code == 404 and "x = 1" in gone.text and 'name="base"' not in gone.text


@pytest.mark.parametrize(
    ("files", "fields", "words"),
    [
        ({"a.py": "x = 1", "b.py": "x = 1"}, {}, "say which file of the archive is the script"),
        ({"a.py": "x = 1"}, {"main": "b.py"}, "the archive has no file &#39;b.py&#39;"),
        ({"../a.py": "x = 1"}, {}, "name that is not accepted"),
        ({"main.py": "def f(:"}, {}, "main.py is not Python"),
        ({"main.py": "x = 1"}, {"source": "x = &typed"}, "There are two scripts: the file a.zip and the text below"),
    ],
)
def test_an_archive_that_is_refused_says_why_at_its_field(
    client: FlaskClient, store: Store, files: dict[str, str], fields: dict[str, str], words: str
) -> None:
    response = send_zip(client, files, **fields)
    assert response.status_code == 422 and store.jobs.page()[0] == []
    chooser = response.text.partition("data-drop>")[2].partition("<textarea")[0]
    assert words in chooser and 'aria-describedby="refusal"' in chooser, "beside the chooser, and tied to it"
    assert "PK\x03" not in response.text
    assert fields.get("source", "").replace("&", "&amp;") in response.text, "what was typed is not lost"


def test_an_option_that_is_refused_is_not_blamed_on_the_archive(client: FlaskClient) -> None:
    response = send_zip(client, {"main.py": "x = 1"}, budget="1")
    assert response.status_code == 422
    before, _, chooser = response.text.partition("data-drop>")
    assert (
        "Time budget: &#39;1&#39; is too small: at least 10" in before
        and 'aria-describedby="refusal"' not in chooser.partition("<textarea")[0]
    )


def test_full_queue_is_told_at_the_form(client: FlaskClient, store: Store) -> None:
    for _ in range(20):
        store.submissions.submit(SCRIPT, "model.py", Options())
    response = client.post("/jobs", data={"source": "x = 1"})
    assert response.status_code == 429 and "waiting" in response.text and "x = 1" in response.text


def test_every_option_is_on_the_form_and_explained(client: FlaskClient) -> None:
    page = client.get("/").text
    for name, option in Options.model_fields.items():
        if name != "toolchain":  # shown when there is one to choose
            assert f'name="{name}"' in page
            assert option.description is not None and option.description.replace("'", "&#39;") in page


def test_examples_fill_the_form(client: FlaskClient) -> None:
    for example in EXAMPLES:
        page = client.get(f"/?example={example.name}").text
        assert f'value="{example.name}.py"' in page and "torch.compile" in page
        assert check_script(example.source.encode(), example.name)


def test_unknown_example_is_404(client: FlaskClient) -> None:
    assert client.get("/?example=../../etc/passwd").status_code == 404


def test_list_shows_jobs_and_filters(client: FlaskClient, store: Store, minimized: Job) -> None:
    other = store.submissions.submit(SCRIPT, "other.py", Options())[0]
    every = client.get("/jobs").text
    assert minimized.id in every and other.id in every and "aten.relu" in every
    assert other.id not in client.get("/jobs?status=minimized").text
    assert minimized.id not in client.get("/jobs?kind=crash&q=other").text
    # A bookmark with a word we do not know any more still opens.
    assert client.get("/jobs?status=gone&kind=gone").status_code == 200


def test_list_names_what_is_at_fault_where_no_operator_is(client: FlaskClient, store: Store) -> None:
    """A script that was itself reduced: the operators only ran beside what Dynamo lost."""
    job = store.submissions.submit(SCRIPT, "closure.py", Options())[0]
    lost = Culprit(ops=["aten.add"], what="append")
    Hands(store, job).finish(minimized_report().model_copy(update={"culprits": [lost]}))
    gist = re.search(r'class="gist">\s*(.*?)\s*</span>', client.get("/jobs").text)
    assert gist is not None and gist[1] == "append"


def test_page_says_in_which_equal_modules_the_same_is_wrong(client: FlaskClient, store: Store) -> None:
    job = store.submissions.submit(SCRIPT, "layers.py", Options())[0]
    instances = Instances(wrong=["layers.2", "layers.3"], right=["layers.0", "layers.1"])
    culprit = Culprit(module="layers.2", nodes=["relu"], ops=["aten.relu"], instances=instances)
    Hands(store, job).finish(minimized_report().model_copy(update={"culprits": [culprit]}))
    assert "The same in layers.3, and not in layers 0 and 1" in client.get(f"/jobs/{job.id}").text


def test_a_further_fault_has_its_repro_and_its_generated_code_on_the_page(client: FlaskClient, hands: Hands) -> None:
    kernel = sample_reports.kernel().model_copy(update={"kernel": "cpp_fused_tanh_0"})
    first, ops = minimized_report().culprits[0], ["aten.tanh", "aten.mul"]
    other = Culprit(
        module="head", nodes=["tanh"], ops=ops, further=True, repro="repro-2.py", generated_code=kernel,
        what="fails by itself too: repro-2.py",
    )  # fmt: skip
    flaky = Culprit(
        module="tail",
        nodes=["sin"],
        ops=["aten.sin"],
        further=True,
        what="fails by itself too; a repro of it failed 1 of 3 times",
    )
    known = Culprit(module="last", further=True, what="fails by itself too; --target reduces it first")
    later = Culprit(module="mlp", what="a graph of a later call")
    hands.artifact("repro-2.py", b"x = 1\n")
    changes = {"culprits": [first, other, flaky, known, later], "generated_code": sample_reports.kernel()}
    hands.finish(minimized_report().model_copy(update=changes))
    page = client.get(f"/jobs/{hands.claim.job_id}").text
    (link,) = re.findall(r'A fault of its own, which <a href="([^"]*)">repro-2.py</a> shows', page)
    assert client.get(link).data == b"x = 1\n"
    assert "Fails by itself too; a repro of it failed 1 of 3 times" in page
    said = [" ".join(re.sub("<[^>]*>", "", one).split()) for one in re.findall(r'(?s)<p class="op">(.*?)</p>', page)]
    assert said[3:5] == ["last", "a graph of a later call in mlp"]
    assert "name this module as its target" in page and "--target" not in page
    assert "fail only together" not in page, "that is said of the operators of one fault"
    headings = re.findall(r"<h3>(Generated code[^<]*)</h3>", page)
    assert headings == ["Generated code", "Generated code of repro-2.py"]
    assert "cpp_fused_relu_0" in page and "cpp_fused_tanh_0" in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("seen", ["running", "never run", "passed", "failed"])
def test_what_a_repro_ends_with_is_said_of_one_that_was_verified(client: FlaskClient, hands: Hands, seen: str) -> None:
    report = minimized_report()
    assert report.verification is not None
    report.verification = report.verification.model_copy(update={"failed_same": 3 if seen == "failed" else 0})
    changes = {"verification": None} if seen == "never run" else {}
    hands.artifact("repro.py", b"x = 1\n")
    if seen != "running":
        hands.finish(report.model_copy(update=changes))
    page = client.get(f"/jobs/{hands.claim.job_id}").text
    assert ("git bisect run" in page) == (seen == "failed")
    assert ("Not verified yet:" in page, "Not verified:" in page) == (
        seen == "running",
        seen in ("never run", "passed"),
    )


def test_a_text_that_is_cut_on_the_page_is_said_to_be(client: FlaskClient, store: Store) -> None:
    long = b"x = 1\n" * 40_000
    hands = Hands(store, store.submissions.submit(long, "long.py", Options())[0])
    hands.artifact("repro.py", long)
    hands.finish(minimized_report())
    said = "This is the beginning, 200,000 of 240,000 characters."
    assert said in client.get(f"/jobs/{hands.claim.job_id}").text
    assert said in client.get(f"/jobs/{hands.claim.job_id}/script").text


def test_page_marks_the_row_of_the_culprits_layer(client: FlaskClient, store: Store) -> None:
    job = store.submissions.submit(SCRIPT, "layers.py", Options())[0]
    rows = [
        {"path": "net.0", "class": "Linear", "order": 0, "local_error": 0.0},
        {"path": "net.1", "class": "ReLU", "order": 1, "local_error": 1.0, "verdict": "bad"},
    ]
    found = {
        "culprits": [Culprit(module="net.1", nodes=["relu"])],
        "layers": [Layer.model_validate(row) for row in rows],
    }
    Hands(store, job).finish(minimized_report().model_copy(update=found))
    page = client.get(f"/jobs/{job.id}").text
    marked = re.findall(r'<tr class="culprit-row"><td><code>([^<]*)</code>', page)
    assert marked == ["net.1 (ReLU)"] and "<td><code>net.0 (Linear)</code></td>" in page


def test_page_shows_a_workaround_as_a_diff_with_what_it_does(client: FlaskClient, store: Store) -> None:
    job = store.submissions.submit(SCRIPT, "changed.py", Options())[0]
    workaround = Workaround(
        code="f = g", verified=True, where="before line 3", diff="@@ -3 +3,2 @@\n+f = g\n f(x)", what="a graph break"
    )
    Hands(store, job).finish(minimized_report().model_copy(update={"workaround": workaround}))
    page = client.get(f"/jobs/{job.id}").text
    assert (
        "@@ -3 +3,2 @@\n+f = g\n f(x)" in page and "What it does: a graph break" in page and "Goes before" not in page
    )


def test_page_shows_findings_below_the_verdict_and_the_remedy_that_helps_as_a_diff(
    client: FlaskClient, store: Store
) -> None:
    job = store.submissions.submit(SCRIPT, "routed.py", Options())[0]
    tried = [
        Remedy(what="`print` later", note="It does not <b>keep</b> the results."),
        Remedy(what="`torch.where`", diff="-if c:\n+where(c", before=4.0, after=0.0, unit="graph breaks", helped=True),
    ]
    finding = Finding(
        kind="graph_breaks",
        what="A graph break splits `forward`, since <b>x</b>.",
        source=Source(file="routed.py", line=12, code="if y.sum() > 0:"),
        cost=Cost(what="at this line", value=4.0, unit="graph breaks per call"),
        remedies=tried,
    )
    Hands(store, job).finish(Report(status=Status.HEALTHY, summary="All agrees.", findings=[finding]))
    page = client.get(f"/jobs/{job.id}").text
    banner, _, health = page.partition('id="health"')
    assert "All agrees." in banner and "One finding at routed.py line 12 (4 graph breaks per call" in banner
    assert "splits <code>forward</code>, since &lt;b&gt;x&lt;/b&gt;." in health and "if y.sum() &gt; 0:" in health
    assert "✓ helps" in health and "-if c:\n+where(c" in health and "4 graph breaks before, 0 with it." in health
    assert "✗ does not help" in health and "It does not &lt;b&gt;keep" in health


def test_page_shows_the_losses_of_a_training_with_where_they_part(client: FlaskClient, store: Store) -> None:
    job = store.submissions.submit(SCRIPT, "train.py", Options())[0]
    partings = [Parting(what="loss", differs=2, parts=None), Parting(what="gradient norm", differs=1, parts=3)]
    curves = {"at": [1, 2, 3], "eager": [3.0, 2.0, 1.0], "compiled": [3.0, 2.0, None], "redrawn": [[3.0, 2.0, 1.1]]}
    found = Drift(verdict="apart", what="The loss of `<net>` parts.", steps=3, partings=partings, **curves)
    Hands(store, job).finish(Report(status=Status.HEALTHY, summary="All agrees.", drift=found))
    _, _, losses = client.get(f"/jobs/{job.id}").text.partition('id="losses"')
    assert "The loss of <code>&lt;net&gt;</code> parts." in losses and 'class="loss-chart"' in losses
    assert "Thin: 1 run of eager with other roundings." in losses
    assert "<td>gradient norm</td><td>1</td><td>3</td>" in losses and "<td>loss</td><td>2</td><td>–</td>" in losses  # noqa: RUF001


def test_page_shows_what_was_taken_out_and_where_to_look_on(client: FlaskClient, store: Store) -> None:
    job = store.submissions.submit(SCRIPT, "routed.py", Options())[0]
    ablation = [
        Ablated(what="lowerings", of="program", outcome="passes"),
        Ablated(what="<layer>", of="script", outcome="passes"),
    ]
    changes = {"ablation": ablation, "look_first": "Look at `<log>`.", "traces": ["torch_trace.log", "../other"]}
    Hands(store, job).finish(minimized_report().model_copy(update=changes))
    page = client.get(f"/jobs/{job.id}").text
    _, _, blame = page.partition('id="blame"')
    assert "<code>lowerings</code> off" in blame and "the failure needs lowerings" in blame
    assert "<code>&lt;layer&gt;</code> in eager, in the whole script" in blame
    assert "the failure needs this module compiled" in blame
    _, _, traces = page.partition('id="traces"')
    assert "Look at <code>&lt;log&gt;</code>." in traces and f"/jobs/{job.id}/artifacts/torch_trace.log" in traces
    assert "../other" not in page


def test_list_has_an_older_page(client: FlaskClient, store: Store) -> None:
    first = store.submissions.submit(SCRIPT, "first.py", Options())[0]
    for _ in range(15):
        store.jobs.request_cancel(store.submissions.submit(SCRIPT, "more.py", Options())[0].id)
    for _ in range(15):
        store.jobs.request_cancel(store.submissions.submit(SCRIPT, "more.py", Options())[0].id)
    page = client.get("/jobs").text
    assert first.id not in page
    older = re.search(r'href="(/jobs\?cursor=[^"]+)"', page)
    assert older is not None
    assert first.id in client.get(older[1].replace("&amp;", "&")).text


def test_job_page_says_it_all(client: FlaskClient, minimized: Job) -> None:
    page = client.get(f"/jobs/{minimized.id}").text
    for words in (
        "The compiled code returns wrong values",
        "torch.relu returns wrong values.",
        "blocks.7",
        "aten.relu",
    ):
        assert words in page
    assert "Nodes fell from 40 to 1" in page
    assert "Failed in the same way in 3 of 3 runs of repro.py" in page
    assert "Cancel" not in page


def test_a_job_can_be_filed_as_an_issue(client: FlaskClient, minimized: Job) -> None:
    page = client.get(f"/jobs/{minimized.id}").text
    assert 'data-copy="issue-body">Copy as GitHub issue</button>' in page
    (form,) = re.findall(r'href="(https://github.com/pytorch/pytorch/issues/new\?[^"]+)"', page)
    asked = parse_qs(urlsplit(html.unescape(form)).query)
    assert asked["title"] == ["[inductor] torch.relu returns wrong values"]
    body = re.search(r'id="issue-body"[^>]*>(.*?)</pre>', page, re.DOTALL)
    assert body and [html.unescape(body[1]).strip()] == [text.strip() for text in asked["body"]]
    assert 'href="https://github.com/pytorch/pytorch/issues?q=is%3Aissue' in page


def test_nothing_is_to_be_filed_where_no_repro_holds(client: FlaskClient, hands: Hands) -> None:
    assert 'id="issue"' not in client.get(f"/jobs/{hands.claim.job_id}").text
    hands.artifact("repro.py", b"import torch\n")
    report = minimized_report()
    hands.finish(report.model_copy(update={"status": Status.PARTIAL, "verification": None}))
    assert 'id="issue"' not in client.get(f"/jobs/{hands.claim.job_id}").text


def test_figures_on_the_page_say_of_what_they_are(client: FlaskClient, hands: Hands) -> None:
    report = minimized_report()
    report.culprits[0] = report.culprits[0].model_copy(
        update={"local_error": Error(max_abs=1.0, mismatched=1, elements=1)}
    )
    report.layers = [Layer(path="blocks.7", order=0, local_error=1.03, verdict="bad")]
    report.health = Health(compile_seconds=121.9, is_crowded=True, untimed="other processes used the cores")
    hands.finish(report)
    page = client.get(f"/jobs/{hands.claim.job_id}").text
    assert (
        "Largest difference: 1.03 in the script&#39;s layer blocks.7, compiled alone on eager&#39;s inputs</p>" in page
    )
    assert "1 in the repro (1 of 1 element wrong)" in page and "Wrong elements" not in page
    assert "<dt>Script fails</dt>" in page
    assert "not measured, since other processes used the cores" in page
    assert "too long: the machine had more to do than it has cores" in page


def test_what_is_known_of_a_failure_stands_at_the_top_of_its_jobs(
    client: FlaskClient, store: Store, minimized: Job
) -> None:
    signature = store.groups.of_jobs([minimized.id])[minimized.id]
    assert "The first job that failed in this way" in client.get(f"/jobs/{minimized.id}").text
    url = "https://github.com/pytorch/pytorch/issues/7"
    store.groups.describe(signature, "me", note="Known <b>since</b> May.", issue_url=url, fixed_in="2.14.0")
    page = client.get(f"/jobs/{minimized.id}").text
    top = page[: page.index('id="results"')]
    for said in (
        f'href="/failures/{signature}?project=default"',
        ">pytorch/pytorch#7</a>",
        "Known &lt;b&gt;since&lt;/b&gt; May.",
        "fixed in torch 2.14.0",
    ):
        assert said in top
    assert "It is known already" in page[page.index('id="issue"') :]


def test_job_page_while_it_runs(client: FlaskClient, store: Store, hands: Hands) -> None:
    hands.event("step", step="reduce", state="started")
    page = client.get(f"/jobs/{hands.claim.job_id}").text
    assert Step.REDUCE.what in page and "Cancel" in page
    assert client.post(f"/jobs/{hands.claim.job_id}/cancel").status_code == 303
    assert "Stopping" in client.get(f"/jobs/{hands.claim.job_id}").text


def test_once_the_verdict_is_reached_one_may_stop_and_keep_it(client: FlaskClient, store: Store, hands: Hands) -> None:
    """Page and REST say so; a worker that takes the job anew begins without a verdict."""
    url, rest = f"/jobs/{hands.claim.job_id}", f"/api/v1/jobs/{hands.claim.job_id}"
    hands.event("progress", nodes=1, elapsed=9.0, decided=False)
    assert ">Cancel<" in client.get(url).text and client.get(rest).json["can_stop"] is False

    store.results.put_report(hands.claim, Report(status=Status.HEALTHY))
    hands.event("step", step="health", state="started")
    hands.event("progress", nodes=1, elapsed=9.0, decided=True)
    page = client.get(url).text
    assert "Stop here, keep the verdict" in page and Step.HEALTH.what in page and "you can stop here" in page
    store.results.put_report(hands.claim, minimized_report())
    assert "Stop here, keep the repro" in client.get(url).text
    body = client.get(rest).json
    assert (body["can_stop"], body["links"]["cancel"]) == (True, f"{rest}/cancel")

    store.leases.release(hands.claim)
    again = Hands(store, store.jobs.get(hands.claim.job_id))
    assert client.get(rest).json["can_stop"] is False and ">Cancel<" in client.get(url).text
    again.event("progress", decided=True)
    assert client.post(f"{rest}/cancel").json["can_stop"] is False
    assert "Stopping" in client.get(url).text


def test_a_step_behind_the_repro_can_be_skipped(client: FlaskClient, store: Store, hands: Hands) -> None:
    url = f"/jobs/{hands.claim.job_id}"
    store.results.put_report(hands.claim, minimized_report())
    hands.event("progress", elapsed=9.0, decided=True, skippable=None)
    assert "Skip this step" not in client.get(url).text
    hands.event("progress", elapsed=9.0, decided=True, skippable="layers")
    page = client.get(url).text
    assert ">Skip this step<" in page and 'value="layers"' in page
    assert client.post(f"{url}/skip", data={"step": "diagnose"}).status_code == 303
    assert store.jobs.get(hands.claim.job_id).skip_requested is None, "that one has ended by itself"
    assert client.post(f"{url}/skip", data={"step": "layers"}).status_code == 303
    assert ">Skipping…<" in client.get(url).text
    hands.event("progress", elapsed=9.0, decided=True, skippable="health")
    assert ">Skip this step<" in client.get(url).text


def test_the_steps_of_the_page_are_in_their_order_and_add_up(client: FlaskClient, hands: Hands) -> None:
    for step, seconds in ((Step.REDUCE, 70), (Step.BLAME, 5), (Step.REDUCE, 50)):
        hands.event("step", step=step, state="started")
        hands.event("step", step=step, state="finished", seconds=seconds)
    hands.event("step", step=Step.COMPARE, state="started")
    page = client.get(f"/jobs/{hands.claim.job_id}").text
    assert re.findall(r'class="step-name">([^<]+)<', page) == [step.label for step in Step]
    assert re.findall(r'<li class="(?:done|working)" title="([^"]+)"', page) == [
        step.what for step in (Step.REDUCE, Step.BLAME, Step.COMPARE)
    ]
    assert re.findall(r"<small>([0-9][^<]*)</small>", page)[:2] == ["2 min", "5.0 s"], "what was spent in both"


def test_job_page_tells_each_run_anew(client: FlaskClient, store: Store, minimized: Job) -> None:
    url = f"/jobs/{minimized.id}"
    assert "Nodes fell from 40 to 1" in client.get(url).text
    Hands(store, store.submissions.retry(minimized.id)).event("progress", nodes=30, nodes_before=30, elapsed=1.0)
    assert "Nodes fell from 30 to 30" in client.get(url).text


def test_job_page_forgets_what_a_dead_worker_did(client: FlaskClient, hands: Hands) -> None:
    url = f"/jobs/{hands.claim.job_id}"
    hands.event("step", step="prepare", state="started")
    hands.event("step", step="reduce", state="started")
    hands.event("progress", nodes=2, nodes_before=40, elapsed=9.0)
    assert "Nodes fell from 2 to 2" in client.get(url).text
    hands.event("step", step="prepare", state="started")
    page = client.get(url).text
    assert "No reduction step yet" in page and page.count('aria-current="step"') == 1


def test_a_job_that_waits_again_is_not_shown_at_work(client: FlaskClient, store: Store, hands: Hands) -> None:
    hands.event("step", step="reduce", state="started")
    assert 'aria-current="step"' in client.get(f"/jobs/{hands.claim.job_id}").text
    store.leases.release(hands.claim)
    page = client.get(f"/jobs/{hands.claim.job_id}").text
    assert "Waiting for a worker" in page and 'aria-current="step"' not in page


def test_an_answer_from_before_is_shown_as_one(client: FlaskClient, store: Store) -> None:
    asked = {"source": "import torch\n"}
    first = client.post("/jobs", data=asked)
    Hands(store, store.jobs.page()[0][0]).minimize()
    again = client.post("/jobs", data=asked, follow_redirects=True)
    assert "submitted before" not in client.get(first.location).text
    assert "submitted before" in again.text


def test_waiting_job_says_when_nobody_is_there(client: FlaskClient, store: Store, queued: Job) -> None:
    assert "No worker that can take it was seen" in client.get(f"/jobs/{queued.id}").text
    store.workers.register("w1", device="cpu", torch="2.13.0")
    assert "No worker that can take it was seen" not in client.get(f"/jobs/{queued.id}").text
    needs_gpu, _ = store.submissions.submit(b"import torch\n", "gpu.py", Options(device="cuda"))
    assert "No worker that can take it was seen" in client.get(f"/jobs/{needs_gpu.id}").text


def test_every_verdict_has_words(queued: Job) -> None:
    for status in Status:
        for reason in (None, *Reason):
            said = verdict.verdict(dataclasses.replace(queued, status=status, reason=reason, step="none"))
            assert said.label == verdict.label(status) and said.title and said.text


@pytest.mark.parametrize("status", [status for status in Status if status.is_final])
def test_every_end_has_a_page(client: FlaskClient, hands: Hands, status: Status) -> None:
    hands.finish(Report(status=status, reason=Reason.BUDGET))
    page = client.get(f"/jobs/{hands.claim.job_id}").text
    assert verdict.label(status) in page and "Run again" in page


def test_a_job_shows_the_stack_of_its_failure_and_of_an_error_of_the_scripts_own(
    client: FlaskClient, hands: Hands, store: Store
) -> None:
    stack = 'Traceback\n  File "pkg/net.py", line 3, in forward\nKeyError: <buf1>'
    failure = Failure(kind=Kind.COMPILE_ERROR, message="KeyError: <buf1>", traceback=stack)
    hands.finish(minimized_report().model_copy(update={"failure": failure}))
    page = client.get(f"/jobs/{hands.claim.job_id}").text
    assert "File &#34;pkg/net.py&#34;, line 3, in forward\nKeyError: &lt;buf1&gt;</pre>" in page

    other = Hands(store, store.submissions.submit(SCRIPT, "other.py", Options())[0])
    error = ScriptError(
        exception_type="ValueError", message="no", traceback=stack, source=Source(file="net.py", line=3)
    )
    other.finish(Report(status=Status.FAILED, reason=Reason.FAILS_IN_EAGER, error=error))
    page = client.get(f"/jobs/{other.claim.job_id}").text
    assert "net.py, line 3</figcaption>" in page and "in forward\nKeyError" in page


def test_a_healthy_job_is_told_with_its_coverage(client: FlaskClient, hands: Hands) -> None:
    sentence = "No difference in the 8 of 192 calls that were compared (1 graph); --steps 200 compares all."
    largest = Largest(module="layers.3", op="aten.add", absolute=0.125, reason="eager is as far from float64")
    checked = Checked(frames=1, graphs=1, calls=8, calls_made=192, largest=largest, not_compared=["184 calls: <steps>"])
    hands.finish(Report(status=Status.HEALTHY, summary=sentence, checked=checked))
    assert client.get(f"/api/v1/jobs/{hands.claim.job_id}").json["summary"] == sentence
    page = client.get(f"/jobs/{hands.claim.job_id}").text
    assert sentence in page and "184 calls: &lt;steps&gt;" in page
    assert "0.125 in the output of layers.3 (aten.add); eager is as far from float64" in page


def test_another_memory_layout_is_told_as_that(client: FlaskClient, hands: Hands) -> None:
    failure = Failure(kind=Kind.WRONG_METADATA, stage=Stage.DECOMPOSITION, layout_only=True)
    hands.finish(minimized_report().model_copy(update={"failure": failure}))
    page = client.get(f"/jobs/{hands.claim.job_id}").text
    assert "Values equal, memory layout differs" in page and "wrong metadata: memory layout only" in page


def test_an_operator_of_the_scripts_own_is_not_called_a_part_of_the_compiler(client: FlaskClient, hands: Hands) -> None:
    failure = Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.CUSTOM_OP)
    hands.finish(minimized_report().model_copy(update={"failure": failure}))
    page = client.get(f"/jobs/{hands.claim.job_id}").text
    assert "an operator of the script's own, not the compiler" in page
    assert "Part of the compiler" not in page


def test_a_job_whose_time_was_up_can_go_on_for_longer(client: FlaskClient, store: Store, hands: Hands) -> None:
    job_id = hands.claim.job_id
    hands.finish(Report(status=Status.PARTIAL, reason=Reason.BUDGET))
    page = client.get(f"/jobs/{job_id}").text
    (seconds,) = re.findall(r'name="budget" value="(\d+)"', page)
    assert int(seconds) > store.jobs.get(job_id).options.budget
    assert client.post(f"/jobs/{job_id}/retry", data={"budget": "soon"}).status_code == 422
    assert store.jobs.get(job_id).status is Status.PARTIAL
    client.post(f"/jobs/{job_id}/retry", data={"budget": seconds})
    assert store.jobs.get(job_id).options.budget == int(seconds)
    assert 'name="budget"' not in client.get(f"/jobs/{job_id}").text


def test_a_verified_repro_that_may_shrink_can_go_on_for_longer(client: FlaskClient, hands: Hands) -> None:
    report = minimized_report()
    assert report.reduction is not None
    report.reduction = report.reduction.model_copy(update={"one_minimal": False})
    hands.finish(report)
    assert re.findall(r'name="budget" value="(\d+)"', client.get(f"/jobs/{hands.claim.job_id}").text)


def test_a_script_is_not_called_minimal(client: FlaskClient, hands: Hands) -> None:
    """Of a script it is tried whether a statement can be taken out, no more."""
    report = minimized_report()
    assert report.reduction is not None
    report.reduction = report.reduction.model_copy(update={"level": "python"})
    hands.artifact("repro.py", b"x = 1\n")
    hands.finish(report)
    page = client.get(f"/jobs/{hands.claim.job_id}").text
    assert "No statement can be taken out" in page and "Minimal:" not in page


def test_a_minimal_repro_needs_no_more_time(client: FlaskClient, hands: Hands) -> None:
    hands.finish(minimized_report())
    assert not re.findall(r'name="budget" value="(\d+)"', client.get(f"/jobs/{hands.claim.job_id}").text)


def test_nodes_before_and_after_are_of_one_level(store: Store, hands: Hands) -> None:
    """A job that has reduced one graph and is at another, or at the script, shows what it is at."""
    report = Report(reduction=Reduction(nodes_before=70, nodes_after=5))
    store.results.put_report(hands.claim, report)
    hands.event("progress", nodes=397, nodes_before=400, trials=3)
    seen = view(store, Stories(), hands.claim.job_id)
    assert (seen.nodes_before, seen.nodes) == (400, 397)
    report.status, report.reason = Status.PARTIAL, Reason.BUDGET
    hands.finish(report)
    seen = view(store, Stories(), hands.claim.job_id)
    assert (seen.nodes_before, seen.nodes) == (70, 5)


def test_every_word_has_a_sentence() -> None:
    assert all(step.label and step.doing and step.what for step in Step)
    assert all(verdict.kind_tone(kind) for kind in Kind)


def test_delete_and_unknown_job(client: FlaskClient, minimized: Job) -> None:
    assert client.post(f"/jobs/{minimized.id}/delete").status_code == 303
    page = client.get(f"/jobs/{minimized.id}", headers={"Accept": "text/html"})
    assert page.status_code == 404 and "no job with this id" in page.text


def test_script_marks_the_culprit(client: FlaskClient, minimized: Job) -> None:
    page = client.get(f"/jobs/{minimized.id}/script?line=2&line=x&line={'9' * 5000}").text
    assert page.count('class="ln"') == 1 and page.count('class="ln marked"') == 1


@pytest.mark.parametrize(("file", "is_marked"), [("layers/act.py", False), ("run.py", True)])
def test_a_culprit_in_another_file_of_a_project_marks_nothing_in_the_script(
    client: FlaskClient, store: Store, file: str, is_marked: bool
) -> None:
    sent = send_zip(client, {"train/run.py": "import layers.act\n", "train/layers/act.py": "\n"}, main="train/run.py")
    job = store.jobs.get(sent.headers["Location"].rpartition("/")[2])
    report = minimized_report()
    report.culprits[0] = report.culprits[0].model_copy(
        update={"source": Source(file=file, line=5, code="return torch.relu(x)")}
    )
    Hands(store, job).finish(report)
    page = client.get(f"/jobs/{job.id}").text
    assert f"{file}, line 5" in page
    assert (f"/jobs/{job.id}/script?line=5" in page) is is_marked and f"/jobs/{job.id}/script" in page


def test_reduction_curve_falls_and_keeps_inside_its_frame() -> None:
    curve = reduction_curve([Point(0, 750), Point(2, 750), Point(3, 40), Point(9, 1)], until=12)
    numbers = [float(value) for path in re.findall(r' d="([^"]+)"', curve) for value in re.findall(r"[\d.]+", path)]
    assert min(numbers) >= 0 and max(numbers) <= 520
    assert "Nodes fell from 750 to 1 in 9 s" in curve
    assert "No reduction step yet" in reduction_curve([])
    assert "Nodes fell from 1 to 1" in reduction_curve([Point(5, 1)])


def test_values_read_well() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert [ago(now - timedelta(seconds=s), now) for s in (1, 42, 60, 7200, 200_000)] == [
        "just now", "42 seconds ago", "1 minute ago", "2 hours ago", "2 days ago",
    ]  # fmt: skip
    assert [clock(s) for s in (0.25, 48.4, 185, 900, 7800)] == ["0.2 s", "48 s", "3 min 05 s", "15 min", "2 h 10 min"]
    assert [number(v) for v in (1234, 5.96e-8, 0.5)] == ["1,234", "5.96e-08", "0.5"]
    assert [size(n) for n in (12, 2048, 3 << 20)] == ["12 B", "2.0 KiB", "3.0 MiB"]
    assert issue_name("https://github.com/pytorch/pytorch/issues/12") == "pytorch/pytorch#12"
    assert issue_name("https://tracker.example/12") == "tracker.example/12"
