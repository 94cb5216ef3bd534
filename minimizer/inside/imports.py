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


def scan(script: str) -> list[tuple[str, str, int, bool]]:
    """The modules that a script imports and that cannot be found: name, file, line, and whether it certainly needs them as they are.

    That is so of what a file imports on its way through, in no function and under no condition, before it has done anything else, where
    the script has no hand in how modules are found.
    """
    folder = os.path.dirname(os.path.abspath(script))
    missing: dict[str, tuple[str, int, bool]] = {}
    seen: set[str] = set()
    waiting = [(os.path.abspath(script), True)]
    is_plain, room = True, MOST_BYTES
    while waiting and len(seen) < MOST_FILES and room > 0:
        file, certain = waiting.pop(0)
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
        is_plain = is_plain and not _changes_paths(tree)
        for name, line, is_first in _imported(tree, file, folder):
            top = name.partition(".")[0]
            files = _files_of(name, folder)
            if files:
                waiting += [(one, certain and is_first) for one in files]
            elif not _is_beside(top, folder) and not _is_found(top):
                missing.setdefault(top, (os.path.relpath(file, folder), line, certain and is_first))
    return [(name, file, line, certain and is_plain) for name, (file, line, certain) in missing.items()]


def versions(names: list[str]) -> dict[str, str | None]:
    """The installed versions of distributions; None for one that is not installed."""
    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def _imported(tree: ast.Module, file: str, folder: str) -> list[tuple[str, int, bool]]:
    """Dotted names of modules, those of relative imports from the script's folder on; the line; whether nothing was done before."""
    found: list[tuple[str, int, bool]] = []
    is_first = True
    for node in tree.body:
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno, is_first) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = os.path.relpath(file, folder).split(os.sep)[: -node.level]
                base = ".".join([*package, *([base] if base else [])])
            if base:
                # What is imported from a package may be a module of it.
                names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
                found += [(name, node.lineno, is_first) for name in names]
        else:
            is_first = is_first and not _acts(node)
    return found


def _acts(node: ast.stmt) -> bool:
    """Whether a statement may make a module to be found, or write one: it calls something for its effect."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return False
    return any(isinstance(one, ast.Expr) and not isinstance(one.value, ast.Constant) for one in ast.walk(node))


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
    print(json.dumps({"missing": scan(sys.argv[1]), "versions": versions(sys.argv[2:])}))  # noqa: T201 - read by the parent
