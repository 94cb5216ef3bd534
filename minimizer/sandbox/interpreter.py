"""Finds the paths that a Python interpreter needs, so that a sandbox can show these and no more."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from minimizer.errors import MissingTool
from minimizer.sandbox.compilers import compiler_paths, links

PARTS_OF_A_PREFIX = (
    "bin", "include", "lib", "lib32", "lib64", "libexec", "share", "pyvenv.cfg",
    "compiler_compat", "nvvm", "ssl", "targets", "aarch64-conda-linux-gnu", "x86_64-conda-linux-gnu",
)  # fmt: skip
"""Parts of a prefix that the interpreter, its packages and compilers read; the last line is for conda and CUDA. The rest stays hidden:
``pip.conf`` may contain the password of an index, and a prefix may be somebody's project folder."""

# Of the search path only folders in a prefix, the user's own site-packages, and the folder with torch (which may belong to another
# environment, with all that torch imports). A development install adds a checkout, with whatever secrets are in it: see `editable_paths`.
_ASK = """
import importlib.util, json, os, site, sys
prefixes = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix]
paths = []
if site.ENABLE_USER_SITE:
    paths.append(site.getusersitepackages())
torch, bare = importlib.util.find_spec("torch"), None
if torch and torch.origin:
    folder = os.path.dirname(torch.origin)
    around = os.path.dirname(folder)
    paths.append(around if os.path.basename(around) in ("site-packages", "dist-packages") else folder)
    try:
        with open(torch.cached, "rb") as file:
            head = file.read(12)
        by_hash, written = head[4] & 1, int.from_bytes(head[8:], "little")
        fits = by_hash or written == int(os.stat(torch.origin).st_mtime) & 0xFFFFFFFF
    except (IndexError, OSError):
        fits = False
    if not fits:
        bare = around
answer = {"executable": sys.executable, "prefixes": prefixes, "paths": paths, "bare": bare, "torch": torch is not None}
json.dump(answer, sys.stdout)
"""


# Of an editable install its folder on the search path (.pth), or what the finder of setuptools maps; other build tools have finders
# of their own, which know the project's folder only.
_ASK_EDITABLE = """
import importlib.machinery, importlib.metadata, json, os, sys, urllib.parse, urllib.request
paths = [path for path in sys.path if path and os.path.isdir(path)]
for finder in sys.meta_path:
    module = sys.modules.get(getattr(finder, "__module__", ""))
    mapped = getattr(module, "MAPPING", None), *(getattr(module, "NAMESPACES", None) or {}).values()
    if isinstance(mapped[0], dict):
        for path in [*mapped[0].values(), *(one for some in mapped[1:] for one in some)]:
            paths += [path + suffix for suffix in ("", *importlib.machinery.all_suffixes()) if os.path.exists(path + suffix)]
for distribution in importlib.metadata.distributions():
    try:
        told = json.loads(distribution.read_text("direct_url.json") or "{}")
        if told.get("dir_info", {}).get("editable"):
            folder = urllib.request.url2pathname(urllib.parse.urlparse(told["url"]).path)
            if not any(os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep) or path == folder for path in paths):
                paths.append(folder)
    except (KeyError, OSError, TypeError, ValueError, AttributeError):
        pass
json.dump([os.path.abspath(path) for path in paths], sys.stdout)
"""
_FIND = """
import sys
sys.path[:] = [path for path in sys.path if path]
import importlib.util, json, os
found = {}
for name in sys.argv[1:]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        continue
    places = list(spec.submodule_search_locations or ()) if spec else []
    if spec and (places or spec.has_location):
        found[name] = os.path.dirname(os.path.abspath(places[0] if places else spec.origin))
json.dump(found, sys.stdout)
"""


@functools.cache
def _ask_interpreter(python: Path) -> dict[str, Any]:
    try:
        # -E, since our PYTHONPATH does not reach the sandbox either.
        asked = subprocess.run(
            [python, "-E", "-c", _ASK],
            cwd="/",
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
        )
        if asked.returncode == 0:
            return dict(json.loads(asked.stdout))
        why = _complaint(asked.stderr) or f"exit status {asked.returncode}"
    except OSError as error:
        why = error.strerror or str(error)
    except subprocess.TimeoutExpired:
        why = "no answer within 60 s"
    except (ValueError, TypeError):
        why = "its output is not that of a Python interpreter"
    raise MissingTool(f"{python} is not a Python interpreter that runs: {why}. Name another one.")


def _complaint(stderr: str) -> str:
    """The line with the error: the last one of a traceback, else the first (the lines after that are advice)."""
    lines = stderr.strip().splitlines() or [""]
    return lines[-1 if lines[0].startswith("Traceback") else 0].strip().rstrip(".")


def real_interpreter(python: Path) -> Path:
    """The real interpreter behind a launcher, such as a pyenv shim, which the sandbox does not show.

    Raises:
        MissingTool: it does not run.
    """
    return Path(_ask_interpreter(python)["executable"])


def require_torch(python: Path) -> None:
    """Refuse an interpreter that has no torch.

    Raises:
        MissingTool: it has none, or does not run.
    """
    if not _ask_interpreter(python)["torch"]:
        _ask_interpreter.cache_clear()  # it may be installed while this process lives
        raise MissingTool(f"{python} has no torch. Install torch 2.11 to 2.15 there, or name another Python.")


def runtime_paths(python: Path) -> list[Path]:
    """The paths that an interpreter needs: parts of its prefixes, its packages, its chain of symbolic links, and the compilers
    that its torch starts.

    Raises:
        MissingTool: it does not run.
    """
    asked = _ask_interpreter(python)
    found = [Path(prefix) / part for prefix in asked["prefixes"] for part in PARTS_OF_A_PREFIX]
    found += map(Path, asked["paths"])
    found += links(Path(asked["executable"]))
    found += compiler_paths()
    return _narrow(found)


def _narrow(paths: Iterable[Path]) -> list[Path]:
    """Those that exist, without folders that everything lies in."""
    home = Path.home()
    too_wide = {home, *home.parents, Path("/home"), Path("/root"), Path("/tmp")}
    return [path for path in dict.fromkeys(paths) if path.exists() and not {path, path.resolve()} & too_wide]


def editable_paths(python: Path) -> list[Path]:
    """Paths that an interpreter imports from outside of its prefixes: editable installs and other folders named by
    ``.pth`` files.

    Not among `runtime_paths`, since these are somebody's checkouts, to be shown only to their owner's scripts.

    Raises:
        MissingTool: it does not run.
    """
    shown = runtime_paths(python)
    found = _answer(python, "-E", "-c", _ASK_EDITABLE)
    named = [Path(path) for path in found if isinstance(path, str)] if isinstance(found, list) else []
    return [path for path in _narrow(named) if not any(path.is_relative_to(above) for above in shown)]


def found_outside(python: Path, names: Sequence[str]) -> dict[str, Path]:
    """The folders in which an interpreter finds modules outside of the sandbox, with our own ``PYTHONPATH``, by their names."""
    found = _answer(python, "-c", _FIND, *names)
    return {name: Path(path) for name, path in found.items()} if isinstance(found, dict) else {}


def _answer(python: Path, *arguments: str) -> object:
    """The JSON that an interpreter prints; None if it prints none."""
    try:
        asked = subprocess.run([python, *arguments], capture_output=True, text=True, timeout=60, check=False)
        return json.loads(asked.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def without_bytecode(python: Path) -> Path | None:
    """The folder that torch is installed in, if it has no valid bytecode (PEP 3147, PEP 552); else None.

    Every process then compiles the torch modules it imports. pip writes bytecode when it installs; uv and some images do not, and
    in a copied installation it is older than its sources.

    Raises:
        MissingTool: the interpreter does not run.
    """
    bare = _ask_interpreter(python)["bare"]
    return Path(bare) if bare else None
