"""Parameters shared by several commands: the options of a job, an interpreter.

``run`` and ``submit`` share one click option for each field of `minimizer.options.Options`. Ranges and choices are read
off the model, so that the command line cannot accept what REST would refuse.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import click

from minimizer.errors import InvalidOption, MissingTool
from minimizer.options import Options, parse_options

Command = TypeVar("Command", bound=Callable[..., Any])

METAVARS = {
    "budget": "SECONDS",
    "target": "INDEX|MODULE|SIGNATURE",
    "steps": "N",
    "hang_after": "SECONDS",
    "env": "NAME",
    "nproc": "N",
    "ready": "PORT|TEXT",
    "drive": "COMMAND",
}


def job_options(*, exclude: tuple[str, ...] = ()) -> Callable[[Command], Command]:
    """Add an option for each field of `Options`, and the script's own arguments after ``--``."""

    def decorate(command: Command) -> Command:
        decorated = click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]...")(command)
        for name in reversed(Options.model_fields):
            if name != "args" and name not in exclude:
                decorated = _option(name)(decorated)
        return decorated

    return decorate


def python_option(command: Command) -> Command:
    """Add ``--python``; see `find_interpreter`."""
    return click.option(
        "--python",
        metavar="INTERPRETER",
        help="Python that runs the script, with its own torch (2.11 to 2.15).  [default: the one minimizer runs in]",
    )(command)


def sandbox_options(command: Command) -> Command:
    """Add the options for the isolation of a script: ``--sandbox``, ``--bind``, ``--network``."""
    options = (
        click.option(
            "--sandbox",
            type=click.Choice(("auto", "required", "off")),
            default="auto",
            show_default=True,
            help="auto: bubblewrap, or plain limits with a banner where it does not work; required: refuse without bubblewrap.",
        ),
        click.option(
            "--bind",
            multiple=True,
            type=click.Path(exists=True, resolve_path=True, path_type=Path),
            metavar="PATH",
            help="Further file or folder that the script may read. May be repeated.",
        ),
        click.option("--network", is_flag=True, help="Let the script use the network."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def release_options(command: Command) -> Command:
    """Add the options for other releases of torch to run a repro in: ``--torch``, ``--bisect``."""
    options = (
        click.option(
            "--torch",
            "torches",
            multiple=True,
            metavar="VERSION",
            help="Also run the repro in this release of torch, such as 2.12 or 2.14.1, in an environment that is made for it with pip, "
            "outside of the sandbox, and kept. May be repeated.",
        ),
        click.option(
            "--bisect",
            is_flag=True,
            help="Find the first release of torch, from 2.11 on, in which the repro fails, and the one that fixes it.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def options_from(values: dict[str, Any]) -> Options:
    """The validated options of a job.

    Raises:
        InvalidOption: a value is out of range, or does not go with another.
    """
    raw = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    options = parse_options({name: value for name, value in raw.items() if value is not None})
    if options.undrivable:
        raise InvalidOption(options.undrivable)
    return options


def find_interpreter(name: str) -> Path:
    """The interpreter of ``--python``, kept as given: following the link of a virtual environment would leave it.

    Raises:
        MissingTool: there is no such program, or none that may be run.
    """
    path = os.path.expanduser(name)  # noqa: PTH111 - a bare name must stay one
    found = shutil.which(path)
    if found is None:
        raise MissingTool(f"--python {name}: {_why_none(path)}; give the path of a Python that has torch installed")
    return Path(found).absolute()


def _why_none(path: str) -> str:
    """Why a path is no program that we can run; a bare name is looked for on the ``PATH``."""
    if os.sep not in path:
        return "no such program"
    try:
        return "a folder, not a program" if stat.S_ISDIR(os.stat(path).st_mode) else "permission denied to run it"  # noqa: PTH116
    except PermissionError:
        return "permission denied to reach it"
    except OSError:
        return "no such program"


def _option(name: str) -> Callable[[Command], Command]:
    field = Options.model_fields[name]
    flag = "--" + name.replace("_", "-")
    help_text = field.description or ""
    if field.annotation is bool:
        return click.option(f"{flag}/--no-{name}", default=field.default, show_default=True, help=help_text)
    if name == "env":
        return click.option(flag, multiple=True, metavar=METAVARS[name], help=f"{help_text} May be repeated.")
    if get_origin(field.annotation) is Literal:
        return click.option(
            flag,
            type=click.Choice(get_args(field.annotation)),
            default=field.default,
            show_default=True,
            help=help_text,
        )
    kind = int if name in ("budget", "steps", "hang_after", "nproc") else str
    return click.option(
        flag,
        type=kind,
        default=field.default,
        show_default=field.default is not None,
        metavar=METAVARS.get(name, "NAME"),
        help=help_text,
    )


def require_place(option: str, path: Path | None) -> None:
    """Refuse at once, and not after the work, a result that could not be written.

    Raises:
        InvalidOption: there can be no file or folder of this name.
    """
    if path is None:
        return
    place = path.resolve()
    try:
        existing = next(parent for parent in (place, *place.parents) if parent.exists())
        if existing.is_dir():
            # Tried, then undone: for root the mode bits say nothing, and /proc ignores its own.
            with tempfile.TemporaryDirectory(prefix=".writing-", dir=existing) as folder:
                Path(folder, place.relative_to(existing)).mkdir(parents=True, exist_ok=True)
        elif existing != place or not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, f"{existing} is no folder of yours")
    except OSError as error:
        raise InvalidOption(f"{option} {path} cannot be written: {error.strerror}; name another place") from None
