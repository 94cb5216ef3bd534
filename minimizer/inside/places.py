"""Readable names of source files: the user's own by their path in the project, libraries by their path in
site-packages.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from types import FrameType

_OURS = os.path.dirname(__file__) + os.sep
_PACKAGES = re.compile(r".*[/\\](?:site|dist)-packages[/\\](.+)")
_TORCH = re.compile(r".*[/\\](torch[/\\](?:_\w+|fx|nn|autograd|utils|distributed|export|optim)[/\\].+)")
"""Matches a development install of torch, imported from its source checkout."""
_STANDARD = sysconfig.get_paths()["stdlib"] + os.sep
_GENERATED = re.compile(r"<.*>|c[a-z0-9]{30,}\.py")
"""Matches code without a file, and files that inductor generates."""


@dataclass(frozen=True)
class Place:
    """A source file: its readable name, and whether it is the user's own."""

    name: str
    is_users: bool


def is_ours(path: str) -> bool:
    """Whether a file is part of minimizer, or ``runpy``, which runs it."""
    return path.startswith(_OURS) or path == "<frozen runpy>"


def place_of(path: str) -> Place:
    """The readable name of a file; below the script's folder, its path relative to that.

    Modules imported from elsewhere, such as an installed checkout, are the user's too, and are named relative to their
    ``sys.path`` entry.
    """
    if library := _PACKAGES.fullmatch(path) or _TORCH.fullmatch(path):
        return Place(library[1], False)
    if path.startswith(_STANDARD):
        return Place(path.removeprefix(_STANDARD), False)
    if _GENERATED.fullmatch(os.path.basename(path)) or is_ours(path):
        return Place(os.path.basename(path), False)
    if (project := _project()) and path.startswith(project):
        return Place(path.removeprefix(project), True)
    folders = [folder.rstrip(os.sep) + os.sep for folder in (*sys.path, _here()) if os.path.isabs(folder)]
    above = max((folder for folder in folders if path.startswith(folder) and folder != os.sep), key=len, default="")
    return Place(path.removeprefix(above) if above else os.path.basename(path), True)


def _project() -> str:
    """The folder of the running script, or of its top package if it runs as a module, with a trailing separator.

    Else empty.
    """
    module = sys.modules.get("__main__")
    main = getattr(module, "__file__", None) or ""
    folder = os.path.dirname(main)
    for _ in filter(None, str(getattr(module, "__package__", None) or "").split(".")):
        folder = os.path.dirname(folder)
    folder += os.sep
    return folder if os.path.isabs(main) and not main.startswith(_OURS) and folder != os.sep * 2 else ""


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:  # a script may have removed the folder
        return ""


Line = tuple[str, int, str]
"""A line of source: path, number and text."""


def sources(frames: Iterable[Line]) -> dict[str, list[object]]:
    """The innermost user line (``source``) in these frames (innermost last), and the innermost third-party line it
    calls (``library``).

    torch and the standard library do not count as libraries, since all code calls them.
    """
    found: dict[str, list[object]] = {}
    for path, number, code in frames:
        if is_ours(path):
            continue
        place = place_of(path)
        if place.is_users:
            found = {"source": [place.name, number, code]}
        elif _PACKAGES.fullmatch(path) and not place.name.startswith(("torch/", "functorch/")):
            found["library"] = [place.name, number, code]
    return found


def caller() -> list[object] | None:
    """The innermost line of the user's own code on the current stack; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not is_ours(path) and (place := place_of(path)).is_users:
            return [place.name, frame.f_lineno, linecache.getline(path, frame.f_lineno).strip()]
        frame = frame.f_back
    return None


def without_folders(text: str) -> str:
    """A message with the paths of known folders of this machine (packages, the project) removed."""
    text = re.sub(r"(?<![\w.])/[^\s\"':]*/(?:site|dist)-packages/", "", text)
    for folder in filter(None, (_project(), _STANDARD)):
        text = text.replace(folder, "")
    return text
