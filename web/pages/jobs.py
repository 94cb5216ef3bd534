"""Pages for people: the form, the list, a job."""

from __future__ import annotations

from dataclasses import replace

from flask import Blueprint, Response, abort, redirect, render_template, request, url_for
from pydantic import ValidationError
from werkzeug.wrappers import Response as BaseResponse

from minimizer.errors import InvalidOption, UserError
from minimizer.service.archive import MAX_BYTES, MAX_FILES, is_zip
from minimizer.store import DEFAULT_PROJECT, Job, JobActive, NothingToSkip, StoreError
from minimizer.vocabulary import Kind, Status
from web import filters
from web.access.table import home, identity, submitter
from web.api.schemas import RetryQuery
from web.examples import EXAMPLES, example
from web.pages import again, highlight, job_view
from web.pages import form as forms
from web.problems import Problem, problem_of
from web.service import service

pages = Blueprint("pages", __name__)

PAGE_SIZE = 30


@pages.after_request
def keep_fresh(response: Response) -> Response:
    # A page shows the present state; the browser's "back" must not show an old one.
    response.headers.setdefault("Cache-Control", "no-store")
    return response


@pages.get("/")
def index() -> str:
    draft = forms.Draft()
    name = request.args.get("example")
    if name is not None:
        chosen = example(name) or abort(404, "There is no example of this name.")
        draft = forms.Draft(source=chosen.source, filename=f"{chosen.name}.py")
    return _form(draft)


@pages.post("/jobs")
def submit() -> BaseResponse | tuple[str, int, dict[str, str]]:
    here = service()
    script, draft = forms.read(request.form, request.files, here.settings)
    try:
        sent, draft = again.joined(script, draft, here.store, identity().sees)
        submission = forms.submission(sent, draft, here.settings)
        ((job, created),) = here.submit([submission], home(draft.project), submitter(here.settings))
    except (UserError, StoreError, Problem) as error:
        problem = problem_of(error)
        if problem is None:
            raise
        is_of_file = is_zip(script) and not isinstance(error, InvalidOption | StoreError)
        faults = error.names if isinstance(error, InvalidOption) else ()
        refused = forms.refused(draft, problem.detail, faults, here.settings)
        return _form(replace(refused, is_of_file=is_of_file)), problem.status, problem.headers
    asked_before = True if not created and job.status.is_final else None
    return redirect(url_for("pages.job", job_id=job.id, asked_before=asked_before), 303)


@pages.get("/jobs")
def jobs() -> str:
    status = filters.one_of(Status, "status")
    kind = filters.one_of(Kind, "kind")
    q = filters.text()
    store = service().store
    found, next_cursor = store.jobs.page(
        status=status,
        kind=kind,
        q=q or None,
        projects=identity().projects,
        cursor=request.args.get("cursor") or None,
        limit=PAGE_SIZE,
    )
    return render_template(
        "jobs.html",
        jobs=found,
        next_cursor=next_cursor,
        filters={"status": status or "", "kind": kind or "", "q": q},
        counts=store.jobs.counts(identity().projects),
        statuses=list(Status),
        kinds=Kind,
        live=any(not job.status.is_final for job in found) and "cursor" not in request.args,
    )


@pages.get("/jobs/<job_id>")
def job(job_id: str) -> str:
    here = service()
    return render_template("job.html", view=job_view.view(here.store, here.stories, job_id))


@pages.get("/jobs/<job_id>/script")
def script(job_id: str) -> str:
    store = service().store
    lines = [number for line in request.args.getlist("line") if (number := filters.number(line)) is not None]
    text = job_view.script(store, job_id)
    return render_template("_code.html", text=text, code=highlight.python(text, lines[:50]))


@pages.get("/jobs/<job_id>/edit")
def edit(job_id: str) -> str:
    store = service().store
    return _form(again.draft_of(store.jobs.get(job_id), store))


@pages.post("/jobs/<job_id>/cancel")
def cancel(job_id: str) -> BaseResponse:
    return _to(service().store.jobs.request_cancel(job_id))


@pages.post("/jobs/<job_id>/skip")
def skip(job_id: str) -> BaseResponse:
    try:
        return _to(service().store.jobs.request_skip(job_id, request.form.get("step")))
    except NothingToSkip:  # the step has ended by itself
        return _to(service().store.jobs.get(job_id))


@pages.post("/jobs/<job_id>/retry")
def retry(job_id: str) -> BaseResponse:
    try:
        asked = RetryQuery.model_validate(request.form.to_dict())
    except ValidationError:
        raise Problem(422, "invalid-budget", "A time budget is a number of seconds between 10 and 86400.") from None
    try:
        return _to(service().retry(job_id, asked.budget))
    except JobActive:  # the page was stale, and somebody else was quicker
        return _to(service().store.jobs.get(job_id))


@pages.post("/jobs/<job_id>/delete")
def delete(job_id: str) -> BaseResponse:
    service().store.jobs.delete(job_id)
    return redirect(url_for("pages.jobs"), 303)


@pages.get("/favicon.ico")
def favicon() -> BaseResponse:
    return redirect(url_for("static", filename="favicon.svg"), 301)


def _form(draft: forms.Draft) -> str:
    here = service()
    recent, _ = here.store.jobs.page(limit=5, projects=identity().projects)
    return render_template(
        "index.html",
        draft=draft,
        fields=forms.fields(here.settings),
        projects=_projects(),
        default_project=DEFAULT_PROJECT,
        examples=EXAMPLES,
        recent=recent,
        max_bytes=here.settings.max_script_bytes,
        max_archive_bytes=here.settings.max_archive_bytes,
        max_files=MAX_FILES,
        max_unpacked_bytes=MAX_BYTES,
    )


def _projects() -> list[str]:
    """The projects that whoever asks may send a job to."""
    who = identity()
    if not who.may_write:
        return []
    if who.projects is None:
        return [project.name for project in service().store.projects.all()]
    return sorted(who.projects)


def _to(job: Job) -> BaseResponse:
    return redirect(url_for("pages.job", job_id=job.id), 303)
