"""Detects a missing C or C++ compiler: a compile error that says nothing about the script or torch.compile."""

from __future__ import annotations

import os
import re
import shutil

from minimizer.engine.child import protocol
from minimizer.engine.child.environment import Place
from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.survey.cases import Settled, line_of
from minimizer.sandbox import COMPILER_VARIABLES
from minimizer.vocabulary import Reason, Status

NO_COMPILER = re.compile(r"No working C\+\+ compiler found in \S+ \(None, '([^']*)'|Failed to find C compiler()")
"""Messages of ``torch/_inductor/cpp_builder.py`` (with the first program that it tried) and
``triton/runtime/build.py``.
"""
NO_PROGRAM = re.compile(r"(?:No such file or directory|Permission denied): '([^']+)'")
"""The message of `subprocess.Popen` for a program that it cannot start."""
OF_A_COMPILER = ("torch/_inductor/", "triton/")
NAME = re.compile(r"(?:^|[/-])(?:cc|gcc|clang|c\+\+|g\+\+|clang\+\+)(?:-[\d.]+)?$")
"""Matches the name of a C or C++ compiler, such as ``/opt/x86_64-linux-gnu-g++-13``; Triton and Inductor start other
programs too.
"""


def lacks_compiler(error: ExceptionInfo | None) -> bool:
    """Whether a script cannot be compiled here because a C or C++ compiler is missing."""
    return error is not None and _program(error) is not None


def without_a_compiler(error: ExceptionInfo, place: Place, checked: protocol.Checked) -> Settled:
    """The verdict on a script that cannot be compiled here because a C or C++ compiler is missing."""
    program = _program(error)
    found = shutil.which(program, path=place.plain_environment(place.scratch)["PATH"]) if program else None
    if found is not None and place.sandbox.is_strong:
        summary = (
            f"The sandbox keeps the script from what it needs ({line_of(error)}): {found} does not run in it. Show it what this compiler "
            "needs with --bind, or name another one in CC and CXX."
        )
        return Settled(Status.FAILED, Reason.SANDBOX_DENIED, summary, checked, exception=error)
    summary = (
        f"This machine has no compiler that torch.compile could use ({line_of(error)}). Install one (apt-get install g++), or name it in CC "
        "and CXX; minimizer doctor tries it."
    )
    return Settled(Status.FAILED, Reason.NOT_RUNNABLE, summary, checked, exception=error)


def _program(error: ExceptionInfo) -> str | None:
    """The program that could not be started; empty if unnamed, None for any other error."""
    if (missing := NO_COMPILER.search(error.root_message)) is not None:
        return missing[1] or ""
    is_of_popen = bool(error.frames) and error.frames[-1][0].endswith("subprocess.py")
    is_asked_for = any(file.startswith(OF_A_COMPILER) for file, _, _ in error.frames)
    missing = NO_PROGRAM.search(error.root_message) if is_of_popen and is_asked_for else None
    return missing[1] if missing is not None and _is_compiler(missing[1]) else None


def _is_compiler(program: str) -> bool:
    named = {os.environ.get(variable) for variable in COMPILER_VARIABLES}
    return program in named or NAME.search(program) is not None
