"""Finds modules that a script needs and its interpreter lacks, before the script is run."""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from minimizer.engine.budget.patience import IMPORTS_SECONDS
from minimizer.engine.child.clean_process import run_clean
from minimizer.engine.child.connection import INSIDE
from minimizer.engine.child.environment import Place
from minimizer.errors import MissingTool
from minimizer.sandbox import found_outside

MOST_TOLD, MOST_REQUIREMENTS, MOST_NAME, MOST_BYTES = 12, 100, 200, 1 << 20

_Text = Annotated[str, StringConstraints(max_length=200)]


class _Said(BaseModel):
    """The output of ``inside/imports.py``, which ran in the sandbox: untrusted."""

    model_config = ConfigDict(extra="forbid")

    missing: list[tuple[_Text, _Text, int, bool]] = Field(max_length=1000)
    """Name, file and line of each import, and whether the script certainly needs it."""
    versions: dict[str, _Text | None]


def require_modules(
    script: Path, place: Place, tops: Sequence[Path], *, watch: Callable[[], None], on_note: Callable[[str], None]
) -> None:
    """Check that the modules which a script and its neighbours import at their beginning can be imported.

    Args:
        script: an absolute path.
        place: the place that it will run in.
        tops: folders that may be the top of its project.
        watch: called while waiting.
        on_note: receives unmet requirements that the project lists, which may not matter.

    Raises:
        MissingTool: names the missing modules.
    """
    named = [one for top in dict.fromkeys((script.parent, *tops)) for one in _named_in(top)]
    wanted = {one.name: one for one in reversed(named)}
    said = _ask(script, place, list(wanted)[:MOST_REQUIREMENTS], watch)
    if said is None:
        return
    for unmet in _unmet(wanted, said.versions):
        on_note(f"The project asks for {unmet}.")
    if not said.missing:
        return
    told = [f"{name} ({file}, line {line})" for name, file, line, _ in said.missing[:MOST_TOLD]]
    more = [f"{len(said.missing) - MOST_TOLD} more"] if len(said.missing) > MOST_TOLD else []
    absent = [name for name, *_ in said.missing[:MOST_TOLD]]
    outside = found_outside(place.python, absent) if place.is_local and place.sandbox.is_strong else {}
    what = f"{place.python} does not have what the script imports: {', '.join([*told, *more])}."
    if outside:
        what = f"{what} {_how_to_show(outside)}"
    if not any(certain for *_, certain in said.missing):
        on_note(f"{what} The script may see to that itself.")
        return
    above = [name for name, *_ in said.missing if any(_has(folder, name) for folder in _above(script, tops))]
    if above:
        advice = f"{', '.join(above)} lies further up in the project: a script finds what is in its own folder. Run one that is at the top."
    elif len(outside) == len(said.missing):
        advice = ""
    else:
        advice = "Install it there, send it with the script, or name another Python."
    raise MissingTool(f"{what} {advice}".strip())


def _how_to_show(outside: Mapping[str, Path]) -> str:
    """How to make modules visible that lie outside of the sandbox: their folders, and the variable that names them."""
    folders = list(dict.fromkeys(outside.values()))
    binds = " ".join(f"--bind {shlex.quote(str(folder))}" for folder in folders)
    variable = shlex.quote(os.pathsep.join(map(str, folders)))
    return (
        f"Outside of the sandbox that Python finds {', '.join(outside)} in {', '.join(map(str, folders))}: with PYTHONPATH={variable} in your "
        f"environment, {binds} --env PYTHONPATH shows it to the script."
    )


def _ask(script: Path, place: Place, names: Sequence[str], watch: Callable[[], None]) -> _Said | None:
    folder = place.private("imports")
    ran = run_clean(
        [str(place.python), str(INSIDE / "imports.py"), str(script), *names],
        place.sandbox,
        work=script.parent,
        output=folder / "output",
        read=[*place.read, INSIDE],
        write=[place.folder("home")],
        environment=place.plain_environment(place.folder("home")),
        limit=IMPORTS_SECONDS,
        watch=watch,
    )
    if ran.status != 0:
        return None  # the script will fail in the same way, with a better message
    try:
        return _Said.model_validate_json(ran.last_line)
    except ValidationError:
        return None


def _named_in(top: Path) -> Iterator[Requirement]:
    """The requirements in a folder's ``requirements.txt`` and ``pyproject.toml`` that apply here; unreadable ones are
    skipped.
    """
    for line in _text(top / "requirements.txt").splitlines():
        yield from _parsed(line.partition(" #")[0].strip())
    try:
        project = tomllib.loads(_text(top / "pyproject.toml")).get("project")
    except (ValueError, RecursionError):  # no TOML; an integer with too many digits for Python; nested too deeply
        return
    dependencies = project.get("dependencies") if isinstance(project, dict) else None
    for line in dependencies if isinstance(dependencies, list) else []:
        if isinstance(line, str):
            yield from _parsed(line)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _parsed(line: str) -> Iterator[Requirement]:
    try:
        one = Requirement(line)
        holds = one.marker is None or one.marker.evaluate()
    except (ValueError, KeyError, RecursionError):
        return  # an option of pip's, a URL, a comment; a marker that compares what has no order, or has no value here
    if holds and len(one.name) <= MOST_NAME:  # the name becomes an argument of a command
        yield one


def _unmet(wanted: Mapping[str, Requirement], versions: Mapping[str, str | None]) -> list[str]:
    unmet = []
    for name, version in versions.items():
        specifier = wanted[name].specifier if name in wanted else SpecifierSet()
        if version is None:
            unmet.append(f"{name}{specifier}, which is not installed")
        elif not _fits(specifier, version):
            unmet.append(f"{name}{specifier}; {version} is installed")
    return unmet[:MOST_TOLD]


def _fits(specifier: SpecifierSet, version: str) -> bool:
    try:
        return specifier.contains(version, prereleases=True)
    except ValueError:  # a distribution that violates PEP 440, a number with too many digits for Python
        return True


def _above(script: Path, tops: Sequence[Path]) -> list[Path]:
    """The folders above the script's own, up to the top of its project."""
    return [folder for folder in script.parent.parents if any(folder.is_relative_to(top.resolve()) for top in tops)]


def _has(folder: Path, name: str) -> bool:
    return (folder / name).is_dir() or (folder / f"{name}.py").is_file()
