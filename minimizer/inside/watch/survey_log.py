"""The survey's log: coverage, notes and findings, gathered while the script runs."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from ..messages import Missing, Seen, Uncompared
from ..referee.referee import Verdict
from ..wire import FAILED
from . import tolerances
from .captured import CapturedGraph
from .coverage import Coverage
from .raised_errors import Raised

MOST_PRINTED = 16 << 10
"""Bytes of the end of a script's output in which its last line is looked for."""


class Told:
    """Coverage, notes and findings of one run."""

    def __init__(self, coverage: Coverage) -> None:
        self.coverage = coverage
        self._suspects: dict[tuple[int, str], Seen] = {}
        self._layouts: dict[int, Seen] = {}
        self._moved: dict[tuple[int, str], float] = {}
        self.missing: list[Missing] = []
        self.raised = Raised()
        self._checks = tolerances.watch()
        self._notes: dict[str, None] = {}
        self.unsteady = ""
        """The first call at which eager differed from eager; empty if none did."""

    @property
    def checks(self) -> list[dict[str, float]]:
        """The last five failing ``assert_close`` calls of the script; see `tolerances.watch`."""
        return self._checks[-5:]

    def note(self, text: str) -> None:
        """Add a note for the report; a repeated note is kept once."""
        self._notes[text[:300]] = None

    def cannot_compare(self, graph: CapturedGraph, error: Exception) -> None:
        """Record why a call, its gradients or the whole graph cannot be compared."""
        graph.obstacle = f"{type(error).__name__}: {error}"
        self.note(f"graph {graph.index} could not be compared: {graph.obstacle}")

    def is_unsteady(self, graph: CapturedGraph) -> None:
        """Record that eager itself is nondeterministic at the graph's latest call."""
        self.unsteady = self.unsteady or f"compiled graph {graph.index}, call {graph.calls - 1}"

    def suspect(self, graph: CapturedGraph, call: int, verdict: Verdict, phase: str = "run") -> None:
        """Record a suspect: a call whose values or gradients differ behind a jump. Of each graph and phase, the call with the largest
        fraction of mismatched elements is kept."""
        moved = max(
            (d.mismatched / d.elements for d in verdict.differences if d.mismatched and d.elements), default=0.0
        )
        key = graph.index, phase
        if verdict.discrete and moved >= self._moved.get(key, 0.0):
            self._moved[key] = moved
            self._suspects[key] = Seen(graph.index, call, verdict, phase)

    def layout(self, graph: CapturedGraph, call: int, verdict: Verdict) -> None:
        """Record a call that differs in memory layout only; `Comparer` passes the first one of each graph."""
        self._layouts[graph.index] = Seen(graph.index, call, verdict)

    def knows_layout_of(self, graph: CapturedGraph) -> bool:
        """Whether an earlier call of this graph differed in memory layout only."""
        return graph.index in self._layouts

    @property
    def notes(self) -> list[str]:
        """The notes for the report, each once."""
        return list(self._notes)

    @property
    def suspects(self) -> list[Seen]:
        """The suspects, one for each graph and phase."""
        return list(self._suspects.values())

    @property
    def layouts(self) -> list[Seen]:
        """The calls that differ in memory layout only, one for each graph."""
        return list(self._layouts.values())

    def uncompared(self) -> list[Uncompared]:
        """The graphs of which no call could be compared, each with the reason."""
        graphs = [graph for graph in self.coverage.graphs if graph.obstacle and not graph.compared]
        return [Uncompared(graph.index, graph.obstacle[:300]) for graph in graphs]


def last_line() -> str:
    """The last line that this process has printed and that has words in it; empty if the script has moved its output elsewhere."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
        size = os.fstat(2).st_size
        end = os.pread(2, MOST_PRINTED, max(0, size - MOST_PRINTED)).decode("utf-8", "replace")
        return next((line.strip()[-300:] for line in reversed(end.splitlines()) if re.search(r"\w", line)), "")
    return ""


def end_with(last: Callable[[], None]) -> NoReturn:
    """Call ``last`` and end the process, even if it raises: the user's script may catch any exception, and must not continue."""
    status = FAILED
    try:
        last()
        status = 0
    except BaseException:  # ours
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
