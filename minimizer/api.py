"""``minimizer.minimize``: the pipeline as a function, for a script, or for a function with its inputs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from minimizer.engine.survey.coverage import Extent, healthy
from minimizer.errors import InvalidOption, InvalidScript, UserError
from minimizer.from_backend import write_script
from minimizer.options import parse_options
from minimizer.report.confidence import confidence
from minimizer.report.examined import Checked
from minimizer.report.model import Report
from minimizer.script_text import check_script
from minimizer.settings import Settings
from minimizer.sink import Event, FolderSink, require_apart
from minimizer.vocabulary import Reason, Status, Step, counted

Subject = str | os.PathLike[str] | Callable[..., Any]


def minimize(
    subject: Subject,
    /,
    *inputs: Any,
    out: str | os.PathLike[str] | None = None,
    compile: Mapping[str, Any] | None = None,
    python: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    sandbox: Literal["auto", "required", "off"] = "auto",
    bind: Sequence[str | os.PathLike[str]] = (),
    network: bool = False,
    on_event: Callable[[Event], None] | None = None,
    **options: Any,
) -> Report:
    """Reduce a failure under ``torch.compile`` to the smallest repro that still fails.

    A failing subject is no error: the report describes it, and ``report.folder`` contains ``repro.py``.

    Args:
        subject: the path of a script, which is run in a sandbox; or a function or module, which is called once in this
            process, compiled and checked, before its failing graph is reduced in a sandbox.
        inputs: the arguments of a function, which may change them.
        out: folder for the results, created if missing; by default ``minimizer-out/<name>-<time>``.
        compile: further arguments of ``torch.compile`` for a function, such as ``{"dynamic": True}``; not ``backend``.
        python: the interpreter that runs a script; by default this one.
        jobs: parallel trials; by default one per core.
        sandbox: as ``--sandbox`` of the command line.
        bind: further paths the script may read.
        network: whether the script may use the network.
        on_event: called with every progress event (docs/report.md has the fields); by default the steps are printed to
            stderr in an interactive session: a notebook or a prompt.
        options: ``budget`` and all other options of a job (docs/cli.md) except ``toolchain``, such as ``args`` of a
            script.

    Raises:
        UserError: the script cannot be read, an option is wrong, or a function fails outside of any graph.
        MissingTool: bubblewrap is required and does not work here, or ``python`` is no interpreter with torch.
    """
    if "toolchain" in options:
        raise InvalidOption("option 'toolchain': names an interpreter of a service; here it is python=PATH")
    chosen = parse_options({"witness": False, **options})
    settings = _settings(sandbox, jobs)
    name = _name(subject)
    folder = _path("out", out) if out is not None else default_folder(name)
    interpreter = None if python is None else _path("python", python)
    further = 0
    if callable(subject):
        found = _captured(subject, inputs, folder, dict(compile or {}))
        if isinstance(found, Report):
            return found
        script, further = found
    else:
        if inputs or compile:
            raise UserError("inputs and compile= belong to a function; a script takes args=[...]")
        script = Path(subject)
        require_apart("option 'out':", script, folder)
    try:
        check_script(script.read_bytes(), str(script), python=interpreter)
    except OSError as error:
        raise InvalidScript(f"{script} cannot be read: {error.strerror}") from None

    from minimizer.engine.pipeline import minimize as run
    from minimizer.sandbox import choose_sandbox, require_torch

    choose_sandbox(sandbox)
    if interpreter is not None:
        require_torch(interpreter)  # which also rejects a path that is no interpreter
    try:
        sink = FolderSink(folder, on_event or (_tell_steps if _is_watched() else lambda event: None))
    except OSError as error:
        raise InvalidOption(f"option 'out': {folder} cannot be made: {error.strerror}") from None
    more = f"{counted(further, 'further graph')} of the function failed; each has a script in {folder}."
    report = run(
        script.resolve(),
        options=chosen,
        settings=settings,
        sink=sink,
        python=interpreter,
        binds=[Path(path).resolve() for path in bind],
        network=network,
        is_local=True,
        notes=[more] if further else [],
    )
    report.folder = folder
    return report


def _is_watched() -> bool:
    """Whether this is an interactive session: a prompt, or a notebook."""
    return hasattr(sys, "ps1") or "ipykernel" in sys.modules


def _tell_steps(event: Event) -> None:
    if event["type"] == "step" and event["state"] == "started":
        print(f"{Step(event['step']).what} ...", file=sys.stderr, flush=True)  # noqa: T201


def default_folder(name: str) -> Path:
    return Path("minimizer-out") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


def _settings(sandbox: str, jobs: int | None) -> Settings:
    given: dict[str, Any] = {"sandbox": sandbox} if jobs is None else {"sandbox": sandbox, "trial_jobs": jobs}
    try:
        return Settings(script_env="*", **given)
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0])
        said = {"sandbox": "option 'sandbox'", "trial_jobs": "option 'jobs'"} if field in given else {}
        raise InvalidOption(f"{said.get(field, f'MINIMIZER_{field.upper()}')}: {first['msg']}") from None


def _path(option: str, value: str | os.PathLike[str]) -> Path:
    try:
        return Path(value)
    except TypeError:
        raise InvalidOption(f"option {option!r}: {value!r} is no path") from None


def _name(subject: Subject) -> str:
    if not callable(subject) and not isinstance(subject, str | os.PathLike):
        raise UserError(f"there is nothing to minimize in {subject!r}: give the path of a script, or a function")
    if callable(subject):
        return str(getattr(subject, "__name__", type(subject).__name__)).strip("<>") or "function"
    return Path(subject).stem


def _captured(
    function: Callable[..., Any], inputs: tuple[Any, ...], folder: Path, compile_kwargs: dict[str, Any]
) -> Report | tuple[Path, int]:
    """The script of the first graph that fails and the number of the others; or the verdict if there is none."""
    if "backend" in compile_kwargs:
        raise UserError("compile= cannot name a backend: a function is compiled by inductor")
    # By name, so that nothing here imports torch: a caller with a function has imported it already.
    backend = import_module("minimizer.inside.backend.backend")
    try:
        spent = backend.collect(function, inputs, str(folder), compile_kwargs)
    except Exception as error:
        if backend.fails_in_eager(function, inputs):
            summary = f"It fails without the compiler too: {type(error).__name__}: {error}"
            return Report(status=Status.FAILED, reason=Reason.FAILS_IN_EAGER, summary=summary)
        raise UserError(
            f"it fails outside of any graph ({type(error).__name__}): put the call into a script, and minimize that"
        ) from error
    graphs = sorted(folder.glob("graph-*"))
    if graphs:
        return write_script(graphs[0]), len(graphs) - 1
    checked = Checked(
        frames=spent.frames, graphs=spent.frames, calls=spent.calls, planned=spent.made, calls_made=spent.made,
        backward=spent.backward, not_compared=list(spent.notes),
    )  # fmt: skip
    if not spent.calls:
        summary = " ".join(["No compiled graph was checked.", *spent.notes])
        return Report(status=Status.FAILED, reason=Reason.NOTHING_COMPILED, summary=summary, checked=checked)
    found = Report(status=Status.HEALTHY, summary=healthy(checked, Extent()), checked=checked, notes=list(spent.notes))
    found.confidence = confidence(found).level
    return found
