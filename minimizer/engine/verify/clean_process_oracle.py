"""Finds a program that fails in fresh processes too, where the reduced one fails only in our forked trials.

A trial is a fork of a process that has imported torch and compiled before. A kernel that reads uninitialised memory
finds old data in a forked trial and mostly zeros in a fresh process, and zeros may be right for the smallest inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from minimizer.engine.emit import Repro
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.program.model import Program

Fails = Callable[[Repro, bytes | None], bool]
"""Whether a repro, with its data, fails in a clean process and passes there without the compiler."""
Write = Callable[[Program], tuple[Repro, bytes | None] | None]
"""Writes the repro of a program of the last batch judged, and its data; None if it cannot be written."""
C = TypeVar("C")


class Alone:
    """An oracle that also runs a clean process, some ten seconds for each candidate that fails in a trial."""

    def __init__(self, oracle: Oracle, write: Write, fails: Fails) -> None:
        self._oracle, self._write, self._fails = oracle, write, fails

    def check(self, programs: Sequence[Program]) -> list[bool]:
        """Whether each of the programs fails both in a trial and in a clean process."""
        return [fails and self._confirmed(p) for p, fails in zip(programs, self._oracle.check(programs), strict=True)]

    def _confirmed(self, program: Program) -> bool:
        written = self._write(program)
        return written is not None and self._fails(*written)


def last_that_fails(way: Sequence[C], check: Callable[[Sequence[C]], Sequence[bool | None]]) -> int | None:
    """The index of the smallest candidate in the history of a reduction that still fails; None if the first one does not.

    By bisection, which assumes that all earlier ones fail. If they do not, the result still fails, and reducing it
    again finds smaller ones.
    """
    if not check([way[0]])[0]:
        return None
    fails, passes = 0, len(way)
    while passes - fails > 1:
        middle = (fails + passes) // 2
        if check([way[middle]])[0]:
            fails = middle
        else:
            passes = middle
    return fails
