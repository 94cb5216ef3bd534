"""``minimizer submit``, ``status`` and ``download``: the client side of a running service."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urljoin

import click

from minimizer.cli import keys
from minimizer.cli.client import DEFAULT_SERVER, Client, Job, NotReachable, Refused, StillBusy
from minimizer.cli.exit_status import Exit
from minimizer.cli.gate import FailOn, Gate, conclude, gate_options
from minimizer.cli.options import job_options, options_from, require_place
from minimizer.cli.parcel import parcel_of
from minimizer.cli.progress import SKIP_KEY, SKIPS, View, open_view, printable
from minimizer.cli.verdict import NAME, on_terminal, verdict_lines
from minimizer.errors import InvalidOption
from minimizer.report.identity import fingerprint
from minimizer.sink import REPROS, FolderSink, require_apart
from minimizer.vocabulary import Status, Step, counted

RESULTS = Path("minimizer-out")
"""The default folder for results, with a separate folder per job."""
PATIENCE = 30
"""Failed polls in a row, a second apart, after which the service is given up."""

Report = dict[str, Any]
Command = TypeVar("Command", bound=Callable[..., Any])


def server_option(command: Command) -> Command:
    return click.option(
        "--server",
        default=DEFAULT_SERVER,
        show_default=True,
        envvar="MINIMIZER_SERVER",
        metavar="URL",
        help="Address of the service; MINIMIZER_SERVER sets it too.",
    )(command)


def out_option(command: Command) -> Command:
    return click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Folder for the results.  [default: minimizer-out/<job>]",
    )(command)


@click.command()
@click.argument("script", type=click.Path(exists=True, path_type=Path), metavar="SCRIPT|DIR|ZIP")
@server_option
@click.option(
    "--main",
    metavar="PATH",
    help="Of DIR or ZIP: the script to run.  [default: main.py, or the only script at the top]",
)
@click.option(
    "--files",
    multiple=True,
    metavar="PATTERN",
    help="Files below the working directory to send with SCRIPT, such as 'models/**/*.py'; a folder means all in it. May be repeated.",
)
@click.option("--wait", is_flag=True, help="Wait for the end, fetch the results, and exit as `run` does.")
@out_option
@click.option(
    "--project",
    metavar="NAME",
    help="The project that the job goes to; needed if you are in several and not in `default`.",
)
@click.option("--force", is_flag=True, help="Ask anew, even if a job of the same script and options has ended well.")
@job_options()
@gate_options
@click.option("--json", "as_json", is_flag=True, help="The job, or with --wait the report, as JSON on stdout.")
def submit(
    script: Path,
    server: str,
    main: str | None,
    files: tuple[str, ...],
    wait: bool,
    out: Path | None,
    project: str | None,
    force: bool,
    as_json: bool,
    fail_on: FailOn | None,
    baseline: Path | None,
    junit: Path | None,
    sarif: Path | None,
    **job_values: Any,
) -> int:
    """Send SCRIPT, or a project as a folder or a zip archive, to a service and print the address of its job.

    \b
    Examples:
      minimizer submit train.py --server http://127.0.0.1:8000
      minimizer submit train.py --wait --out bug -- --batch-size 4
      minimizer submit train.py --wait --fail-on new --baseline known-failures --junit junit.xml
      minimizer submit project/ --main train.py
      minimizer submit models/train.py --files 'models/**/*.py' --files configs

    SCRIPT is sent alone, unless --files names what it needs. Of DIR all files are sent but hidden ones and virtual environments.
    Ctrl-C while waiting leaves the job running.
    """
    parcel = parcel_of(script, main, files, job_values.get("toolchain"))
    gate = Gate(fail_on, baseline, junit, sarif)
    if not wait and (out is not None or gate != Gate(None, None, None, None)):
        raise InvalidOption(
            "--out, --fail-on, --baseline, --junit and --sarif need --wait: they are about a job that has ended"
        )
    gate.check()
    require_place("--out", out or (RESULTS if wait else None))
    if out is not None:
        require_apart("--out", parcel.script, out)
    client = Client(server, pause=_pause)
    job, was_asked_before = client.submit(parcel, options_from(job_values), project, force=force)
    if parcel.archive is not None:
        click.echo(
            f"Sent {counted(parcel.files, 'file')}, {len(parcel.archive):,} bytes; {parcel.name} is run.", err=True
        )
    if was_asked_before:
        click.echo(f"Asked before: the job of {_moment(job)} is the answer. --force asks anew.", err=True)
    click.echo(f"{client.server}/jobs/{job['id']}", err=wait or as_json)
    if not wait:
        if as_json:
            click.echo(json.dumps(job))
        return Exit.MINIMIZED
    come_back = f"minimizer download {job['id']} --server {client.server}"
    folder = out or _default_folder(job["id"])
    try:
        job = follow(client, job["id"])
        _fetch(client, job, folder)
    except KeyboardInterrupt:
        click.echo(f"The job is not stopped by that. Come back with: {come_back}", err=True)
        return Exit.CANCELLED
    except NotReachable as error:
        raise NotReachable(f"{error}. The job is not stopped by that; come back with: {come_back}") from None
    report = _report(job)
    _show(report, folder, as_json)
    on_server = _is_known(client, job, report, decides=fail_on == "new")
    return conclude(gate, parcel.script, report, folder, url=f"{client.server}/jobs/{job['id']}", on_server=on_server)


@click.command()
@click.argument("job_id", metavar="[JOB]", required=False)
@server_option
@click.option("--limit", type=click.IntRange(1, 200), default=20, show_default=True, help="Jobs to list.")
@click.option("--json", "as_json", is_flag=True, help="As JSON on stdout.")
def status(job_id: str | None, server: str, limit: int, as_json: bool) -> None:
    """List the latest jobs of a service, or show JOB."""
    client = Client(server, pause=_pause)
    jobs = [client.job(job_id)] if job_id else client.jobs(limit)
    if as_json:
        lines = [json.dumps(job) for job in jobs]
    elif job_id:
        lines = list(on_terminal(_details(jobs[0], server)))
    else:
        lines = _table(jobs)
    for line in lines:
        click.echo(line)


@click.command()
@click.argument("job_id", metavar="JOB")
@server_option
@out_option
def download(job_id: str, server: str, out: Path | None) -> None:
    """Fetch what JOB has found so far: repro.py, report.json, report.md, issue.md, run.log and the rest."""
    folder = out or _default_folder(job_id)
    require_place("--out", folder)
    client = Client(server, pause=_pause)
    job = client.job(job_id)
    names = _fetch(client, job, folder)
    if not names:
        so_far = "left no results" if Status(job["status"]).is_final else "has no results yet"
        raise Refused(f"job {job_id} {so_far}; see `minimizer status {job_id}`")
    for name in names:
        click.echo(str(folder / name))


def _moment(job: Job) -> str:
    """When a job was submitted, to the minute."""
    return printable(str(job.get("created_at", "")).replace("T", " ")[:16]) + " UTC"


def _pause(seconds: float, why: str) -> None:
    if why:
        click.echo(f"{printable(why)} Asking again in {seconds:.0f} s.", err=True)
    time.sleep(seconds)


def follow(client: Client, job_id: str) -> Job:
    """Show a job's progress until it is final, waiting for a service that is restarted meanwhile.

    On a terminal a key skips the current step, if that can be skipped.
    """
    view = open_view(skips=SKIPS if keys.are_heard() else "")
    shown = Shown(view)
    with closing(view), keys.pressed(partial(_take_key, client, job_id, shown)):
        return _followed(client, job_id, shown)


def _followed(client: Client, job_id: str, shown: Shown) -> Job:
    etag: str | None = None
    misses = 0
    while True:
        try:
            job, etag = client.next_job(job_id, etag)
        except StillBusy:
            raise
        except NotReachable:
            misses += 1
            if misses > PATIENCE:
                raise
            client.pause(1, "")
            continue
        misses = 0
        if job is not None:
            shown.update(job)
            if Status(job["status"]).is_final:
                return job


def _take_key(client: Client, job_id: str, shown: Shown, key: str) -> None:
    if key.lower() == SKIP_KEY and shown.skippable:
        with suppress(NotReachable):  # an unavailable service is reported by the poll loop
            client.skip(job_id, shown.skippable)


class Shown:
    """Turns successive states of a job into the events a view knows."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._last: Job = {}

    @property
    def skippable(self) -> str | None:
        """The step that can be skipped now."""
        return self._last.get("skippable")

    def update(self, job: Job) -> None:
        step, before = job.get("stage"), self._last.get("stage")
        if step != before and before:
            self._view.event({"type": "step", "step": before, "state": "finished"})
        for name in ("failure", "culprit"):
            if job.get(name) and not self._last.get(name):
                self._view.event({"type": name, name: job[name]})
        if step != before and step and not Status(job["status"]).is_final:
            self._view.event({"type": "step", "step": step, "state": "started"})
        if job.get("progress") and job["progress"] != self._last.get("progress"):
            self._view.event({"type": "progress", **job["progress"]})
        self._last = job


def _fetch(client: Client, job: Job, folder: Path) -> list[str]:
    """Write all results into ``folder``; their names. A name is checked: the service is not trusted with our disk."""
    contents = {name: client.artifact(job["id"], name) for name in client.artifacts(job["id"]) if _is_plain(name)}
    if job.get("report"):
        contents["report.json"] = json.dumps(_report(job), indent=1).encode() + b"\n"
    if contents or folder.exists():
        sink = FolderSink(folder)
        for name, content in contents.items():
            sink.artifact(name, content)
        for name in set(REPROS) - set(contents):  # of another job
            sink.discard(name)
    return sorted(contents)


def _is_plain(name: str) -> bool:
    return name == Path(name).name and not name.startswith(".") and name.isprintable()


def _report(job: Job) -> Report:
    """The report of a job, or a minimal one if it ended without. The job itself knows how it ended."""
    ending = {name: job.get(name) for name in ("reason", "summary")}
    # A report has no queued state: a job that has not ended runs.
    status = job["status"] if Status(job["status"]).is_final else Status.RUNNING
    return {**(job.get("report") or {"schema": 1}), **ending, "status": status}


def _is_known(client: Client, job: Job, report: Report, *, decides: bool) -> bool:
    """Whether the service knows the failure. Where nothing depends on it, a service that has just gone spoils no verdict."""
    if fingerprint(report) is None:
        return False
    try:
        return client.is_known(job)
    except NotReachable:
        if decides:
            raise
        return False


def _show(report: Report, folder: Path, as_json: bool) -> None:
    for line in [json.dumps(report)] if as_json else on_terminal(verdict_lines(report, folder)):
        click.echo(line)


def _table(jobs: Sequence[Job]) -> list[str]:
    """The jobs as a table, each with when it was submitted."""
    rows = [("JOB", "SUBMITTED", "STATUS", "SCRIPT", "FAILURE"), *map(_row, jobs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _row(job: Job) -> tuple[str, ...]:
    failure = str((job.get("failure") or {}).get("kind") or "")
    kind = f"{failure}, {nodes}" if failure and (nodes := _nodes(job)) else failure or _nodes(job)
    cells = (job["id"], _moment(job), _state(job), job.get("filename") or "", kind)
    return tuple(printable(cell, 100) for cell in cells)


def _details(job: Job, server: str) -> list[str]:
    """The summary of one job: its state or its verdict, and its page."""
    lines = [_named("job", f"{job['id']}, submitted {_moment(job)}"), _named("script", job.get("filename") or "")]
    if Status(job["status"]).is_final:
        # The job's own status counts, whatever the report of another version says.
        told = {"status": job["status"], "reason": job.get("reason"), "summary": job.get("summary")}
        lines += verdict_lines({**(job.get("report") or {}), **told})
    else:
        doing = [Step(job["stage"]).doing] if job.get("stage") in list(Step) else []
        lines.append(_named("status", ", ".join(filter(None, (_state(job), *doing, _nodes(job))))))
        lines += [summary] if (summary := printable(job.get("summary") or "")) else []
    page = (job.get("links") or {}).get("html")
    return [*lines, _named("page", urljoin(server, page))] if isinstance(page, str) else lines


def _named(name: str, text: str) -> str:
    return f"{name:<{NAME}}{printable(text)}"


def _state(job: Job) -> str:
    return f"{job['status']} ({job['reason']})" if job.get("reason") else str(job["status"])


def _nodes(job: Job) -> str:
    """How far the reduction is, or came."""
    found = job.get("reduction") or {}
    progress = job.get("progress") or {}
    before, left = (
        (found["nodes_before"], found["nodes_after"])
        if found.get("nodes_before") is not None
        else (progress.get("nodes_before"), progress.get("nodes"))
    )
    return f"nodes {before} to {left}" if before and left is not None else ""


def _default_folder(job_id: str) -> Path:
    return RESULTS / (job_id if _is_plain(job_id) else "job")
