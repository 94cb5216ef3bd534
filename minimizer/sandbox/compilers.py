"""Finds the C and C++ compilers that PyTorch starts, so that a sandbox can show those outside of the system's folders.

Inductor compiles with the program named by ``CXX``, or the first ``g++`` of the ``PATH``
(``torch/_inductor/cpp_builder.py``); Triton compiles its launchers with ``CC``, or the first ``clang`` or ``gcc``
(``triton/runtime/build.py``).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from minimizer.sandbox.bubblewrap import SYSTEM_FOLDERS

COMPILER_VARIABLES = ("CC", "CXX")
"""Variables that name a compiler: a path, or a name on the ``PATH``."""
CXX = "g++"
"""The compiler if ``CXX`` is not set (``torch/_inductor/config.py``)."""
USUAL = ("cc", "gcc", "clang", "c++", "g++", "clang++")
PARTS_OF_A_PREFIX = ("bin", "include", "lib", "lib32", "lib64", "libexec", "sysroot")
"""Parts of a compiler's prefix in which it finds its own programs, headers and libraries."""
SHOWN = (*SYSTEM_FOLDERS, "/etc/alternatives")


def cxx() -> str | None:
    """The C++ compiler that Inductor starts here; None if there is none of that name."""
    return shutil.which(os.environ.get("CXX") or CXX)


def compiler_paths() -> list[Path]:
    """The paths that this environment's compilers need, in addition to the folders that every sandbox shows."""
    found, homes = list[Path](), [Path.home(), Path.home().resolve()]
    own = {*homes, *(home / ".local" for home in homes)}  # in which much else lies
    named = (os.environ.get(variable, "") for variable in COMPILER_VARIABLES)
    for program in dict.fromkeys([*filter(None, named), *USUAL]):
        if (path := shutil.which(program)) is not None:
            for link in links(Path(path).absolute()):
                for form in (Path(os.path.normpath(link)), link.parent.resolve() / link.name):
                    found += _with_prefix(form, own)
    return list(dict.fromkeys(found))


def _with_prefix(program: Path, own: set[Path]) -> list[Path]:
    """A program, with the parts of its prefix if it has one; nothing if it is shown anyway."""
    if any(program.is_relative_to(folder) for folder in SHOWN):
        return []
    prefix = program.parent.parent
    has_one = program.parent.name == "bin" and prefix not in own
    return [program, *(prefix / part for part in PARTS_OF_A_PREFIX if has_one)]


def links(path: Path) -> Iterator[Path]:
    """The path, and every target on its chain of symbolic links."""
    yield path
    while path.is_symlink():
        path = path.parent / path.readlink()
        yield path
