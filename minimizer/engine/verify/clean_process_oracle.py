"""Programs that fail in our trials and not in a process of their own, and the way back to one that fails in both.

A trial is a fork of a process that has imported torch and compiled before. Code that reads what nobody has written finds in its
memory what was there before; in a new process that is mostly zero, which may be just what was expected of the smallest inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minimizer.engine.emit import Repro
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.program.model import Program
from minimizer.engine.reduce.graph import Check

Fails = Callable[[Repro, bytes | None], bool]
"""Whether a repro, with its data, fails in a clean process, and not without the compiler."""
Write = Callable[[Program], tuple[Repro, bytes | None] | None]
"""The repro of a program that has just been seen to fail; None where none can be written."""


class Alone:
    """An oracle that also asks a clean process: ten seconds for each candidate that fails in a trial, none for the others."""

    def __init__(self, oracle: Oracle, write: Write, fails: Fails) -> None:
        self._oracle, self._write, self._fails = oracle, write, fails

    def check(self, programs: Sequence[Program]) -> list[bool]:
        """Which of the programs fail both in a trial and by themselves."""
        return [fails and self._confirmed(p) for p, fails in zip(programs, self._oracle.check(programs), strict=True)]

    def _confirmed(self, program: Program) -> bool:
        written = self._write(program)
        return written is not None and self._fails(*written)


def last_that_fails(way: Sequence[Program], check: Check) -> int | None:
    """The index of the smallest program on the way of a reduction that still fails; None if the first one does not.

    By bisection, as if all before it did: if not, it is one that fails, and smaller ones are found by reducing it again.
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
