"""What a script imports and this interpreter does not have, said before the script is run.

Run as a program of its own: ``python imports.py SCRIPT [DISTRIBUTION...]`` prints a JSON object. Nothing of the script runs: its text is
read, and that of the modules beside it which it imports.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import os
import sys

MOST_FILES, MOST_BYTES = 500, 8 << 20
PATHS = {"path", "modules", "meta_path", "path_hooks"}
"""Attributes of ``sys`` by which a script makes other modules to be found than those that are there when it begins."""


def scan(script: str) -> dict[str, object]:
    """The modules that certainly are imported, as far as none of them can be found: ``[name, file, line]`` for each.

    Certain is what a file imports on its way through: not in a function, and under no condition. ``sure`` is false where the script
    has a hand in how modules are found.
    """
    folder = os.path.dirname(os.path.abspath(script))
    missing: dict[str, tuple[str, int]] = {}
    seen: set[str] = set()
    waiting = [os.path.abspath(script)]
    sure, room = True, MOST_BYTES
    while waiting and len(seen) < MOST_FILES and room > 0:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        try:
            with open(file, "rb") as stream:
                text = stream.read(room)
            tree = ast.parse(text)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        room -= len(text)
        sure = sure and not _changes_paths(tree)
        for name, line in _imported(tree, file, folder):
            top = name.partition(".")[0]
            files = _files_of(name, folder)
            if files:
                waiting += files
            elif not _is_beside(top, folder) and not _is_found(top):
                missing.setdefault(top, (os.path.relpath(file, folder), line))
    return {"missing": [[name, *place] for name, place in missing.items()], "sure": sure}


def versions(names: list[str]) -> dict[str, str | None]:
    """The installed versions of distributions; None for one that is not installed."""
    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def _imported(tree: ast.Module, file: str, folder: str) -> list[tuple[str, int]]:
    """Dotted names of modules, those of relative imports from the script's folder on, each with its line."""
    found = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = os.path.relpath(file, folder).split(os.sep)[: -node.level]
                base = ".".join([*package, *([base] if base else [])])
            if base:
                # What is imported from a package may be a module of it.
                found += [(base, node.lineno), *((f"{base}.{alias.name}", node.lineno) for alias in node.names)]
    return found


def _files_of(name: str, folder: str) -> list[str]:
    """The files that importing a module beside the script runs; empty if it lies elsewhere."""
    parts = name.split(".")
    files = []
    for depth in range(1, len(parts) + 1):
        path = os.path.join(folder, *parts[:depth])
        files += [one for one in (os.path.join(path, "__init__.py"), f"{path}.py") if os.path.isfile(one)]
    return files


def _is_beside(top: str, folder: str) -> bool:
    """Whether the script's folder has a module of this name, in whatever form."""
    try:
        return any(entry.split(".")[0] == top for entry in os.listdir(folder))
    except OSError:
        return True


def _is_found(top: str) -> bool:
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError, AttributeError):  # odd, but there
        return True


def _changes_paths(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in PATHS and isinstance(node.value, ast.Name):
            if node.value.id == "sys":
                return True
        elif (isinstance(node, ast.Attribute) and node.attr == "addsitedir") or (
            isinstance(node, ast.ImportFrom) and node.module == "sys" and PATHS & {one.name for one in node.names}
        ):
            return True
    return False


if __name__ == "__main__":
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != own]  # what lies there is not the script's
    print(json.dumps({**scan(sys.argv[1]), "versions": versions(sys.argv[2:])}))  # noqa: T201 - read by the parent
