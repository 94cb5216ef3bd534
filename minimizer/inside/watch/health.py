"""Health of the compiled code: graph breaks, recompiles, and whether compiling pays. Reported, never judged.

Graph breaks and recompiles come from Dynamo's own metrics, read when the script is over; call times are measured here.
"""

from __future__ import annotations

import builtins
import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch._dynamo.utils as books

from .. import messages
from ..places import place_of
from ..values import snapshot
from . import compilations, compile_times
from .backward_runs import BackwardRuns
from .captured import CapturedGraph
from .changed_settings import ChangedSettings
from .kept_memory import kept_compiled, kept_in_eager
from .outer_calls import OuterCalls
from .timed_turns import Stopwatch, Turn

CROWDED = "other processes used the cores during every measurement"
UNRUN = "no call of a compiled graph returned"
MOST = 50
"""Most distinct lines of each list in a report."""
MOST_COMPILATIONS = 10_000
"""Compilations whose metrics Dynamo keeps; its default is the last 64."""


class Health:
    """Call times of one run; `found` adds Dynamo's metrics."""

    def __init__(self) -> None:
        books.set_compilation_metrics_limit(MOST_COMPILATIONS)
        self.settings = ChangedSettings()
        self._outer: OuterCalls | None = None
        self._backwards: BackwardRuns | None = None
        self._ours = 0.0
        self._has_tried = False
        self._stopwatch = Stopwatch()
        self._turns: dict[int, list[Turn]] = {}
        """For each graph, the times of eager and compiled in each counted pair of calls."""
        self._kept: dict[int, tuple[int, int]] = {}
        """For each graph, the bytes saved for backward by a call in eager and compiled."""

    def count_calls(self) -> None:
        """Count the outermost calls of compiled code, and backwards, from now on."""
        self._outer, self._backwards = OuterCalls(), BackwardRuns()

    def ours(self, seconds: float) -> None:
        """Subtract seconds of our own work inside a compilation from the compile time."""
        self._ours += seconds

    def measure(self, graph: int, eager: Callable[..., Any], compiled: Callable[..., Any], args: list[Any]) -> None:
        """Time both sides of a graph on copies of its arguments, as `Stopwatch` does."""
        self._has_tried = True
        if turns := self._stopwatch.turns_of(eager, compiled, args):
            self._turns.setdefault(graph, []).extend(turns)

    def count_kept(self, graph: int, eager: Callable[..., Any], compiled: Callable[..., Any], args: list[Any]) -> None:
        """Count the bytes that both sides of a graph save for backward, on copies of its arguments.

        Restores the random state.
        """
        if torch.is_grad_enabled():
            rng = snapshot.rng_state()
            try:
                self._kept[graph] = (
                    kept_in_eager(eager, snapshot.clone(args)),
                    kept_compiled(compiled, snapshot.clone(args)),
                )
            finally:
                snapshot.set_rng_state(rng)

    def found(self, graphs: Sequence[CapturedGraph] = ()) -> messages.Health:
        """Call times and Dynamo's metrics so far.

        ``graphs``: all captured ones, whose calls count how often places were executed.
        """
        metrics = books.get_compilation_metrics()
        frames = [m for m in metrics if m.entire_frame_compile_time_s]
        seconds = sum(m.entire_frame_compile_time_s or 0.0 for m in frames) - self._ours
        seconds += compile_times.seconds_of(metrics, "backward_cumulative_compile_time_us")
        return messages.Health(
            graph_breaks=_told(self._break(reason) for reason in books.graph_break_reasons),
            breaks=len(books.graph_break_reasons),
            recompiles=_told(
                f"{m.co_name}: {reason.partition(': ')[2] or reason}"[:500]  # without the number of the cache entry
                for m in frames
                if (reason := m.recompile_reason)
            ),
            compile_seconds=seconds if seconds > 0 and len(metrics) < MOST_COMPILATIONS else None,
            untimed="" if self._turns else CROWDED if self._has_tried else UNRUN,
            frames=_told(f"{_code(m)}: {m.entire_frame_compile_time_s:.2f} s" for m in frames),
            failed=_told(
                f"{_code(m)}: {m.fail_type}: {m.fail_reason}"[:500]
                for m in metrics
                if hasattr(builtins, m.fail_type or "")  # exceptions that Dynamo raises on purpose have its own types
            ),
            eager_seconds=self._fastest(lambda turn: turn.eager),
            compiled_seconds=self._fastest(lambda turn: turn.compiled),
            broken=compilations.breaks(graphs),
            recompiled=compilations.recompiles(),
            changed=self.settings.found(),
            timed=[one for graph in graphs if (one := self._timed(graph)) is not None][:MOST],
            calls=self._outer.count if self._outer is not None else 0,
            backwards=self._backwards.count if self._backwards is not None else None,
            compilations=compile_times.compilations(graphs),
            kept=[
                messages.Kept(graph.index, place, *self._kept[graph.index])
                for graph in graphs
                if graph.index in self._kept and (place := graph.called_at) is not None
            ][:MOST],
        )

    def _timed(self, graph: CapturedGraph) -> messages.Timed | None:
        """The calls of a graph compiled by Inductor; None for others, for an untimed one, and without a user's line."""
        turns = self._turns.get(graph.index)
        is_generated = getattr(graph.backend, "compiler_name", None) == "inductor"
        if not turns or not is_generated or (place := graph.called_at) is None:
            return None
        eager, compiled = (sorted(times) for times in zip(*turns, strict=True))
        return messages.Timed(
            graph=graph.index,
            place=place,
            turns=len(turns),
            eager=eager[len(eager) // 2],
            compiled=compiled[len(compiled) // 2],
            eager_slow=eager[len(eager) * 9 // 10],
            compiled_fast=compiled[0],
        )

    def _fastest(self, side: Callable[[Turn], float]) -> float | None:
        """The sum over graphs of the fastest call on a side, in seconds; None if none was timed."""
        return sum(min(map(side, turns)) for turns in self._turns.values()) if self._turns else None

    def _break(self, reason: Any) -> str:
        """One line for a graph break: the innermost line of the user's own code, and Dynamo's reason with its explanation."""
        own = [frame for frame in reason.user_stack if place_of(frame.filename).is_users]
        frame = (own or list(reason.user_stack) or [None])[-1]
        where = f"{place_of(frame.filename).name} line {frame.lineno}: {(frame.line or '').strip()}: " if frame else ""
        lines = str(reason.reason).strip().splitlines() or [""]
        more = next((line.strip().removeprefix("Explanation: ") for line in lines if "Explanation:" in line), "")
        return f"{where}{lines[0]}{f'. {more}' if more else ''}"[:500]


def _code(metrics: Any) -> str:
    """The compiled code: its function, file and line."""
    return f"{metrics.co_name}, {place_of(metrics.co_filename or '').name} line {metrics.co_firstlineno}"


def trace_to(folder: str) -> None:
    """Turn on ``TORCH_TRACE`` output into ``folder``, in a process that has already imported torch."""
    from torch._logging import _internal as logs

    handler = logs.LOG_TRACE_HANDLER
    if handler is None:
        return
    handler.root_dir = folder
    if handler not in logs.trace_log.handlers:
        handler.setFormatter(logs.TorchLogsFormatter(trace=True))
        logs.trace_log.addHandler(handler)
    logs.trace_log.setLevel(logging.DEBUG)


def _told(lines: Any) -> list[str]:
    """The distinct lines in order of first appearance, with a count if a line repeats; at most `MOST`."""
    counts: dict[str, int] = {}
    for line in lines:
        counts[line] = counts.get(line, 0) + 1
    return [line if times == 1 else f"{line} ({times} times)" for line, times in list(counts.items())[:MOST]]
