"""Finds a script's missing imports before the script is run.

A separate program: ``python imports.py SCRIPT [DISTRIBUTION...]`` prints a JSON object. It does not execute the script,
but parses its text and that of the modules in its folder that it imports.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import os
import sys
from importlib.machinery import all_suffixes

MOST_FILES, MOST_BYTES = 500, 8 << 20
"""Most files, and total bytes, to parse, to bound the time before the script runs."""
PATHS = {"path", "modules", "meta_path", "path_hooks"}
"""Attributes of ``sys`` through which a script can change how modules are found."""


def scan(script: str) -> list[tuple[str, str, int, bool]]:
    """The missing modules that a script imports: name, importing file, line, and whether the import certainly fails.

    An import certainly fails if it runs unconditionally at module level, before any statement that may change which
    modules can be found, and no file changes the import system.
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
    """The installed versions of distributions; None for a missing one."""
    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def _imported(tree: ast.Module, file: str, folder: str) -> list[tuple[str, int, bool]]:
    """Imported modules: dotted name (relative imports resolved from the script's folder), line, and whether no acting statement
    (`_acts`) precedes it."""
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
                # A name imported from a package may be a submodule.
                names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
                found += [(name, node.lineno, is_first) for name in names]
        else:
            is_first = is_first and not _acts(node)
    return found


def _acts(node: ast.stmt) -> bool:
    """Whether a statement may make a module available, since it calls something for its side effect."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return False
    return any(isinstance(one, ast.Expr) and not isinstance(one.value, ast.Constant) for one in ast.walk(node))


def _files_of(name: str, folder: str) -> list[str]:
    """The files that run when a module in the script's folder is imported; empty if it is not there."""
    parts = name.split(".")
    files = []
    for depth in range(1, len(parts) + 1):
        path = os.path.join(folder, *parts[:depth])
        files += [one for one in (os.path.join(path, "__init__.py"), f"{path}.py") if os.path.isfile(one)]
    return files


def _is_beside(top: str, folder: str) -> bool:
    """Whether the script's folder has a module of this name in any form: a package, or a file with an importable
    suffix.
    """
    path = os.path.join(folder, top)
    return os.path.isdir(path) or any(os.path.isfile(path + suffix) for suffix in all_suffixes())


def _is_found(top: str) -> bool:
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError, AttributeError):  # the module exists, but its spec is malformed
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
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != own]  # the script cannot import our modules
    print(json.dumps({"missing": scan(sys.argv[1]), "versions": versions(sys.argv[2:])}))  # noqa: T201 - read by the parent
