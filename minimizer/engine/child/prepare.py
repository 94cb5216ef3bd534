"""Sets up the place of a job's children: interpreter, readable folders, environment variables and working folders."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from minimizer.engine.child.environment import DRIVE, READY, Place
from minimizer.engine.child.headers import kept_in
from minimizer.errors import MissingTool
from minimizer.options import Options
from minimizer.sandbox import Sandbox, editable_paths, real_interpreter, runtime_paths
from minimizer.settings import Settings

SETTINGS_PREFIX = "MINIMIZER_"
OVERLAY_ENTRIES = 1000
COPIED_BYTES = 64 << 20
"""Most bytes of the script's folder that are copied to a working folder; further files become links."""


def open_place(
    script: Path,
    *,
    sandbox: Sandbox,
    scratch: Path,
    python: Path,
    binds: Sequence[Path],
    network: bool,
    memory_bytes: int,
    environment: dict[str, str],
    is_local: bool = False,
    plan: dict[str, str] | None = None,
) -> Place:
    """Create the place for a script: its folder is readable, and runs work in temporary copies of it.

    ``is_local``: whether the submitter owns this machine; the script then sees the editable installs of its
    interpreter. ``plan``: how it is driven, from `plan_of`.

    Raises:
        MissingTool: the interpreter does not run.
    """
    python = real_interpreter(python)
    home = script.parent.resolve()
    kept = kept_in()
    packages = editable_paths(python) if is_local else []
    place = Place(
        python=python,
        sandbox=sandbox,
        scratch=scratch,
        read=[*runtime_paths(python), *packages, home, *binds, *([kept] if kept is not None else [])],
        packages=packages,
        is_local=is_local,
        env=environment,
        plan=plan or {},
        network=network,
        memory_bytes=memory_bytes,
    )
    for folder in (place.origin, place.folder("work")):  # for runs of the script, and for trials
        _lay_over(home, folder)
    return place


def _lay_over(home: Path, work: Path) -> None:
    """Make ``work`` look like the script's folder: files up to `COPIED_BYTES` in total are copied, the rest is linked."""
    room = COPIED_BYTES
    for entry in sorted(home.iterdir())[:OVERLAY_ENTRIES]:
        is_readable = entry.is_file() and os.access(entry, os.R_OK)
        if is_readable and (size := entry.stat().st_size) <= room:
            room -= size
            shutil.copyfile(entry, work / entry.name)
        else:
            (work / entry.name).symlink_to(entry)


def plan_of(options: Options) -> dict[str, str]:
    """The variables that drive a script that serves; none for one that ends by itself.

    Raises:
        MissingTool: it cannot be driven as requested.
    """
    if options.undrivable:
        raise MissingTool(f"The script cannot be driven: {options.undrivable}.")
    if options.ready is None:
        return {}
    return {READY: options.ready} | ({DRIVE: options.drive} if options.drive is not None else {})


def granted(options: Options, settings: Settings, on_note: Callable[[str], None]) -> dict[str, str]:
    """Our environment variables that a job requests and `MINIMIZER_SCRIPT_ENV` allows; ``on_note`` names the others.

    Our own settings are never passed on: those of a service contain its database password.
    """
    allowed = {name.strip() for name in settings.script_env.split(",")}
    environment: dict[str, str] = {}
    for name in options.env:
        if name.startswith(SETTINGS_PREFIX) or not allowed & {name, "*"}:
            on_note(f"The variable {name} is not passed on: MINIMIZER_SCRIPT_ENV does not allow it.")
        elif name in os.environ:
            environment[name] = os.environ[name]
    return environment
